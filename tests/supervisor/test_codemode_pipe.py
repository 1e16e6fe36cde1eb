"""Codemode over the pipe: a script runs over there, its calls run over here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from peer_kit import Json, Side, two_sides
from pi_project_memory.actors.ports.codemode import CodemodeLoadout, CodemodeWanted, Script, ScriptCall
from pi_project_memory.actors.ports.host import HostError
from pi_project_memory.actors.ports.tools import ToolOutcome
from pi_project_memory.supervisor.host.peer import CANCELLED, INVALID_PARAMS, RequestMethod, RpcError
from pi_project_memory.supervisor.host.pipe import PipeHost

pytestmark = pytest.mark.req("SUB-7", "HOST-2")

WANTED = CodemodeWanted("only", 50, ("read",))
ENTRY = {"customType": "codemode-store", "data": {"set": {"k": 1}, "delete": []}}
SCRIPT = Script(
    mode="on", inline_budget=3_000, tools=("read",), call_id="c#1", arguments={"code": "…"}, stored=(ENTRY,)
)
CALL = {"scriptId": "c#1", "callId": "c#1/1", "tool": "read", "arguments": {"path": "a.md"}}
ANSWER = {"content": [{"type": "text", "text": "done"}], "details": None, "isError": False, "stored": [ENTRY]}


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[PipeHost, Side]]:
    """The service's view of a host, and that host, which calls `read` once in each script."""
    async with two_sides() as (service, host):
        pipe = PipeHost(service.peer)
        service.peer.methods = {"tool_call": RequestMethod(ScriptCall, pipe.script_call)}
        yield pipe, host


def running(side: Side, work: Any) -> None:
    side.peer.methods = {"codemode/run": RequestMethod(Json, work)}


async def unexpected(*_: object) -> ToolOutcome:
    raise AssertionError("no call was to come")


async def test_the_loadout_crosses_as_it_is():
    asked: list[Json] = []

    async def answer(params: Json) -> Json:
        asked.append(params)
        return {"declaration": {"name": "codemode"}, "descriptions": {"read": "x"}, "hiddenTools": ["read"]}

    async with connected() as (pipe, host):
        host.peer.methods = {"codemode/loadout": RequestMethod(Json, answer)}
        loadout = await pipe.codemode_loadout(WANTED)
    assert loadout == CodemodeLoadout({"name": "codemode"}, {"read": "x"}, ["read"])
    assert asked == [{"mode": "only", "inlineBudget": 50, "tools": ["read"]}]


async def test_a_scripts_calls_come_back_and_are_answered():
    async with connected() as (pipe, host):
        seen: list[Any] = []

        async def work(params: Json) -> Json:
            seen.append(params)
            seen.append(await host.peer.request("tool_call", CALL, dict, 10))
            return ANSWER

        async def call(call_id: str, tool: str, arguments: object) -> ToolOutcome:
            seen.append((call_id, tool, arguments))
            return ToolOutcome([], None, structured_content={"exit_code": 0})

        running(host, work)
        outcome = await pipe.run_script(SCRIPT, call)
    assert (outcome.content, outcome.stored) == (ANSWER["content"], [ENTRY])
    script, called, answered = seen
    assert (script["callId"], script["arguments"], script["stored"]) == ("c#1", {"code": "…"}, [ENTRY])
    assert called == ("c#1/1", "read", {"path": "a.md"})
    assert (answered["isError"], answered["structuredContent"]) == (False, {"exit_code": 0})


@pytest.mark.parametrize("script_id", ["c#1", "never", ""])
async def test_a_call_of_no_running_script_is_refused(script_id: str):
    async with connected() as (pipe, host):

        async def work(_: Json) -> Json:
            return ANSWER

        running(host, work)
        await pipe.run_script(SCRIPT, unexpected)
        with pytest.raises(RpcError, match="is over") as refused:
            await host.peer.request("tool_call", {**CALL, "scriptId": script_id}, dict, 10)
    assert refused.value.code == INVALID_PARAMS


@pytest.mark.req("HOST-7")
async def test_cancelling_the_script_cancels_it_over_there():
    async with connected() as (pipe, host):

        async def work(_: Json) -> Json:
            try:
                await anyio.sleep_forever()
            finally:
                host.ended.append("script")
            return ANSWER

        running(host, work)
        with anyio.move_on_after(3):
            await pipe.run_script(SCRIPT, unexpected)
    assert host.ended == ["script"]
    assert [frame["error"]["code"] for frame in host.sent] == [CANCELLED]


async def test_an_answer_that_makes_no_sense_is_an_error_of_the_host():
    async with connected() as (pipe, host):

        async def work(_: Json) -> Json:
            return {"content": "text"}

        running(host, work)
        with pytest.raises(HostError, match="codemode/run"):
            await pipe.run_script(SCRIPT, unexpected)
