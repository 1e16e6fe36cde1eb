"""When a consolidation begins (DRM-1): gates from cheap to dear, and what they remember.

`_GATES` has a row for each gate, in the order in which they are judged. A row names the fact that it needs
and that costs something to find out; while that fact is missing, `decide` asks for it instead of going on.
So the state file is read only when dream is switched on, and the session directory is walked only when
everything cheaper is open. A manual run obeys the first row alone, but the facts are found out for it too.

A run that threw gives its attempt time back (DRM-2), so the hours no longer hold it off, and the throttle
may be configured away. What is left is the pause: it begins at ten minutes and doubles with every failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from pi_project_memory.actors.core.config import DreamConfig
from pi_project_memory.actors.core.cursor import Ending
from pi_project_memory.actors.core.dream_state import DreamState

DISABLED = "Memory dream is disabled by the global dream gate"

HOUR_MS = 3_600_000
FIRST_PAUSE = 600.0
LONGEST_PAUSE = 24 * 3_600.0
"""Seconds that automatic runs pause after a failure, and at most after many."""

Cause = Literal["settled", "manual"]
Gate = Literal["enabled", "state", "pause", "hours", "throttle", "sessions"]
Fact = Literal["state", "sessions"]


@dataclass(frozen=True, slots=True)
class Past:
    """What one process remembers of its scans and runs; times in seconds of a steady clock.

    `counted` is how many other sessions the last scan found, `failures` how many runs in a row threw,
    `problem` why the state file stopped the scheduler, "" while it has not.
    """

    scanned_at: float | None = None
    counted: int = 0
    failures: int = 0
    failed_at: float = 0.0
    problem: str = ""

    def after(self, ending: Ending, others: int, now: float) -> Past:
        """Return what is remembered once a job has ended that found `others` sessions."""
        if ending == "raised":
            return replace(self, counted=others, failures=self.failures + 1, failed_at=now)
        begun = ending in {"returned", "aborted"}
        return replace(self, counted=others, failures=0 if begun else self.failures)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known: wall clock in milliseconds, steady clock in seconds, and what was found out so far.

    `state` is None until the state file was read, `others` until the sessions were counted.
    """

    now_ms: int
    now: float
    past: Past
    state: DreamState | None = None
    others: int | None = None


@dataclass(frozen=True, slots=True)
class Find:
    """The gates judged so far are open, and the next one needs this fact."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class Closed:
    """The first gate that is shut, and why, for a person."""

    gate: Gate
    reason: str


@dataclass(frozen=True, slots=True)
class Open:
    """A run may begin."""


Decision = Find | Closed | Open


def decide(facts: Facts, config: DreamConfig, cause: Cause) -> Decision:
    """Return what is still to be found out, which gate is shut, or that the way is free."""
    known = {None: True, "state": facts.state is not None, "sessions": facts.others is not None}
    for row in _GATES:
        if row.needs is not None and not known[row.needs]:
            return Find(row.needs)
        reason = row.judge(facts, config) if cause in row.holds else ""
        if reason:
            return Closed(row.gate, reason)
    return Open()


def pause_after(failures: int) -> float:
    """Return how long automatic runs pause after so many failures in a row, in seconds."""
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE) if failures else 0.0


def _switched_off(_facts: Facts, config: DreamConfig) -> str:
    return "" if config.enabled else DISABLED


def _damaged(facts: Facts, _config: DreamConfig) -> str:
    return facts.past.problem


def _pausing(facts: Facts, _config: DreamConfig) -> str:
    left = pause_after(facts.past.failures) - (facts.now - facts.past.failed_at)
    return f"the last run failed; the next is tried in {left:.0f} s at the earliest" if left > 0 else ""


def _too_soon(facts: Facts, config: DreamConfig) -> str:
    last = facts.state.last_dream_at if facts.state is not None else None
    if last is None or facts.now_ms - last >= config.minimum_hours * HOUR_MS:
        return ""
    passed = max(facts.now_ms - last, 0) // HOUR_MS
    return f"{passed} of {config.minimum_hours} hours have passed since the last attempt"


def _scanned_lately(facts: Facts, config: DreamConfig) -> str:
    if facts.past.scanned_at is None:
        return ""
    left = config.scan_throttle_seconds - (facts.now - facts.past.scanned_at)
    found = f"{facts.past.counted} of {config.minimum_other_sessions} other sessions had news"
    return f"{found}; they are counted again in {left:.0f} s at the earliest" if left > 0 else ""


def _too_few(facts: Facts, config: DreamConfig) -> str:
    others = facts.others or 0
    if others >= config.minimum_other_sessions:
        return ""
    return f"{others} of {config.minimum_other_sessions} other sessions have news since the last attempt"


@dataclass(frozen=True, slots=True)
class _Row:
    """One gate: the fact it needs, for which causes it holds, and its reason when shut ("" when open)."""

    gate: Gate
    needs: Fact | None
    holds: frozenset[Cause]
    judge: Callable[[Facts, DreamConfig], str]


_AUTOMATIC: frozenset[Cause] = frozenset({"settled"})
_ALWAYS: frozenset[Cause] = frozenset({"settled", "manual"})

_GATES = (
    _Row("enabled", None, _ALWAYS, _switched_off),
    _Row("state", None, _AUTOMATIC, _damaged),
    _Row("pause", None, _AUTOMATIC, _pausing),
    _Row("hours", "state", _AUTOMATIC, _too_soon),
    _Row("throttle", None, _AUTOMATIC, _scanned_lately),
    _Row("sessions", "sessions", _AUTOMATIC, _too_few),
)
