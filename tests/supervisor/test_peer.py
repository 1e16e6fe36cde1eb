"""JSON-RPC in both directions: requests, notifications, answers and errors (HOST-6)."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors_kit import Outcome, turns
from peer_kit import Greeted, Greeting, Json, ask, one_side, two_sides
from pi_project_memory.supervisor.host.frames import INVALID_REQUEST, PARSE_ERROR, FrameDecoder
from pi_project_memory.supervisor.host.peer import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RpcError,
)


@pytest.mark.req("HOST-6")
async def test_both_sides_ask_and_are_answered_at_once():
    async with two_sides() as (left, right):
        outcomes = [Outcome() for _ in range(10)]
        async with anyio.create_task_group() as group:
            for number, outcome in enumerate(outcomes):
                side = (left, right)[number % 2]
                greeting = Greeting(f"n{number}")
                group.start_soon(outcome.of, side.peer.request("greet", greeting, Greeted, 10))
    assert [outcome.value for outcome in outcomes] == [Greeted(f"hello n{number}") for number in range(10)]
    assert anyio.current_time() == 0


@pytest.mark.req("HOST-6")
async def test_a_request_is_answered_under_its_own_id():
    async with one_side() as side:
        for number in (1, "1", "", 0, -5, 2**53, "\ud83d"):
            side.call(number, "greet", firstName="Ada")
        await turns()
    assert [frame["id"] for frame in side.sent] == [1, "1", "", 0, -5, 2**53, "\ud83d"]
    assert all(frame["result"] == {"text": "hello Ada"} for frame in side.sent)
    assert all(frame["jsonrpc"] == "2.0" for frame in side.sent)


@pytest.mark.req("HOST-6")
async def test_answers_may_come_in_another_order_than_their_requests():
    async with one_side() as side:
        side.call(1, "wait", seconds=2)
        side.call(2, "wait", seconds=1)
        side.call(3, "greet", firstName="Ada")
        await anyio.sleep(3)
    assert [frame["id"] for frame in side.sent] == [3, 2, 1]


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize(
    ("frame", "code", "text"),
    [
        ({"id": 7, "method": "grete"}, METHOD_NOT_FOUND, "'grete'"),
        ({"id": 7, "method": "tell", "params": {"firstName": "a"}}, METHOD_NOT_FOUND, "'tell'"),
        ({"id": 7, "method": ""}, METHOD_NOT_FOUND, "''"),
        ({"id": 7, "method": "\ud83d"}, METHOD_NOT_FOUND, "no request"),
        ({"id": 7, "method": "$/cancel", "params": {"id": 7}}, METHOD_NOT_FOUND, "$/cancel"),
        ({"id": 7, "method": "greet"}, INVALID_PARAMS, "`firstName`"),
        ({"id": 7, "method": "greet", "params": {}}, INVALID_PARAMS, "`firstName`"),
        ({"id": 7, "method": "greet", "params": {"first_name": "a"}}, INVALID_PARAMS, "`firstName`"),
        ({"id": 7, "method": "greet", "params": {"firstName": 5}}, INVALID_PARAMS, "$.firstName"),
        ({"id": 7, "method": "greet", "params": {"firstName": None}}, INVALID_PARAMS, "$.firstName"),
        ({"id": 7, "method": "greet", "params": {"firstName": "a", "times": "2"}}, INVALID_PARAMS, "$.times"),
        (
            {"id": 7, "method": "greet", "params": {"firstName": "a", "times": True}},
            INVALID_PARAMS,
            "$.times",
        ),
        ({"id": 7, "method": "greet", "params": ["a"]}, INVALID_PARAMS, "array"),
        ({"id": 7, "method": "greet", "params": "a"}, INVALID_PARAMS, "str"),
        ({"id": 7, "method": "fail"}, INTERNAL_ERROR, "fail: ValueError: the store is odd: \ud83d"),
        ({"id": 7, "method": "unwritable"}, INTERNAL_ERROR, "unwritable: TypeError"),
        ({"id": 7, "method": "refuse"}, -32002, "an old handle"),
    ],
)
async def test_a_request_that_cannot_be_served_gets_one_error_and_the_next_is_served(
    frame: Json, code: int, text: str
):
    async with one_side() as side:
        side.feed({"jsonrpc": "2.0", **frame})
        await turns()
        assert side.only["id"] == 7
        assert side.only["error"]["code"] == code
        assert text in side.only["error"]["message"]
        side.call(7, "greet", firstName="Ada")
        await turns()
    assert side.sent[1:] == [{"jsonrpc": "2.0", "id": 7, "result": {"text": "hello Ada"}}]


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\xff\n", PARSE_ERROR),
        (b"hello\n", PARSE_ERROR),
        (b'{"id":1,"method":"greet"\n', PARSE_ERROR),
        (b'[{"jsonrpc":"2.0","id":1,"method":"greet"}]\n', INVALID_REQUEST),
        (b"[]\n", INVALID_REQUEST),
        (b"7\n", INVALID_REQUEST),
        (b"{}\n", INVALID_REQUEST),
        (b'{"jsonrpc":"2.0"}\n', INVALID_REQUEST),
        (b'{"id":null,"method":"greet","params":{"firstName":"a"}}\n', INVALID_REQUEST),
        (b'{"id":true,"method":"greet","params":{"firstName":"a"}}\n', INVALID_REQUEST),
        (b'{"id":1.5,"method":"greet","params":{"firstName":"a"}}\n', INVALID_REQUEST),
        (b'{"id":[1],"method":"greet","params":{"firstName":"a"}}\n', INVALID_REQUEST),
        (b'{"id":{},"method":"greet"}\n', INVALID_REQUEST),
        (b'{"id":1,"method":5}\n', INVALID_REQUEST),
        (b'{"id":1,"method":null}\n', INVALID_REQUEST),
        (b'{"id":1}\n', INVALID_REQUEST),
        (b'{"result":1}\n', INVALID_REQUEST),
        (b'{"method":"shout"}\n', METHOD_NOT_FOUND),
        (b'{"method":"greet","params":{"firstName":"a"}}\n', METHOD_NOT_FOUND),
        (b'{"method":"tell","params":{"firstName":5}}\n', INVALID_PARAMS),
        (b'{"method":"tell"}\n', INVALID_PARAMS),
        (b'{"method":"tell_badly"}\n', INTERNAL_ERROR),
        (b'{"method":"$/cancel"}\n', METHOD_NOT_FOUND),
        (b'{"method":"$/cancel","params":{"id":null}}\n', METHOD_NOT_FOUND),
        (b'{"method":"$/cancel","params":[1]}\n', METHOD_NOT_FOUND),
    ],
)
async def test_a_frame_that_makes_no_sense_gets_one_error_without_an_id(raw: bytes, code: int):
    async with one_side() as side:
        side.feed(raw=raw)
        await turns()
        assert (side.only["id"], side.only["error"]["code"]) == (None, code)
        assert side.told == []
        side.call(1, "greet", firstName="Ada")
        await turns()
    assert side.answered()[1] == {"text": "hello Ada"}


@pytest.mark.req("HOST-6")
async def test_an_oversized_frame_is_answered_and_the_next_one_served():
    async with one_side() as side:
        side.decoder = FrameDecoder(limit=100)
        side.feed(raw=b'{"id":1,"method":"greet","params":{"firstName":"' + b"x" * 200 + b'"}}\n')
        side.call(2, "greet", firstName="Ada")
        await turns()
    assert side.answered() == {None: PARSE_ERROR, 2: {"text": "hello Ada"}}


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize(
    "frame",
    [
        {"id": None, "error": {"code": PARSE_ERROR, "message": "what?"}},
        {"id": None, "error": None},
        {"id": 99, "result": 1},
        {"id": 99, "error": {"code": 1, "message": "late"}},
        {"id": "99", "result": 1},
    ],
)
async def test_an_answer_that_nobody_waits_for_is_not_answered(frame: Json):
    async with one_side() as side:
        side.feed({"jsonrpc": "2.0", **frame})
        await turns()
    assert side.sent == []


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("raw", [b"garbage\n", b"{}\n", b"[1]\n", b'{"method":"shout"}\n'])
async def test_two_peers_never_answer_each_others_errors(raw: bytes):
    async with two_sides() as (left, right):
        left.feed(raw=raw)
        await turns(50)
    assert len(left.sent) == 1
    assert right.sent == []


@pytest.mark.req("HOST-6")
async def test_notifications_are_handled_at_once_and_in_order():
    async with one_side() as side:
        for number in range(100):
            side.feed({"method": "tell", "params": {"firstName": f"n{number}"}})
            assert len(side.told) == number + 1
    assert side.told == [Greeting(f"n{number}") for number in range(100)]
    assert side.sent == []


@pytest.mark.req("HOST-6")
async def test_a_duplicate_request_is_refused_and_the_first_one_is_answered_all_the_same():
    """The refusal carries no id: under the id it would pass for the first one's answer."""
    async with two_sides() as (left, right):
        outcome = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, left.peer.request("wait", {"seconds": 5}, str, 10))
            await turns()
            right.feed(left.sent[0])
            await turns()
            assert [(frame["id"], frame["error"]["code"]) for frame in right.sent] == [
                (None, INVALID_REQUEST)
            ]
            assert "request 1 " in right.sent[0]["error"]["message"]
    assert (outcome.value, outcome.at) == ("waited", 5)
    assert right.ended == ["wait"]


@pytest.mark.req("HOST-6")
async def test_an_id_may_be_used_again_once_it_was_answered():
    async with one_side() as side:
        for _ in range(3):
            side.call(1, "greet", firstName="Ada")
            await turns()
    assert [frame["result"] for frame in side.sent] == [{"text": "hello Ada"}] * 3


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Greeted, {"text": 5}),
        (Greeted, {}),
        (Greeted, None),
        (Greeted, []),
        (str, 1),
        (int, True),
        (list[int], [1, "2"]),
    ],
)
async def test_an_answer_of_the_wrong_type_is_refused_and_not_cancelled(answer: Any, result: object):
    async with one_side() as side:
        outcome = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, ask(side, answer=answer))
            await turns()
            side.feed({"id": 1, "result": result})
        assert isinstance(outcome.error, msgspec.ValidationError)
        assert len(side.sent) == 1


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        ({"code": -32601, "message": "no such method"}, -32601, "no such method"),
        ({"code": 7, "message": "", "data": {"more": 1}}, 7, ""),
        ({"code": "7", "message": "m"}, INTERNAL_ERROR, "'7'"),
        ({"code": 7}, INTERNAL_ERROR, "unknown form"),
        ({"message": "m"}, INTERNAL_ERROR, "unknown form"),
        ({"code": 7.5, "message": None}, INTERNAL_ERROR, "unknown form"),
        ("just a text", INTERNAL_ERROR, "just a text"),
        ([], INTERNAL_ERROR, "unknown form"),
        (False, INTERNAL_ERROR, "unknown form"),
        ({"x": "y" * 100_000}, INTERNAL_ERROR, "unknown form"),
    ],
)
async def test_an_error_of_any_form_reaches_the_caller(error: object, code: int, text: str):
    async with one_side() as side:
        outcome = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, ask(side))
            await turns()
            side.feed({"id": 1, "error": error, "result": "and a result"})
        assert isinstance(outcome.error, RpcError)
        assert outcome.error.code == code
        assert text in str(outcome.error)
        assert len(str(outcome.error)) < 1000


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("number", [True, 1.0, "1", None, [1]])
async def test_an_answer_under_another_kind_of_id_answers_nothing(number: object):
    async with one_side() as side:
        outcome = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(outcome.of, ask(side))
            await turns()
            side.feed({"id": number, "result": "not mine"})
            await turns()
            assert outcome.at is None
            side.feed({"id": 1, "result": "mine"})
    assert outcome.value == "mine"


@pytest.mark.req("HOST-6")
async def test_a_request_that_cannot_be_written_leaves_nothing_behind():
    async with one_side() as side:
        with pytest.raises(TypeError):
            await side.peer.request("greet", object(), str, 10)
        assert side.sent == []
        assert not side.peer._waiting


@pytest.mark.req("HOST-6", "HOST-7")
async def test_ten_thousand_requests_leave_nothing_behind():
    async with two_sides() as (left, right):
        for number in range(2000):
            with suppress(RpcError):
                await left.peer.request(("greet", "grete")[number % 2], Greeting("Ada"), Greeted, 10)
        gc.collect()
        for side in (left, right):
            assert not side.peer._waiting
            assert not side.peer._running


FRAME = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2]),
        "id": st.sampled_from([1, 2, "1", None, True, 1.5, [], {}]),
        "method": st.sampled_from(["greet", "wait", "fail", "tell", "tell_badly", "$/cancel", "no", 5, None]),
        "params": st.sampled_from(
            [{}, {"firstName": "Ada"}, {"id": 1}, {"id": True}, [], "x", None, {"seconds": 1}]
        ),
        "result": st.sampled_from([None, {}, "x"]),
        "error": st.sampled_from([None, {}, {"code": 1, "message": "m"}, "x"]),
    },
)


@pytest.mark.req("HOST-6")
@given(frames=st.lists(FRAME, max_size=20))
def test_no_frame_ends_the_conversation(frames: list[Json]):
    """Whatever came before, the next good request is served, and nothing is answered twice."""

    async def scenario() -> None:
        async with one_side() as side:
            for frame in frames:
                side.feed(frame)
                await turns(2)
            side.call("last", "greet", firstName="Ada")
            await turns()
            assert side.answered()["last"] == {"text": "hello Ada"}
            assert len(side.sent) <= len(frames) + 1

    anyio.run(scenario)
