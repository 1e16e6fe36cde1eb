"""How much of a file is shown: the index window and the topic window (IDX-1, RCL-1).

Both keep whole lines from the start of the file, the line break counted with its line. A line ends at
LF, CRLF or a lone CR.
"""

from __future__ import annotations

import re

from msgspec import Struct

from pi_project_memory.actors.core.jstext import utf16_len, utf16_prefix

INDEX_LINES = 200
INDEX_UNITS = 25_000
TOPIC_LINES = 200
TOPIC_BYTES = 4_096

INDEX_WARNING = "WARNING: MEMORY.md was truncated"
TOPIC_CUT_NOTE = (
    "[Only the beginning of this file is shown. Read the file itself before you rely on what follows.]"
)
"""Closes a recalled topic that was cut; it counts against the recall budget (RCL-3)."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BYTE_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Window(Struct, frozen=True):
    """The part of the index that is loaded.

    `text` closes with a warning when the index was truncated; the four counts are of the index itself.
    """

    text: str
    lines_total: int
    units_total: int
    lines_kept: int
    units_kept: int
    truncated: bool


class TopicWindow(Struct, frozen=True):
    """The part of a topic that is recalled; `lines` and `bytes` count what was kept of the file."""

    text: str
    truncated: bool
    lines: int
    bytes: int


def index_window(text: str) -> Window:
    """Return the first 200 lines of `text`, and of those the ones that end within 25,000 UTF-16 units.

    A first line longer than that is cut at the limit, never inside a surrogate pair (IDX-1).
    """
    lines_total = sum(1 for _ in _LINE.finditer(text))
    units_total = utf16_len(text)
    kept, lines_kept = _whole_lines(text)
    if not kept and text:
        kept, lines_kept = utf16_prefix(text, INDEX_UNITS), 1
    units_kept = utf16_len(kept)
    truncated = len(kept) < len(text)
    shown = kept
    if truncated:
        counts = (
            f"{lines_kept} of {lines_total} lines and {units_kept} of {units_total} characters are loaded"
        )
        shown = kept + _break_after(kept) + f"{INDEX_WARNING}: {counts}. {_INDEX_ADVICE}"
    return Window(shown, lines_total, units_total, lines_kept, units_kept, truncated)


_INDEX_ADVICE = "Shorten it to one link line per topic, each under 150 characters, and keep the details in the topic files."


def _whole_lines(text: str) -> tuple[str, int]:
    """Return the leading lines within both limits of the index, and how many they are."""
    end = units = count = 0
    for line in _LINE.finditer(text):
        units += utf16_len(line.group())
        if count == INDEX_LINES or units > INDEX_UNITS:
            break
        end, count = line.end(), count + 1
    return text[:end], count


def _break_after(kept: str) -> str:
    return "" if kept.endswith(("\n", "\r")) else "\n"


def topic_window(data: bytes) -> TopicWindow:
    """Return the whole lines at the start of `data` that fit 200 lines and 4,096 bytes (RCL-1).

    `data` is a file from its first byte, frontmatter included: all of it, or more than 4,096 bytes of it.
    It ends before the first line that does not fit, so a first line that is too long leaves no text.
    Bytes that are not UTF-8 become U+FFFD.
    """
    end = count = 0
    for line in _BYTE_LINE.finditer(data, 0, TOPIC_BYTES + 1):
        if count == TOPIC_LINES or line.end() > TOPIC_BYTES:
            break
        end, count = line.end(), count + 1
    return TopicWindow(data[:end].decode("utf-8", "replace"), end < len(data), count, end)
