"""The topics a selector chooses from, one line each (SEL-3)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from pi_project_memory.actors.core.frontmatter import MEMORY_TYPES, Header
from pi_project_memory.actors.core.jstext import JS_SPACE, iso_from_ms, js_trim, utf16_prefix
from pi_project_memory.actors.core.sanitize import sanitize_line

DESCRIPTION_UNITS = 1_000

_NO_HEADER = Header()
_EARLIEST_MS = -62_135_596_800_000
_LATEST_MS = 253_402_300_799_999
_TYPE_PREFIX = re.compile(rf"[{JS_SPACE}]*\[(?:{'|'.join(MEMORY_TYPES)})\][{JS_SPACE}]*")


class Topic(Struct, frozen=True):
    """A topic file as a scan found it.

    `path` is relative to the memory root with `/`; `mtime_ms` is in milliseconds since the epoch, as
    JavaScript's `mtimeMs`; `size` in bytes.
    """

    path: str
    mtime_ms: float
    size: int
    header: Header = _NO_HEADER


def candidate_line(topic: Topic) -> str:
    """Return `- [type] filename (mtime ISO): description` in one safe line.

    An unknown type leaves no prefix, an absent description no colon. A valid `modified` is the date shown.
    """
    header = topic.header
    shown = topic.mtime_ms if header.modified_ms is None else header.modified_ms
    date = iso_from_ms(min(max(shown, _EARLIEST_MS), _LATEST_MS))
    prefix = f"[{header.type}] " if header.type else ""
    description = js_trim(utf16_prefix(sanitize_line(header.description), DESCRIPTION_UNITS))
    line = f"- {prefix}{shown_name(topic)} ({date})"
    return sanitize_line(f"{line}: {description}" if description else line)


def catalogue_text(topics: Iterable[Topic]) -> str:
    """Return one candidate line per topic, in the order given."""
    return "\n".join(candidate_line(topic) for topic in topics)


def shown_name(topic: Topic) -> str:
    """Return the topic's path as the catalogue shows it, which is how a selector can name it."""
    return sanitize_line(topic.path)


def strip_type_prefix(name: str) -> str:
    """Return a name that a selector answered without a known `[type]` in front of it."""
    prefix = _TYPE_PREFIX.match(name)
    return name[prefix.end() :] if prefix else name
