"""How an edit is shown: numbered lines for people, a unified patch for programs.

Only the surroundings of the replacements are compared, so the cost follows the size of the change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pi_project_memory.supervisor.host.tools.linediff import Run, diff_lines, split_lines
from pi_project_memory.supervisor.host.tools.matching import Replacement, splice

CONTEXT = 4
"""Unchanged lines shown on either side of a change."""

_MARGIN = 32
_NO_LINE_BREAK = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class _Window:
    """A stretch of whole lines around replacements; line numbers count from 1."""

    old_line: int
    new_line: int
    runs: Sequence[Run]

    def numbered(self) -> Iterator[tuple[int, Run, int, int]]:
        """Yield index, run and the old and new number of its first line."""
        old, new = self.old_line, self.new_line
        for index, run in enumerate(self.runs):
            yield index, run, old, new
            old += len(run.lines) * (run.kind != "+")
            new += len(run.lines) * (run.kind != "-")


@dataclass(frozen=True, slots=True)
class _Hunk:
    old_line: int
    new_line: int
    rows: list[tuple[str, str]] = field(default_factory=list)

    def text_lines(self) -> Iterator[str]:
        old, new = (sum(sign != other for sign, _ in self.rows) for other in "+-")
        yield f"@@ -{self.old_line - (old == 0)},{old} +{self.new_line - (new == 0)},{new} @@"
        for sign, line in self.rows:
            yield sign + line.removesuffix("\n")
            if not line.endswith("\n"):
                yield _NO_LINE_BREAK


def edit_details(path: str, text: str, changes: Sequence[Replacement]) -> dict[str, Any]:
    """Return `diff`, `patch` and `firstChangedLine` (from 1, in the new text) of `changes` in `text` (LF)."""
    windows = list(_windows(text, changes))
    width = len(str(max(text.count("\n"), splice(text, changes).count("\n")) + 1))
    hunks = (line for window in windows for hunk in _hunks(window) for line in hunk.text_lines())
    changed = (new for window in windows for _, run, _, new in window.numbered() if run.kind != " ")
    return {
        "diff": "\n".join(_shown(windows, width)),
        "patch": "\n".join([f"--- {path}", f"+++ {path}", *hunks]) + "\n",
        "firstChangedLine": next(changed),
    }


def _windows(text: str, changes: Sequence[Replacement]) -> Iterator[_Window]:
    starts = [0, *accumulate(map(len, split_lines(text)))]
    shift = 0
    for first, end, group in _stretches(starts, changes):
        offset = starts[first]
        old = text[offset:end]
        new = splice(old, [Replacement(c.start - offset, c.end - offset, c.text) for c in group])
        yield _Window(first + 1, first + 1 + shift, diff_lines(split_lines(old), split_lines(new)))
        shift += new.count("\n") - old.count("\n")


def _stretches(
    starts: Sequence[int], changes: Sequence[Replacement]
) -> Iterator[tuple[int, int, list[Replacement]]]:
    """Yield first line (from 0), end offset and changes of each stretch; stretches that meet are one."""
    first, end, group = 0, -1, list[Replacement]()
    for change in changes:
        start_line = max(0, bisect_right(starts, change.start) - 1 - _MARGIN)
        last_line = bisect_right(starts, max(change.end - 1, change.start)) + _MARGIN
        if group and starts[start_line] > end:
            yield first, end, group
            group = []
        first = first if group else start_line
        end = starts[min(last_line, len(starts) - 1)]
        group.append(change)
    yield first, end, group


def _shown(windows: Sequence[_Window], width: int) -> Iterator[str]:
    gap = f" {'':{width}} ..."
    last = ""
    for window in windows:
        for row in _rows(window, width, gap):
            if row != gap or last != gap:
                yield row
            last = row


def _rows(window: _Window, width: int, gap: str) -> Iterator[str]:
    for index, run, old, new in window.numbered():
        numbers = enumerate(run.lines, new if run.kind == "+" else old)
        rows = [f"{run.kind}{number:>{width}} {line.removesuffix(chr(10))}" for number, line in numbers]
        head = CONTEXT if index else 0
        tail = CONTEXT if index < len(window.runs) - 1 else 0
        if run.kind != " " or len(rows) <= head + tail:
            yield from rows
        else:
            yield from [*rows[:head], gap, *rows[len(rows) - tail :]]


def _hunks(window: _Window) -> Iterator[_Hunk]:
    hunk: _Hunk | None = None
    for index, run, old, new in window.numbered():
        rows = [(run.kind, line) for line in run.lines]
        if run.kind != " ":
            hunk = hunk or _opened(window.runs[:index], old, new)
            hunk.rows.extend(rows)
        elif hunk is not None:
            joins = len(rows) <= 2 * CONTEXT and index < len(window.runs) - 1
            hunk.rows.extend(rows if joins else rows[:CONTEXT])
            if not joins:
                yield hunk
                hunk = None
    if hunk is not None:
        yield hunk


def _opened(before: Sequence[Run], old: int, new: int) -> _Hunk:
    lead = [(" ", line) for line in before[-1].lines[-CONTEXT:]] if before else []
    return _Hunk(old - len(lead), new - len(lead), lead)
