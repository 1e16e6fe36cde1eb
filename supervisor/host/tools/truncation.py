"""Cutting long tool output: at most 2,000 lines and 51,200 bytes, whole lines, from either end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import floor
from typing import Any, Literal

from pi_project_memory.actors.core.jstext import utf16_len, utf16_prefix

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
MAX_GREP_UNITS = 500
UNLIMITED_LINES = 2**53 - 1
"""The largest integer that is exact in JavaScript: no limit at all."""

_KILO = 1024


@dataclass(frozen=True, slots=True)
class Truncation:
    """A text after cutting, with what it was before. Bytes are UTF-8; a final line break ends no new line."""

    content: str
    truncated_by: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_exceeds_limit: bool = False
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    @property
    def truncated(self) -> bool:
        """Whether anything is missing."""
        return self.truncated_by is not None

    def to_wire(self) -> dict[str, Any]:
        """Return the value of `details.truncation`."""
        return {
            "content": self.content,
            "truncated": self.truncated,
            "truncatedBy": self.truncated_by,
            "totalLines": self.total_lines,
            "totalBytes": self.total_bytes,
            "outputLines": self.output_lines,
            "outputBytes": self.output_bytes,
            "lastLinePartial": self.last_line_partial,
            "firstLineExceedsLimit": self.first_line_exceeds_limit,
            "maxLines": self.max_lines,
            "maxBytes": self.max_bytes,
        }


def at_least_one(limit: float) -> int:
    """Return a limit from a tool's arguments as a whole number that can be counted up to."""
    return max(1, floor(min(limit, UNLIMITED_LINES)))


def encode(text: str) -> bytes:
    """Return `text` as UTF-8; a lone surrogate becomes U+FFFD, as JavaScript writes it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def byte_len(text: str) -> int:
    """Return the length of `text` in UTF-8 bytes."""
    return len(text) if text.isascii() else len(encode(text))


def format_size(size: int) -> str:
    """Return a number of bytes as `12B`, `1.5KB` or `3.2MB`; halves round up."""
    if size < _KILO:
        return f"{size}B"
    unit, name = (_KILO, "KB") if size < _KILO**2 else (_KILO**2, "MB")
    tenths = (size * 20 + unit) // (unit * 2)
    return f"{tenths // 10}.{tenths % 10}{name}"


def truncate_head(text: str, max_lines: int = MAX_LINES) -> Truncation:
    """Keep the whole lines at the start that fit; none when the first alone is too long."""
    whole, lines = _measure(text, max_lines)
    if whole.total_lines <= max_lines and whole.total_bytes <= MAX_BYTES:
        return whole
    count, by_bytes = _fitting(map(byte_len, lines), max_lines)
    cut = _cut(whole, lines[:count], by_bytes=by_bytes)
    return replace(cut, first_line_exceeds_limit=count == 0)


def truncate_tail(text: str) -> Truncation:
    """Keep the whole lines at the end that fit; the end of the last line when it alone is too long."""
    whole, lines = _measure(text, MAX_LINES)
    if whole.total_lines <= MAX_LINES and whole.total_bytes <= MAX_BYTES:
        return whole
    count, by_bytes = _fitting(map(byte_len, reversed(lines)), MAX_LINES)
    if count:
        return _cut(whole, lines[-count:], by_bytes=by_bytes)
    return replace(_cut(whole, [_last_bytes(lines[-1])], by_bytes=True), last_line_partial=True)


def truncate_line(line: str) -> tuple[str, bool]:
    """Return a found line cut to 500 UTF-16 units, and whether it was cut."""
    if utf16_len(line) <= MAX_GREP_UNITS:
        return line, False
    return f"{utf16_prefix(line, MAX_GREP_UNITS)}... [truncated]", True


def _measure(text: str, max_lines: int) -> tuple[Truncation, list[str]]:
    lines = text.removesuffix("\n").split("\n") if text else []
    size = byte_len(text)
    return Truncation(text, None, len(lines), size, len(lines), size, max_lines=max_lines), lines


def _fitting(sizes: Iterable[int], max_lines: int) -> tuple[int, bool]:
    """Return how many lines fit, and whether the bytes stopped the count."""
    used, count = 0, 0
    for size in sizes:
        if count == max_lines:
            break
        used += size + (count > 0)
        if used > MAX_BYTES:
            return count, True
        count += 1
    return count, False


def _cut(whole: Truncation, lines: list[str], *, by_bytes: bool) -> Truncation:
    content = "\n".join(lines)
    return replace(
        whole,
        content=content,
        truncated_by="bytes" if by_bytes else "lines",
        output_lines=len(lines),
        output_bytes=byte_len(content),
    )


def _last_bytes(line: str) -> str:
    return encode(line)[-MAX_BYTES:].decode(errors="ignore")
