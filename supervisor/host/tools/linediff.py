"""The shortest way from one list of lines to another, found as Myers describes it.

Among ways of equal length the choice is fixed: from left to right, a deletion is preferred to an insertion
when it has consumed at least as much of the old lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Kind = Literal[" ", "-", "+"]


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring lines with the same fate: kept, deleted or inserted. Lines keep their line break."""

    kind: Kind
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Trail:
    """The way so far, latest step first."""

    kind: Kind
    count: int
    before: _Trail | None


@dataclass(frozen=True, slots=True)
class _Front:
    """The furthest point reached on a diagonal: old lines consumed, and how."""

    old: int
    trail: _Trail | None


def split_lines(text: str) -> list[str]:
    """Return the lines of `text` with their LF; the last one may lack it."""
    return _LINE.findall(text)


def diff_lines(old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """Return the runs that lead from `old` to `new`."""
    return list(_runs(_trail(old, new), old, new))


def _trail(old: Sequence[str], new: Sequence[str]) -> _Trail | None:
    fronts = {0: _slide(_Front(0, None), 0, old, new)}
    most = len(old) + len(new)
    lowest, highest = -most, most
    distance = diagonal = 0
    front: _Front | None = fronts[0]
    while front is None or front.old < len(old) or front.old - diagonal < len(new):
        diagonal += 2
        if diagonal > min(highest, distance):
            distance += 1
            diagonal = max(lowest, -distance)
        front = _advance(fronts, diagonal, old, new)
        if front is not None:
            fronts[diagonal] = front
            # Beyond an edge that is reached, no diagonal can be part of a shortest way.
            highest = min(highest, diagonal - 1) if front.old >= len(old) else highest
            lowest = max(lowest, diagonal + 1) if front.old - diagonal >= len(new) else lowest
    return front.trail


def _advance(
    fronts: dict[int, _Front], diagonal: int, old: Sequence[str], new: Sequence[str]
) -> _Front | None:
    """Return the furthest point one more step brings on `diagonal`, or None beyond the edges."""
    fronts.pop(diagonal, None)
    below, above = fronts.pop(diagonal - 1, None), fronts.get(diagonal + 1)
    if above is not None and not 1 <= above.old - diagonal <= len(new):
        above = None
    if below is not None and below.old >= len(old):
        below = None
    if below is not None and (above is None or below.old >= above.old):
        return _slide(_Front(below.old + 1, _step(below.trail, "-")), diagonal, old, new)
    if above is not None:
        return _slide(_Front(above.old, _step(above.trail, "+")), diagonal, old, new)
    return None


def _step(trail: _Trail | None, kind: Kind) -> _Trail:
    if trail is not None and trail.kind == kind:
        return _Trail(kind, trail.count + 1, trail.before)
    return _Trail(kind, 1, trail)


def _slide(front: _Front, diagonal: int, old: Sequence[str], new: Sequence[str]) -> _Front:
    """Follow equal lines as far as they go."""
    position = front.old
    while (
        position < len(old) and position - diagonal < len(new) and old[position] == new[position - diagonal]
    ):
        position += 1
    kept = position - front.old
    return _Front(position, _Trail(" ", kept, front.trail)) if kept else front


def _runs(trail: _Trail | None, old: Sequence[str], new: Sequence[str]) -> Iterator[Run]:
    steps = []
    while trail is not None:
        steps.append(trail)
        trail = trail.before
    at_old = at_new = 0
    for step in reversed(steps):
        source, start = (new, at_new) if step.kind == "+" else (old, at_old)
        yield Run(step.kind, tuple(source[start : start + step.count]))
        at_old += step.count * (step.kind != "+")
        at_new += step.count * (step.kind != "-")
