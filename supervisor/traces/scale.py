"""A time axis that spends its length on what happens: long quiet times between are cut short."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

QUIET_MS = 500.0
"""A pause shorter than this is never cut."""

_QUIET_SHARE = 0.15
_LEAST_SHARE = 0.02
_CUT_SHARE = 0.05
_ALL_CUTS_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of the axis: milliseconds from `begin` to `end`, drawn from `left` to `right` (0 to 1)."""

    begin: float
    end: float
    left: float
    right: float
    cut: bool


@dataclass(frozen=True, slots=True)
class Scale:
    """Where each moment lies on an axis from 0 to 1; the stretches adjoin and cover everything."""

    stretches: tuple[Stretch, ...]

    def place(self, ms: float) -> float:
        """Return where a moment is drawn."""
        for stretch in self.stretches:
            if ms <= stretch.end:
                return _within(stretch, ms)
        return 1.0

    @property
    def cuts(self) -> tuple[Stretch, ...]:
        """The pauses that were cut short."""
        return tuple(stretch for stretch in self.stretches if stretch.cut)


def make_scale(spans: Iterable[tuple[float, float]]) -> Scale:
    """Return the axis for what lasts from `begin` to `end` each, in milliseconds."""
    busy = _merged(sorted(spans), 0.0)
    total = sum(end - begin for begin, end in busy)
    busy = _merged(busy, max(QUIET_MS, _QUIET_SHARE * total))
    pieces: list[tuple[float, float, bool]] = []
    for begin, end in busy:
        if pieces:
            pieces.append((pieces[-1][1], begin, True))
        pieces.append((begin, end, False))
    return Scale(_laid_out(pieces))


def ticks(scale: Scale, least: float) -> list[tuple[float, float]]:
    """Return moments to write on the axis, with their places, each at least `least` from the next.

    Where something begins after a pause comes first, round numbers within a long stretch after it.
    """
    found: list[tuple[float, float]] = []
    for stretch in scale.stretches:
        if stretch.cut:
            continue
        for ms in (stretch.begin, *_round_moments(stretch, least)):
            place = _within(stretch, ms) if ms > stretch.begin else stretch.left
            if not found or place - found[-1][1] >= least:
                found.append((ms, place))
    return found


def _round_moments(stretch: Stretch, least: float) -> list[float]:
    length, width = stretch.end - stretch.begin, stretch.right - stretch.left
    if length <= 0 or width < 2 * least:
        return []
    finest = length * least / width
    step = next(
        factor * 10.0**power
        for power in range(-3, 12)
        for factor in (1, 2, 5)
        if factor * 10.0**power >= finest
    )
    first = math.floor(stretch.begin / step) + 1
    return [number * step for number in range(first, math.floor(stretch.end / step) + 1)]


def _merged(spans: Iterable[tuple[float, float]], pause: float) -> list[tuple[float, float]]:
    """Join what follows within `pause`; the spans come in the order of their beginnings."""
    joined: list[tuple[float, float]] = []
    for begin, end in spans:
        if joined and begin - joined[-1][1] <= pause:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _laid_out(pieces: Sequence[tuple[float, float, bool]]) -> tuple[Stretch, ...]:
    total = sum(end - begin for begin, end, cut in pieces if not cut) or 1.0
    busy = [max(end - begin, _LEAST_SHARE * total) for begin, end, cut in pieces if not cut]
    cuts = len(pieces) - len(busy)
    pause = min(_CUT_SHARE, _ALL_CUTS_SHARE / cuts) * sum(busy) if cuts else 0.0
    whole = sum(busy) + cuts * pause
    widths = iter(busy)
    stretches, left = [], 0.0
    for begin, end, cut in pieces:
        right = min(left + (pause if cut else next(widths)) / whole, 1.0)
        stretches.append(Stretch(begin, end, left, right, cut))
        left = right
    return tuple(stretches)


def _within(stretch: Stretch, ms: float) -> float:
    length = stretch.end - stretch.begin
    share = (ms - stretch.begin) / length if length > 0 else 0.5
    return stretch.left + (stretch.right - stretch.left) * min(max(share, 0.0), 1.0)
