from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.lock_rules import (
    DREAM_LOCK,
    EXTRACT_LOCK,
    LAST_DREAM_AT_LOCK,
    Acquire,
    Busy,
    BusyReason,
    Condition,
    Decision,
    Holder,
    LockRecord,
    LockSpec,
    RecoverArbiter,
    Sighting,
    TakeOver,
    condition,
    decide,
    parse_record,
    render_record,
)

STALE = EXTRACT_LOCK.stale_ms
MINUTE = 60_000
YOUNG, OLD = STALE, STALE + 1
AHEAD = -(STALE + 1)

TAKEN = Sighting(Holder.ALIVE, OLD, OLD, 7)
DEAD_YOUNG = Sighting(Holder.GONE, YOUNG, OLD, 7)
DEAD_OLD = Sighting(Holder.GONE, OLD, OLD, 7)


@pytest.mark.req("LCK-1", "PATH-4")
@pytest.mark.parametrize(
    ("spec", "name", "minutes"),
    [
        (EXTRACT_LOCK, "extract.lock", 15),
        (DREAM_LOCK, "dream.lock", 60),
        (LAST_DREAM_AT_LOCK, "last-dream-at.lock", 1),
    ],
)
def test_three_locks_each_with_its_stale_time(spec: LockSpec, name: str, minutes: int) -> None:
    assert spec == LockSpec(name, minutes * MINUTE)


@pytest.mark.req("LCK-1", "LCK-3")
@pytest.mark.parametrize(
    ("holder", "record_age", "file_age", "expected"),
    [
        (Holder.ALIVE, YOUNG, YOUNG, Condition.LIVE),
        (Holder.ALIVE, OLD, OLD, Condition.LIVE),
        (Holder.ALIVE, AHEAD, AHEAD, Condition.LIVE),
        (Holder.GONE, YOUNG, OLD, Condition.YOUNG),
        (Holder.GONE, OLD, YOUNG, Condition.SPENT),
        (Holder.GONE, -1, OLD, Condition.YOUNG),
        (Holder.GONE, AHEAD, YOUNG, Condition.SPENT),
        (Holder.HIDDEN, OLD, YOUNG, Condition.YOUNG),
        (Holder.HIDDEN, YOUNG, OLD, Condition.YOUNG),
        (Holder.HIDDEN, OLD, OLD, Condition.SPENT),
        (Holder.NAMELESS, OLD, YOUNG, Condition.YOUNG),
        (Holder.NAMELESS, YOUNG, OLD, Condition.SPENT),
        (Holder.NAMELESS, YOUNG, AHEAD, Condition.SPENT),
    ],
)
def test_a_file_is_spent_by_the_ages_that_count_for_its_holder(
    holder: Holder, record_age: int, file_age: int, expected: Condition
) -> None:
    assert condition(Sighting(holder, record_age, file_age), STALE) is expected


@pytest.mark.req("LCK-1")
@pytest.mark.parametrize(
    ("lock", "arbiter", "expected"),
    [
        (None, None, Acquire()),
        (None, TAKEN, Acquire()),
        (None, DEAD_OLD, Acquire()),
        (TAKEN, None, Busy(BusyReason.HELD, 7, OLD)),
        (TAKEN, DEAD_OLD, Busy(BusyReason.HELD, 7, OLD)),
        (DEAD_YOUNG, None, Busy(BusyReason.YOUNG, 7, YOUNG)),
        (DEAD_YOUNG, DEAD_OLD, Busy(BusyReason.YOUNG, 7, YOUNG)),
        (DEAD_OLD, None, TakeOver()),
        (DEAD_OLD, DEAD_OLD, RecoverArbiter()),
        (DEAD_OLD, TAKEN, Busy(BusyReason.RECOVERING, 7, OLD)),
        (DEAD_OLD, DEAD_YOUNG, Busy(BusyReason.RECOVERING, 7, YOUNG)),
        (
            Sighting(Holder.NAMELESS, 5, 5),
            None,
            Busy(BusyReason.YOUNG, None, 5),
        ),
    ],
)
def test_what_stands_there_decides_the_next_step(
    lock: Sighting | None, arbiter: Sighting | None, expected: Decision
) -> None:
    assert decide(lock, arbiter, STALE) == expected


@pytest.mark.req("LCK-1", "LCK-2")
def test_no_age_whatever_moves_a_live_holder_or_a_young_lock() -> None:
    ages = [AHEAD, -1, 0, YOUNG, OLD, 10 * OLD]
    arbiters = [None, TAKEN, DEAD_YOUNG, DEAD_OLD]
    for record_age, file_age, arbiter in itertools.product(ages, ages, arbiters):
        live = Sighting(Holder.ALIVE, record_age, file_age, 7)
        assert isinstance(decide(live, arbiter, STALE), Busy)
        if abs(record_age) <= STALE:
            assert isinstance(decide(Sighting(Holder.GONE, record_age, file_age), arbiter, STALE), Busy)


@pytest.mark.req("LCK-1")
def test_the_content_is_pid_token_and_time_and_nothing_else() -> None:
    raw = render_record(LockRecord(12, 'a "b" é', 1_796_048_090_123))
    assert json.loads(raw) == {"pid": 12, "token": 'a "b" é', "acquiredAt": 1_796_048_090_123}
    assert list(json.loads(raw)) == ["pid", "token", "acquiredAt"]
    assert parse_record(raw) == LockRecord(12, 'a "b" é', 1_796_048_090_123)


@pytest.mark.req("LCK-3")
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0" * 64,
        b'{"pid":12',
        b'{"pid":"abc","token":"x","acquiredAt":1}',
        b'{"pid":true,"token":"x","acquiredAt":1}',
        b'{"pid":0,"token":"x","acquiredAt":1}',
        b'{"pid":-5,"token":"x","acquiredAt":1}',
        b'{"pid":2147483648,"token":"x","acquiredAt":1}',
        b'{"pid":5,"token":"","acquiredAt":1}',
        b'{"pid":5,"token":7,"acquiredAt":1}',
        b'{"pid":5,"token":"x","acquiredAt":"now"}',
        b'{"pid":5,"token":"x","acquiredAt":1.5}',
        b'{"pid":5,"token":"x","acquiredAt":9007199254740992}',
        b'{"pid":5,"acquiredAt":1}',
        b'{"pid":5,"token":"\xff","acquiredAt":1}',
        b'[{"pid":5,"token":"x","acquiredAt":1}]',
        b"null",
        b"12345",
        b'{"pid":1,"x":' + b"[" * 4_000,
    ],
)
def test_content_that_names_no_holder(raw: bytes) -> None:
    assert parse_record(raw) is None


def test_further_fields_of_other_writers_are_let_pass() -> None:
    raw = b'{"host":"a","acquiredAt":3,"token":"t","pid":9,"more":[1]}'
    assert parse_record(raw) == LockRecord(9, "t", 3)


@given(st.binary(max_size=200))
@pytest.mark.req("LCK-3")
def test_no_content_raises(raw: bytes) -> None:
    assert parse_record(raw) is None or raw
