"""How events read: a title, what else they say, and whether they went as wished. An unknown event reads plainly."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from pi_project_memory.supervisor.traces.events import Event, Scalar

Tone = Literal["plain", "late", "dropped", "failed"]

TITLES: Mapping[str, str] = {
    "session_begun": "session begun, memory {state}",
    "config_reloaded": "configuration reloaded, memory {state}",
    "received": "{message} received",
    "message_failed": "{message} failed: {error}",
    "stale_dropped": "{message} dropped as stale: {reason}",
    "untold": "{message} not delivered: {error}",
    "run_begun": "request prepared",
    "run_settled": "main agent's run",
    "index_loaded": "index loaded",
    "outside_change": "files changed outside",
    "no_snapshot": "memory directory not readable: {error}",
    "branch_unread": "branch not readable: {error}",
    "not_asked": "selector not asked: {reason}",
    "selection_begun": "selection begun",
    "prefetch_stopped": "selection given up: {reason}",
    "topic": "{path}: {verdict}",
    "recall": "{recalled} of {chosen} chosen topics recalled",
    "model_answered": "{model} answered",
    "model_unanswered": "{model} did not answer: {error}",
    "extraction_begun": "extraction begun: {cause}",
    "extraction_stopped": "extraction stopped: {reason}",
    "parent_not_captured": "main request not at hand: {error}",
    "codemode_ready": "codemode at hand, mode {mode}",
    "codemode_unavailable": "codemode not at hand: {error}",
    "tool_called": "{tool}",
    "published": "{path} {change}",
    "run_ended": "background run {ending}",
    "summary_sent": "summary sent to the main agent",
    "gate_closed": "dream not due: {gate}",
    "dream_considered": "dream considered: {cause}",
    "dream_not_begun": "dream not begun: {why}",
    "dream_threw": "dream failed: {error}",
    "host_refused": "host refused: {error}",
    "actor_failed": "actor failed: {error}",
    "notice": "{level} shown to the user",
    "notice_unseen": "{level} could not be shown: {error}",
    "shut_down": "shut down: {reason}",
}

_DROPPED = frozenset({"stale_dropped", "prefetch_stopped", "extraction_stopped", "untold"})
_FAILED = frozenset(
    {
        "message_failed",
        "actor_failed",
        "no_snapshot",
        "branch_unread",
        "host_refused",
        "notice_unseen",
        "parent_not_captured",
        "codemode_unavailable",
        "dream_threw",
    }
)

_TONES: Mapping[str, Callable[[Event], Tone]] = {
    **dict.fromkeys(_DROPPED, lambda _: "dropped"),
    **dict.fromkeys(_FAILED, lambda _: "failed"),
    "tool_called": lambda event: _failed_if(event.fields.get("failed") is True),
    "model_answered": lambda event: _failed_if(event.text("stop") in {"error", "aborted"}),
    "model_unanswered": lambda event: "dropped" if event.text("error") == "CancelledError" else "failed",
    "notice": lambda event: _failed_if(event.text("level") in {"warning", "error"}),
    "recall": lambda event: "failed" if event.fields.get("failed") is True else _late(event),
    "run_ended": lambda event: _ENDINGS.get(event.text("ending"), "plain"),
}

_ENDINGS: Mapping[str, Tone] = {"raised": "failed", "aborted": "dropped"}

_LABELS = {
    "input": "tokens in",
    "output": "tokens out",
    "cache_read": "from the cache",
    "scan_ms": "scan",
    "select_ms": "selector",
    "job": "no.",
}
_NAMES = {"CancelledError": "cancelled"}
_SILENT = frozenset({"ms", "failed"})
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def title(event: Event) -> str:
    """Return what happened in a few words."""
    pattern = TITLES.get(event.name)
    if pattern is None:
        return event.name.replace("_", " ")
    return _PLACEHOLDER.sub(lambda match: _NAMES.get(word := event.text(match[1]), word) or "…", pattern)


def details(event: Event, opening: Event | None = None) -> list[tuple[str, str]]:
    """Return what else it says, as labels and values; a label alone is something that holds.

    What its `opening` said comes first. A known event keeps quiet about what is not there or zero.
    """
    first = [(title(opening), ""), *details(opening)] if opening is not None else []
    told = set(_PLACEHOLDER.findall(TITLES.get(event.name, ""))) | _silent(event)
    own = [
        (_LABELS.get(key, key.replace("_", " ")), "" if value is True else _shown(key, value))
        for key, value in event.fields.items()
        if key not in told and not (event.name in TITLES and not value)
    ]
    return list(dict.fromkeys([*first, *own]))


def _silent(event: Event) -> frozenset[str]:
    return _SILENT | {"generation"} if event.name == "received" else _SILENT


def tone(event: Event) -> Tone:
    """Return how it went."""
    judge = _TONES.get(event.name)
    return judge(event) if judge else "plain"


def duration(ms: float) -> str:
    """Return a length of time as people say it."""
    if ms < 1000:  # noqa: PLR2004 - milliseconds of a second
        return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"  # noqa: PLR2004 - one digit is not enough
    seconds = ms / 1000
    if seconds < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{seconds:.2f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _shown(key: str, value: Scalar) -> str:
    if isinstance(value, (str, bool)) or value is None:
        return {None: "none", False: "no"}.get(value, str(value))  # type: ignore[arg-type]
    if key.endswith("ms"):
        return duration(float(value))
    if key == "cost":
        return f"${value:.4f}"
    return f"{value:,}"


def _failed_if(failed: bool) -> Tone:  # noqa: FBT001 - a predicate's answer
    return "failed" if failed else "plain"


def _late(event: Event) -> Tone:
    return "late" if event.fields.get("late") is True and event.number("recalled") else "plain"
