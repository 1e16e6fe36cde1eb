"""Which files the model knows an older version of, and how it is told (IDX-7)."""

from __future__ import annotations

from collections.abc import Mapping

from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.core.snapshots import Fingerprint

INDEX = "MEMORY.md"
DELETED = ""
"""The version of a file that is gone."""


def outdated(
    seen: Mapping[str, str], before: Mapping[str, Fingerprint], snapshot: Mapping[str, Fingerprint]
) -> dict[str, str]:
    """Return the files of which the model has met another version, with the one on disk now.

    `before` is the snapshot before this one: it tells apart two edits within one tick of the disk's clock.
    """
    now = {path: snapshot[path].tag if path in snapshot else DELETED for path in seen}
    return {
        path: version
        for path, version in now.items()
        if seen[path] != version or _edited_within_a_tick(before.get(path), snapshot.get(path))
    }


def _edited_within_a_tick(before: Fingerprint | None, now: Fingerprint | None) -> bool:
    if before is None or now is None or before.tag != now.tag:
        return False
    return 0 not in {before.content, now.content} and before.content != now.content


def notice_text(changed: Mapping[str, str], directory: str) -> str:
    """Return the notice, one line a file."""
    lines = [f"- {_line(path, version, directory)}" for path, version in sorted(changed.items())]
    head = "These memory files were changed by somebody else after you had seen them:"
    advice = "What you know of them is out of date. Read a file again before you rely on it or change it."
    return remark("\n".join([head, *lines, advice]))


def _line(path: str, version: str, directory: str) -> str:
    shown = sanitize_line(f"{directory}/{path}")
    if version == DELETED:
        return f"{shown} (deleted)"
    return f"{shown} (the index in your instructions is the older one)" if path == INDEX else shown


def remark(text: str) -> str:
    """Return a text of ours as it is added to a tool's result."""
    return f"<memory-notice>\n{text}\n</memory-notice>"
