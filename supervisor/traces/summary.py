"""What stands above a timeline, in the terminal and on the page."""

from __future__ import annotations

from pi_project_memory.actors.core.jstext import iso_from_ms
from pi_project_memory.supervisor.traces.timeline import Timeline, Totals
from pi_project_memory.supervisor.traces.words import duration


def name(timeline: Timeline) -> str:
    """Return what is shown: a turn, or what belongs to none."""
    return f"Turn {timeline.turn}" if timeline.turn else "Outside of turns"


def when(timeline: Timeline) -> str:
    """Return when it began and how long it took."""
    moment = iso_from_ms(timeline.began)
    return f"{moment[:10]} {moment[11:23]} UTC, {duration(timeline.length)}"


def totals(spent: Totals) -> list[str]:
    """Return what it took, one part a figure that is not zero."""
    parts = [
        (spent.requests, "model request"),
        (spent.tokens_in, "token in"),
        (spent.tokens_out, "token out"),
        (spent.tools, "tool call"),
        (spent.files, "file written"),
    ]
    told = [_count(number, what) for number, what in parts if number]
    return [*told, f"${spent.cost:.4f}"] if spent.cost else told


def _count(number: int, what: str) -> str:
    noun, _, rest = what.partition(" ") if what.startswith(("token", "file")) else (what, "", "")
    return f"{number:,} {noun}{'' if number == 1 else 's'}{f' {rest}' if rest else ''}"
