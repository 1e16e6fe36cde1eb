"""Files that a host wrote for an outcome, brought into the run's scratch directory (SUB-8)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from pi_project_memory.actors.ports.host import JsonObject
from pi_project_memory.actors.ports.tools import ToolOutcome
from pi_project_memory.actors.subagent.scratch import adopt_log

_SAVED = re.compile(r"\[Image saved to (.+) \([^()]*\)\]")


def adopt_files(outcome: ToolOutcome, scratch: Path) -> ToolOutcome:
    """Move the files into scratch and name them there, wherever the outcome names them.

    They are the full text of an output that was cut and the pictures that a script has shown. What
    cannot be moved stays and keeps its name.
    """
    for path in (*_full_output(outcome.details), *_pictures(outcome.content)):
        try:
            kept = str(adopt_log(path, scratch))
        except OSError:
            continue
        outcome = msgspec.structs.replace(
            outcome,
            content=_renamed(outcome.content, path, kept),
            details=_renamed(outcome.details, path, kept),
            structured_content=_renamed(outcome.structured_content, path, kept),
        )
    return outcome


def _full_output(details: JsonObject | None) -> Iterator[str]:
    path = (details or {}).get("fullOutputPath")
    if isinstance(path, str):
        yield path


def _pictures(content: Sequence[JsonObject]) -> Iterator[str]:
    """Return where the pictures lie: the line right before each is the host's, whatever a script writes."""
    for before, block in pairwise(content):
        line = str(before.get("text", "")).rpartition("\n")[2] if block.get("type") == "image" else ""
        if saved := _SAVED.fullmatch(line):
            yield saved[1]


def _renamed(value: Any, old: str, new: str) -> Any:
    match value:
        case str():
            return value.replace(old, new)
        case list():
            return [_renamed(item, old, new) for item in value]
        case dict():
            return {key: _renamed(item, old, new) for key, item in value.items()}
    return value
