"""When a dream begins, and who hears of it: gates, locks, the state file, other sessions, status (DRM-1 to DRM-5)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from dream_kit import HEAD, HOUR, NOW, Dreamer, Place, ready
from pi_project_memory.actors.actor import ActorFailedError
from pi_project_memory.actors.background_messages import Activity, DreamDone, TurnsSettled
from pi_project_memory.actors.core.config import Config, DreamConfig, ModelRef
from pi_project_memory.actors.core.dream_gate import Closed
from pi_project_memory.actors.core.lock_rules import DREAM_LOCK, LAST_DREAM_AT_LOCK
from pi_project_memory.actors.messages import Reconfigured
from pi_project_memory.actors.ports import sessions as sessions_port
from pi_project_memory.actors.ports.locks import FileLocks, LockHandle
from pi_project_memory.actors.ports.sessions import SessionFiles, Sessions, SessionSeen
from pi_project_memory.supervisor.host.scenario import Reply

SLOW = Reply(text="Done.", delay=30.0)


@pytest.mark.req("DRM-1", "DRM-2", "LIFE-1")
async def test_a_settled_turn_begins_a_dream_when_every_gate_is_open(tmp_path: Path):
    dreamer = ready(tmp_path)
    async with dreamer.running():
        await dreamer.settle()
    assert dreamer.runs() == [("returned", "done")]
    assert dreamer.place.recorded() == NOW
    assert dreamer.place.held() == []
    assert dreamer.host.notices == []
    assert dreamer.host.sent == []


@pytest.mark.req("DRM-1")
async def test_without_any_state_dream_was_never_attempted(tmp_path: Path):
    place = Place(tmp_path)
    place.add_sessions(5, at=1_000)
    dreamer = Dreamer(place)
    async with dreamer.running():
        await dreamer.settle()
    assert len(dreamer.requests()) == 1
    assert place.recorded() == NOW


@pytest.mark.req("DRM-1")
async def test_an_aborted_turn_is_no_occasion(tmp_path: Path):
    dreamer = ready(tmp_path)
    async with dreamer.running():
        await dreamer.settle(turns=0)
        assert dreamer.requests() == []
        await dreamer.settle(turns=1)
        assert len(dreamer.requests()) == 1


@pytest.mark.req("DRM-1", "PATH-6")
@pytest.mark.parametrize(
    ("last", "others", "dream"),
    [
        (NOW - 25 * HOUR, 5, {"enabled": False}),
        (NOW - 24 * HOUR + 1, 5, {}),
        (NOW - 25 * HOUR, 4, {}),
        (NOW - 25 * HOUR, 5, {"minimum_hours": 26}),
        (NOW - 25 * HOUR, 5, {"minimum_other_sessions": 6}),
    ],
)
async def test_a_shut_gate_leaves_everything_as_it_is(
    tmp_path: Path, last: int, others: int, dream: dict[str, Any]
):
    place = Place(tmp_path)
    place.record(last)
    place.add_sessions(others)
    before = place.state.read_bytes()
    dreamer = Dreamer(place, **dream)
    async with dreamer.running():
        await dreamer.settle()
    assert dreamer.requests() == []
    assert place.state.read_bytes() == before
    assert place.held() == []
    assert dreamer.host.notices == []


@pytest.mark.req("DRM-1", "DRM-3")
async def test_neither_the_own_session_nor_older_news_counts(tmp_path: Path):
    place = Place(tmp_path)
    place.record(NOW - 25 * HOUR)
    place.add_sessions(4)
    place.add_sessions(9, at=NOW - 25 * HOUR, name="old")
    dreamer = Dreamer(place, own_id="other-0")
    async with dreamer.running():
        await dreamer.settle()
        assert dreamer.requests() == []
        place.add_sessions(2, at=NOW - 24 * HOUR, name="news")
        await dreamer.settle(seconds=600)
        await dreamer.settle()
        assert len(dreamer.requests()) == 1


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Return the times since which the session directory was walked."""
    noted: list[int | None] = []
    real = sessions_port._changed_files

    def counting(directory: Path, since_ms: int | None) -> Any:
        noted.append(since_ms)
        return real(directory, since_ms)

    monkeypatch.setattr(sessions_port, "_changed_files", counting)
    return noted


@pytest.mark.req("DRM-1", "C25")
async def test_the_session_directory_is_not_walked_before_its_time_and_then_seldom(
    tmp_path: Path, scans: list[int | None]
):
    """Fifty turns a minute apart: none of them walks while it is too early, then one in ten does."""
    place = Place(tmp_path)
    last = NOW - HOUR
    place.record(last)
    place.add_sessions(5_000, at=last - 1)
    dreamer = Dreamer(place)
    async with dreamer.running():
        for _ in range(50):
            await dreamer.settle(seconds=60)
            place.clock.move(60)
        assert scans == []
        place.clock.move(23 * 3_600)
        for _ in range(50):
            await dreamer.settle(seconds=60)
            place.clock.move(60)
        assert scans == [last] * 5
    assert dreamer.requests() == []


@pytest.mark.req("DRM-1", "C25")
async def test_without_a_throttle_every_turn_walks(tmp_path: Path, scans: list[int | None]):
    place = Place(tmp_path)
    dreamer = Dreamer(place, scan_throttle_seconds=0)
    async with dreamer.running():
        for _ in range(7):
            await dreamer.settle()
    assert scans == [None] * 7


@pytest.mark.req("DRM-1")
async def test_nothing_is_read_while_dream_is_switched_off(
    tmp_path: Path, scans: list[int | None], monkeypatch: pytest.MonkeyPatch
):
    dreamer = ready(tmp_path, enabled=False)

    async def unread() -> None:
        raise AssertionError("the state file was read")

    monkeypatch.setattr(type(dreamer.consolidation.states), "read", lambda _: unread())
    async with dreamer.running():
        await dreamer.settle()
        assert await dreamer.ask() == DreamDone(None, "Memory dream is disabled by the global dream gate")
    assert scans == []
    assert dreamer.requests() == []


@pytest.mark.req("DRM-1", "CMD-1")
async def test_a_manual_dream_skips_the_hours_the_sessions_and_the_throttle(
    tmp_path: Path, scans: list[int | None]
):
    place = Place(tmp_path)
    place.record(NOW - 30 * HOUR)
    dreamer = Dreamer(place)
    async with dreamer.running():
        await dreamer.settle()
        place.add_sessions(2)
        first = await dreamer.ask()
        assert place.recorded() == NOW
        place.clock.move(5)
        second = await dreamer.ask()
    assert [done.attempt and done.attempt.ending for done in (first, second)] == ["returned", "returned"]
    assert scans == [NOW - 30 * HOUR, NOW - 30 * HOUR, NOW]
    assert place.recorded() == NOW + 5_000
    texts = [request.messages[-1]["content"][0]["text"] for request in dreamer.requests()]
    assert ["- other-0" in text for text in texts] == [True, False]


# Locks and other processes


@pytest.mark.req("DRM-1", "DRM-2")
@pytest.mark.parametrize("spec", [DREAM_LOCK, LAST_DREAM_AT_LOCK])
async def test_a_busy_lock_is_passed_over_in_silence_until_a_later_turn(tmp_path: Path, spec: Any):
    dreamer = ready(tmp_path)
    place = dreamer.place
    before = place.state.read_bytes()
    held = await FileLocks(place.locks).acquire(spec)
    assert isinstance(held, LockHandle)
    async with dreamer.running():
        await dreamer.settle(seconds=600)
        assert dreamer.requests() == []
        assert dreamer.host.notices == []
        assert place.state.read_bytes() == before
        assert place.held() == [spec.name]
        busy = (await dreamer.ask()).attempt
        assert busy is not None
        assert (busy.ending, busy.note) == (
            "busy",
            "another session is tidying up this memory, or has just done so",
        )
        await held.release()
        await dreamer.settle(seconds=600)
        await dreamer.settle()
    assert dreamer.runs() == [("returned", "done")]
    assert place.recorded() == NOW


@pytest.mark.req("DRM-1", "LCK-1", "C14")
@pytest.mark.parametrize(("minutes", "runs"), [(61, 1), (59, 0)])
async def test_a_lock_that_a_crash_left_behind_is_taken_over_when_it_is_old(
    tmp_path: Path, minutes: int, runs: int
):
    dreamer = ready(tmp_path)
    lock = dreamer.place.locks / "dream.lock"
    made_at = FileLocks(dreamer.place.locks).ops.now_ms() - minutes * 60_000
    lock.write_text(json.dumps({"pid": 2**22 + 1, "token": "x", "acquiredAt": made_at}))
    os.utime(lock, ns=(made_at * 1_000_000,) * 2)
    async with dreamer.running():
        await dreamer.settle()
    assert len(dreamer.requests()) == runs
    assert dreamer.place.held() == ([] if runs else ["dream.lock"])


@pytest.mark.req("DRM-2", "C19")
async def test_of_two_sessions_that_settle_at_once_one_dreams(tmp_path: Path):
    first = ready(tmp_path, [SLOW])
    second = Dreamer(first.place, [SLOW], own_id="second")
    async with first.running(), second.running():
        first.mailbox.tell(TurnsSettled(0, HEAD, 1))
        await second.settle(seconds=60)
        for dreamer in (first, second):
            await dreamer.settle(seconds=600)
    assert len(first.requests()) + len(second.requests()) == 1
    assert first.host.notices == second.host.notices == []


class LateSessions:
    """Gives what the directory holds, but only when it is let."""

    def __init__(self, inner: Sessions) -> None:
        self.inner = inner
        self.asked = anyio.Event()
        self.let = anyio.Event()

    async def updated_since(self, since_ms: int | None) -> Sequence[SessionSeen]:
        self.asked.set()
        found = await self.inner.updated_since(since_ms)
        await self.let.wait()
        return found


@pytest.mark.req("DRM-2", "C19")
async def test_a_session_that_looked_before_another_dreamt_does_not_dream_again(tmp_path: Path):
    first = ready(tmp_path)
    second = Dreamer(first.place, own_id="second")
    late = LateSessions(second.consolidation.sessions)
    second.equip(sessions=late)
    async with first.running(), second.running():
        await second.settle()
        assert late.asked.is_set()
        await first.settle()
        first.place.clock.move(7)
        late.let.set()
        await anyio.sleep(1)
    assert (len(first.requests()), len(second.requests())) == (1, 0)
    assert first.place.recorded() == NOW
    assert [event["why"] for event in second.trace.named("dream_not_begun")] == ["busy"]


# The state file


@pytest.mark.req("DRM-5", "C19")
@pytest.mark.parametrize(
    "content",
    ["{bad", '{"schemaVersion":2,"lastDreamAt":5}', '{"schemaVersion":1,"lastDreamAt":"yesterday"}'],
)
async def test_a_damaged_state_stops_the_scheduler_with_one_error_and_stays_untouched(
    tmp_path: Path, scans: list[int | None], content: str
):
    dreamer = ready(tmp_path)
    state = dreamer.place.state
    state.write_text(content)
    async with dreamer.running():
        for _ in range(3):
            await dreamer.settle(seconds=700)
        status = await dreamer.status()
        done = await dreamer.ask()
        await dreamer.settle(seconds=700)
    assert [level for level, _ in dreamer.host.notices] == ["error"]
    told = dreamer.host.notices[0][1]
    assert told == f"Project memory: {done.refused}"
    assert told.startswith(f"Project memory: {state} is not a usable dream state: ")
    assert "mend the file, or delete it" in told
    assert status.problem == done.refused
    assert status.closed == Closed("state", done.refused)
    assert status.last_dream_at is None
    assert state.read_text() == content
    assert dreamer.requests() == []
    assert scans == []
    assert dreamer.place.held() == []


@pytest.mark.req("DRM-5")
async def test_a_stopped_scheduler_starts_again_once_a_manual_dream_finds_the_state_mended(tmp_path: Path):
    dreamer = ready(tmp_path)
    place = dreamer.place
    place.state.write_text("{bad")
    async with dreamer.running():
        await dreamer.settle(seconds=700)
        place.record(NOW - 25 * HOUR)
        await dreamer.settle(seconds=700)
        assert dreamer.requests() == []
        assert (await dreamer.status()).closed is not None
        assert (await dreamer.ask()).attempt is not None
        assert (await dreamer.status()).problem == ""
        place.record(NOW - 25 * HOUR)
        await anyio.sleep(700)
        await dreamer.settle()
        assert len(dreamer.requests()) == 2


@pytest.mark.req("DRM-5", "CFG-6")
async def test_a_stopped_scheduler_looks_again_after_the_configuration_was_read_anew(tmp_path: Path):
    dreamer = ready(tmp_path)
    dreamer.place.state.write_text("{bad")
    async with dreamer.running():
        await dreamer.settle()
        dreamer.place.record(NOW - 25 * HOUR)
        number = dreamer.generations.advance("the configuration was read anew")
        dreamer.mailbox.tell(Reconfigured(number, dreamer.config))
        await dreamer.settle()
    assert len(dreamer.requests()) == 1


class DamagedLater(SessionFiles):
    """Damages the state file between the look at it and the attempt."""

    async def updated_since(self, since_ms: int | None) -> Sequence[SessionSeen]:
        assert self.directory is not None
        state = self.directory.parents[1] / "project-memory/memory-roots/hash/state.json"
        state.write_text("{bad")
        return await super().updated_since(since_ms)


@pytest.mark.req("DRM-5")
async def test_a_state_that_is_damaged_before_the_attempt_is_not_overwritten_either(tmp_path: Path):
    dreamer = ready(tmp_path)
    dreamer.equip(sessions=DamagedLater(dreamer.place.sessions, "own"))
    async with dreamer.running():
        await dreamer.settle()
        assert dreamer.requests() == []
        assert dreamer.place.state.read_text() == "{bad"
        await dreamer.settle()
    assert [level for level, _ in dreamer.host.notices] == ["error"]


@pytest.mark.req("DRM-1", "DRM-5", "C19")
async def test_a_time_in_the_future_is_shown_and_taken_for_never(tmp_path: Path):
    place = Place(tmp_path)
    place.record(NOW + 1)
    place.add_sessions(5, at=1_000)
    dreamer = Dreamer(place)
    async with dreamer.running():
        before = await dreamer.status()
        await dreamer.settle()
        after = await dreamer.status()
    assert (before.last_dream_at, before.ahead_of_clock, before.closed) == (NOW + 1, True, None)
    assert len(dreamer.requests()) == 1
    assert (after.last_dream_at, after.ahead_of_clock) == (NOW, False)
    assert dreamer.host.notices == []


# Manual and automatic dreams at the same time


@pytest.mark.req("DRM-1")
async def test_a_manual_dream_during_an_automatic_one_waits_for_that(tmp_path: Path):
    dreamer = ready(tmp_path, [SLOW])
    done: list[DreamDone] = []

    async def ask() -> None:
        done.append(await dreamer.ask())

    async with dreamer.running(), anyio.create_task_group() as group:
        await dreamer.settle()
        group.start_soon(ask)
        group.start_soon(ask)
        await anyio.sleep(10)
        assert done == []
    assert len(dreamer.requests()) == 1
    assert [each.attempt and each.attempt.ending for each in done] == ["returned"] * 2


@pytest.mark.req("DRM-1")
async def test_a_manual_dream_asked_for_during_an_automatic_look_is_not_held_off_by_it(tmp_path: Path):
    place = Place(tmp_path)
    place.record(NOW - 25 * HOUR)
    dreamer = Dreamer(place)
    late = LateSessions(dreamer.consolidation.sessions)
    dreamer.equip(sessions=late)
    done: list[DreamDone] = []

    async def ask() -> None:
        done.append(await dreamer.ask())

    async with dreamer.running(), anyio.create_task_group() as group:
        await dreamer.settle()
        group.start_soon(ask)
        await anyio.sleep(1)
        late.let.set()
    assert dreamer.runs() == [("returned", "done")]
    assert done[0].attempt is not None
    assert done[0].attempt.ending == "returned"


@pytest.mark.req("DRM-1", "LIFE-1")
async def test_turns_that_settle_during_a_dream_begin_no_second_one(tmp_path: Path):
    dreamer = ready(tmp_path, [SLOW], scan_throttle_seconds=0)
    async with dreamer.running():
        for _ in range(10):
            await dreamer.settle()
        await anyio.sleep(60)
    assert len(dreamer.requests()) == 1


# Runs that fail, and what follows


@pytest.mark.req("DRM-2", "CFG-7")
async def test_a_failed_run_is_not_tried_again_with_every_turn(tmp_path: Path):
    """Without a throttle the pause alone stands between the turns and the next failure; it doubles."""
    dreamer = ready(tmp_path, model=ModelRef("none", "here"), scan_throttle_seconds=0)
    place = dreamer.place
    before = place.state.read_bytes()
    tries: list[float] = []
    async with dreamer.running():
        for minute in range(140):
            await dreamer.settle(seconds=60)
            if len(dreamer.runs()) > len(tries):
                tries.append(minute)
        assert (await dreamer.status()).closed == Closed(
            "pause", "the last run failed; the next is tried in 600 s at the earliest"
        )
    assert tries == [0, 10, 30, 70]
    assert place.state.read_bytes() == before
    (notice,) = dreamer.host.notices
    assert notice[0] == "warning"
    assert notice[1].startswith("Project memory: the dream failed: the model none/here is not known; ")


@pytest.mark.req("DRM-2", "CFG-6")
async def test_after_a_reload_a_failed_run_is_tried_at_once(tmp_path: Path):
    dreamer = ready(tmp_path, model=ModelRef("none", "here"), scan_throttle_seconds=0)
    async with dreamer.running():
        await dreamer.settle()
        number = dreamer.generations.advance("the configuration was read anew")
        mended = structs.replace(ready(tmp_path / "mended").config, dream=dreamer.config.dream)
        dreamer.mailbox.tell(Reconfigured(number, mended))
        await dreamer.settle()
    assert dreamer.runs() == [("raised", ""), ("returned", "done")]


# What is shown


@pytest.mark.req("DRM-1", "CMD-1", "CMD-3")
async def test_status_and_status_line_tell_how_dream_stands(tmp_path: Path):
    dreamer = ready(tmp_path, [SLOW], max_turns=9)
    async with dreamer.running():
        idle = await dreamer.status()
        begun_at = anyio.current_time()
        await dreamer.settle()
        busy = await dreamer.status()
        await anyio.sleep(60)
        rested = await dreamer.status()
    assert (idle.activity, idle.last, idle.last_dream_at, idle.closed) == (None, None, NOW - 25 * HOUR, None)
    assert busy.activity == Activity(1, 9, begun_at)
    assert rested.activity is None
    assert rested.last is not None
    assert rested.last.ending == "returned"
    assert rested.last_dream_at == NOW
    assert rested.closed == Closed("hours", "0 of 24 hours have passed since the last attempt")
    assert dreamer.activity.heard[:2] == ["dream begins, 9 turns at most", "dream turn 1"]
    assert dreamer.activity.heard[2] == "dream ends"


@pytest.mark.req("DRM-1", "CMD-1")
async def test_status_tells_what_the_last_look_found_and_no_look_counts_as_work(tmp_path: Path):
    place = Place(tmp_path)
    place.add_sessions(3)
    dreamer = Dreamer(place)
    late = LateSessions(dreamer.consolidation.sessions)
    dreamer.equip(sessions=late)
    async with dreamer.running():
        await dreamer.settle()
        looking = await dreamer.status()
        late.let.set()
        await anyio.sleep(99)
        looked = await dreamer.status()
    assert looking.activity is None
    assert looked.last is None
    assert looked.closed == Closed(
        "throttle", "3 of 5 other sessions had news; they are counted again in 500 s at the earliest"
    )
    assert set(dreamer.activity.heard) == {"dream ends"}


# The end of a session


@pytest.mark.req("DRM-2", "LIFE-5")
async def test_draining_waits_for_the_dream_under_way_and_lets_none_follow(tmp_path: Path):
    dreamer = ready(tmp_path, [SLOW])
    async with dreamer.running():
        await dreamer.settle()
        await dreamer.drain()
        assert anyio.current_time() == 30
        assert dreamer.runs() == [("returned", "done")]
        dreamer.place.record(NOW - 25 * HOUR)
        await dreamer.settle(seconds=700)
        assert await dreamer.ask() == DreamDone(None, "the session is ending")
        await dreamer.drain()
    assert len(dreamer.requests()) == 1


@pytest.mark.req("LIFE-5")
async def test_draining_takes_no_time_when_nothing_is_under_way(tmp_path: Path):
    dreamer = ready(tmp_path)
    async with dreamer.running():
        await dreamer.drain()
        assert anyio.current_time() == 0
    assert dreamer.requests() == []


@pytest.mark.req("LIFE-4", "LIFE-5")
async def test_whoever_waits_is_told_when_the_actor_ends(tmp_path: Path):
    dreamer = ready(tmp_path, [SLOW])
    told: list[str] = []

    async def wait(call: Any) -> None:
        try:
            await call
        except ActorFailedError as error:
            told.append(str(error))

    async with anyio.create_task_group() as waiting, dreamer.running():
        await dreamer.settle()
        waiting.start_soon(wait, dreamer.ask())
        waiting.start_soon(wait, dreamer.drain())
        await anyio.sleep(1)
    assert told == ["dream has ended"] * 2


@pytest.mark.req("CFG-6", "DRM-2")
@pytest.mark.parametrize("advanced", [True, False])
async def test_a_reload_ends_the_dream_under_way_and_keeps_its_time(tmp_path: Path, *, advanced: bool):
    dreamer = ready(tmp_path, [SLOW])
    done: list[DreamDone] = []

    async def ask() -> None:
        done.append(await dreamer.ask())

    async with dreamer.running(), anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.sleep(5)
        number = dreamer.generations.advance("read anew") if advanced else 0
        dreamer.mailbox.tell(Reconfigured(number, Config(dream=DreamConfig(enabled=False))))
        await anyio.sleep(0.5)
        assert dreamer.host.models.cancelled == ["sim/dream"]
        assert (await dreamer.status()).closed == Closed(
            "enabled", "Memory dream is disabled by the global dream gate"
        )
    assert [each.attempt and each.attempt.ending for each in done] == ["aborted"]
    assert dreamer.place.recorded() == NOW
    assert dreamer.place.held() == []
    assert dreamer.runs() == []
