"""A timeline's lanes as rows of characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pi_project_memory.supervisor.traces.scale import Scale, ticks
from pi_project_memory.supervisor.traces.timeline import MAIN_AGENT, Entry, Lane, Timeline
from pi_project_memory.supervisor.traces.words import Tone, duration, title

_BARS: Mapping[Tone, str] = {"plain": "█", "late": "▓", "dropped": "▒", "failed": "▒"}
_WHOLE_BAR = "━"
_POINTS: Mapping[Tone, str] = {"plain": "·", "late": "~", "dropped": "x", "failed": "!"}
_MAIN_BAR = "░"
_LAST = {"█": "▊"}
"""What a bar ends with, so that the next one can be told from it."""
_OPEN_END = "▶"
_CUT = "┊"

_TICK = 12
"""Columns from one moment on the axis to the next, at least."""

_LONGEST_NAME = 16

LEGEND = (
    "━ a whole run  █ a part of it  ▓ came late  ▒ dropped or failed  "
    "· event  x dropped  ! failed  ▶ no end in the log  ┊ pause"
)


def chart(timeline: Timeline, width: int) -> Iterator[str]:
    """Yield the axis and the lanes, `width` columns wide with their names."""
    names = [shortened(lane.name) for lane in timeline.lanes]
    margin = min(max(map(len, names)) + 2, width // 2)
    columns = width - margin
    yield f"{'':<{margin}}{_axis(timeline.scale, columns)}".rstrip()
    for lane, name in zip(timeline.lanes, names, strict=True):
        for row in range(lane.rows):
            label = name[: margin - 1] if row == 0 else ""
            yield f"{label:<{margin}}{_row(timeline, lane, row, columns)}".rstrip()


def shortened(name: str) -> str:
    """Return the name of a lane as far as there is room for it."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


class _Line:
    """A row of characters of which some are taken."""

    def __init__(self, columns: int) -> None:
        self.cells = [" "] * columns
        self.taken = [False] * columns

    def put(self, left: int, text: str) -> None:
        """Write over whatever stands there, as far as the row goes."""
        for column, character in enumerate(text[: len(self.cells) - left], start=left):
            self.cells[column] = character
            self.taken[column] = True

    def put_where_free(self, left: int, text: str) -> bool:
        """Write where nothing stands, with a blank on either side; return whether there was room."""
        around = range(max(left - 1, 0), min(left + len(text) + 1, len(self.cells)))
        if left < 0 or left + len(text) > len(self.cells) or any(self.taken[column] for column in around):
            return False
        self.put(left, text)
        return True

    def __str__(self) -> str:
        return "".join(self.cells)


def _column(scale: Scale, ms: float, columns: int) -> int:
    return min(int(scale.place(ms) * columns), columns - 1)


def _axis(scale: Scale, columns: int) -> str:
    line = _Line(columns)
    last = duration(scale.stretches[-1].end)
    line.put(columns - len(last), last)
    for ms, place in ticks(scale, _TICK / columns):
        line.put_where_free(int(place * columns), duration(ms) if ms else "0")
    return str(line)


def _row(timeline: Timeline, lane: Lane, row: int, columns: int) -> str:
    line = _Line(columns)
    entries = [timeline.entries[mark.number] for mark in lane.marks if mark.row == row]
    for cut in timeline.scale.cuts:
        line.cells[int((cut.left + cut.right) / 2 * columns)] = _CUT
    for entry in sorted(entries, key=_weight):
        _draw(line, timeline.scale, entry, columns)
    for entry in entries:
        if entry.lasting and entry.lane != MAIN_AGENT:
            _name(line, timeline.scale, entry, columns)
    return str(line)


def _weight(entry: Entry) -> int:
    """Let points that went as wished lie below the bars, the others above."""
    return 1 if entry.lasting else 0 if entry.tone == "plain" else 2


def _draw(line: _Line, scale: Scale, entry: Entry, columns: int) -> None:
    left, right = _column(scale, entry.begin, columns), _column(scale, entry.end, columns)
    if not entry.lasting:
        line.put(left, _POINTS[entry.tone])
        return
    bar, length = _bar(entry), max(right - left, 1)
    line.put(left, bar * (length - 1) + _LAST.get(bar, bar))
    if entry.open_ended:
        line.put(right, _OPEN_END)


def _bar(entry: Entry) -> str:
    if entry.lane == MAIN_AGENT:
        return _MAIN_BAR
    whole = entry.tone == "plain" and (entry.opening is not None or entry.open_ended)
    return _WHOLE_BAR if whole else _BARS[entry.tone]


def _name(line: _Line, scale: Scale, entry: Entry, columns: int) -> None:
    """Write what a bar stands for behind it, or before it, if there is room."""
    text = title(entry.event)
    left, right = _column(scale, entry.begin, columns), _column(scale, entry.end, columns)
    if not line.put_where_free(max(right, left + 1) + 1, text):
        line.put_where_free(left - len(text) - 1, text)
