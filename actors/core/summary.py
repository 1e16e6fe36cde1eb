"""The hidden message that tells the main agent what a background run changed (EXT-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pi_project_memory.actors.core.changes_notice import remark
from pi_project_memory.actors.core.sanitize import sanitize_line

SUMMARY_TYPE = "project-memory-update"


def summary_text(role: str, changes: Mapping[str, str], directory: str) -> str:
    """Return the message for the net changes of a run: path relative to `directory` and what was done."""
    lines = [f"- {change} {sanitize_line(f'{directory}/{path}')}" for path, change in sorted(changes.items())]
    work = {"extractor": "after reading the conversation", "dream": "while tidying up"}[role]
    advice = (
        "The index in your instructions may not show this yet. Nothing needs to be done or said about it; "
        "read a file again before you rely on it or edit it."
    )
    head = f"The project memory was changed in the background {work}:"
    return remark("\n".join([head, *lines, advice]))


def summary_details(role: str, changes: Mapping[str, str]) -> dict[str, Any]:
    """Return what the message keeps for programs."""
    return {"role": role, "changes": dict(changes)}
