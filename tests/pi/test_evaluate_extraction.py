"""`pi-project-memory evaluate extraction` with a real Pi in between: its models, and its own file tools."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pi.evaluating import FIXTURES, evaluate, evaluating, outcome, traces
from pi.fake_provider import FakeProvider
from pi.inspecting import content_text, messages, system_text, tool_names, tools
from pi.pi_home import MODELS, PiHome
from pi.processes import descendants, gone, mentioning
from pi.scripting import Answer, Json, Request, Step, Text, ToolCall, hang, stream, text
from pi.waiting import until
from pi_project_memory.supervisor.evaluate.extraction_fixture import Case, load_extraction_fixture
from pi_project_memory.supervisor.evaluate.script import load_script
from pi_project_memory.supervisor.host.scenario import Reply
from pi_project_memory.supervisor.host.tools import DECLARATIONS

pytestmark = pytest.mark.real_time

CASES = load_extraction_fixture(FIXTURES / "extraction").cases
SCRIPT = load_script(FIXTURES / "extraction" / "script.yaml", CASES)
TASK = "You now work in the background"
LIMIT = next(model.max_tokens for model in MODELS if model.id == "small")


def case_of(request: Request) -> tuple[str, Case]:
    """Which conversation is put to the model."""
    opening = content_text(messages(request)[0].get("content"))
    return next((name, case) for name, case in CASES.items() if case.conversation[0].user == opening)


def answered(request: Request) -> list[Json]:
    """What the run itself has added to the conversation."""
    every = messages(request)
    task = next(at for at, one in enumerate(every) if content_text(one.get("content")).startswith(TASK))
    return every[task + 1 :]


def turn(request: Request) -> int:
    return sum(message["role"] == "assistant" for message in answered(request))


def memory_of(request: Request) -> str:
    named = re.search(r"The memory directory is (\S+)\. Name", system_text(request))
    assert named is not None
    return named[1]


def placed(reply: Reply, memory: str) -> Answer:
    """A scripted reply as the provider sends it; ids are alike in all cases, as with small models."""
    if reply.calls is None:
        return text(reply.text or "")
    steps: list[Step] = [Text("One moment.")]
    for number, use in enumerate(reply.calls):
        arguments: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode(use.arguments).replace(b"{{memory}}", memory.encode())
        )
        steps.append(ToolCall(use.tool, arguments, id=f"call_{number}"))
    return stream(*steps)


def scripted(request: Request) -> Answer:
    """What the prepared script says next."""
    name, _ = case_of(request)
    replies = SCRIPT.replies.get(name, SCRIPT.otherwise)
    return placed(replies[min(turn(request), len(replies) - 1)], memory_of(request))


@pytest.mark.parametrize("model", ["fake/small", "fakea/small"])
async def test_a_model_works_with_the_tools_of_pi(pi_home: PiHome, provider: FakeProvider, model: str):
    provider.respond("small", scripted)
    code, report, errors = await evaluate(pi_home, "extraction", "--model", model)
    assert (code, errors) == (0, ""), report
    assert f"Model {model}, thinking off, at most 5 turns\n" in report
    assert "all right   15 of 15 conversations" in report, report
    assert "turns       2.0 in the mean (5 with 1, 5 with 2, 5 with 3); 0 at the limit" in report
    assert "tokens      3,000 in, 600 out," in report
    requests = provider.requests_for("small")
    assert len(requests) == 30
    assert {case_of(request)[0] for request in requests} == set(CASES)
    for request in requests:
        assert sorted(tool_names(request)) == ["bash", "edit", "find", "grep", "read", "write"]
        assert request.body.get("max_tokens", request.body.get("max_completion_tokens")) == LIMIT
    described = {tool.get("function", tool)["description"] for request in requests for tool in tools(request)}
    assert len(described) == 6
    assert described.isdisjoint(tool.description for tool in DECLARATIONS), "they are Pi's own"
    assert traces(pi_home) == []


def overwriting(request: Request) -> Answer:
    """Try to replace a topic unread, then to remove it from outside the tools, then give up."""
    memory = memory_of(request)
    tries = (
        ToolCall("write", {"path": f"{memory}/commit-style.md", "content": "gone"}, id="call_0"),
        ToolCall("bash", {"command": f"echo gone > {memory}/commit-style.md"}, id="call_0"),
    )
    number = turn(request)
    return (
        stream(tries[number]) if number < len(tries) and case_of(request)[0] == "duplicate" else text("Done.")
    )


async def test_the_limits_of_a_run_hold_for_the_tools_of_pi(pi_home: PiHome, provider: FakeProvider):
    provider.respond("main", overwriting)
    code, report, _ = await evaluate(pi_home, "extraction")
    assert code == 0
    assert "duplicate: right\n" in report
    last = max((r for r in provider.log if case_of(r)[0] == "duplicate"), key=turn)
    refusals = [content_text(message["content"]) for message in answered(last) if message["role"] == "tool"]
    assert "has not read it whole" in refusals[0]
    assert refusals[1].startswith("Refused: ")


async def interrupted(
    home: PiHome, provider: FakeProvider, end: Callable[[int], None]
) -> tuple[int | None, str, str]:
    """Let five extractions end, leave the next two without an answer, and call `end` with the process id."""
    provider.script("small", *[text("Nothing.")] * 5)
    provider.respond("small", lambda _: hang())
    async with evaluating(home, "extraction", "--model", "fake/small", "--parallel", "2") as process:
        await provider.request("small", 6)
        await until(
            lambda: sum(request.finished.is_set() for request in provider.log) == 5, lambda: "five answers"
        )
        end(process.pid)
        return await outcome(process)


async def test_an_interrupted_run_tells_what_was_tried(pi_home: PiHome, provider: FakeProvider):
    code, report, errors = await interrupted(pi_home, provider, lambda pid: os.kill(pid, signal.SIGINT))
    assert code == 1
    assert "ended       5 of 15; 0 failed, 10 not tried" in report
    assert "interrupted" in errors
    await gone(lambda: mentioning(str(pi_home.root)))
    assert traces(pi_home) == []


async def test_what_a_dying_pi_leaves_open_has_failed(pi_home: PiHome, provider: FakeProvider):
    def kill_pi(pid: int) -> None:
        pi = next(child for child in descendants(pid) if child.parent == pid)
        os.kill(pi.pid, signal.SIGKILL)

    code, report, errors = await interrupted(pi_home, provider, kill_pi)
    assert (code, errors) == (1, "")
    assert "ended       5 of 15; 10 failed, 0 not tried" in report
    assert report.count("the host has ended") == 10
