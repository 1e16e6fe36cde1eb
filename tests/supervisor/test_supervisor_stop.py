"""Stopping actors in reverse, within a bound (LIFE-5)."""

from __future__ import annotations

import anyio
import pytest

from actors_kit import Note, Outcome, Script, ScriptedActor, Stage, turns
from pi_project_memory.actors.mailbox import Message
from pi_project_memory.supervisor.supervisor import RestartIntensity
from supervised_kit import Cast, act, stage


def _ordered(events: list[str], number: int) -> Stage:
    """Return a stage whose actor takes a second to begin and two to end, and notes both."""

    async def rebuild(_life: int) -> None:
        await anyio.sleep(1)
        events.append(f"{number} began")

    async def farewell(_life: int) -> None:
        await anyio.sleep(2)
        events.append(f"{number} ended")

    return Stage(Script(act, rebuild, farewell))


@pytest.mark.req("LIFE-4", "LIFE-5")
async def test_actors_start_in_order_and_stop_in_reverse_one_after_another():
    events: list[str] = []
    cast = Cast([_ordered(events, number) for number in range(3)], shutdown=5)
    async with anyio.create_task_group() as group:
        await cast.supervisor.start(group)
        assert anyio.current_time() == 3
        assert await cast.supervisor.stop() == []
        assert anyio.current_time() == 9
    assert events == ["0 began", "1 began", "2 began", "2 ended", "1 ended", "0 ended"]


@pytest.mark.req("LIFE-5")
async def test_idle_actors_stop_in_no_time():
    cast = Cast([stage() for _ in range(4)])
    async with cast.running():
        before = anyio.current_time()
        assert await cast.supervisor.stop() == []
        assert anyio.current_time() == before


@pytest.mark.req("LIFE-5")
async def test_an_actor_that_ignores_its_stop_is_cancelled_after_its_bound_and_named():
    ended: list[str] = []

    async def hang(_actor: ScriptedActor, _message: Message) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("hung")

    hung, last = Stage(Script(hang)), stage()
    cast = Cast([hung, last], shutdown=2)
    async with anyio.create_task_group() as group:
        await cast.supervisor.start(group)
        hung.mailbox.tell(Note(0))
        await turns()
        assert await cast.supervisor.stop() == ["actor 0"]
        assert anyio.current_time() == 2
        assert ended == ["hung"]
    assert cast.given_up == []
    assert hung.script.lives == 1


@pytest.mark.req("LIFE-5")
async def test_an_actor_that_shields_its_end_is_named_and_waited_for_no_longer_than_twice_its_bound():
    async def hang(_actor: ScriptedActor, _message: Message) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(30)

    hung = Stage(Script(hang))
    cast = Cast([stage(), hung], shutdown=2)
    async with anyio.create_task_group() as group:
        await cast.supervisor.start(group)
        hung.mailbox.tell(Note(0))
        await turns()
        assert await cast.supervisor.stop() == ["actor 1"]
        assert anyio.current_time() <= 4
    assert anyio.current_time() == 30


@pytest.mark.req("LIFE-5")
async def test_questions_that_wait_at_the_stop_are_answered():
    async def slow(_actor: ScriptedActor, _message: Message) -> None:
        await anyio.sleep(1)

    one = Stage(Script(slow))
    outcomes = [Outcome() for _ in range(3)]
    cast = Cast([one])
    async with anyio.create_task_group() as group:
        await cast.supervisor.start(group)
        one.mailbox.tell(Note(0))
        await turns()
        for outcome in outcomes:
            group.start_soon(outcome.of, one.ask("still there?"))
        await turns()
        await cast.supervisor.stop()
    assert {str(outcome.error) for outcome in outcomes} == {"the session has ended"}


@pytest.mark.req("LIFE-4", "LIFE-5")
async def test_an_actor_that_fails_while_it_stops_is_not_made_again():
    async def with_job(actor: ScriptedActor, _message: Message) -> None:
        async def job() -> None:
            await anyio.sleep(0.5)
            raise ValueError("the job failed")

        actor.start_job(job)

    one = Stage(Script(with_job))
    cast = Cast([one], intensity=RestartIntensity(restarts=0, seconds=60))
    async with anyio.create_task_group() as group:
        await cast.supervisor.start(group)
        one.mailbox.tell(Note(0))
        await turns()
        assert await cast.supervisor.stop() == []
    assert one.script.lives == 1
    assert cast.given_up == []


@pytest.mark.req("LIFE-4", "LIFE-5")
async def test_a_stop_while_the_state_is_being_rebuilt_is_obeyed_within_the_bound():
    async def rebuild(life: int) -> None:
        if life == 2:
            await anyio.sleep_forever()

    one = Stage(Script(act, rebuild))
    cast = Cast([one], shutdown=2)
    async with anyio.create_task_group() as group:
        await cast.supervisor.start(group)
        one.mailbox.tell(Note(0, -1))
        await turns(20)
        assert one.script.lives == 2
        assert await cast.supervisor.stop() == ["actor 0"]
    assert anyio.current_time() == 2
    assert one.script.lives == 2


@pytest.mark.req("LIFE-4", "LIFE-5")
async def test_a_stop_during_the_start_ends_the_start_too():
    async def rebuild(_life: int) -> None:
        await anyio.sleep_forever()

    slow, never = Stage(Script(act, rebuild)), stage()
    cast = Cast([stage(), slow, never], shutdown=2)
    starting = Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(starting.of, cast.supervisor.start(group))
        await turns(20)
        assert await cast.supervisor.stop() == ["actor 1"]
        await turns(20)
    assert (starting.at, starting.error) == (2, None)
    assert never.script.lives == 0


@pytest.mark.req("LIFE-5")
async def test_what_was_never_started_needs_no_stop():
    cast = Cast([stage(), stage()])
    assert await cast.supervisor.stop() == []
    assert anyio.current_time() == 0


@pytest.mark.req("LIFE-5")
async def test_a_second_stop_finds_nothing_to_do():
    cast = Cast([stage()])
    async with cast.running():
        assert await cast.supervisor.stop() == []
        assert await cast.supervisor.stop() == []
