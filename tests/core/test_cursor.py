"""The cursor machine: every row of its table, what is illegal, and that no sequence loses a message."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.cursor import (
    Abort,
    AnswerWaiters,
    ArmIdle,
    Asked,
    Begin,
    BranchMoved,
    CursorState,
    DisarmIdle,
    Effect,
    Ended,
    Ending,
    Event,
    IdleElapsed,
    Invalidated,
    KeepCursor,
    Phase,
    Policy,
    Settled,
    decide,
)

S = CursorState
EVERY = Policy()
THIRD = Policy(every_n_turns=3)
NO_FLUSH = Policy(every_n_turns=3, idle_flush=0)
OFF = Policy(automatic=False)

BRANCH = "another branch is active"
TRUST = "trust or configuration has changed"


@dataclass(frozen=True)
class Row:
    """One documented row: what holds, what happens, what holds then and what has to be done."""

    name: str
    before: CursorState
    event: Event
    after: CursorState
    effects: tuple[Effect, ...] = ()
    policy: Policy = EVERY


RUNNING = S(cursor=2, end=5, snapshot=5)
TRAILING = S(cursor=2, end=9, snapshot=5, trailing=True)

ROWS = (
    # Settled while nothing runs: EXT-1's gates.
    Row("every turn runs", S(2, 2), Settled(5), S(2, 5, snapshot=5), (DisarmIdle(), Begin("settled", 2, 5))),
    Row("first of three waits", S(2, 2), Settled(5), S(2, 5, turns=1), (ArmIdle(120.0),), THIRD),
    Row("second of three waits", S(2, 5, turns=1), Settled(7), S(2, 7, turns=2), (ArmIdle(120.0),), THIRD),
    Row(
        "third of three runs",
        S(2, 7, turns=2),
        Settled(9),
        S(2, 9, snapshot=9),
        (DisarmIdle(), Begin("settled", 2, 9)),
        THIRD,
    ),
    Row(
        "turns that were merged count each",
        S(2, 2, turns=1),
        Settled(9, turns=7),
        S(2, 9, snapshot=9),
        (DisarmIdle(), Begin("settled", 2, 9)),
        THIRD,
    ),
    Row("no idle flush at 0 s", S(2, 2), Settled(5), S(2, 5, turns=1), (), NO_FLUSH),
    Row("an aborted turn neither counts nor triggers", S(2, 2), Settled(5, turns=0), S(2, 5)),
    Row(
        "an aborted turn does not reach N either",
        S(2, 7, turns=2),
        Settled(9, turns=0),
        S(2, 9, turns=2),
        (),
        THIRD,
    ),
    Row("an aborted turn does not retry", S(2, 2, retry=True), Settled(5, 0), S(2, 5, retry=True)),
    Row(
        "what was put off runs at the next settle, whatever N",
        S(2, 5, retry=True),
        Settled(7),
        S(2, 7, snapshot=7),
        (DisarmIdle(), Begin("settled", 2, 7)),
        THIRD,
    ),
    Row("automatic extraction off", S(2, 2), Settled(5), S(2, 5), (), OFF),
    Row("nothing new", S(5, 5), Settled(5), S(5, 5), (DisarmIdle(), AnswerWaiters(None))),
    Row(
        "a settle told late takes nothing back",
        S(2, 9, turns=1),
        Settled(5),
        S(2, 9, turns=2),
        (ArmIdle(120.0),),
        THIRD,
    ),
    # The idle timer.
    Row(
        "idle",
        S(2, 7, turns=2),
        IdleElapsed(),
        S(2, 7, snapshot=7),
        (DisarmIdle(), Begin("idle", 2, 7)),
        THIRD,
    ),
    Row(
        "idle after a busy lock",
        S(2, 7, retry=True),
        IdleElapsed(),
        S(2, 7, snapshot=7),
        (DisarmIdle(), Begin("idle", 2, 7)),
    ),
    Row("idle with nothing new", S(5, 5), IdleElapsed(), S(5, 5), (DisarmIdle(), AnswerWaiters(None))),
    Row("idle, automatic off", S(2, 7), IdleElapsed(), S(2, 7), (), OFF),
    # Somebody asks while nothing runs.
    *(
        Row(
            f"{cause} runs the rest, whatever N",
            S(2, 4, turns=1),
            Asked(cause, 6),
            S(2, 6, snapshot=6),
            (DisarmIdle(), Begin(cause, 2, 6)),
            THIRD,
        )
        for cause in ("compaction", "shutdown", "manual")
    ),
    *(
        Row(f"{cause}, automatic off", S(2, 4), Asked(cause, 6), S(2, 6), (AnswerWaiters(None),), OFF)
        for cause in ("compaction", "shutdown")
    ),
    Row(
        "manual, automatic off",
        S(2, 4),
        Asked("manual", 6),
        S(2, 6, snapshot=6),
        (DisarmIdle(), Begin("manual", 2, 6)),
        OFF,
    ),
    Row(
        "asked with nothing to do",
        S(6, 6, turns=1, retry=True),
        Asked("manual", 6),
        S(6, 6),
        (DisarmIdle(), AnswerWaiters(None)),
    ),
    Row(
        "asked with an end of long ago",
        S(2, 9),
        Asked("compaction", 6),
        S(2, 9, snapshot=9),
        (DisarmIdle(), Begin("compaction", 2, 9)),
    ),
    # Branch and rights, while nothing runs.
    Row(
        "another branch",
        S(2, 9, turns=2, retry=True),
        BranchMoved(1, 4),
        S(1, 4),
        (DisarmIdle(), AnswerWaiters(None)),
    ),
    Row(
        "rights have changed",
        S(2, 9, turns=2, retry=True),
        Invalidated(),
        S(2, 9),
        (DisarmIdle(), AnswerWaiters(None)),
    ),
    # Whatever arrives while a run is under way.
    Row("new messages are trailing", RUNNING, Settled(9), TRAILING),
    Row("more of them are the same trailing run", TRAILING, Settled(12, 4), S(2, 12, 0, 5, trailing=True)),
    Row("an aborted turn is not trailing", RUNNING, Settled(9, turns=0), S(2, 9, snapshot=5)),
    Row(
        "an aborted turn takes no trailing run away", TRAILING, Settled(12, 0), S(2, 12, 0, 5, trailing=True)
    ),
    Row("a settle told late during a run", TRAILING, Settled(3), TRAILING),
    Row("not trailing, automatic off", RUNNING, Settled(9), S(2, 9, snapshot=5), (), OFF),
    Row("a late idle timer", RUNNING, IdleElapsed(), RUNNING),
    *(
        Row(f"{cause} waits for the run, then the rest", RUNNING, Asked(cause, 9), TRAILING)
        for cause in ("compaction", "shutdown", "manual")
    ),
    *(
        Row(f"{cause} without a rest waits for the run alone", RUNNING, Asked(cause, 5), RUNNING)
        for cause in ("compaction", "shutdown", "manual")
    ),
    Row("compaction, automatic off", RUNNING, Asked("compaction", 9), S(2, 9, snapshot=5), (), OFF),
    Row("manual, automatic off, while one runs", RUNNING, Asked("manual", 9), TRAILING, (), OFF),
    # How a run ends, and what that does to the cursor.
    *(
        Row(f"{how} advances", RUNNING, Ended(how), S(5, 5), (KeepCursor(5), AnswerWaiters(how)))
        for how in ("skipped", "returned")
    ),
    Row("empty advances, unwritten", RUNNING, Ended("empty"), S(5, 5), (AnswerWaiters("empty"),)),
    *(
        Row(f"{how} stays", RUNNING, Ended(how), S(2, 5), (AnswerWaiters(how),))
        for how in ("raised", "aborted")
    ),
    Row(
        "busy stays and is tried again, at every turn too",
        RUNNING,
        Ended("busy"),
        S(2, 5, retry=True),
        (ArmIdle(120.0), AnswerWaiters("busy")),
    ),
    Row(
        "busy without an idle flush",
        RUNNING,
        Ended("busy"),
        S(2, 5, retry=True),
        (AnswerWaiters("busy"),),
        NO_FLUSH,
    ),
    Row(
        "busy by hand, automatic off",
        RUNNING,
        Ended("busy"),
        S(2, 5, retry=True),
        (AnswerWaiters("busy"),),
        OFF,
    ),
    *(
        Row(
            f"{how}, then one trailing run over the rest alone",
            TRAILING,
            Ended(how),
            S(5, 9, snapshot=9),
            (KeepCursor(5), DisarmIdle(), Begin("trailing", 5, 9)),
        )
        for how in ("skipped", "returned")
    ),
    Row(
        "empty, then one trailing run",
        TRAILING,
        Ended("empty"),
        S(5, 9, snapshot=9),
        (DisarmIdle(), Begin("trailing", 5, 9)),
    ),
    Row(
        "raised, then one trailing run over everything",
        TRAILING,
        Ended("raised"),
        S(2, 9, snapshot=9),
        (DisarmIdle(), Begin("trailing", 2, 9)),
    ),
    Row("aborted, and nothing trails", TRAILING, Ended("aborted"), S(2, 9), (AnswerWaiters("aborted"),)),
    Row(
        "busy, and nothing trails into the same lock",
        TRAILING,
        Ended("busy"),
        S(2, 9, retry=True),
        (ArmIdle(120.0), AnswerWaiters("busy")),
    ),
    Row(
        "what aborted turns added waits for the next trigger",
        S(2, 9, snapshot=5),
        Ended("returned"),
        S(5, 9),
        (KeepCursor(5), AnswerWaiters("returned")),
    ),
    Row(
        "another branch ends the run",
        TRAILING,
        BranchMoved(1, 4),
        S(1, 4),
        (Abort(BRANCH), DisarmIdle(), AnswerWaiters("aborted")),
    ),
    Row(
        "changed rights end the run",
        TRAILING,
        Invalidated(),
        S(2, 9),
        (Abort(TRUST), DisarmIdle(), AnswerWaiters("aborted")),
    ),
)


@pytest.mark.req("EXT-1", "EXT-2", "EXT-4")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_of_the_table(row: Row):
    assert decide(row.before, row.event, row.policy) == (row.after, row.effects)


EVENTS: dict[type[Any], Event] = {
    Settled: Settled(1),
    IdleElapsed: IdleElapsed(),
    Asked: Asked("manual", 1),
    Ended: Ended("returned"),
    BranchMoved: BranchMoved(0, 1),
    Invalidated: Invalidated(),
}


@pytest.mark.req("EXT-2")
def test_the_rows_cover_every_legal_pair_of_phase_and_event():
    legal = set(itertools.product(get_args(Phase), get_args(Event))) - {("idle", Ended)}
    assert {(row.before.phase, type(row.event)) for row in ROWS} == legal


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize("how", get_args(Ending))
def test_a_run_that_was_never_begun_cannot_end(how: Ending):
    """The late end of an older run must be dropped before it comes here; it may not move the cursor."""
    with pytest.raises(KeyError):
        decide(S(2, 5), Ended(how), EVERY)


@dataclass
class Machine:
    """Plays events against the machine and keeps its own account of what was covered."""

    policy: Policy
    state: CursorState = field(default_factory=CursorState)
    covered: set[int] = field(default_factory=set)
    waiting: int = 0
    begun: list[Begin] = field(default_factory=list)
    armed: bool = False

    def play(self, event: Event) -> list[Effect]:
        before = self.state
        self.state, effects = decide(self.state, event, self.policy)
        self._check_runs(before, event, effects)
        for effect in effects:
            self._perform(effect, before)
        assert self.state.cursor <= self.state.end
        return list(effects)

    def _check_runs(self, before: CursorState, event: Event, effects: tuple[Effect, ...]) -> None:
        begins = [effect for effect in effects if isinstance(effect, Begin)]
        over = isinstance(event, (Ended, BranchMoved, Invalidated))
        assert len(begins) <= 1
        assert not begins or before.snapshot is None or over, "two runs at once"
        self.begun += begins

    def _perform(self, effect: Effect, before: CursorState) -> None:
        match effect:
            case Begin(_, start, stop):
                assert (start, stop) == (self.state.cursor, self.state.end)
                assert start < stop, "a run over nothing"
                assert not self.armed, "the timer runs beside a run"
            case AnswerWaiters():
                self.waiting = 0
            case ArmIdle(seconds):
                assert seconds > 0
                self.armed = True
            case DisarmIdle():
                self.armed = False
            case KeepCursor(cursor):
                assert cursor == before.snapshot


HOWS = st.sampled_from(get_args(Ending))
MOVES = st.one_of(
    st.tuples(st.just("said"), st.integers(1, 5)),
    st.tuples(st.just("settled"), st.integers(0, 4)),
    st.tuples(st.just("settled late"), st.integers(0, 3)),
    st.tuples(st.just("idle"), st.none()),
    st.tuples(st.just("asked"), st.sampled_from(["compaction", "shutdown", "manual"])),
    st.tuples(st.just("ended"), HOWS),
    st.tuples(st.just("branch"), st.tuples(st.integers(0, 6), st.integers(0, 6))),
    st.tuples(st.just("rights"), st.none()),
)
POLICIES = st.builds(
    Policy, st.sampled_from([True, True, True, False]), st.integers(1, 4), st.sampled_from([0.0, 120.0])
)


@pytest.mark.req("EXT-2", "EXT-4")
@given(POLICIES, st.lists(MOVES, max_size=60))
def test_no_sequence_of_events_loses_a_message_or_a_waiter(policy: Policy, moves: list[tuple[str, Any]]):
    """Behind the cursor lies only what a run covered; ahead of it, everything else until a run has."""
    machine, length = Machine(policy), 0
    for kind, value in moves:
        length = _play(machine, kind, value, length)
        assert set(range(machine.state.cursor)) <= machine.covered
        assert machine.waiting == 0 or machine.state.phase == "running", "somebody waits for no run"
    _drain(machine, length)


def _play(machine: Machine, kind: str, value: Any, length: int) -> int:
    """Play one move and return how long the branch is then."""
    snapshot, state = machine.state.snapshot, machine.state
    match kind:
        case "said":
            return length + int(value)
        case "settled":
            machine.play(Settled(length, value))
        case "settled late":
            machine.play(Settled(max(length - value, 0), 1))
        case "idle" if machine.armed:
            machine.armed = False
            machine.play(IdleElapsed())
        case "asked":
            machine.waiting += 1
            machine.play(Asked(value, length))
        case "ended" if snapshot is not None:
            if value in {"returned", "skipped", "empty"}:
                machine.covered |= set(range(state.cursor, snapshot))
            machine.play(Ended(value))
        case "branch":
            cursor, length = min(value), max(value)
            machine.covered = set(range(cursor))
            machine.play(BranchMoved(cursor, length))
        case "rights":
            machine.play(Invalidated())
            assert machine.state.cursor == state.cursor
    return length


def _drain(machine: Machine, length: int) -> None:
    """Let the runs end well: each is followed by one at most, and the last request is honoured."""
    machine.waiting += 1
    machine.play(Asked("manual", length))
    runs = 0
    while machine.state.snapshot is not None:
        machine.covered |= set(range(machine.state.cursor, machine.state.snapshot))
        machine.play(Ended("returned"))
        runs += 1
    assert runs <= 2
    assert machine.waiting == 0
    assert machine.state.cursor == length
    assert set(range(length)) <= machine.covered


@pytest.mark.req("EXT-4")
@given(st.integers(1, 1000), st.integers(1, 50))
def test_exactly_one_trailing_run_follows_however_much_arrived(settles: int, first: int):
    machine = Machine(EVERY)
    machine.play(Settled(first))
    for number in range(settles):
        machine.play(Settled(first + number + 1))
    machine.play(Ended("returned"))
    machine.play(Ended("returned"))
    assert machine.begun == [
        Begin("settled", 0, first),
        Begin("trailing", first, first + settles),
    ]
    assert machine.state == CursorState(first + settles, first + settles)
