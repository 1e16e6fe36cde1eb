"""Where the edits of an edit call apply, and the text that comes out.

Everything here works on text with LF line breaks; `rejoin` brings the result back to the file's own ones.
An edit is looked for as it stands. When one is not found so, the whole call is matched on a folded view of
the file (quotes, dashes and spaces plain, line ends trimmed), and only lines that are touched take that form.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pi_project_memory.actors.core.jstext import JS_SPACE, utf16_len
from pi_project_memory.supervisor.host.tools.base import ToolError
from pi_project_memory.supervisor.host.tools.linediff import split_lines

_PLAIN = str.maketrans(
    dict.fromkeys("\u2018\u2019\u201a\u201b", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u201f", '"')
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
    | dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " ")
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One wanted replacement, as the model gave it."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """`text` in place of the half-open range `start` to `end` of a text; offsets in code points."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Match:
    """A replacement that still knows which edit it came from."""

    index: int
    change: Replacement


def to_lf(text: str) -> str:
    """Return `text` with every CRLF and lone CR as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def fold(text: str) -> str:
    """Return the view on which inexact matches are made."""
    lines = unicodedata.normalize("NFKC", text).split("\n")
    return "\n".join(line.rstrip(JS_SPACE) for line in lines).translate(_PLAIN)


def splice(text: str, replacements: Sequence[Replacement]) -> str:
    """Return `text` with the sorted, disjoint `replacements` made."""
    return "".join(_pieces(text, replacements))


def _pieces(text: str, replacements: Sequence[Replacement]) -> Iterator[str]:
    position = 0
    for change in replacements:
        yield text[position : change.start]
        yield change.text
        position = change.end
    yield text[position:]


def plan(text: str, edits: Sequence[Edit], path: str) -> list[Replacement]:
    """Return the replacements in `text` (LF), sorted and disjoint.

    Raises ToolError, naming `path` and the edit, when an edit is empty, not found, found more than once or
    overlapping another, and when nothing would change.
    """
    edits = [Edit(to_lf(edit.old), to_lf(edit.new)) for edit in edits]
    for index, edit in enumerate(edits):
        if not edit.old:
            raise ToolError(f"{_name(index, edits, 'oldText', '.oldText')} must not be empty in {path}.")
    folded = fold(text)
    inexact = any(edit.old not in text and fold(edit.old) in folded for edit in edits)
    base = folded if inexact else text
    found = [_Match(index, _locate(base, folded, index, edits, path)) for index in range(len(edits))]
    found.sort(key=lambda match: match.change.start)
    _check_disjoint(found, path)
    changes = [match.change for match in found]
    if inexact:
        changes = list(_widened(text, base, changes))
    if splice(text, changes) == text:
        raise ToolError(_unchanged(len(edits), path))
    return changes


def _locate(base: str, folded: str, index: int, edits: Sequence[Edit], path: str) -> Replacement:
    edit = edits[index]
    wanted = fold(edit.old)
    start, length = base.find(edit.old), len(edit.old)
    if start < 0:
        start, length = folded.find(wanted), len(wanted)
    if start < 0:
        raise ToolError(_not_found(index, edits, path))
    count = folded.count(wanted) if wanted else utf16_len(folded) - 1
    if count > 1:
        raise ToolError(_ambiguous(count, index, edits, path))
    return Replacement(start, start + length, edit.new)


def _check_disjoint(found: Sequence[_Match], path: str) -> None:
    for before, after in pairwise(found):
        if before.change.end > after.change.start:
            raise ToolError(
                f"edits[{before.index}] and edits[{after.index}] overlap in {path}. "
                "Merge them into one edit or target disjoint regions."
            )


def _widened(text: str, base: str, changes: Iterable[Replacement]) -> Iterator[Replacement]:
    """Turn changes of the folded view into changes of the whole lines of `text` that they touch."""
    ends, folded_ends = _line_ends(text), _line_ends(base)
    if len(ends) != len(folded_ends):
        raise ToolError(
            "Cannot preserve unchanged lines because the base content has a different line count."
        )
    for first, last, group in _by_lines(folded_ends, changes):
        start, end = _before(folded_ends, first), folded_ends[last]
        moved = [Replacement(change.start - start, change.end - start, change.text) for change in group]
        yield Replacement(_before(ends, first), ends[last], splice(base[start:end], moved))


def _by_lines(
    ends: Sequence[int], changes: Iterable[Replacement]
) -> Iterator[tuple[int, int, list[Replacement]]]:
    """Yield first line, last line and changes of every group of changes that share lines."""
    group: list[Replacement] = []
    first = last = -1
    for change in changes:
        if change.start >= (ends[-1] if ends else 0):
            raise ToolError("Replacement range is outside the base content.")
        line = bisect_right(ends, change.start)
        if group and line > last:
            yield first, last, group
            group = []
        first = first if group else line
        last = max(last, line, bisect_left(ends, change.end))
        group.append(change)
    yield first, last, group


def _line_ends(text: str) -> list[int]:
    return list(accumulate(map(len, split_lines(text))))


def _before(ends: Sequence[int], line: int) -> int:
    return ends[line - 1] if line else 0


def rejoin(original: str, changes: Sequence[Replacement]) -> str:
    """Make `changes`, planned on `to_lf(original)`, in `original` itself; untouched text keeps its line ends.

    New text gets the line end of the line where it starts. A CR left before a seam and a LF after it stay two
    line breaks.
    """
    breaks = [match.start() - number for number, match in enumerate(re.finditer("\r\n", original))]

    def place(offset: int) -> int:
        return offset + bisect_left(breaks, offset)

    moved = []
    for change in changes:
        start = place(change.start)
        new = change.text.replace("\n", _line_end_at(original, start))
        moved.append(Replacement(start, place(change.end), new))
    parts = [part for part in _pieces(original, moved) if part]
    seams = [
        "\n" if left.endswith("\r") and right.startswith("\n") else "" for left, right in pairwise(parts)
    ]
    return "".join(part + seam for part, seam in zip(parts, [*seams, ""], strict=False))


def _line_end_at(text: str, offset: int) -> str:
    feed = text.find("\n", offset)
    if feed < 0:
        feed = text.rfind("\n", 0, offset)
    if feed < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if text[:feed].endswith("\r") else "\n"


def _name(index: int, edits: Sequence[Edit], alone: str, suffix: str = "") -> str:
    return alone if len(edits) == 1 else f"edits[{index}]{suffix}"


def _not_found(index: int, edits: Sequence[Edit], path: str) -> str:
    what = _name(index, edits, "the exact text")
    kind = "old text" if len(edits) == 1 else "oldText"
    return f"Could not find {what} in {path}. The {kind} must match exactly including all whitespace and newlines."


def _ambiguous(count: int, index: int, edits: Sequence[Edit], path: str) -> str:
    what = _name(index, edits, "the text")
    kind = "The text" if len(edits) == 1 else "Each oldText"
    return (
        f"Found {count} occurrences of {what} in {path}. {kind} must be unique. "
        "Please provide more context to make it unique."
    )


def _unchanged(count: int, path: str) -> str:
    if count > 1:
        return f"No changes made to {path}. The replacements produced identical content."
    return (
        f"No changes made to {path}. The replacement produced identical content. "
        "This might indicate an issue with special characters or the text not existing as expected."
    )
