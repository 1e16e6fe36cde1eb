"""The background loop against models that do not behave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_project_memory.actors.ports.host import (
    HostError,
    JsonObject,
    ModelAnswer,
    ModelQuery,
    ModelRequest,
    ResolvedModel,
)
from pi_project_memory.actors.ports.tools import FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.actors.scopes import AbortedError, AbortScope
from pi_project_memory.actors.subagent.attempt import Attempt, attempt
from pi_project_memory.actors.subagent.guarded_files import StorageFailedError
from pi_project_memory.actors.subagent.loop import BackgroundLoop, LoopResult, side_by_side
from pi_project_memory.actors.subagent.run import LockLostError
from subagent_kit import Yard, names

DONE = {"role": "assistant", "content": [{"type": "text", "text": "Saved."}], "stopReason": "stop"}
OPENING = {"role": "user", "content": [{"type": "text", "text": "task"}]}


def call(tool: str = "read", arguments: Any = None, call_id: str = "c", **fields: Any) -> JsonObject:
    given = {"path": "src/a.py"} if arguments is None else arguments
    return {"type": "toolCall", "id": call_id, "name": tool, "arguments": given, **fields}


def calling(*calls: JsonObject, stop: str = "toolUse") -> JsonObject:
    return {"role": "assistant", "content": list(calls), "stopReason": stop}


@dataclass
class Model:
    """Answers from a list, the last answer for ever; keeps what it was asked."""

    answers: Sequence[JsonObject | Exception]
    requests: list[ModelRequest] = field(default_factory=list)

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        raise AssertionError("the loop looks no model up")

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return ModelAnswer(answer)

    @property
    def told(self) -> list[JsonObject]:
        """The messages that the last request added to the opening."""
        return list(self.requests[-1].messages[1:])


@dataclass
class Turns:
    """Hears of each turn; raises `error` before turn `at`."""

    at: int = 0
    error: Exception | None = None
    begun: list[int] = field(default_factory=list)

    async def __call__(self, turn: int) -> None:
        if turn == self.at and self.error is not None:
            raise self.error
        self.begun.append(turn)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def loop(
    yard: Yard, model: Model, max_turns: int = 5, host: Any = None, before_turn: Turns | None = None
) -> BackgroundLoop:
    return BackgroundLoop(
        model,
        yard.toolbox(host=host),
        lambda added: ModelRequest("p", "m", [OPENING, *added]),
        max_turns,
        before_turn or Turns(),
    )


@pytest.mark.req("EXT-7")
async def test_a_model_that_calls_nothing_is_done_after_one_request(yard: Yard):
    model, turns = Model([DONE]), Turns()
    assert await loop(yard, model, before_turn=turns).run() == LoopResult("done", 1)
    assert (len(model.requests), turns.begun) == (1, [1])


@pytest.mark.req("EXT-7")
@pytest.mark.parametrize(
    "content", [[], None, "Saved.", [{"type": "thinking", "thinking": "hm"}], ["toolCall", None, 5]], ids=repr
)
async def test_an_answer_without_a_call_ends_the_run_whatever_it_holds(yard: Yard, content: Any):
    model = Model([{"role": "assistant", "content": content, "stopReason": "stop"}])
    assert (await loop(yard, model).run()).finish == "done"


@pytest.mark.req("EXT-7")
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_at_the_limit_the_last_calls_run_and_no_request_follows(yard: Yard, limit: int):
    target = f"{yard.memory}/new.md"
    write = calling(call("write", {"path": target, "content": "kept\n"}))
    model, turns = Model([*[calling(call())] * (limit - 1), write]), Turns()
    result = await loop(yard, model, limit, before_turn=turns).run()
    assert result == LoopResult("turn limit", limit)
    assert len(model.requests) == limit
    assert turns.begun == list(range(1, limit + 1))
    assert Path(target).read_text() == "kept\n"


@pytest.mark.req("EXT-7")
async def test_a_model_that_repeats_one_failing_call_is_stopped_at_the_limit(yard: Yard):
    model = Model([calling(call("write", {"path": f"{yard.memory}/a.md", "content": "x"}))])
    assert (await loop(yard, model, 7).run()).finish == "turn limit"
    errors = [message for message in model.told if message["role"] == "toolResult"]
    assert [error["isError"] for error in errors] == [True] * 6


@pytest.mark.req("EXT-7", "EXT-6")
async def test_each_request_continues_the_one_before_it(yard: Yard):
    """A prefix that stays the same is what a provider can cache."""
    signed = calling({"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}, call())
    model = Model([signed, calling(call("find", {"pattern": "*", "path": "src"}, "d")), DONE])
    await loop(yard, model).run()
    first, second, third = ([*request.messages] for request in model.requests)
    assert first == [OPENING]
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert second[1] == signed, "what the model said goes back as it was"
    assert [message["role"] for message in third] == [
        "user",
        *("assistant", "toolResult"),
        *("assistant", "toolResult"),
    ]


@pytest.mark.req("EXT-7", "SUB-1")
async def test_every_call_is_answered_in_order_with_its_own_id(yard: Yard):
    calls = [call(call_id=f"id-{n}", tool=tool) for n, tool in enumerate(["read", "nothing", "read", "bash"])]
    model = Model([calling(*calls), DONE])
    await loop(yard, model).run()
    results = model.told[1:]
    assert [result["toolCallId"] for result in results] == ["id-0", "id-1", "id-2", "id-3"]
    assert [result["toolName"] for result in results] == ["read", "nothing", "read", "bash"]
    assert [result["isError"] for result in results] == [False, True, False, True]
    assert all(result["role"] == "toolResult" and result["content"] for result in results)


@pytest.mark.req("EXT-7", "SUB-1")
async def test_calls_of_one_answer_run_side_by_side(yard: Yard):
    class Slow:
        async def execute_tool(self, invocation: ToolInvocation, ops: FileOps) -> ToolOutcome:
            await anyio.sleep(10)
            return ToolOutcome([{"type": "text", "text": "slow"}])

    started = anyio.current_time()
    await loop(yard, Model([calling(*[call()] * 8), DONE]), host=Slow()).run()
    assert anyio.current_time() - started == 10


@pytest.mark.req("SUB-1")
@pytest.mark.parametrize(
    "broken",
    [
        call(argumentsError="Unexpected end of JSON input", arguments={}),
        call(arguments=None) | {"arguments": None},
        call(arguments="{"),
        {"type": "toolCall"},
        {"type": "toolCall", "id": None, "name": None, "arguments": {}},
        call(tool="select_memories", arguments={"selected_memories": []}),
    ],
    ids=["no JSON", "none", "a text", "no fields", "fields of nothing", "another role's tool"],
)
async def test_a_call_that_makes_no_sense_is_answered_and_the_run_goes_on(yard: Yard, broken: JsonObject):
    model = Model([calling(broken), DONE])
    assert (await loop(yard, model).run()).finish == "done"
    (result,) = model.told[1:]
    assert result["isError"]
    assert result["content"][0]["text"]


@pytest.mark.req("SUB-1")
async def test_a_write_whose_arguments_were_cut_off_writes_nothing(yard: Yard):
    """The host gives what it could parse of them; half a topic must not be published."""
    cut = call("write", {"path": f"{yard.memory}/new.md", "content": "half"}, argumentsError="unexpected end")
    await loop(yard, Model([calling(cut, stop="length"), DONE])).run()
    assert names(yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("EXT-2", "EXT-7")
@pytest.mark.parametrize("message", ["529 overloaded", "", None])
async def test_an_error_of_the_provider_ends_the_run_with_its_text(yard: Yard, message: str | None):
    failed = {"role": "assistant", "content": [call()], "stopReason": "error", "errorMessage": message}
    model = Model([calling(call()), failed])
    assert await loop(yard, model).run() == LoopResult("api error", 2, message or "unknown error")
    assert len(model.requests) == 2


@pytest.mark.req("EXT-2")
async def test_an_abort_by_the_host_is_an_abort(yard: Yard):
    aborted = {"role": "assistant", "content": [], "stopReason": "aborted"}
    with pytest.raises(AbortedError):
        await loop(yard, Model([aborted])).run()


@pytest.mark.req("EXT-2")
async def test_a_host_that_fails_is_an_exception(yard: Yard):
    with pytest.raises(HostError, match="pipe"):
        await loop(yard, Model([calling(call()), HostError("the pipe is closed")])).run()


@pytest.mark.req("SUB-5", "LCK-2")
async def test_a_lock_lost_between_two_turns_ends_the_run_before_it_asks_again(yard: Yard):
    model = Model([calling(call())])
    lost = Turns(at=3, error=LockLostError("taken by another process"))
    with pytest.raises(LockLostError):
        await loop(yard, model, before_turn=lost).run()
    assert (len(model.requests), lost.begun) == (2, [1, 2])


@pytest.mark.req("SUB-2", "SUB-5")
async def test_a_disk_that_fails_ends_the_calls_beside_it(yard: Yard):
    """One error ends all: the run is over, and nothing it began goes on alone."""
    ended: list[str] = []

    class Failing:
        async def execute_tool(self, invocation: ToolInvocation, ops: FileOps) -> ToolOutcome:
            if invocation.arguments["path"] == "bad":
                raise StorageFailedError("the disk is full")
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(str(invocation.arguments["path"]))
            raise AssertionError

    calls = [call(arguments={"path": path}) for path in ("one", "bad", "two")]
    with pytest.raises(StorageFailedError, match="full"):
        await loop(yard, Model([calling(*calls)]), host=Failing()).run()
    assert sorted(ended) == ["one", "two"]


async def _value(value: Any) -> Any:
    await anyio.sleep(value if isinstance(value, int) else 0)
    if isinstance(value, Exception):
        raise value
    return value


@pytest.mark.req("EXT-7")
async def test_results_come_in_the_order_of_the_jobs_and_not_of_their_ends():
    assert await side_by_side([lambda n=n: _value(n) for n in (3, 1, 2)]) == [3, 1, 2]
    assert await side_by_side([]) == []


@pytest.mark.req("EXT-7")
async def test_several_errors_at_once_come_out_as_one_of_them():
    with pytest.raises(StorageFailedError):
        await side_by_side([lambda: _value(StorageFailedError("a")), lambda: _value(StorageFailedError("b"))])


@pytest.mark.req("SUB-5", "LIFE-3")
async def test_a_cancelled_round_is_cancelled_as_a_whole():
    with anyio.move_on_after(2) as scope:
        await side_by_side([anyio.sleep_forever, anyio.sleep_forever])
    assert scope.cancelled_caught


# How an attempt tells what ended it.


async def _raise(error: BaseException) -> Attempt:
    raise error


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(
    "error",
    [
        HostError("no answer"),
        StorageFailedError("the disk is full"),
        LockLostError("taken"),
        OSError(28, "No space left on device"),
        FileNotFoundError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_may_go_wrong_outside_is_a_raise_with_a_reason(error: Exception):
    ended = await attempt(AbortScope("run"), lambda: _raise(error))
    assert ended.ending == "raised"
    assert ended.note
    assert ended.problem == ended.note


@pytest.mark.req("EXT-2", "LIFE-3")
async def test_an_abort_is_no_problem_that_anybody_must_hear_of():
    ended = await attempt(AbortScope("run"), lambda: _raise(AbortedError("the session ends")))
    assert (ended.ending, ended.note, ended.problem) == ("aborted", "the session ends", "")


@pytest.mark.req("EXT-2", "LIFE-3")
async def test_an_aborted_scope_ends_an_attempt_that_waits():
    scope, ended = AbortScope("run"), []

    async def run() -> None:
        ended.append(await attempt(scope, anyio.sleep_forever))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.sleep(1)
        scope.abort("another branch is active")
    assert [(one.ending, one.note) for one in ended] == [("aborted", "another branch is active")]


@pytest.mark.req("LIFE-4")
async def test_a_fault_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        await attempt(AbortScope("run"), lambda: _raise(ZeroDivisionError()))


@pytest.mark.req("LIFE-3")
async def test_a_finished_attempt_is_forgotten_by_its_parent():
    parent = AbortScope("generation")
    await attempt(parent.child("run"), lambda: _value(Attempt("returned")))
    parent.abort("later")
    assert not parent._listeners
