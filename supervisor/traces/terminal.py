"""A timeline for the terminal: a chart with a row for each actor, and the events one by one."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pi_project_memory.actors.core.jstext import iso_from_ms, utf16_prefix
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.supervisor.traces.events import Event
from pi_project_memory.supervisor.traces.timeline import MAIN_AGENT, Entry, Lane, Timeline, lane_of
from pi_project_memory.supervisor.traces.words import Tone, details, duration, heading, title, tone, totals

WIDEST = 140
"""Columns that are used at most."""

_LEAST_CHART = 20
_TEXT_UNITS = 300
_TIME = 10

_BARS: Mapping[Tone, str] = {"plain": "█", "late": "▓", "dropped": "▒", "failed": "▒"}
_POINTS: Mapping[Tone, str] = {"plain": "·", "late": "~", "dropped": "x", "failed": "!"}
_SIGNS: Mapping[Tone, str] = {"plain": " ", "late": "~", "dropped": "x", "failed": "!"}
_COLOURS: Mapping[Tone, str] = {"plain": "0", "late": "36", "dropped": "33", "failed": "31"}


@dataclass(frozen=True, slots=True)
class Screen:
    """What the output can show: its width in columns, and whether colours mean something to it."""

    width: int
    colours: bool = False

    def paint(self, text: str, code: str) -> str:
        """Return a text in a colour of the terminal's own."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and code != "0" else text


def render(timeline: Timeline, screen: Screen) -> Iterator[str]:
    """Yield the lines of a whole timeline."""
    yield screen.paint(heading(timeline), "1")
    yield from filter(None, [totals(timeline.totals)])
    yield ""
    yield from _chart(timeline, screen)
    if timeline.dropped:
        yield from ("", screen.paint("Dropped", "1"))
        for number in timeline.dropped:
            yield from _entry_lines(timeline.entries[number], screen)
    yield from ("", screen.paint("Events", "1"))
    for entry in timeline.entries:
        yield from _entry_lines(entry, screen)


def event_line(event: Event, screen: Screen) -> str:
    """Return an event as one line, for reading along."""
    moment = iso_from_ms(event.at)[11:23]
    turn = f"t{event.turn}" if event.turn else "-"
    line = f"{moment} {turn:>4} {_SIGNS[tone(event)]} {lane_of(event):<10} {_sentence(event)}"
    return screen.paint(utf16_prefix(line, screen.width), _COLOURS[tone(event)])
