"""A timeline for the terminal: a chart with a row for each actor, and the events one by one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pi_project_memory.actors.core.jstext import iso_from_ms, utf16_prefix
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.supervisor.traces.chart import LEGEND, chart, shortened
from pi_project_memory.supervisor.traces.events import Event
from pi_project_memory.supervisor.traces.summary import name, totals, when
from pi_project_memory.supervisor.traces.timeline import Entry, Timeline, lane_of, texts_of
from pi_project_memory.supervisor.traces.words import Tone, details, duration, title, tone

NARROWEST, WIDEST = 20, 140
"""Columns that are used at least, and at most."""

_TEXT_UNITS = 300
_TIME = 11
_LANE = 10
_LEAST_BESIDE = 30

_SIGNS: Mapping[Tone, str] = {"plain": " ", "late": "~", "dropped": "x", "failed": "!"}
_COLOURS: Mapping[Tone, str] = {"plain": "", "late": "36", "dropped": "33", "failed": "31"}
_BOLD = "1"
_DIM = "2"


@dataclass(frozen=True, slots=True)
class Screen:
    """What the output can show: its width in columns, and whether colours mean something to it."""

    width: int
    colours: bool = False

    def paint(self, text: str, code: str) -> str:
        """Return a text in one of the terminal's own colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and code else text


def render(timeline: Timeline, screen: Screen) -> Iterator[str]:
    """Yield the lines of a whole timeline."""
    session = f" of session {timeline.session}" if timeline.session else ""
    yield from _wrapped(f"{name(timeline)}{session}", screen, _BOLD)
    yield from _wrapped(when(timeline), screen)
    yield from _wrapped(", ".join(totals(timeline.totals)), screen)
    yield ""
    yield from chart(timeline, screen.width)
    yield from _wrapped(LEGEND, screen, _DIM)
    if timeline.dropped:
        yield from ("", screen.paint("Dropped", _BOLD))
        for number in timeline.dropped:
            yield from _entry_lines(timeline.entries[number], screen)
    yield from ("", screen.paint("Events", _BOLD))
    for entry in timeline.entries:
        yield from _entry_lines(entry, screen)


def _wrapped(text: str, screen: Screen, colour: str = "") -> Iterator[str]:
    yield from (screen.paint(line, colour) for line in textwrap.wrap(text, screen.width))


def event_line(event: Event, screen: Screen) -> str:
    """Return an event as one line, to be read along."""
    turn = f"t{event.turn}" if event.turn else ""
    head = (
        f"{iso_from_ms(event.at)[11:23]} {turn:<4} {_SIGNS[tone(event)]} {shortened(lane_of(event)):<{_LANE}}"
    )
    took = duration(event.ms) if event.ms else ""
    return screen.paint(utf16_prefix(f"{head} {_sentence(event, took)}", screen.width), _COLOURS[tone(event)])


def _entry_lines(entry: Entry, screen: Screen) -> Iterator[str]:
    head = f"{_moment(entry.begin):>{_TIME}} {_SIGNS[entry.tone]} {shortened(entry.lane):<{_LANE}}  "
    took = duration(entry.end - entry.begin) if entry.lasting else ""
    texts = [f"{label}: {_start(text)}" for label, text in texts_of(entry)]
    for line in _hanging(head, [_sentence(entry.event, took, entry.opening), *texts], screen.width):
        yield screen.paint(line, _COLOURS[entry.tone])


def _hanging(head: str, paragraphs: Sequence[str], width: int) -> Iterator[str]:
    """Put paragraphs behind a head, or below it where there is too little room beside it."""
    beside = width - len(head) >= _LEAST_BESIDE
    indent = " " * (len(head) if beside else 4)
    lines = [line for text in paragraphs for line in textwrap.wrap(text, max(width - len(indent), 10))]
    if not beside:
        yield head.strip()[:width]
    for number, line in enumerate(lines):
        yield (head if beside and number == 0 else indent) + line


def _moment(ms: float) -> str:
    return f"+{ms / 1000:.3f} s"


def _sentence(event: Event, took: str, opening: Event | None = None) -> str:
    parts = [took, *(f"{label} {value}".rstrip() for label, value in details(event, opening))]
    told = ", ".join(part for part in parts if part)
    return f"{title(event)}  {told}".rstrip()


def _start(text: str) -> str:
    """Return the beginning of a text in one line."""
    start = utf16_prefix(text, _TEXT_UNITS)
    return sanitize_line(start) + ("…" if len(start) < len(text) else "")
