"""Starting actors, making them anew, and giving them up (LIFE-4)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import anyio
import pytest

from actors_kit import Ended, Note, Outcome, Script, ScriptedActor, Stage, Tally, turns
from pi_project_memory.actors.actor import ActorFailedError, StaleGenerationError
from pi_project_memory.actors.mailbox import MailboxClosedError, Message
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.supervisor.supervisor import ChildSpec, RestartIntensity, Supervisor
from supervised_kit import Cast, act, stage


@pytest.mark.req("LIFE-4")
async def test_a_failed_actor_is_made_anew_with_its_state_and_the_same_mailbox():
    one = stage()
    async with Cast([one]).running():
        one.mailbox.tell(Note(0, 1))
        one.mailbox.tell(Note(0, -1))
        assert await one.ask("who?") == "life 2, message 1"
    assert one.script.lives == 2


@pytest.mark.req("LIFE-4", "LIFE-6")
async def test_what_waited_behind_the_failure_is_handled_by_the_next_life_and_the_cause_is_not():
    one = stage()
    async with Cast([one]).running():
        for message in (Note(0, -1), Note(0, 2), Tally(0, (3,)), Ended(0, 4)):
            one.mailbox.tell(message)
        await turns(20)
    assert one.script.handled == [(1, Note(0, -1)), (2, Note(0, 2)), (2, Tally(0, (3,))), (2, Ended(0, 4))]


@pytest.mark.req("LIFE-4")
async def test_the_asker_of_a_fatal_question_is_told_and_the_next_one_is_answered():
    async def fail_once(actor: ScriptedActor, message: Message) -> None:
        if actor.life == 1:
            raise ValueError("the branch is odd")
        await act(actor, message)

    one = Stage(Script(fail_once))
    async with Cast([one]).running():
        with pytest.raises(ActorFailedError, match="the branch is odd"):
            await one.ask("first")
        assert await one.ask("second") == "life 2, message 1"


@pytest.mark.req("LIFE-2", "LIFE-4")
async def test_the_next_life_drops_what_turned_stale_and_tells_its_asker():
    one, outcome = stage(), Outcome()
    async with Cast([one]).running(), anyio.create_task_group() as group:
        one.mailbox.tell(Note(0, -1))
        group.start_soon(outcome.of, one.ask("stale", generation=7))
    assert isinstance(outcome.error, StaleGenerationError)
    assert one.script.lives == 2


@pytest.mark.req("LIFE-4")
async def test_as_many_restarts_as_the_intensity_allows_and_not_one_more():
    one = stage()
    cast = Cast([one], intensity=RestartIntensity(restarts=3, seconds=60))
    async with cast.running():
        for _ in range(3):
            one.mailbox.tell(Note(0, -1))
        assert await one.ask("alive?") == "life 4, message 1"
        assert cast.given_up == []
        one.mailbox.tell(Note(0, -4))
        await turns(20)
        with pytest.raises(MailboxClosedError, match="actor 0 failed too often: note -4"):
            one.mailbox.tell(Note(0, 1))
    assert [(name, str(error)) for name, error in cast.given_up] == [("actor 0", "note -4")]
    assert one.script.lives == 4
    assert len(cast.trace.named("actor_failed")) == 4


@pytest.mark.req("LIFE-4")
@pytest.mark.parametrize(("pause", "given_up"), [(30.0, True), (30.5, False)])
async def test_the_window_of_the_intensity_slides(pause: float, *, given_up: bool):
    """The third failure comes two pauses after the first: within 60 seconds, or just outside."""
    one = stage()
    cast = Cast([one], intensity=RestartIntensity(restarts=2, seconds=60))
    async with cast.running():
        for _ in range(3):
            one.mailbox.tell(Note(0, -1))
            await anyio.sleep(pause)
    assert one.script.lives == (3 if given_up else 4)
    assert bool(cast.given_up) is given_up


@pytest.mark.req("LIFE-4")
async def test_rare_failures_never_end_an_actor():
    one = stage()
    cast = Cast([one], intensity=RestartIntensity(restarts=1, seconds=60))
    async with cast.running():
        for _ in range(50):
            one.mailbox.tell(Note(0, -1))
            await anyio.sleep(61)
    assert cast.given_up == []
    assert one.script.lives == 51


@pytest.mark.req("LIFE-4")
async def test_without_any_restart_the_first_failure_is_the_last():
    one = stage()
    cast = Cast([one], intensity=RestartIntensity(restarts=0, seconds=60))
    async with cast.running():
        one.mailbox.tell(Note(0, -1))
        await turns(20)
    assert len(cast.given_up) == 1
    assert one.script.lives == 1


@pytest.mark.req("LIFE-4")
async def test_a_given_up_actor_answers_what_waits_and_leaves_the_others_alone():
    bad, good = stage(), stage()
    outcome = Outcome()
    cast = Cast([bad, good], intensity=RestartIntensity(restarts=0, seconds=60))
    async with cast.running(), anyio.create_task_group() as group:
        assert await good.ask("before") == "life 1, message 1"
        bad.mailbox.tell(Note(0, -1))
        group.start_soon(outcome.of, bad.ask("left over"))
        await turns(20)
        assert await good.ask("after") == "life 1, message 2"
    assert isinstance(outcome.error, MailboxClosedError)
    assert "failed too often: note -1" in str(outcome.error)
    assert [name for name, _ in cast.given_up] == ["actor 0"]


@pytest.mark.req("LIFE-4")
async def test_all_actors_may_be_given_up_and_each_is_told_once():
    cast = Cast([stage() for _ in range(3)], intensity=RestartIntensity(restarts=1, seconds=60))
    async with cast.running():
        for one in cast.stages:
            for number in (-1, -2):
                one.mailbox.tell(Note(0, number))
        await turns(50)
        assert await cast.supervisor.stop() == []
    assert sorted(name for name, _ in cast.given_up) == ["actor 0", "actor 1", "actor 2"]


@pytest.mark.req("LIFE-4")
@pytest.mark.parametrize("bad_life", [1, 2])
async def test_a_rebuild_that_fails_is_tried_again(bad_life: int):
    async def rebuild(life: int) -> None:
        if life == bad_life:
            raise OSError("the branch cannot be read")

    one = Stage(Script(act, rebuild))
    cast = Cast([one])
    async with cast.running():
        if bad_life == 2:
            one.mailbox.tell(Note(0, -1))
        assert await one.ask("alive?") == f"life {bad_life + 1}, message 1"
    assert cast.trace.named("actor_failed")[-1]["words"] == "the branch cannot be read"


@pytest.mark.req("LIFE-4")
async def test_a_rebuild_that_never_works_turns_that_actor_off_and_the_next_ones_start():
    async def rebuild(_life: int) -> None:
        raise OSError("the branch cannot be read")

    bad, good = Stage(Script(act, rebuild)), stage()
    cast = Cast([bad, good])
    async with cast.running():
        assert await good.ask("alive?") == "life 1, message 1"
        with pytest.raises(MailboxClosedError, match="the branch cannot be read"):
            await bad.ask("alive?")
    assert bad.script.lives == 4
    assert [name for name, _ in cast.given_up] == ["actor 0"]


@pytest.mark.req("LIFE-4")
@pytest.mark.parametrize("bad_calls", [range(1), range(1, 2), range(100)], ids=["first", "later", "always"])
async def test_an_actor_that_cannot_even_be_made_counts_as_failed(bad_calls: range):
    one, good, calls = stage(), stage(), iter(range(100))

    def factory(_mailbox: object) -> ScriptedActor:
        if next(calls) in bad_calls:
            raise OSError("no store")
        return one.actor()

    cast = Cast([good])
    supervisor = Supervisor(
        [ChildSpec("unmade", one.mailbox, factory)],
        cast.trace,
        lambda name, error: cast.given_up.append((name, error)),
    )
    async with cast.running(), anyio.create_task_group() as group:
        await supervisor.start(group)
        if len(bad_calls) == 1:
            one.mailbox.tell(Note(0, -1))
            assert await one.ask("alive?") == "life 2, message 1"
        assert await good.ask("alive?") == "life 1, message 1"
        await supervisor.stop()
    assert [(name, str(error)) for name, error in cast.given_up] == (
        [("unmade", "no store")] if len(bad_calls) > 1 else []
    )


@pytest.mark.req("LIFE-4")
async def test_a_failed_job_is_a_failure_of_its_actor():
    async def with_job(actor: ScriptedActor, message: Message) -> None:
        async def job() -> None:
            raise ValueError("the job failed")

        if isinstance(message, Note):
            actor.start_job(job)
        await act(actor, message)

    one = Stage(Script(with_job))
    cast = Cast([one])
    async with cast.running():
        one.mailbox.tell(Note(0, 1))
        await turns(20)
        assert await one.ask("alive?") == "life 2, message 1"
    (failed,) = cast.trace.named("actor_failed")
    assert (failed["actor"], failed["error"], failed["words"]) == ("actor 0", "ValueError", "the job failed")
    assert str(failed["where"]).startswith("test_supervisor.py:")
    assert one.script.abandoned == ["scripted has ended"] * 2


@pytest.mark.req("LIFE-4")
async def test_the_other_jobs_of_a_failed_actor_end_with_it():
    left = []

    async def with_jobs(actor: ScriptedActor, message: Message) -> None:
        async def job() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                left.append(actor.life)

        if actor.life == 1:
            actor.start_job(job)
            await turns()
        await act(actor, message)

    one = Stage(Script(with_jobs))
    async with Cast([one]).running():
        one.mailbox.tell(Note(0, 1))
        one.mailbox.tell(Note(0, -1))
        assert await one.ask("alive?") == "life 2, message 1"
        assert left == [1, 1]


@pytest.mark.req("LIFE-4")
async def test_a_thousand_failures_keep_no_actor_and_no_history():
    one = stage()
    lives: list[weakref.ref[ScriptedActor]] = []

    def factory(mailbox: Any) -> ScriptedActor:
        actor = one.actor(mailbox)
        lives.append(weakref.ref(actor))
        return actor

    supervisor = Supervisor(
        [ChildSpec("restless", one.mailbox, factory, RestartIntensity(restarts=3, seconds=1))],
        RecordedTrace(),
        lambda _name, error: pytest.fail(str(error)),
    )
    async with anyio.create_task_group() as group:
        await supervisor.start(group)
        for _ in range(1000):
            one.mailbox.tell(Note(0, -1))
            await anyio.sleep(2)
        await supervisor.stop()
    one.script.handled.clear()
    gc.collect()
    assert len(lives) == 1001
    assert sum(life() is not None for life in lives) <= 1
    assert len(supervisor._children[0].failures) <= 4
