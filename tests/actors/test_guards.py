"""Blocks that an abort scope guards: what ends them, and what does not (LIFE-3)."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import anyio
import pytest

from actors_kit import Outcome, turns
from pi_project_memory.actors.scopes import AbortedError, AbortScope
from scopes_kit import LEVELS, nested, sleep_in


@pytest.mark.req("LIFE-3")
@pytest.mark.parametrize("level", range(4), ids=LEVELS)
async def test_an_abort_inside_nested_guards_ends_the_levels_it_names_and_no_other(level: int):
    """The block above the aborted level goes on and may wait as it likes."""
    scopes, outer, heard = nested(), [], []

    async def work() -> None:
        with ExitStack() as stack:
            for scope in scopes[:level]:
                stack.enter_context(scope.guard())
            with pytest.raises(AbortedError) as raised:
                await inner()
            heard.append(str(raised.value))
            await anyio.sleep(5)
            outer.append("went on")

    async def inner() -> None:
        with ExitStack() as stack:
            for scope in scopes[level:]:
                stack.enter_context(scope.guard())
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await turns()
        scopes[level].abort("enough")
        await turns()
        assert heard == ["enough"]
    assert outer == ["went on"]


@pytest.mark.req("LIFE-3")
async def test_an_abort_ends_a_guarded_block_in_the_same_instant():
    scope, outcome = AbortScope("task"), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, sleep_in(scope.child("request")))
        await turns()
        scope.abort("stopped by the user")
    assert isinstance(outcome.error, AbortedError)
    assert str(outcome.error) == "stopped by the user"
    assert outcome.at == 0


@pytest.mark.req("LIFE-3")
async def test_an_abort_reaches_many_blocks_at_once():
    session = AbortScope("session")
    outcomes = [Outcome() for _ in range(50)]
    async with anyio.create_task_group() as group:
        for number, outcome in enumerate(outcomes):
            scope = session.child(f"task {number}") if number % 2 else session
            group.start_soon(outcome.of, sleep_in(scope))
        await turns()
        session.abort("the session ends")
    assert {str(outcome.error) for outcome in outcomes} == {"the session ends"}


@pytest.mark.req("LIFE-3")
@pytest.mark.parametrize("abort_first", [True, False])
async def test_an_abort_that_races_completion_leaves_a_task_that_can_go_on(*, abort_first: bool):
    """Either fact may come first, but a cancellation never leaks out of the guard."""
    scope, done, after = AbortScope("task"), anyio.Event(), []

    async def work() -> None:
        try:
            with scope.guard():
                await done.wait()
        except AbortedError:
            after.append("aborted")
        await anyio.sleep(1)
        task = asyncio.current_task()
        assert task is not None
        after.append(task.cancelling())

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await turns()
        for act in (lambda: scope.abort("stop"), done.set)[:: 1 if abort_first else -1]:
            act()
    assert after[-1] == 0
    assert scope.aborted


@pytest.mark.req("LIFE-3")
async def test_work_that_has_done_its_last_wait_keeps_its_result():
    scope = AbortScope("task")
    with scope.guard():
        await turns()
        scope.abort("too late to matter")
    assert scope.aborted
    await anyio.sleep(1)


@pytest.mark.req("LIFE-3")
async def test_a_block_that_aborts_its_own_scope_ends_at_its_next_wait():
    scope, outcome, after = AbortScope("task"), Outcome(), []

    async def work() -> None:
        with scope.guard():
            scope.abort("I give up")
            after.append("aborted")
            await turns()
            after.append("waited")

    await outcome.of(work())
    assert isinstance(outcome.error, AbortedError)
    assert after == ["aborted"]


@pytest.mark.req("LIFE-3")
async def test_an_abort_gets_through_an_outer_shield():
    scope, outcome = AbortScope("publish"), Outcome()

    async def work() -> None:
        with anyio.CancelScope(shield=True):
            await outcome.of(sleep_in(scope))

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await turns()
        scope.abort("the disk is gone")
    assert isinstance(outcome.error, AbortedError)


@pytest.mark.req("LIFE-3")
async def test_clean_up_under_a_shield_ends_before_the_abort_is_told():
    scope, outcome, cleaned = AbortScope("task"), Outcome(), []

    async def work() -> None:
        with scope.guard():
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(1)
                    cleaned.append("scratch")

    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, work())
        await turns()
        scope.abort("stop")
        assert scope.aborted
        assert outcome.at is None
    assert cleaned == ["scratch"]
    assert (str(outcome.error), outcome.at) == ("stop", pytest.approx(1))


@pytest.mark.req("LIFE-3")
async def test_a_failure_during_the_abort_is_told_as_that_failure():
    scope, outcome = AbortScope("task"), Outcome()

    async def work() -> None:
        with scope.guard():
            try:
                await anyio.sleep_forever()
            finally:
                raise OSError("the scratch directory cannot be removed")

    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, work())
        await turns()
        scope.abort("stop")
    assert isinstance(outcome.error, OSError)


@pytest.mark.req("LIFE-3")
async def test_a_timeout_around_a_guard_is_not_an_abort():
    scope = AbortScope("task")
    with anyio.move_on_after(3) as timeout:
        await sleep_in(scope)
    assert timeout.cancelled_caught
    assert not scope.aborted
    assert not scope._listeners


@pytest.mark.req("LIFE-3")
async def test_a_timeout_inside_a_guard_is_not_an_abort():
    scope = AbortScope("task")
    with scope.guard():
        with anyio.move_on_after(3) as timeout:
            await anyio.sleep_forever()
        await anyio.sleep(1)
    assert timeout.cancelled_caught
    assert not scope.aborted


@pytest.mark.req("LIFE-3")
async def test_a_task_cancelled_by_the_loop_is_not_an_abort():
    scope = AbortScope("task")
    task = asyncio.create_task(sleep_in(scope))
    await turns()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not scope._listeners


@pytest.mark.req("LIFE-3")
async def test_an_abort_and_a_timeout_together_end_the_block_and_leave_the_task_whole():
    scope, after = AbortScope("task"), []

    async def work() -> None:
        with anyio.CancelScope() as outer:
            outers.append(outer)
            try:
                await sleep_in(scope)
            except AbortedError as error:
                after.append(str(error))
        await anyio.sleep(1)
        after.append("whole")

    outers: list[anyio.CancelScope] = []
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await turns()
        outers[0].cancel()
        scope.abort("stop")
    assert after[-1] == "whole"
