"""The loop every actor runs: one message at a time, jobs beside it, stale work dropped (LIFE-1, LIFE-2)."""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

import pi_project_memory.actors as actors_package
from actors_kit import Note, Outcome, Question, Script, ScriptedActor, Stage, Tally, turns
from pi_project_memory.actors.actor import ActorFailedError, StaleGenerationError
from pi_project_memory.actors.mailbox import Mailbox, Message


def first_of(error: BaseException | None) -> BaseException | None:
    """Return what a task group failed with."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def answer(actor: ScriptedActor, message: Message) -> None:
    if isinstance(message, Question):
        message.reply.send(f"{message.text} is number {actor.seen}")


async def fail(_actor: ScriptedActor, _message: Message) -> None:
    raise ValueError("the index is odd")


async def hang(_actor: ScriptedActor, _message: Message) -> None:
    await anyio.sleep_forever()


def source_files() -> list[Path]:
    return sorted(Path(next(iter(actors_package.__path__))).rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                names.update(alias.name for alias in node.names)
            case ast.ImportFrom():
                names.update(f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.req("HOST-1")
def test_no_actor_knows_which_host_it_has():
    files = source_files()
    assert len(files) > 10
    guilty = {
        f"{path.name}: {name}"
        for path in files
        for name in imported(path)
        if name.startswith(("pi_project_memory.supervisor", "."))
    }
    assert guilty == set()


@pytest.mark.req("LIFE-1")
async def test_messages_are_handled_one_after_another():
    busy, overlaps = 0, []

    async def act(_actor: ScriptedActor, _message: Message) -> None:
        nonlocal busy
        busy += 1
        overlaps.append(busy)
        await anyio.sleep(1)
        busy -= 1

    stage = Stage(Script(act))
    for number in range(5):
        stage.mailbox.tell(Note(0, number))
    stage.mailbox.finish("enough")
    await stage.actor().run()
    assert overlaps == [1] * 5
    assert [message for _, message in stage.script.handled] == [Note(0, number) for number in range(5)]


@pytest.mark.req("LIFE-1")
async def test_two_actors_share_no_state():
    stage, other = Stage(Script(answer)), Stage(Script(answer))
    first, second = Outcome(), Outcome()
    async with anyio.create_task_group() as group:
        for each in (stage, other):
            group.start_soon(each.actor().run)
        group.start_soon(first.of, stage.ask("a"))
        group.start_soon(second.of, other.ask("b"))
        await turns(20)
        stage.mailbox.close("over")
        other.mailbox.close("over")
    assert (first.value, second.value) == ("a is number 1", "b is number 1")


@pytest.mark.req("LIFE-2")
async def test_a_stale_message_has_no_effect_and_its_asker_is_told_at_once():
    stage, outcome = Stage(Script(answer)), Outcome()
    stage.generations.advance("the configuration changed")
    for message in (Note(0, 1), Tally(0, (2,)), Note(1, 3), Note(2, 4)):
        stage.mailbox.tell(message)
    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, stage.ask("who?", generation=0))
        await turns()
        stage.mailbox.finish("enough")
        await stage.actor().run()
    assert [message for _, message in stage.script.handled] == [Note(1, 3)]
    assert isinstance(outcome.error, StaleGenerationError)
    assert anyio.current_time() == 0
    kinds = [type(message).__name__ for message in stage.script.dropped]
    assert kinds == ["Note", "Tally", "Note", "Question"]
    dropped = stage.trace.named("stale_dropped")
    assert [(fields["message"], fields["generation"]) for fields in dropped] == [
        ("Note", 0),
        ("Tally", 0),
        ("Note", 2),
        ("Question", 0),
    ]
    assert {fields["reason"] for fields in dropped} == {"the current generation is 1"}


@pytest.mark.req("LIFE-2")
async def test_a_message_that_turns_stale_while_it_waits_is_dropped():
    release = anyio.Event()

    async def act(_actor: ScriptedActor, _message: Message) -> None:
        await release.wait()

    stage = Stage(Script(act))
    async with anyio.create_task_group() as group:
        stage.mailbox.tell(Note(0, 1))
        stage.mailbox.tell(Note(0, 2))
        group.start_soon(stage.actor().run)
        await turns()
        stage.generations.advance("reload")
        release.set()
        await turns()
        stage.mailbox.close("over")
    assert stage.script.handled == [(1, Note(0, 1))]
    assert stage.script.dropped == [Note(0, 2)]


@pytest.mark.req("LIFE-2", "LIFE-3")
async def test_after_the_session_was_aborted_every_message_is_stale():
    stage = Stage()
    stage.mailbox.tell(Note(0, 1))
    stage.mailbox.finish("over")
    stage.session.abort("the session ends")
    await stage.actor().run()
    assert stage.script.handled == []
    assert stage.script.dropped == [Note(0, 1)]


@pytest.mark.req("LIFE-2")
async def test_the_result_of_a_job_carries_the_generation_it_began_in():
    async def act(actor: ScriptedActor, message: Message) -> None:
        async def job() -> None:
            await anyio.sleep(5)
            actor.mailbox.tell(Tally(message.generation, (1,)))

        if isinstance(message, Note):
            actor.start_job(job)

    stage = Stage(Script(act))
    async with anyio.create_task_group() as group:
        group.start_soon(stage.actor().run)
        stage.mailbox.tell(Note(0))
        await anyio.sleep(1)
        stage.generations.advance("reload")
        await anyio.sleep(10)
        stage.mailbox.close("over")
    assert stage.script.dropped == [Tally(0, (1,))]


@pytest.mark.req("LIFE-1")
async def test_the_loop_goes_on_while_a_job_runs_and_the_end_waits_for_it():
    finished = []

    async def act(actor: ScriptedActor, message: Message) -> None:
        async def job() -> None:
            await anyio.sleep(5)
            finished.append(anyio.current_time())

        if isinstance(message, Note):
            actor.start_job(job)
        await answer(actor, message)

    stage, outcome = Stage(Script(act)), Outcome()
    stage.mailbox.tell(Note(0))
    async with anyio.create_task_group() as group:
        group.start_soon(stage.actor().run)
        await outcome.of(stage.ask("still there"))
        assert outcome.at == 0
        stage.mailbox.close("over")
    assert finished == [5]
    assert stage.script.abandoned == ["scripted has ended"]


@pytest.mark.req("LIFE-4")
async def test_a_message_that_fails_its_handler_is_answered_and_ends_the_actor():
    stage, asker, runner = Stage(Script(fail)), Outcome(), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(asker.of, stage.ask("how many?"))
        await turns()
        stage.mailbox.tell(Note(0, 2))
        await runner.of(stage.actor().run())
    assert isinstance(asker.error, ActorFailedError)
    assert str(asker.error) == "scripted failed on Question: the index is odd"
    assert isinstance(first_of(runner.error), ValueError)
    assert len(stage.mailbox) == 1
    assert stage.script.abandoned == ["scripted has ended"]


async def _job_that_fails(actor: ScriptedActor) -> None:
    async def job() -> None:
        await anyio.sleep(1)
        raise ValueError("the job failed")

    actor.start_job(job)


@pytest.mark.req("LIFE-4")
async def test_a_job_that_fails_while_a_question_is_handled_leaves_no_asker_waiting():
    async def act(actor: ScriptedActor, message: Message) -> None:
        await _job_that_fails(actor)
        await anyio.sleep_forever()

    stage, asker, runner = Stage(Script(act)), Outcome(), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(asker.of, stage.ask("how many?"))
        await runner.of(stage.actor().run())
    assert str(first_of(runner.error)) == "the job failed"
    assert isinstance(asker.error, ActorFailedError)
    assert asker.at == 1


@pytest.mark.req("LIFE-4")
async def test_a_job_that_fails_while_nothing_is_handled_loses_no_message():
    async def act(actor: ScriptedActor, _message: Message) -> None:
        await _job_that_fails(actor)

    stage, runner = Stage(Script(act)), Outcome()
    async with anyio.create_task_group() as group:
        stage.mailbox.tell(Note(0, 1))
        group.start_soon(runner.of, stage.actor().run())
        await anyio.sleep(2)
        stage.mailbox.tell(Note(0, 2))
    assert str(first_of(runner.error)) == "the job failed"
    assert len(stage.mailbox) == 1


@pytest.mark.req("LIFE-1", "LIFE-5")
async def test_an_actor_cancelled_in_the_middle_of_a_question_answers_it():
    stage, asker = Stage(Script(hang)), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(asker.of, stage.ask("how many?"))
        with anyio.move_on_after(2):
            await stage.actor().run()
    assert isinstance(asker.error, ActorFailedError)
    assert asker.at == 2
    assert stage.script.abandoned == ["scripted has ended"]


async def _end_normally(stage: Stage) -> None:
    stage.mailbox.close("over")
    await stage.actor().run()


async def _end_by_failure(stage: Stage) -> None:
    stage.script.act = fail
    stage.mailbox.tell(Note(0))
    with pytest.raises(ExceptionGroup):
        await stage.actor().run()


async def _end_by_failed_rebuild(stage: Stage) -> None:
    async def rebuild(_life: int) -> None:
        raise OSError("no branch")

    stage.script.rebuild = rebuild
    with pytest.raises(ExceptionGroup):
        await stage.actor().run()


async def _end_by_cancellation(stage: Stage) -> None:
    with anyio.move_on_after(1):
        await stage.actor().run()


@pytest.mark.req("LIFE-1")
@pytest.mark.parametrize(
    "end", [_end_normally, _end_by_failure, _end_by_failed_rebuild, _end_by_cancellation]
)
async def test_whoever_waits_for_the_jobs_is_told_at_every_end(end: Callable[[Stage], Awaitable[None]]):
    stage = Stage()
    await end(stage)
    assert stage.script.abandoned == ["scripted has ended"]


@pytest.mark.req("LIFE-4")
async def test_the_start_is_told_once_the_state_is_built():
    async def rebuild(_life: int) -> None:
        await anyio.sleep(3)

    stage = Stage(Script(rebuild=rebuild))
    async with anyio.create_task_group() as group:
        await group.start(stage.actor().run)
        assert anyio.current_time() == 3
        stage.mailbox.close("over")


@pytest.mark.req("OBS-1")
async def test_the_trace_names_actor_kind_and_generation_and_nothing_of_the_text():
    stage, outcome = Stage(Script(answer)), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(stage.actor().run)
        await outcome.of(stage.ask("a secret"))
        stage.mailbox.close("over")
    assert stage.trace.events == [("received", {"actor": "scripted", "message": "Question", "generation": 0})]


@pytest.mark.req("LIFE-1")
async def test_a_closed_mailbox_ends_an_actor_that_waits():
    stage = Stage()
    mailbox: Mailbox[Message] = stage.mailbox
    async with anyio.create_task_group() as group:
        group.start_soon(stage.actor().run)
        await anyio.sleep(1)
        mailbox.close("over")
    assert anyio.current_time() == 1
