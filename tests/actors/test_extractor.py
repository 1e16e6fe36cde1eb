"""The extractor actor: what triggers it, what it does to the cursor, and what it must never do too late."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from actors_kit import Outcome
from extractor_kit import NOTHING, SAID, Theatre, config, theatre, write, writing
from pi_project_memory.actors.actor import ActorFailedError
from pi_project_memory.actors.background_messages import (
    ExtractionDone,
    ExtractionEnded,
    ExtractorStatusWanted,
    TurnsSettled,
)
from pi_project_memory.actors.core.config import ModelRef, RoleModel
from pi_project_memory.actors.core.lock_rules import EXTRACT_LOCK, Busy, BusyReason
from pi_project_memory.actors.core.summary import SUMMARY_TYPE
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.extractor import CURSOR_TYPE, find_cursor
from pi_project_memory.actors.messages import BackgroundWrites
from pi_project_memory.actors.metered import MeteredModels
from pi_project_memory.actors.ports.host import HostError, StaleHistoryError
from pi_project_memory.actors.ports.locks import LockHandle, MemoryLocks
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent.attempt import Attempt
from pi_project_memory.supervisor.asking import answer_or_none
from pi_project_memory.supervisor.host.scenario import ProviderError, Reply
from subagent_kit import names

THIRD = config(every_n_turns=3)
BUSY = Busy(BusyReason.HELD, 4711, 1_000)
SLOW = Reply(text="Nothing to save.", delay=10)


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's temporary directory, which every test leaves empty."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def user(text: str) -> str:
    """Return what a turn says, in words enough to be heard."""
    return f"please remember the {text}"


# Triggers.


@pytest.mark.req("EXT-1", "EXT-6")
async def test_every_settled_turn_is_extracted_by_itself(tmp_path: Path):
    async with theatre(tmp_path).running() as stage:
        for text in map(user, ("first", "second", "third")):
            await stage.turn(text)
    assert stage.runs == [[user("first")], [user("second")], [user("third")]]
    assert stage.begun == ["settled"] * 3
    assert len(stage.cursors) == 3


@pytest.mark.req("EXT-1")
async def test_every_third_turn_extracts_all_three(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        for number in range(7):
            await stage.turn(user(str(number)))
        assert stage.runs == [[user("0"), user("1"), user("2")], [user("3"), user("4"), user("5")]]


@pytest.mark.req("EXT-1")
async def test_an_idle_session_is_extracted_after_two_minutes_and_no_sooner(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        stage.say()
        stage.settle()
        await anyio.sleep(119.9)
        assert stage.runs == []
        await anyio.sleep(0.2)
        assert stage.runs == [[SAID]]
        assert stage.begun == ["idle"]
        await anyio.sleep(1_000)
        assert len(stage.runs) == 1, "once is enough"


@pytest.mark.req("EXT-1")
async def test_each_turn_starts_the_idle_time_anew(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        for _ in range(2):
            stage.say()
            stage.settle()
            await anyio.sleep(119.9)
        assert stage.runs == []
        await anyio.sleep(0.2)
        assert stage.runs == [[SAID, SAID]]


@pytest.mark.req("EXT-1")
async def test_a_run_in_time_takes_the_idle_timer_away(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        for _ in range(3):
            await stage.turn()
        await anyio.sleep(1_000)
        assert stage.begun == ["settled"]


@pytest.mark.req("EXT-1")
async def test_an_idle_time_of_zero_never_ends(tmp_path: Path):
    async with theatre(tmp_path, config=config(every_n_turns=3, idle_flush_seconds=0)).running() as stage:
        await stage.turn()
        await anyio.sleep(100_000)
        assert stage.runs == []


@pytest.mark.req("EXT-1")
async def test_an_aborted_turn_waits_for_the_next_one_that_counts(tmp_path: Path):
    async with theatre(tmp_path).running() as stage:
        stage.say(user("aborted"))
        stage.settle(turns=0)
        await anyio.sleep(1_000)
        assert stage.runs == []
        await stage.turn(user("whole"))
        assert stage.runs == [[user("aborted"), user("whole")]]


@pytest.mark.req("EXT-1", "EXT-3")
@pytest.mark.parametrize("cause", ["compaction", "shutdown", "manual"])
async def test_whoever_asks_gets_the_rest_and_an_answer(tmp_path: Path, cause: Any):
    """Case C34: ten turns are wanted, six were had, and what was said in the first one is not lost."""
    async with theatre(tmp_path, config=config(every_n_turns=10)).running() as stage:
        for number in range(6):
            await stage.turn(user(str(number)))
        assert stage.runs == []
        done = await stage.ask(cause)
        assert done.ending == "returned"
        assert done.attempt is not None
        assert stage.runs == [[user(str(number)) for number in range(6)]]
        again = await stage.ask(cause)
        assert (again.ending, len(stage.runs)) == ("empty", 1), "the cursor entry alone is nothing to read"


@pytest.mark.req("EXT-1", "EXT-4")
@pytest.mark.parametrize("cause", ["compaction", "shutdown", "manual"])
async def test_asking_when_there_is_nothing_is_answered_at_once(tmp_path: Path, cause: Any):
    async with theatre(tmp_path).running() as stage:
        started = anyio.current_time()
        assert await stage.ask(cause) == ExtractionDone(None, None)
        assert anyio.current_time() == started
        assert stage.requests == []


@pytest.mark.req("EXT-1")
async def test_switched_off_it_runs_by_hand_alone(tmp_path: Path):
    async with theatre(tmp_path, config=config(enabled=False)).running() as stage:
        await stage.turn()
        await anyio.sleep(1_000)
        assert (await stage.ask("compaction")).ending is None
        assert (await stage.ask("shutdown")).ending is None
        assert stage.requests == []
        assert (await stage.ask("manual")).ending == "returned"
        assert stage.runs == [[SAID]]


# The gate.


@pytest.mark.req("EXT-2", "EXT-3")
async def test_short_answers_are_passed_over_until_somebody_says_something(tmp_path: Path):
    """Case C28: nothing is asked for four turns, and they are not read again in the fifth."""
    async with theatre(tmp_path).running() as stage:
        for text in ("ok", "yes do", "", "sure"):
            await stage.turn(text)
        assert stage.requests == []
        assert len(stage.cursors) == 4
        await stage.turn()
        assert stage.runs == [[SAID]]


@pytest.mark.req("EXT-3")
async def test_short_answers_are_passed_over_by_hand_too(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        await stage.turn("ok")
        done = await stage.ask("manual")
        assert done.ending == "skipped"
        assert done.attempt is not None
        assert done.attempt.note == "too few words"
        assert (stage.requests, len(stage.cursors)) == ([], 1)


def main_agent_writes(stage: Theatre, path: str, **result: Any) -> None:
    call = {"type": "toolCall", "id": "c", "name": "write", "arguments": {"path": path, "content": "x"}}
    stage.add({"type": "message", "message": {"role": "assistant", "content": [call]}})
    stage.add(
        {"type": "message", "message": {"role": "toolResult", "toolCallId": "c", "content": [], **result}}
    )


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(
    ("path", "result", "runs"),
    [
        ("{memory}/a.md", {}, 0),
        ("../memory/new.md", {}, 0),
        ("{memory}/a.md", {"isError": True}, 1),
        ("notes.md", {}, 1),
        ("{memory}/../outside/x.md", {}, 1),
        ("{memory}x/a.md", {}, 1),
        ("\0", {}, 1),
    ],
    ids=ascii,
)
async def test_a_turn_in_which_the_main_agent_kept_something_is_passed_over(
    tmp_path: Path, path: str, result: dict[str, Any], runs: int
):
    async with theatre(tmp_path).running() as stage:
        stage.say()
        main_agent_writes(stage, path.format(memory=stage.yard.memory), **result)
        stage.settle()
        await anyio.sleep(1)
        assert len(stage.runs) == runs
        assert len(stage.cursors) == 1


@pytest.mark.req("EXT-2")
async def test_the_main_agents_own_write_keeps_nobody_from_asking_by_hand(tmp_path: Path):
    """It spares the automatic run alone: the user knows what is missing."""
    async with theatre(tmp_path, config=THIRD).running() as stage:
        stage.say()
        main_agent_writes(stage, f"{stage.yard.memory}/a.md")
        assert (await stage.ask("manual")).ending == "returned"
        assert len(stage.runs) == 1


# One run at a time, and exactly one behind it.


@pytest.mark.req("EXT-4", "LIFE-6")
async def test_a_thousand_turns_during_a_run_make_exactly_one_more(tmp_path: Path):
    async with theatre(tmp_path, SLOW).running() as stage:
        await stage.turn(user("first"))
        longest = 0
        for number in range(1_000):
            stage.say(user(str(number)))
            stage.settle()
            longest = max(longest, len(stage.mailbox))
            if number % 100 == 0:
                await anyio.sleep(0.01)
        assert longest <= 2
        await anyio.sleep(100)
        assert stage.runs == [[user("first")], [user(str(number)) for number in range(1_000)]]
        assert stage.begun == ["settled", "trailing"]
        assert (await stage.status()).unprocessed <= 2, "our own entries alone"


@pytest.mark.req("EXT-4")
async def test_new_input_neither_stops_a_run_nor_takes_its_right_to_write(tmp_path: Path):
    async with theatre(
        tmp_path, writing("one.md", delay=10), Reply(text="Saved.", delay=10)
    ).running() as stage:
        await stage.turn(user("first"))
        stage.say(user("second"))
        stage.settle()
        await anyio.sleep(10)
        assert "one.md" in names(stage.yard.memory)
        await anyio.sleep(100)
        assert stage.runs == [[user("first")], [user("second")]]


@pytest.mark.req("EXT-4")
async def test_compaction_waits_for_the_run_and_then_for_the_rest(tmp_path: Path):
    async with theatre(tmp_path, SLOW).running() as stage:
        await stage.turn(user("first"))
        stage.say(user("second"))
        started = anyio.current_time()
        done = await stage.ask("compaction")
        assert done.ending == "returned"
        assert anyio.current_time() - started == pytest.approx(19)
        assert stage.runs == [[user("first")], [user("second")]]
        assert stage.begun == ["settled", "trailing"]


@pytest.mark.req("EXT-4")
async def test_a_run_goes_on_when_nobody_waits_for_it_any_more(tmp_path: Path):
    async with theatre(tmp_path, Reply(text="done", delay=100)).running() as stage:
        stage.say()
        outcome = Outcome()
        with anyio.move_on_after(200):
            await outcome.of(stage.ask("compaction", deadline=60))
        assert outcome.at == 60
        await anyio.sleep(60)
        assert len(stage.cursors) == 1
        assert stage.host.models.cancelled == []


@pytest.mark.req("EXT-4")
async def test_everybody_who_waits_is_answered(tmp_path: Path):
    async with theatre(tmp_path, SLOW).running() as stage:
        outcomes = [Outcome() for _ in range(20)]
        async with anyio.create_task_group() as group:
            for number, outcome in enumerate(outcomes):
                stage.say(user(str(number)))
                group.start_soon(outcome.of, stage.ask(("compaction", "manual", "shutdown")[number % 3]))
                await anyio.sleep(0.5)
        assert all(isinstance(outcome.value, ExtractionDone) for outcome in outcomes)
        assert sum(map(len, stage.runs)) == 20, "each message once"
        assert len(stage.runs) == 2


# The lock.


@pytest.mark.req("EXT-4")
@pytest.mark.parametrize("again", ["idle", "settled", "compaction", "shutdown", "manual"])
async def test_a_busy_lock_puts_the_run_off_until_the_next_occasion(tmp_path: Path, again: Any):
    """Case C11, the second of two sessions: at every turn too the idle timer tries again."""
    locks = MemoryLocks({EXTRACT_LOCK.name: BUSY})
    async with theatre(tmp_path, locks=locks).running() as stage:
        await stage.turn()
        assert (stage.requests, stage.cursors, stage.warnings) == ([], [], [])
        locks.outsiders.clear()
        match again:
            case "idle":
                await anyio.sleep(118.5)
                assert stage.requests == []
                await anyio.sleep(1)
            case "settled":
                stage.say(user("next"))
                stage.settle()
                await anyio.sleep(1)
            case _:
                assert (await stage.ask(again)).ending == "returned"
        assert stage.runs[0][0] == SAID
        assert stage.begun == ["settled", again]
        assert len(stage.cursors) == 1


@pytest.mark.req("EXT-4")
async def test_a_lock_that_stays_busy_is_tried_at_each_idle_time_without_a_word(tmp_path: Path):
    locks = MemoryLocks({EXTRACT_LOCK.name: BUSY})
    async with theatre(tmp_path, locks=locks).running() as stage:
        await stage.turn()
        await anyio.sleep(600)
        assert stage.begun == ["settled", "idle", "idle", "idle", "idle", "idle"]
        assert (stage.requests, stage.cursors, stage.warnings) == ([], [], [])
        assert (await stage.ask("compaction")).ending == "busy"


@pytest.mark.req("EXT-4", "LCK-2")
async def test_the_lock_is_held_for_the_run_and_no_longer(tmp_path: Path):
    locks = MemoryLocks()
    async with theatre(tmp_path, SLOW, locks=locks).running() as stage:
        await stage.turn()
        assert list(locks.held) == [EXTRACT_LOCK.name]
        await anyio.sleep(20)
        assert locks.held == {}


@pytest.mark.req("EXT-3", "EXT-4")
async def test_a_turn_that_is_passed_over_takes_no_lock(tmp_path: Path):
    locks = MemoryLocks({EXTRACT_LOCK.name: BUSY})
    async with theatre(tmp_path, locks=locks).running() as stage:
        await stage.turn("ok")
        assert len(stage.cursors) == 1


@pytest.mark.req("LCK-2", "EXT-2")
async def test_a_lost_lock_is_a_failure_with_the_cursor_kept(tmp_path: Path):
    locks = MemoryLocks()
    async with theatre(tmp_path, writing("one.md", delay=5), SLOW, locks=locks).running() as stage:
        await stage.turn()
        locks.held.clear()
        await anyio.sleep(100)
        assert len(stage.requests) == 1
        assert stage.cursors == []
        (warning,) = stage.warnings
        assert "lock" in warning


@pytest.mark.req("LCK-3", "EXT-2")
async def test_a_locks_directory_that_cannot_be_used_is_told_once(tmp_path: Path):
    class Broken(MemoryLocks):
        async def acquire(self, spec: Any) -> LockHandle | Busy:
            raise OSError(13, "Permission denied", "/locks")

    async with theatre(tmp_path, locks=Broken()).running() as stage:
        for _ in range(3):
            await stage.turn()
        (warning,) = stage.warnings
        assert "Permission denied" in warning
        assert (stage.cursors, stage.requests) == ([], [])


# How a run ends.


@pytest.mark.req("EXT-2")
async def test_an_error_of_the_provider_moves_the_cursor_and_is_told_once_per_cause(tmp_path: Path):
    full, broken = (Reply(error=ProviderError(text)) for text in ("529 overloaded", "401 bad key"))
    async with theatre(tmp_path, full, full, broken, full).running() as stage:
        for number in range(4):
            await stage.turn(user(str(number)))
        assert stage.runs == [[user(str(number))] for number in range(4)]
        assert len(stage.cursors) == 4
        assert [("529" in text, "401" in text) for text in stage.warnings] == [(True, False), (False, True)]
        last = (await stage.status()).last
        assert last is not None
        assert last.problem == "529 overloaded"


@pytest.mark.req("EXT-2", "EXT-7")
async def test_the_turn_limit_moves_the_cursor(tmp_path: Path):
    async with theatre(tmp_path, writing("one.md"), config=config(max_turns=2)).running() as stage:
        await stage.turn()
        assert len(stage.requests) == 2
        assert stage.cursors == [stage.host.transcript.entries[1]["id"]]
        assert stage.warnings == []


TROUBLES: list[tuple[str, Exception]] = [
    ("stream", HostError("model/stream: the pipe is closed")),
    ("history", HostError("history/read: no answer within 10 s")),
]


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(("point", "error"), TROUBLES, ids=[row[0] for row in TROUBLES])
async def test_an_exception_leaves_the_cursor_and_is_told_once(tmp_path: Path, point: str, error: Exception):
    async with theatre(tmp_path).running() as stage:
        stage.host.trouble[point] = error
        for number in range(3):
            await stage.turn(user(str(number)))
        assert stage.cursors == []
        assert len(stage.warnings) == 1
        stage.host.trouble.clear()
        await stage.turn(user("3"))
        assert stage.runs[-1] == [user(str(number)) for number in range(4)]
        assert len(stage.cursors) == 1


@pytest.mark.req("EXT-2")
async def test_a_run_that_raised_is_followed_by_its_trailing_one_and_by_no_more(tmp_path: Path):
    async with theatre(tmp_path).running() as stage:
        stage.host.slow["stream"] = 10
        stage.host.trouble["stream"] = HostError("the pipe is closed")
        await stage.turn(user("first"))
        stage.say(user("second"))
        stage.settle()
        await anyio.sleep(1_000)
        assert stage.begun == ["settled", "trailing"]
        assert stage.cursors == []


@pytest.mark.req("EXT-2")
async def test_an_abort_by_the_host_leaves_the_cursor_in_silence(tmp_path: Path):
    """The user's Esc reaches every request of the session, this one too."""
    async with theatre(tmp_path, Reply(text="", stop="aborted"), NOTHING).running() as stage:
        await stage.turn(user("first"))
        assert (stage.cursors, stage.warnings) == ([], [])
        await stage.turn(user("second"))
        assert stage.runs[-1] == [user("first"), user("second")]
        assert len(stage.cursors) == 1


@pytest.mark.req("EXT-2", "LIFE-3")
async def test_a_branch_that_moves_while_it_is_read_is_no_failure(tmp_path: Path):
    """The host has moved on and says so; the news of it is on its way."""
    async with theatre(tmp_path).running() as stage:
        stage.host.trouble["history"] = StaleHistoryError("h1 is not the active branch h2")
        await stage.turn()
        assert (stage.cursors, stage.warnings) == ([], [])


@pytest.mark.req("CFG-7", "EXT-2")
async def test_a_model_that_is_missing_is_told_once_and_never_replaced(tmp_path: Path):
    missing = config(RoleModel(ModelRef("sim", "gone")))
    async with theatre(tmp_path, config=missing).running() as stage:
        for number in range(2):
            await stage.turn(user(str(number)))
        assert (stage.requests, stage.cursors) == ([], [])
        (warning,) = stage.warnings
        assert "sim/gone" in warning
        assert "models.extractor.model" in warning
        stage.reload(config())
        await stage.turn(user("2"))
        assert stage.runs == [[user("0"), user("1"), user("2")]]


@pytest.mark.req("EXT-2")
async def test_a_host_that_keeps_no_cursor_is_not_asked_twice_for_the_same_messages(tmp_path: Path):
    async with theatre(tmp_path).running() as stage:
        stage.host.trouble["append"] = HostError("entry/append: refused")
        for number in range(2):
            await stage.turn(user(str(number)))
        assert stage.runs == [[user("0")], [user("1")]]
        assert stage.cursors == []


@pytest.mark.req("EXT-2", "EXT-4")
async def test_messages_that_arrive_during_a_run_are_not_consumed_by_it(tmp_path: Path):
    async with theatre(tmp_path, SLOW, config=config(every_n_turns=1)).running() as stage:
        await stage.turn(user("first"))
        last = stage.last_id
        stage.say(user("second"))
        stage.settle(turns=0)
        await anyio.sleep(20)
        assert stage.cursors == [last]
        await stage.turn(user("third"))
        assert stage.runs[-1] == [user("second"), user("third")]


# What it tells.


@pytest.mark.req("EXT-8", "SUB-9")
async def test_changes_reach_the_session_as_one_hidden_message_and_nothing_else_does(tmp_path: Path):
    reply = Reply(calls=[write("one.md"), write("deep/two.md"), write("a.md")])
    async with theatre(tmp_path, reply, NOTHING).running() as stage:
        await stage.turn()
        (message,) = stage.host.sent
        assert (message.custom_type, message.display) == (SUMMARY_TYPE, False)
        assert message.details == {
            "role": "extractor",
            "changes": {"one.md": "created", "deep/two.md": "created"},
        }
        kinds = [entry["type"] for entry in stage.host.transcript.entries]
        assert kinds == ["message", "message", "custom_message", "custom"]
        assert sorted(stage.touched) == ["deep/two.md", "one.md"]
        assert stage.ended == ["told"]


@pytest.mark.req("EXT-8", "SUB-9")
async def test_a_run_that_changed_nothing_says_nothing(tmp_path: Path):
    reply = Reply(calls=[write("a.md")])
    async with theatre(tmp_path, reply, NOTHING).running() as stage:
        await stage.turn()
        assert len(stage.requests) == 2
        assert (stage.host.sent, stage.warnings) == ([], [])


@pytest.mark.req("EXT-8")
async def test_a_host_that_takes_no_message_is_no_reason_to_do_it_all_again(tmp_path: Path):
    async with theatre(tmp_path, writing("one.md"), NOTHING).running() as stage:
        stage.host.trouble["send"] = HostError("message/send: refused")
        await stage.turn()
        assert len(stage.cursors) == 1


@pytest.mark.req("EXT-8")
async def test_tokens_and_cost_add_up_over_requests_and_runs(tmp_path: Path):
    stage = theatre(tmp_path, writing("one.md"), NOTHING, Reply(error=ProviderError("529")))
    metered = MeteredModels(stage.host, "extractor", RecordedTrace())
    async with stage.running():
        stage.lives[0]._extraction = replace(stage.lives[0]._extraction, models=metered)
        for _ in range(2):
            await stage.turn()
    assert metered.usage == Usage(3, 300, 30, 0, 0, pytest.approx(0.0009))


@pytest.mark.req("CMD-1")
async def test_the_status_tells_which_turn_of_how_many_is_under_way(tmp_path: Path):
    async with theatre(tmp_path, writing("one.md", delay=10), Reply(text="x", delay=10)).running() as stage:
        before = await stage.status()
        assert (before.activity, before.unprocessed, before.last) == (None, 0, None)
        await stage.turn()
        first = await stage.status()
        assert first.activity is not None
        assert (first.activity.turn, first.activity.most_turns) == (1, 5)
        assert (first.unprocessed, first.last_cause) == (2, "settled")
        await anyio.sleep(10)
        second = await stage.status()
        assert second.activity is not None
        assert second.activity.turn == 2
        await anyio.sleep(20)
        after = await stage.status()
        assert after.activity is None
        assert after.last is not None
        assert after.last.ending == "returned"


# Generations: nothing of an old one has an effect.


async def _advance(stage: Theatre) -> None:
    stage.reload()


async def _end(stage: Theatre) -> None:
    stage.session.abort("the session ends")


@pytest.mark.req("LIFE-2", "CFG-6", "EXT-2")
@pytest.mark.parametrize("change", [_advance, _end], ids=["reconfigured", "the session ends"])
@pytest.mark.parametrize("at", [5.0, 12.0, 17.0], ids=["first request", "a write", "second request"])
async def test_a_new_generation_leaves_no_file_no_message_and_no_cursor(
    tmp_path: Path, temp: Path, change: Callable[[Theatre], Any], at: float
):
    locks = MemoryLocks()
    replies = (writing("late.md", delay=10), Reply(text="Saved.", delay=10))
    async with theatre(tmp_path, *replies, locks=locks).running() as stage:
        stage.host.slow["tool"] = 5
        stage.say()
        stage.settle()
        await anyio.sleep(at)
        written = names(stage.yard.memory)
        entries = len(stage.host.transcript.entries)
        await change(stage)
        await anyio.sleep(1_000)
        assert names(stage.yard.memory) == written
        assert len(stage.host.transcript.entries) == entries
        assert (stage.host.sent, stage.cursors, stage.warnings) == ([], [], [])
        assert locks.held == {}
        assert stage.host.released == ["p0"]
        assert list(temp.iterdir()) == []


@pytest.mark.req("LIFE-2", "SUB-5")
@pytest.mark.parametrize("change", ["generation", "branch", "none"])
async def test_a_tool_that_works_on_behind_the_pipe_has_no_rights_any_more(tmp_path: Path, change: str):
    async with theatre(tmp_path, writing("late.md"), NOTHING).running() as stage:
        stage.host.beside = 10
        await stage.turn()
        if change == "generation":
            stage.reload()
        elif change == "branch":
            stage.move_to(None)
        await anyio.sleep(100)
        (task,) = stage.host.tasks
        assert isinstance(task.exception(), AbortedError) is (change != "none")
        assert ("late.md" in names(stage.yard.memory)) is (change == "none")


@pytest.mark.req("LIFE-2", "CFG-6")
async def test_the_next_run_of_the_new_generation_begins_where_the_old_one_did(tmp_path: Path):
    async with theatre(tmp_path, SLOW, NOTHING).running() as stage:
        await stage.turn(user("first"))
        stage.reload()
        await anyio.sleep(1)
        assert stage.host.models.cancelled == ["sim/extractor"]
        await stage.turn(user("second"))
        assert stage.runs == [[user("first")], [user("first"), user("second")]]
        assert len(stage.cursors) == 1


@pytest.mark.req("LIFE-2", "CFG-6")
async def test_whoever_waits_for_an_old_run_is_told_that_it_was_stopped(tmp_path: Path):
    async with theatre(tmp_path, NOTHING, SLOW).running() as stage:
        await stage.turn(user("first"))
        stage.say(user("second"))
        outcome = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, stage.ask("manual"))
            await anyio.sleep(1)
            stage.reload()
        assert isinstance(outcome.value, ExtractionDone)
        assert outcome.value.ending == "aborted"
        assert outcome.value.attempt is not None
        assert outcome.value.attempt.ending == "aborted", "and not how the run before it ended"
        last = (await stage.status()).last
        assert last is not None
        assert last.ending == "aborted"


@pytest.mark.req("LIFE-2")
@pytest.mark.parametrize("point", ["notify", "send"])
async def test_a_generation_that_ends_while_a_run_is_wound_up_moves_no_cursor(tmp_path: Path, point: str):
    """The run has ended, its messages are on their way to a slow host: from then on it is an old one."""
    replies = (writing("one.md"), Reply(error=ProviderError("529 overloaded")), NOTHING)
    async with theatre(tmp_path, *replies).running() as stage:
        stage.host.slow[point] = 10
        await stage.turn()
        stage.reload()
        sent = [*stage.host.sent]
        await anyio.sleep(1_000)
        assert stage.cursors == []
        assert point == "send" or (len(sent) == 1 and stage.host.sent == sent), "no message begins later"
        stage.host.slow.clear()
        await stage.turn(user("second"))
        assert stage.runs[-1] == [SAID, user("second")]


@pytest.mark.req("CFG-6", "EXT-1")
async def test_a_new_configuration_takes_the_idle_timer_away_and_its_own_numbers_count(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        await stage.turn(user("0"))
        await stage.turn(user("1"))
        stage.reload(config(every_n_turns=2, idle_flush_seconds=30))
        await anyio.sleep(1_000)
        assert stage.runs == []
        await stage.turn(user("2"))
        assert stage.runs == [], "the turns before it do not count"
        await anyio.sleep(28.5)
        assert stage.runs == []
        await anyio.sleep(1)
        assert stage.runs == [[user("0"), user("1"), user("2")]]


@pytest.mark.req("CFG-6", "EXT-1")
async def test_switching_extraction_off_and_on_again_loses_nothing(tmp_path: Path):
    async with theatre(tmp_path).running() as stage:
        stage.reload(config(enabled=False))
        await stage.turn(user("0"))
        stage.reload(config())
        await stage.turn(user("1"))
        assert stage.runs == [[user("0"), user("1")]]


@pytest.mark.req("EXT-8", "IDX-7")
def test_the_files_of_two_roles_are_not_taken_for_those_of_one_run():
    mine, other = (
        BackgroundWrites(0, (path,), role=role) for path, role in (("a.md", "extractor"), ("b.md", "dream"))
    )
    assert mine.merged_with(other) is None
    merged = mine.merged_with(BackgroundWrites(0, ("c.md",), ended=True))
    assert merged is not None
    assert (merged.paths, merged.ended, merged.told) == (("a.md", "c.md"), True, True)


# The cursor on the branch.


def cursor(through: Any) -> dict[str, Any]:
    return {"type": "custom", "customType": CURSOR_TYPE, "data": {"through": through}}


@pytest.mark.req("EXT-2")
async def test_a_resumed_branch_goes_on_behind_its_cursor(tmp_path: Path):
    stage = theatre(tmp_path)
    stage.say(user("old"))
    stage.add(cursor(stage.last_id))
    stage.say(user("unprocessed"))
    async with stage.running():
        assert (await stage.status()).unprocessed == 3
        await stage.turn(user("new"))
        assert stage.runs == [[user("unprocessed"), user("new")]]


@pytest.mark.req("EXT-2")
async def test_a_branch_without_a_cursor_is_unprocessed_as_a_whole(tmp_path: Path):
    stage = theatre(tmp_path)
    stage.say(user("old"))
    stage.say(user("older"))
    async with stage.running():
        assert stage.requests == [], "and waits for a trigger all the same"
        done = await stage.ask("manual")
        assert done.ending == "returned"
        assert stage.runs == [[user("old"), user("older")]]


ENTRIES = [{"id": "a"}, {"id": "b"}, {"id": "c"}]


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(
    ("cursors", "found"),
    [
        ([], 0),
        ([cursor("b")], 2),
        ([cursor("a"), cursor("c")], 3),
        ([cursor("c"), cursor("a")], 1),
        ([cursor("gone")], 0),
        ([cursor("b"), cursor("gone")], 2),
        ([cursor("b"), cursor("")], 2),
        ([cursor("b"), cursor(None)], 2),
        ([cursor("b"), {"type": "custom", "customType": CURSOR_TYPE}], 2),
        ([cursor("b"), {"type": "custom", "customType": "another", "data": {"through": "c"}}], 2),
        ([cursor("b"), {"type": "custom_message", "customType": CURSOR_TYPE, "data": {"through": "c"}}], 2),
    ],
    ids=[
        "none",
        "one",
        "two",
        "an older one written last",
        "of another branch",
        "of another branch behind a good one",
        "empty",
        "damaged",
        "without data",
        "another extension's",
        "a message",
    ],
)
def test_the_newest_cursor_that_means_something_here_counts(cursors: list[dict[str, Any]], found: int):
    assert find_cursor([*ENTRIES, *cursors]) == found


@pytest.mark.req("EXT-2")
async def test_a_branch_that_cannot_be_read_counts_as_unprocessed(tmp_path: Path):
    stage = theatre(tmp_path)
    stage.say(user("old"))
    stage.add(cursor(stage.last_id))
    stage.host.trouble["history"] = HostError("history/read: no answer")
    async with stage.running():
        stage.host.trouble.clear()
        await stage.turn(user("new"))
        assert stage.runs == [[user("old"), user("new")]]


@pytest.mark.req("EXT-2")
async def test_a_move_in_the_tree_goes_back_to_that_branchs_cursor(tmp_path: Path):
    async with theatre(tmp_path).running() as stage:
        await stage.turn(user("first"))
        first = stage.last_id
        await stage.turn(user("second"))
        stage.move_to(first)
        await anyio.sleep(1)
        assert (await stage.status()).unprocessed == 1, "the cursor entry itself"
        await stage.turn(user("other"))
        assert stage.runs == [[user("first")], [user("second")], [user("other")]]


@pytest.mark.req("EXT-2", "LIFE-2")
@pytest.mark.parametrize("at", [5.0, 12.0, 17.0], ids=["first request", "a write", "second request"])
async def test_a_run_of_a_branch_that_was_left_moves_no_cursor_and_writes_no_more(tmp_path: Path, at: float):
    replies = (writing("late.md", delay=10), Reply(text="Saved.", delay=10), NOTHING)
    async with theatre(tmp_path, *replies).running() as stage:
        stage.host.slow["tool"] = 5
        stage.say(user("first"))
        stage.settle()
        await anyio.sleep(at)
        written = names(stage.yard.memory)
        stage.move_to(None)
        await anyio.sleep(1_000)
        assert names(stage.yard.memory) == written
        assert (stage.cursors, stage.host.sent, stage.warnings) == ([], [], [])
        assert stage.ended == ["lost"], "whoever watches the files learns that no summary tells of them"
        assert (await stage.status()).unprocessed == 0
        await stage.turn(user("other"))
        assert stage.runs[-1] == [user("other")]


@pytest.mark.req("EXT-1", "EXT-2", "LIFE-6")
async def test_a_turn_on_another_branch_is_extracted_although_its_news_were_merged_with_older_ones(
    tmp_path: Path,
):
    """Both settles become one message that is heard before the move between them."""
    async with theatre(tmp_path).running() as stage:
        await stage.turn(user("first"))
        stage.say(user("second"))
        stage.settle()
        stage.move_to(None)
        stage.say(user("other"))
        stage.settle()
        await anyio.sleep(10)
        assert stage.runs == [[user("first")], [user("other")]]
        assert stage.warnings == []


@pytest.mark.req("EXT-2", "LIFE-6")
async def test_the_length_of_a_branch_that_was_left_says_nothing_about_the_next_one(tmp_path: Path):
    """Two moves become one that is heard before the settle between them; then a long branch was the shorter."""
    async with theatre(tmp_path).running() as stage:
        await stage.turn(user("first"))
        first = stage.last_id
        stage.move_to(first)
        for number in range(5):
            stage.say(user(f"left {number}"))
        stage.settle()
        stage.move_to(first)
        await anyio.sleep(10)
        for number in range(4):
            await stage.turn(user(str(number)))
        assert stage.runs[1:] == [[user(str(number))] for number in range(4)]
        assert stage.warnings == []


@pytest.mark.req("EXT-2", "LIFE-2")
async def test_a_run_ends_before_the_host_is_asked_for_the_branch_that_took_its_place(tmp_path: Path):
    """The host takes its time to answer, and the run would go on over entries that are not its own."""
    async with theatre(tmp_path, writing("late.md", delay=10)).running() as stage:
        await stage.turn(user("first"))
        first = stage.last_id
        stage.host.slow["history"] = 100
        stage.move_to(first)
        await anyio.sleep(1)
        assert stage.host.models.cancelled == ["sim/extractor"]
        await anyio.sleep(200)
        assert names(stage.yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("EXT-2")
async def test_a_branch_that_changed_without_a_word_goes_on_behind_its_own_cursor(tmp_path: Path):
    """The host gives it another handle: that is enough to know that counting starts anew."""
    async with theatre(tmp_path).running() as stage:
        await stage.turn(user("first"))
        first = stage.last_id
        for number in range(3):
            await stage.turn(user(f"left {number}"))
        stage.host.transcript.move_to(first)
        await stage.turn(user("other"))
        assert stage.runs[-1] == [user("other")]
        await stage.ask("compaction")
        assert stage.runs[-1] == [user("other")]


@pytest.mark.req("EXT-2")
async def test_a_compaction_moves_no_cursor_and_the_new_handle_is_used(tmp_path: Path):
    async with theatre(tmp_path, config=config(every_n_turns=2)).running() as stage:
        await stage.turn(user("first"))
        await stage.turn(user("second"))
        await stage.turn(user("third"))
        stage.add({"type": "compaction", "summary": "…", "firstKeptEntryId": None})
        stage.branch(stage.host.transcript.renew(), moved=False)
        await stage.turn(user("fourth"))
        assert stage.runs == [[user("first"), user("second")], [user("third"), user("fourth")]]
        assert stage.warnings == []


@pytest.mark.req("EXT-4")
async def test_a_compaction_does_not_stop_a_run_that_has_begun(tmp_path: Path):
    async with theatre(tmp_path, SLOW).running() as stage:
        await stage.turn()
        stage.add({"type": "compaction", "summary": "…", "firstKeptEntryId": None})
        stage.branch(stage.host.transcript.renew(), moved=False)
        await anyio.sleep(20)
        assert len(stage.cursors) == 1


@pytest.mark.req("EXT-2", "EXT-6")
async def test_what_a_compaction_took_from_the_parents_request_is_sent_by_itself(tmp_path: Path):
    """The lock was busy before the compaction: the parent's request holds a summary of these messages now."""
    locks = MemoryLocks({EXTRACT_LOCK.name: BUSY})
    stage = theatre(tmp_path, config=config(RoleModel()), locks=locks)
    async with stage.running():
        await stage.turn(user("early"))
        stage.add({"type": "compaction", "summary": "…", "firstKeptEntryId": None})
        stage.branch(stage.host.transcript.renew(), moved=False)
        locks.outsiders.clear()
        await stage.turn(user("late"))
        (request,) = stage.requests
        assert request.parent is None
        assert stage.runs == [[user("early"), user("late")]]
        await stage.turn(user("later"))
        assert stage.requests[-1].parent is not None, "and once it is dealt with the prefix is used again"


@pytest.mark.req("EXT-6")
async def test_a_compaction_that_kept_the_unprocessed_messages_costs_no_prefix(tmp_path: Path):
    locks = MemoryLocks({EXTRACT_LOCK.name: BUSY})
    stage = theatre(tmp_path, config=config(RoleModel()), locks=locks)
    async with stage.running():
        await stage.turn(user("early"))
        kept = stage.host.transcript.entries[0]["id"]
        stage.add({"type": "compaction", "summary": "…", "firstKeptEntryId": kept})
        stage.branch(stage.host.transcript.renew(), moved=False)
        locks.outsiders.clear()
        await stage.turn(user("late"))
        (request,) = stage.requests
        assert request.parent is not None


# A crash.

POISON: Any = None
"""A head that no actor can do anything with."""


def poison(stage: Theatre) -> None:
    stage.tell(TurnsSettled(stage.generations.current, POISON, 1, "off"))


@pytest.mark.req("LIFE-4", "EXT-2", "SUB-8")
async def test_a_crash_in_the_middle_of_a_run_is_mended_from_the_branch(tmp_path: Path, temp: Path):
    locks = MemoryLocks()
    async with theatre(
        tmp_path, NOTHING, writing("late.md", delay=10), NOTHING, locks=locks
    ).running() as stage:
        await stage.turn(user("first"))
        await stage.turn(user("second"))
        poison(stage)
        await anyio.sleep(100)
        assert len(stage.lives) == 2
        assert (locks.held, list(temp.iterdir())) == ({}, [])
        assert "late.md" not in names(stage.yard.memory)
        await stage.turn(user("third"))
        assert stage.runs == [[user("first")], [user("second")], [user("second"), user("third")]]
        assert len(stage.cursors) == 2


@pytest.mark.req("LIFE-4")
async def test_whoever_waits_for_a_run_that_crashed_is_told(tmp_path: Path):
    async with theatre(tmp_path, SLOW).running() as stage:
        stage.say()
        outcome = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, _swallowed(stage, outcome))
            await anyio.sleep(1)
            poison(stage)
        assert isinstance(outcome.value, ActorFailedError)


async def _swallowed(stage: Theatre, outcome: Outcome) -> object:
    try:
        return await stage.ask("compaction")
    except ActorFailedError as error:
        return error


@pytest.mark.req("LIFE-4")
async def test_a_fault_inside_a_run_is_one_of_the_actor(tmp_path: Path):
    async with theatre(tmp_path).running() as stage:
        stage.host.trouble["stream"] = ZeroDivisionError()
        for _ in range(4):
            await stage.turn()
        assert stage.given_up == ["extractor"]
        assert stage.cursors == []


@pytest.mark.req("LIFE-2", "LIFE-4")
async def test_the_late_end_of_a_run_before_the_crash_is_not_taken_for_the_end_of_the_new_one(tmp_path: Path):
    """The mailbox outlives the actor: what the old life left in it is heard by the next one."""
    async with theatre(tmp_path, SLOW).running() as stage:
        await stage.turn(user("first"))
        old = stage.trace.named("extraction_begun")[0]["job"]
        assert isinstance(old, int)
        stage.branch(POISON, moved=True)
        stage.say(user("second"))
        stage.settle()
        stage.tell(ExtractionEnded(0, old, Attempt("returned"), stage.last_id))
        await anyio.sleep(1)
        assert len(stage.lives) == 2
        assert (await stage.status()).activity is not None, "the new run goes on"
        assert stage.cursors == []
        await anyio.sleep(20)
        assert stage.runs == [[user("first")], [user("first"), user("second")]]
        assert len(stage.cursors) == 1


# A mailbox that is full.


@asynccontextmanager
async def full_mailbox(stage: Theatre, seconds: float) -> AsyncIterator[None]:
    """Let the actor answer its first status question only after `seconds`, and its mailbox run full."""
    (actor,) = stage.lives
    real, first = actor.handle, [seconds]

    async def slowly(message: Any) -> None:
        if first and isinstance(message, ExtractorStatusWanted):
            await anyio.sleep(first.pop())
        await real(message)

    actor.handle = slowly  # type: ignore[method-assign]
    async with anyio.create_task_group() as group:
        group.start_soon(answer_or_none, stage.status())
        await anyio.sleep(1)
        for _ in range(stage.mailbox.capacity + 10):
            group.start_soon(answer_or_none, stage.status())
        await anyio.sleep(1)
        assert len(stage.mailbox) == stage.mailbox.capacity
        yield


@pytest.mark.req("LIFE-6", "EXT-1")
async def test_an_idle_time_that_ends_while_the_mailbox_is_full_is_heard_all_the_same(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        await stage.turn()
        async with full_mailbox(stage, 200):
            await anyio.sleep(300)
        assert stage.begun == ["idle"]
        assert len(stage.lives) == 1


@pytest.mark.req("LIFE-6", "EXT-1", "EXT-4")
async def test_a_full_mailbox_loses_neither_a_settle_nor_a_question(tmp_path: Path):
    async with theatre(tmp_path, config=THIRD).running() as stage:
        outcome = Outcome()
        async with full_mailbox(stage, 200):
            for number in range(3):
                stage.say(user(str(number)))
                stage.settle()
            await outcome.of(stage.ask("compaction"))
        assert isinstance(outcome.value, ExtractionDone)
        assert stage.runs == [[user("0"), user("1"), user("2")]]
        assert stage.begun == ["settled"]
