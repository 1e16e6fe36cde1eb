"""When an extraction runs, and how far the cursor moves (EXT-1, EXT-2, EXT-4).

The branch is a row of entries; the cursor is how many of them have been dealt with. A trigger begins a run
over everything between the cursor and the branch's end at that moment, its snapshot. How the run ends
decides about the cursor:

    empty (no message in it)                                       to the end of the snapshot, unwritten
    skipped, returned (an API error and the turn limit included)   to the end of the snapshot
    raised, aborted, invalidated                                   stays
    busy (another process holds the lock)                          stays, and is tried again

What arrives while a run is under way is not part of it: exactly one trailing run follows, however much
arrived. `decide` is the whole machine; a pair of phase and event that is not in `_TABLE` is illegal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Cause = Literal["settled", "idle", "compaction", "shutdown", "manual", "trailing"]
Ending = Literal["empty", "skipped", "returned", "raised", "aborted", "busy"]
Phase = Literal["idle", "running"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The configuration that the machine obeys; `idle_flush` in seconds, 0 for never."""

    automatic: bool = True
    every_n_turns: int = 1
    idle_flush: float = 120.0


@dataclass(frozen=True, slots=True)
class CursorState:
    """Where the cursor stands, where the branch ends, and what is under way.

    `turns` counts settled turns since the last run began, `snapshot` is the end of the running one,
    `trailing` says that something arrived meanwhile, `retry` that a run was put off.
    """

    cursor: int = 0
    end: int = 0
    turns: int = 0
    snapshot: int | None = None
    trailing: bool = False
    retry: bool = False

    @property
    def phase(self) -> Phase:
        """Whether a run is under way."""
        return "idle" if self.snapshot is None else "running"


@dataclass(frozen=True, slots=True)
class Settled:
    """Runs of the main agent have ended, the last at `end`; an aborted one adds nothing to `turns`."""

    end: int
    turns: int = 1


@dataclass(frozen=True, slots=True)
class IdleElapsed:
    """Nothing has happened for the time that configuration allows."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Compaction, shutdown or the user wants everything up to `end` dealt with now."""

    cause: Literal["compaction", "shutdown", "manual"]
    end: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The running extraction has ended."""

    how: Ending


@dataclass(frozen=True, slots=True)
class BranchMoved:
    """Another branch is active; its own cursor and end."""

    cursor: int
    end: int


@dataclass(frozen=True, slots=True)
class Invalidated:
    """Trust or configuration has changed: nothing under way may have an effect any more."""


Event = Settled | IdleElapsed | Asked | Ended | BranchMoved | Invalidated


@dataclass(frozen=True, slots=True)
class Begin:
    """Start a run over the entries from `start` to `stop`."""

    cause: Cause
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop the running extraction."""

    reason: str


@dataclass(frozen=True, slots=True)
class KeepCursor:
    """Write the cursor down on the branch."""

    cursor: int


@dataclass(frozen=True, slots=True)
class ArmIdle:
    """Start the idle timer anew, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DisarmIdle:
    """Stop the idle timer."""


@dataclass(frozen=True, slots=True)
class AnswerWaiters:
    """Nothing is under way any more: whoever waits for that is told, with how the last run ended."""

    how: Ending | None


Effect = Begin | Abort | KeepCursor | ArmIdle | DisarmIdle | AnswerWaiters
Step = tuple[CursorState, tuple[Effect, ...]]


def decide(state: CursorState, event: Event, policy: Policy) -> Step:
    """Return the next state and what has to be done, in order; raises KeyError for an illegal event."""
    return _TABLE[state.phase, type(event)](state, event, policy)


def _settled_idle(state: CursorState, event: Settled, policy: Policy) -> Step:
    state = _reaching(state, event.end)
    if not event.turns or not policy.automatic:
        return state, ()
    state = replace(state, turns=state.turns + event.turns)
    if state.retry or state.turns >= policy.every_n_turns:
        return _begin(state, "settled")
    return state, _armed(policy)


def _settled_running(state: CursorState, event: Settled, policy: Policy) -> Step:
    trailing = state.trailing or (policy.automatic and event.turns > 0)
    return replace(_reaching(state, event.end), trailing=trailing), ()


def _idle_elapsed(state: CursorState, _event: IdleElapsed, policy: Policy) -> Step:
    return _begin(state, "idle") if policy.automatic else (state, ())


def _asked_idle(state: CursorState, event: Asked, policy: Policy) -> Step:
    state = _reaching(state, event.end)
    if event.cause != "manual" and not policy.automatic:
        return state, (AnswerWaiters(None),)
    return _begin(state, event.cause)


def _asked_running(state: CursorState, event: Asked, policy: Policy) -> Step:
    wanted = event.cause == "manual" or policy.automatic
    newer = event.end > (state.snapshot or 0)
    return replace(_reaching(state, event.end), trailing=state.trailing or (wanted and newer)), ()


def _ended(state: CursorState, event: Ended, policy: Policy) -> Step:
    if event.how in {"empty", "skipped", "returned"} and state.snapshot is not None:
        moved = replace(state, cursor=state.snapshot, snapshot=None, retry=False)
        return _after(moved, () if event.how == "empty" else (KeepCursor(moved.cursor),), event.how)
    if event.how == "busy":
        # A trailing run would meet the same lock: it waits for the next trigger like everything else.
        waiting = replace(state, snapshot=None, trailing=False, retry=True)
        return waiting, (*_armed(policy), AnswerWaiters("busy"))
    if event.how == "aborted":
        return replace(state, snapshot=None, trailing=False), (AnswerWaiters("aborted"),)
    return _after(replace(state, snapshot=None), (), event.how)


def _after(state: CursorState, done: tuple[Effect, ...], how: Ending) -> Step:
    """Go on to the trailing run, or to rest."""
    if state.trailing and state.end > state.cursor:
        following, effects = _begin(replace(state, trailing=False), "trailing")
        return following, (*done, *effects)
    return replace(state, trailing=False), (*done, AnswerWaiters(how))


def _moved(state: CursorState, event: BranchMoved, _policy: Policy) -> Step:
    """Take the other branch's cursor; a run of the old branch may not move it."""
    fresh = CursorState(cursor=event.cursor, end=event.end)
    abort = (Abort("another branch is active"),) if state.phase == "running" else ()
    return fresh, (*abort, DisarmIdle(), AnswerWaiters("aborted" if abort else None))


def _invalidated(state: CursorState, _event: Invalidated, _policy: Policy) -> Step:
    fresh = CursorState(cursor=state.cursor, end=state.end)
    abort = (Abort("trust or configuration has changed"),) if state.phase == "running" else ()
    return fresh, (*abort, DisarmIdle(), AnswerWaiters("aborted" if abort else None))


def _reaching(state: CursorState, end: int) -> CursorState:
    """Let the branch reach to `end`: it never shrinks, but what is told of it may come late."""
    return replace(state, end=max(state.end, end))


def _begin(state: CursorState, cause: Cause) -> Step:
    """Begin a run if there is anything to run over."""
    if state.end <= state.cursor:
        return replace(state, turns=0, retry=False), (DisarmIdle(), AnswerWaiters(None))
    begun = replace(state, turns=0, retry=False, snapshot=state.end)
    return begun, (DisarmIdle(), Begin(cause, state.cursor, state.end))


def _armed(policy: Policy) -> tuple[Effect, ...]:
    return (ArmIdle(policy.idle_flush),) if policy.automatic and policy.idle_flush > 0 else ()


def _ignored(state: CursorState, _event: Event, _policy: Policy) -> Step:
    return state, ()


_Row = Callable[[CursorState, Any, Policy], Step]

_TABLE: Mapping[tuple[Phase, type[Event]], _Row] = {
    ("idle", Settled): _settled_idle,
    ("idle", IdleElapsed): _idle_elapsed,
    ("idle", Asked): _asked_idle,
    ("idle", BranchMoved): _moved,
    ("idle", Invalidated): _invalidated,
    ("running", Settled): _settled_running,
    ("running", IdleElapsed): _ignored,  # the timer had fired when the run began
    ("running", Asked): _asked_running,
    ("running", Ended): _ended,
    ("running", BranchMoved): _moved,
    ("running", Invalidated): _invalidated,
}
