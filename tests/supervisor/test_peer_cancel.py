"""Cancellation in both directions, and the end of the pipe (HOST-7, HOST-11)."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import pytest

from actors_kit import Outcome, turns
from peer_kit import Json, ask, one_side, two_sides
from pi_project_memory.actors.mailbox import AskTimeoutError
from pi_project_memory.actors.scopes import AbortedError, AbortScope
from pi_project_memory.supervisor.host.peer import (
    CANCELLED,
    INTERNAL_ERROR,
    PipeClosedError,
    RequestMethod,
)


@pytest.mark.req("HOST-7")
async def test_a_cancelled_request_ends_and_is_answered_once():
    async with one_side() as side:
        side.call(1, "wait", name="first")
        side.call("1", "wait", name="second")
        await turns()
        side.feed({"method": "$/cancel", "params": {"id": 1}})
        side.feed({"method": "$/cancel", "params": {"id": 1}})
        await turns()
        assert side.ended == ["first"]
        assert side.answered() == {1: CANCELLED}
        assert len(side.sent) == 1
        side.call(1, "greet", firstName="Ada")
        await turns()
        assert side.answered()[1] == {"text": "hello Ada"}


@pytest.mark.req("HOST-7")
async def test_a_request_cancelled_before_it_began_never_begins_its_wait():
    async with one_side() as side:
        side.call(1, "wait", seconds=1)
        side.feed({"method": "$/cancel", "params": {"id": 1}})
        await turns()
        assert side.answered() == {1: CANCELLED}
    assert anyio.current_time() == 0


@pytest.mark.req("HOST-7")
@pytest.mark.parametrize("number", [99, "1", -1, True, 1.0, 1.5, None, [1], {"id": 1}])
async def test_cancelling_what_does_not_run_ends_nothing(number: object):
    async with one_side() as side:
        side.call(1, "wait", seconds=3)
        await turns()
        side.feed({"method": "$/cancel", "params": {"id": number}})
        await anyio.sleep(4)
    assert side.answered()[1] == "waited"


@pytest.mark.req("HOST-7")
async def test_cancelling_a_finished_request_is_no_error():
    async with one_side() as side:
        side.call(1, "greet", firstName="Ada")
        await turns()
        side.feed({"method": "$/cancel", "params": {"id": 1}})
        await turns()
    assert len(side.sent) == 1


@pytest.mark.req("HOST-7")
async def test_a_handler_that_fails_while_it_is_cancelled_is_answered_once():
    async def stubborn(_params: Json) -> None:
        with suppress(anyio.get_cancelled_exc_class()):
            await anyio.sleep_forever()
        raise OSError("no room for the clean-up")

    async with one_side() as side:
        side.peer.methods = {"stubborn": RequestMethod(dict, stubborn)}
        side.call(1, "stubborn")
        await turns()
        side.feed({"method": "$/cancel", "params": {"id": 1}})
        await turns()
    assert side.answered() == {1: INTERNAL_ERROR}
    assert len(side.sent) == 1


@pytest.mark.req("HOST-7")
async def test_a_cancelled_call_tells_the_other_side_in_the_same_turn():
    async with one_side() as side:
        scope, outcome = AbortScope("request"), Outcome()

        async def call() -> None:
            with scope.guard():
                await ask(side)

        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, call())
            await turns()
            assert [frame["method"] for frame in side.sent] == ["greet"]
            scope.abort("stopped by the user")
            await asyncio.sleep(0)
            assert side.sent[1:] == [{"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": 1}}]
    assert isinstance(outcome.error, AbortedError)
    assert len(side.sent) == 2


@pytest.mark.req("HOST-7")
async def test_an_abort_on_one_side_ends_the_handler_on_the_other():
    async with two_sides() as (left, right):
        scope, outcome = AbortScope("request"), Outcome()

        async def call() -> None:
            with scope.guard():
                await left.peer.request("wait", {"name": "model"}, str, 100)

        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, call())
            await turns()
            assert right.ended == []
            scope.abort("stopped by the user")
            await turns()
            assert right.ended == ["model"]
        await turns()
        assert right.answered() == {1: CANCELLED}
    assert str(outcome.error) == "stopped by the user"
    assert not left.peer._waiting


@pytest.mark.req("HOST-7")
async def test_a_deadline_cancels_the_request_on_the_other_side_and_a_late_answer_is_discarded():
    async with one_side() as side:
        outcome = Outcome()
        await outcome.of(ask(side, deadline=2))
        assert isinstance(outcome.error, AskTimeoutError)
        assert outcome.at == 2
        assert side.sent[-1] == {"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": 1}}
        side.feed({"id": 1, "result": "late"})
        side.feed({"id": 1, "error": {"code": CANCELLED, "message": "late"}})
        await turns()
        assert len(side.sent) == 2
        assert not side.peer._waiting


@pytest.mark.req("HOST-7")
@pytest.mark.parametrize(("delay", "counts"), [(1.999, True), (2.001, False)])
async def test_an_answer_counts_up_to_the_deadline(delay: float, *, counts: bool):
    async with one_side() as side:
        outcome = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, ask(side, deadline=2))
            await anyio.sleep(delay)
            side.feed({"id": 1, "result": "here"})
    assert (outcome.value == "here") is counts
    assert len(side.sent) == (1 if counts else 2)


@pytest.mark.req("HOST-11", "C81")
async def test_the_end_of_the_pipe_fails_all_that_waits_and_cancels_all_that_runs():
    async with one_side() as side:
        outcomes = [Outcome() for _ in range(3)]
        async with anyio.create_task_group() as group:
            for outcome in outcomes:
                group.start_soon(outcome.of, ask(side))
            side.call(1, "wait", name="first")
            side.call(2, "wait", name="second")
            await turns()
            side.sent.clear()
            side.peer.close("the host is gone")
            side.peer.close("a second reason, too late")
        await turns()
        assert sorted(side.ended) == ["first", "second"]
        assert side.sent == []
    assert [str(outcome.error) for outcome in outcomes] == ["the host is gone"] * 3
    assert all(isinstance(outcome.error, PipeClosedError) for outcome in outcomes)
    assert anyio.current_time() == 0


@pytest.mark.req("HOST-11", "C81")
async def test_after_the_end_nothing_is_asked_told_started_or_answered():
    async with one_side() as side:
        side.peer.close("the host is gone")
        for _ in range(2):
            with pytest.raises(PipeClosedError, match=r"^the host is gone$"):
                await ask(side)
        side.peer.notify("ui/notify", {"text": "anybody?"})
        side.call(1, "wait", name="late")
        side.feed({"method": "tell", "params": {"firstName": "Ada"}}, {"method": "shout"}, raw=b"garbage\n")
        await anyio.sleep(1)
        assert (side.sent, side.told, side.ended) == ([], [], [])
        assert not side.peer._running


@pytest.mark.req("HOST-11")
async def test_a_closed_pipe_asked_a_thousand_times_keeps_nothing_of_it():
    async with one_side() as side:
        side.peer.close("the host is gone")
        depths = []
        for _ in range(1000):
            with pytest.raises(PipeClosedError) as raised:
                await ask(side)
            depths.append(len(raised.traceback))
    assert depths[-1] == depths[0]


@pytest.mark.req("HOST-11", "C79")
async def test_a_pipe_that_closes_while_a_call_is_being_cancelled_is_told_nothing_more():
    async with one_side() as side:
        async with anyio.create_task_group() as group:
            group.start_soon(Outcome().of, ask(side))
            await turns()
            side.sent.clear()
            side.peer.close("the host is gone")
            group.cancel_scope.cancel()
        await turns()
    assert side.sent == []
