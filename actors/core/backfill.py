"""A first index for a memory that has topics and no MEMORY.md (IDX-2)."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.jstext import js_trim, utf16_len, utf16_prefix
from pi_project_memory.actors.core.sanitize import sanitize_line

BACKFILL_LINES = 160
BACKFILL_UNITS = 20_000
POINTER_UNITS = 149

_TITLE_UNITS = 60
_DASH = " — "

_PLAIN = str.maketrans({"[": "(", "]": ")", "<": None, ">": None, "`": "'", "\\": "/"})
"""What could end a link's text early or swallow the link: brackets, HTML, code spans, escapes."""


def backfill_index(topics: Iterable[Topic]) -> str:
    """Return an index of link pointers in the order given, "" when no topic can be linked.

    At most 160 lines and 20,000 UTF-16 units, every line under 150 units.
    """
    lines: list[str] = []
    units = 0
    for pointer in filter(None, map(link_pointer, topics)):
        units += utf16_len(pointer) + 1
        if len(lines) == BACKFILL_LINES or units > BACKFILL_UNITS:
            break
        lines.append(f"{pointer}\n")
    return "".join(lines)


def link_pointer(topic: Topic) -> str | None:
    """Return `- [Title](path.md) — hook` in under 150 units; None when the path cannot be linked."""
    try:
        target = quote(topic.path)
    except UnicodeEncodeError:  # a name that is not UTF-8 on disk
        return None
    stem = topic.path.rpartition("/")[2].removesuffix(".md")
    room = POINTER_UNITS - utf16_len(f"- []({target})")
    title = _cut(topic.header.name or stem, min(room, _TITLE_UNITS)) or _cut("topic", room)
    if not title:
        return None
    link = f"- [{title}]({target})"
    hook = _cut(topic.header.description, POINTER_UNITS - utf16_len(link + _DASH))
    return f"{link}{_DASH}{hook}" if hook else link


def _cut(text: str, room: int) -> str:
    """Return `text` as plain words in one line of at most `room` units."""
    return js_trim(utf16_prefix(js_trim(sanitize_line(text).translate(_PLAIN)), max(room, 0)))
