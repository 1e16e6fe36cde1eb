"""One turn as lanes: who worked when, in parallel with whom, and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pi_project_memory.supervisor.traces.events import Event
from pi_project_memory.supervisor.traces.scale import Scale, make_scale
from pi_project_memory.supervisor.traces.words import Tone, tone

SERVICE = "service"
MAIN_AGENT = "main agent"
MAIN_BEGUN = "run_begun"

LANE_ORDER = (SERVICE, MAIN_AGENT, "prefetch", "selector", "index", "extractor", "dream")
"""Who comes first, roughly in the order in which a turn passes through them."""

MOST_ROWS = 6
"""Rows of one lane; what would need more lies over the last."""

_LANES: Mapping[str, str] = {"run_settled": MAIN_AGENT}
"""Events that belong to somebody else than the actor they name."""

_BEGINNINGS: Mapping[str, tuple[str, ...]] = {
    "run_settled": (MAIN_BEGUN,),
    "recall": ("selection_begun",),
    "prefetch_stopped": ("selection_begun",),
    "run_ended": ("extraction_begun", "dream_considered"),
    "extraction_stopped": ("extraction_begun",),
    "dream_not_begun": ("dream_considered",),
    "stale_dropped": ("selection_begun", "extraction_begun", "dream_considered"),
}
"""What the beginning of a longer work is called, by what its end is called."""

_JOBLESS = frozenset({"run_settled", "run_ended"})
"""Ends that name no job: the actor has one at a time."""

_OPENED = frozenset(name for names in _BEGINNINGS.values() for name in names)


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in the turn: when it began and ended in ms since the turn's beginning, and how it went.

    `event` tells its end and `opening` its beginning, if that is an event of its own; `open_ended` says that
    the end is not in the log.
    """

    event: Event
    lane: str
    begin: float
    end: float
    tone: Tone
    opening: Event | None = None
    open_ended: bool = False

    @property
    def lasting(self) -> bool:
        """Whether it took time."""
        return self.end > self.begin


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry in a lane, by its number among the turn's entries."""

    number: int
    row: int


@dataclass(frozen=True, slots=True)
class Lane:
    """What one actor did; `rows` lie below one another because they overlap in time."""

    name: str
    marks: tuple[Mark, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Totals:
    """What a turn took: requests to models with tokens and cost in dollars, tool calls, files written."""

    requests: int
    tokens_in: int
    tokens_out: int
    cost: float
    tools: int
    files: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """One turn; `began` in milliseconds since the epoch, `length` in milliseconds."""

    session: str
    turn: int
    began: float
    length: float
    entries: tuple[Entry, ...]
    lanes: tuple[Lane, ...]
    scale: Scale
    totals: Totals

    @property
    def dropped(self) -> tuple[int, ...]:
        """The numbers of the entries that were dropped or given up."""
        return tuple(number for number, entry in enumerate(self.entries) if entry.tone == "dropped")


def make_timeline(turn: int, events: Sequence[Event]) -> Timeline:
    """Return the timeline of a turn's events, of which there is at least one, in the order of the log."""
    spans = _spans(events)
    began = min(span.begin for span in spans)
    entries = [_entry(span, began) for span in spans if not span.covered]
    entries.sort(key=lambda entry: (entry.begin, -entry.end))
    return Timeline(
        session=next((event.session for event in events if event.session), ""),
        turn=turn,
        began=began,
        length=max(entry.end for entry in entries),
        entries=tuple(entries),
        lanes=_lanes(entries),
        scale=make_scale(
            (entry.begin, entry.end) if entry.lane != MAIN_AGENT else (entry.end, entry.end)
            for entry in entries
        ),
        totals=_totals(events),
    )


def texts_of(entry: Entry) -> list[tuple[str, str]]:
    """Return the texts that the log kept of an entry, with their labels."""
    opening = entry.opening.texts if entry.opening else {}
    return [(label, text) for texts in (opening, entry.event.texts) for label, text in texts.items() if text]


def lane_of(event: Event) -> str:
    """Return whose event it is."""
    return _LANES.get(event.name) or event.actor or SERVICE


@dataclass(slots=True)
class _Span:
    """When an event began and ended, in ms since the epoch; `covered` when the end of the work stands for it."""

    event: Event
    begin: float
    end: float
    opening: Event | None = None
    open_ended: bool = False
    covered: bool = False


def _spans(events: Sequence[Event]) -> list[_Span]:
    spans = [_Span(event, event.at - event.ms, event.at) for event in events]
    latest = max(event.at for event in events)
    begun: list[_Span] = []
    for span in spans:
        opened = next((other for other in begun if _begins(other.event, span.event)), None)
        if opened is not None:
            begun.remove(opened)
            _close(opened, span)
        if span.event.name in _OPENED:
            begun.append(span)
    for span in begun:
        if span.event.name != MAIN_BEGUN:
            span.end, span.open_ended = latest, True
    return spans


def _begins(beginning: Event, end: Event) -> bool:
    """Tell whether two events are of one work: the same actor's and the same job's."""
    return (
        beginning.name in _BEGINNINGS.get(end.name, ())
        and beginning.actor == end.actor
        and (end.name in _JOBLESS or end.text("job") == beginning.text("job"))
    )


def _close(opened: _Span, closing: _Span) -> None:
    closing.begin = min(closing.begin, opened.event.at)
    if opened.event.name != MAIN_BEGUN:  # which has taken its own time before
        closing.opening, opened.covered = opened.event, True


def _entry(span: _Span, began: float) -> Entry:
    return Entry(
        event=span.event,
        lane=lane_of(span.event),
        begin=span.begin - began,
        end=span.end - began,
        tone=tone(span.event),
        opening=span.opening,
        open_ended=span.open_ended,
    )


def _lanes(entries: Sequence[Entry]) -> tuple[Lane, ...]:
    names = list(dict.fromkeys(entry.lane for entry in entries))
    known = [name for name in LANE_ORDER if name in names]
    others = [name for name in names if name not in LANE_ORDER]
    return tuple(
        _lane(name, [(number, entry) for number, entry in enumerate(entries) if entry.lane == name])
        for name in (*known, *others)
    )


def _lane(name: str, entries: Sequence[tuple[int, Entry]]) -> Lane:
    """Lay what overlaps in time into rows, in the order of beginning; what takes no time lies in the first."""
    free_from: list[float] = []
    marks = []
    for number, entry in entries:
        row = _row(free_from, entry) if entry.lasting else 0
        marks.append(Mark(number, row))
    return Lane(name, tuple(marks), max(len(free_from), 1))


def _row(free_from: list[float], entry: Entry) -> int:
    for row, free in enumerate(free_from):
        if free <= entry.begin:
            free_from[row] = entry.end
            return row
    if len(free_from) < MOST_ROWS:
        free_from.append(entry.end)
    return len(free_from) - 1


def _totals(events: Sequence[Event]) -> Totals:
    answers = [event for event in events if event.name == "model_answered"]
    names = [event.name for event in events]
    return Totals(
        requests=len(answers),
        tokens_in=round(sum(event.number("input") for event in answers)),
        tokens_out=round(sum(event.number("output") for event in answers)),
        cost=sum(event.number("cost") for event in answers),
        tools=names.count("tool_called"),
        files=len({event.text("path") for event in events if event.name == "published"}),
    )
