"""A timeline as one self-contained page: markup and style, no scripts, nothing to fetch (OBS-2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

from pi_project_memory.supervisor.traces.scale import Scale, Stretch, ticks
from pi_project_memory.supervisor.traces.summary import name, totals, when
from pi_project_memory.supervisor.traces.timeline import MAIN_AGENT, Entry, Lane, Mark, Timeline, texts_of
from pi_project_memory.supervisor.traces.words import details, duration, title

TEMPLATE = Path(__file__).with_name("page.html")

_FINE, _COARSE = 0.09, 0.27
"""Share of the axis from one moment on it to the next, at least; the coarse ones fit a narrow screen."""


def page(timeline: Timeline, notes: Sequence[str] = ()) -> str:
    """Return the page; `notes` say what is missing from it."""
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        name=escape(name(timeline)),
        session=escape(timeline.session or "unknown"),
        facts=_joined(f"<li>{escape(fact)}</li>" for fact in (when(timeline), *totals(timeline.totals))),
        axis=_axis(timeline.scale),
        lanes=_joined(_lane(timeline, lane) for lane in timeline.lanes),
        dropped=_dropped(timeline),
        events=_joined(_event(number, entry) for number, entry in enumerate(timeline.entries)),
        notes=_joined(f"<p>{escape(note)}</p>" for note in notes),
    )


def _axis(scale: Scale) -> str:
    coarse = {ms for ms, place in ticks(scale, _COARSE) if place <= 1 - _COARSE}
    fine = [(ms, place) for ms, place in ticks(scale, _FINE) if place <= 1 - _FINE]
    marks = [_tick(ms, place, "tick" if ms in coarse else "tick fine") for ms, place in fine]
    end = scale.stretches[-1].end
    return _joined([*marks, f'<span class="tick last">{duration(end)}</span>'])


def _tick(ms: float, place: float, kind: str) -> str:
    return f'<span class="{kind}" style="left:{_percent(place)}">{duration(ms) if ms else "0"}</span>'


def _lane(timeline: Timeline, lane: Lane) -> str:
    cuts = _joined(map(_cut, timeline.scale.cuts))
    marks = _joined(_mark(timeline, mark) for mark in lane.marks)
    return (
        f'<div class="lane"><span class="who">{escape(lane.name)}</span>'
        f'<div class="track" style="--rows:{lane.rows}">{cuts}{marks}</div></div>'
    )


def _cut(cut: Stretch) -> str:
    return (
        f'<i class="cut" style="left:{_percent(cut.left)};width:{_percent(cut.right - cut.left)}"'
        f' title="nothing for {duration(cut.end - cut.begin)}"></i>'
    )


def _mark(timeline: Timeline, mark: Mark) -> str:
    entry = timeline.entries[mark.number]
    left, right = timeline.scale.place(entry.begin), timeline.scale.place(entry.end)
    shape = f"bar {_kind(entry)}" if entry.lasting else f"point {_class(entry.event.name)}"
    length = f";width:{_percent(right - left)}" if entry.lasting else ""
    told = escape(title(entry.event))
    open_end = " open" if entry.open_ended else ""
    return (
        f'<a class="{shape} {entry.tone}{open_end}" href="#e{mark.number}"'
        f' style="left:{_percent(left)}{length};--row:{mark.row}"'
        f' title="{told}, {_span(entry)}"><span>{told}</span></a>'
    )


def _kind(entry: Entry) -> str:
    """Return what sort of work a bar shows, which gives it its colour."""
    if entry.lane == MAIN_AGENT:
        return "main"
    if entry.event.name.startswith("model_"):
        return "model"
    if entry.event.name == "tool_called":
        return "tool"
    return "whole" if entry.opening is not None or entry.open_ended else "work"


def _dropped(timeline: Timeline) -> str:
    if not timeline.dropped:
        return ""
    items = _joined(
        f'<li><a href="#e{number}">{_moment(entry)}</a> '
        f'<span class="who">{escape(entry.lane)}</span> {escape(title(entry.event))}</li>'
        for number, entry in ((number, timeline.entries[number]) for number in timeline.dropped)
    )
    return f'<section class="losses"><h2>Dropped</h2><ul>{items}</ul></section>'


def _event(number: int, entry: Entry) -> str:
    event = entry.event
    took = f'<span class="took">{_span(entry)}</span>' if entry.lasting else ""
    badge = "" if entry.tone == "plain" else f'<span class="badge">{entry.tone}</span>'
    facts = _joined(
        f"<li>{escape(label)}{f' <b>{escape(value)}</b>' if value else ''}</li>"
        for label, value in details(event, entry.opening)
    )
    texts = _joined(
        f"<details><summary>{escape(label)}</summary><pre>{escape(text)}</pre></details>"
        for label, text in texts_of(entry)
    )
    return (
        f'<li id="e{number}" class="{entry.tone} {_class(event.name)}">'
        f'<span class="at">{_moment(entry)}</span><span class="who">{escape(entry.lane)}</span>'
        f'<div class="what"><strong>{escape(title(event))}</strong> {badge} {took}'
        f"{f'<ul>{facts}</ul>' if facts else ''}{texts}</div></li>"
    )


def _class(event_name: str) -> str:
    return "message" if event_name == "received" else "fact"


def _span(entry: Entry) -> str:
    took = duration(entry.end - entry.begin)
    return f"{took}, no end in the log" if entry.open_ended else took


def _moment(entry: Entry) -> str:
    return f"+{entry.begin / 1000:.3f} s"


def _percent(share: float) -> str:
    return f"{share * 100:.3f}%"


def _joined(parts: Iterable[str]) -> str:
    return "\n".join(parts)
