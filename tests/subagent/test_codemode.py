"""Codemode in a background run: scripts that call the run's own tools, whatever they try."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_project_memory.actors.ports.codemode import (
    CodemodeLoadout,
    CodemodeWanted,
    Script,
    ScriptOutcome,
    ScriptTools,
)
from pi_project_memory.actors.ports.host import CodemodeSettings, HostError, ParentSnapshot
from pi_project_memory.actors.ports.publish import REAL_DISK
from pi_project_memory.actors.ports.tools import TOOL_NAMES, FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent.codemode import Codemode, Scripting, ScriptingToolbox, inherit_codemode
from pi_project_memory.actors.subagent.guarded_files import StorageFailedError
from subagent_kit import LocalHost, Yard, failing, names, put, text_of

pytestmark = pytest.mark.req("SUB-7")

ON = CodemodeSettings(active=True, mode="on", inline_budget=900)
ONLY = CodemodeSettings(active=True, mode="only", inline_budget=7)
DECLARATION = {"name": "codemode", "description": "Run scripts", "parameters": {"type": "object"}}
NATIVE = [{"name": name, "description": name, "parameters": {}} for name in TOOL_NAMES]

Body = Callable[[ScriptTools, Script], Awaitable[Any]]


async def nothing(_tools: ScriptTools, _script: Script) -> None:
    """Do nothing, as a script."""


@dataclass
class Sandbox:
    """A host whose scripts are functions of the test; it keeps what it was asked."""

    body: Body = nothing
    loadout: CodemodeLoadout = field(default_factory=lambda: CodemodeLoadout(DECLARATION))
    trouble: HostError | None = None
    wanted: list[CodemodeWanted] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)

    async def codemode_loadout(self, wanted: CodemodeWanted) -> CodemodeLoadout:
        self.wanted.append(wanted)
        if self.trouble is not None:
            raise self.trouble
        return self.loadout

    async def run_script(self, script: Script, call: ScriptTools) -> ScriptOutcome:
        self.scripts.append(script)
        if self.trouble is not None:
            raise self.trouble
        result = await self.body(call, script)
        if isinstance(result, ScriptOutcome):
            return result
        return ScriptOutcome([{"type": "text", "text": f"{result}"}])


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def toolbox(yard: Yard, sandbox: Sandbox, **yard_toolbox: Any) -> ScriptingToolbox:
    wanted = CodemodeWanted("on", 900, TOOL_NAMES)
    return ScriptingToolbox(sandbox, wanted, yard.toolbox(**yard_toolbox))


async def run(tools: ScriptingToolbox, call_id: str = "c1") -> ToolOutcome:
    return await tools.call(call_id, "codemode", {"code": "…"})


# What is inherited.


def parent(codemode: CodemodeSettings | None) -> ParentSnapshot:
    return ParentSnapshot("p1", requested=True, system_text="", codemode=codemode)


INHERITED: dict[str, tuple[CodemodeSettings, ParentSnapshot | None, CodemodeSettings | None]] = {
    "as it was at the start, without a parent": (ONLY, None, ONLY),
    "as it was at the start, from a host that says no more": (ON, parent(None), ON),
    "as it is now": (ON, parent(ONLY), ONLY),
    "switched on since": (CodemodeSettings(), parent(ON), ON),
    "switched off since": (ON, parent(CodemodeSettings()), None),
    "never on": (CodemodeSettings(), None, None),
}


@pytest.mark.parametrize(("at_start", "snapshot", "expected"), INHERITED.values(), ids=INHERITED)
async def test_a_run_has_the_parents_codemode(
    at_start: CodemodeSettings, snapshot: ParentSnapshot | None, expected: CodemodeSettings | None
):
    sandbox = Sandbox()
    scripting = await inherit_codemode(Codemode(sandbox, at_start), snapshot, RecordedTrace())
    if expected is None:
        assert (scripting, sandbox.wanted) == (None, [])
    else:
        assert scripting is not None
        assert sandbox.wanted == [CodemodeWanted(expected.mode, expected.inline_budget, TOOL_NAMES)]


async def test_a_host_without_scripts_leaves_the_six_tools():
    trace = RecordedTrace()
    sandbox = Sandbox(trouble=HostError("codemode/loadout: unknown method"))
    assert await inherit_codemode(Codemode(sandbox, ON), None, trace) is None
    assert await inherit_codemode(None, parent(ON), trace) is None
    assert [event["error"] for event in trace.named("codemode_unavailable")] == ["HostError"]


@pytest.mark.parametrize(
    ("loadout", "declared"),
    [
        (
            CodemodeLoadout(DECLARATION, {"read": "read, also from scripts", "deploy": "x"}),
            [{**NATIVE[0], "description": "read, also from scripts"}, *NATIVE[1:], DECLARATION],
        ),
        (CodemodeLoadout(DECLARATION, {}, ("read", "deploy", "bash")), [*NATIVE[1:5], DECLARATION]),
        (CodemodeLoadout(DECLARATION, {}, TOOL_NAMES), [DECLARATION]),
    ],
    ids=["mode on", "some hidden", "mode only"],
)
def test_tools_are_declared_as_the_host_does_it(loadout: CodemodeLoadout, declared: list[Any]):
    wanted = CodemodeWanted("on", 900, TOOL_NAMES)
    assert Scripting(Sandbox(), wanted, loadout).declarations(NATIVE) == declared


# What a script may do.


@pytest.mark.req("SUB-2", "SUB-4", "SUB-6")
async def test_a_scripts_calls_meet_the_same_checks(yard: Yard):
    async def body(tools: ScriptTools, _: Script) -> None:
        given = [
            ("write", {"path": f"{yard.memory}/a.md", "content": "unread"}),
            ("write", {"path": f"{yard.outside}/b.md", "content": "outside"}),
            ("read", {"path": f"{yard.agent}/auth.json"}),
            ("bash", {"command": "git status"}),
            ("codemode", {"code": "…"}),
            ("deploy", {}),
            ("read", None),
        ]
        outcomes = [await tools(f"c/{number}", *call) for number, call in enumerate(given)]
        assert all(outcome.is_error for outcome in outcomes)
        assert [text_of(outcome).partition(":")[0] for outcome in outcomes[:4]] == ["Refused"] * 4
        assert "There is no tool codemode here" in text_of(outcomes[4])
        assert not (await tools("c/r", "read", {"path": f"{yard.memory}/a.md"})).is_error
        change = {"path": f"{yard.memory}/a.md", "content": "three\n"}
        assert not (await tools("c/w", "write", change)).is_error

    before = names(yard.outside)
    outcome = await run(toolbox(yard, Sandbox(body)))
    assert not outcome.is_error
    assert (yard.memory / "a.md").read_text() == "three\n"
    assert names(yard.outside) == before


async def test_the_other_tools_are_there_beside_scripts(yard: Yard):
    sandbox = Sandbox()
    host = LocalHost(yard.scratch)
    outcome = await toolbox(yard, sandbox, host=host).call("c1", "read", {"path": "src/a.py"})
    assert text_of(outcome) == "print(1)\n"
    assert ([call.structured for call in host.calls], sandbox.scripts) == ([False], [])


async def test_the_host_is_told_of_each_script_apart(yard: Yard):
    sandbox = Sandbox()
    tools = toolbox(yard, sandbox)
    for _ in range(2):
        assert text_of(await run(tools, "same id")) == "None"
    assert len({script.call_id for script in sandbox.scripts}) == 2
    assert [script.arguments for script in sandbox.scripts] == [{"code": "…"}] * 2
    assert [(script.mode, script.inline_budget) for script in sandbox.scripts] == [("on", 900)] * 2


@pytest.mark.parametrize("arguments", [None, [], "code", 5])
async def test_arguments_that_are_no_object_start_no_script(yard: Yard, arguments: object):
    sandbox = Sandbox()
    outcome = await toolbox(yard, sandbox).call("c1", "codemode", arguments)
    assert (outcome.is_error, sandbox.scripts) == (True, [])


async def test_a_script_gets_results_for_programs(yard: Yard):
    """Its `bash` gives an object with the exit code, as the declaration promises."""

    class Shell:
        async def execute_tool(self, call: ToolInvocation, _ops: FileOps) -> ToolOutcome:
            assert call.structured
            return ToolOutcome([], None, is_error=True, structured_content={"exit_code": 1})

    async def body(tools: ScriptTools, _: Script) -> object:
        return (await tools("c/1", "bash", {"command": "ls"})).structured_content

    assert text_of(await run(toolbox(yard, Sandbox(body), host=Shell()))) == "{'exit_code': 1}"


async def test_what_happens_is_traced_without_its_texts_in_the_plain_fields(yard: Yard):
    async def body(tools: ScriptTools, _: Script) -> None:
        await tools("c/1", "read", {"path": "src/a.py"})

    await run(toolbox(yard, Sandbox(body)))
    assert [event["tool"] for event in yard.trace.named("tool_called")] == ["read", "codemode"]


# The store.


def storing(**values: Any) -> ScriptOutcome:
    entry = {"customType": "codemode-store", "data": {"set": values, "delete": []}}
    return ScriptOutcome([], stored=[entry])


async def test_what_a_script_stores_is_there_for_the_next_one_of_the_task_alone(yard: Yard):
    async def body(_tools: ScriptTools, script: Script) -> ScriptOutcome:
        return storing(count=len(script.stored))

    sandbox = Sandbox(body)
    tools = toolbox(yard, sandbox)
    await run(tools)
    await run(tools)
    await run(toolbox(yard, sandbox))
    stored = [[entry["data"]["set"] for entry in script.stored] for script in sandbox.scripts]
    assert stored == [[], [{"count": 0}], []]


# The end of a script, and of the run.


async def test_a_call_does_not_outlive_its_script(yard: Yard):
    ended: list[str] = []

    class Slow:
        async def execute_tool(self, _call: ToolInvocation, _ops: FileOps) -> ToolOutcome:
            try:
                await anyio.sleep(1_000)
            finally:
                ended.append("the call")
            raise AssertionError

    async with anyio.create_task_group() as elsewhere:

        async def body(tools: ScriptTools, _: Script) -> None:
            elsewhere.start_soon(forgotten, tools)
            await anyio.sleep(1)

        async def forgotten(tools: ScriptTools) -> None:
            with pytest.raises(HostError, match="over"):
                await tools("c/1", "read", {"path": "src/a.py"})

        await run(toolbox(yard, Sandbox(body), host=Slow()))
        ended.append("the script")
    assert ended == ["the call", "the script"]


async def test_a_call_whose_wait_is_cancelled_is_cancelled(yard: Yard):
    ended: list[float] = []

    class Slow:
        async def execute_tool(self, _call: ToolInvocation, _ops: FileOps) -> ToolOutcome:
            try:
                await anyio.sleep(1_000)
            finally:
                ended.append(anyio.current_time())
            raise AssertionError

    async def body(tools: ScriptTools, _: Script) -> None:
        with anyio.move_on_after(2):
            await tools("c/1", "read", {"path": "src/a.py"})
        await anyio.sleep(5)

    await run(toolbox(yard, Sandbox(body), host=Slow()))
    assert ended == [2]


async def test_a_run_that_is_aborted_ends_the_script_and_its_calls(yard: Yard):
    ended: list[str] = []

    class Slow:
        async def execute_tool(self, _call: ToolInvocation, _ops: FileOps) -> ToolOutcome:
            try:
                await anyio.sleep(1_000)
            finally:
                ended.append("call")
            raise AssertionError

    async def body(tools: ScriptTools, _: Script) -> None:
        try:
            await tools("c/1", "read", {"path": "src/a.py"})
        finally:
            ended.append("script")

    with anyio.move_on_after(3) as scope:
        await run(toolbox(yard, Sandbox(body), host=Slow()))
    assert scope.cancelled_caught
    assert sorted(ended) == ["call", "script"]


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_rights_that_are_lost_end_a_script_in_the_middle(yard: Yard):
    reached: list[str] = []

    async def body(tools: ScriptTools, _: Script) -> None:
        yard.lost = "a new generation began"
        await tools("c/1", "write", {"path": f"{yard.memory}/new.md", "content": "x\n"})
        reached.append("behind the call")

    with pytest.raises(AbortedError, match="generation"):
        await run(toolbox(yard, Sandbox(body)))
    assert (reached, names(yard.memory)) == ([], ["MEMORY.md", "a.md"])


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_rights_lost_during_a_script_that_calls_nothing_end_the_run_behind_it(yard: Yard):
    async def body(_tools: ScriptTools, _: Script) -> None:
        yard.lost = "trust has changed"

    with pytest.raises(AbortedError, match="trust"):
        await run(toolbox(yard, Sandbox(body)))


async def test_a_memory_that_cannot_be_written_ends_the_run(yard: Yard):
    async def body(tools: ScriptTools, _: Script) -> None:
        await tools("c/1", "write", {"path": f"{yard.memory}/new.md", "content": "x\n"})
        await anyio.sleep(1_000)

    files = yard.files(replace(REAL_DISK, open=failing(28)))
    with pytest.raises(StorageFailedError):
        await run(toolbox(yard, Sandbox(body), files=files))


async def test_a_host_that_fails_is_an_answer_for_the_model(yard: Yard):
    outcome = await run(toolbox(yard, Sandbox(trouble=HostError("codemode/run: no worker"))))
    assert (outcome.is_error, text_of(outcome)) == (True, "codemode/run: no worker")


# What a script leaves in the host's temporary directory.

HEX = "0123456789abcdef"


def outcome_of(*content: dict[str, Any], **details: Any) -> Body:
    async def body(_tools: ScriptTools, _: Script) -> ScriptOutcome:
        return ScriptOutcome(list(content), details)

    return body


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.req("SUB-8")
async def test_the_full_output_lies_in_scratch_and_is_named_there(yard: Yard):
    full = put(yard.root / "tmp" / f"pi-codemode-{HEX}.txt", "all of it")
    body = outcome_of(
        said("Script completed\n"), said(f"…\n\n[Full output: {full} (read …)]"), fullOutputPath=str(full)
    )
    tools = toolbox(yard, Sandbox(body))
    outcome = await run(tools)
    kept = yard.scratch / f"codemode-{HEX}.txt"
    assert text_of(outcome) == f"Script completed\n\n…\n\n[Full output: {kept} (read …)]"
    assert (outcome.details, kept.read_text(), full.exists()) == (
        {"fullOutputPath": str(kept)},
        "all of it",
        False,
    )
    assert text_of(await tools.call("c2", "read", {"path": str(kept)})) == "all of it"


PICTURE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


@pytest.mark.req("SUB-8")
async def test_pictures_that_a_script_shows_lie_in_scratch(yard: Yard):
    first, second = (put(yard.root / "t (1)" / f"pi-codemode-{n}.png", "…") for n in ("a1", "b2"))
    body = outcome_of(
        said(f"Output:\n[Image saved to {first} (image/png, 3B)]"),
        PICTURE,
        said(f"[Image saved to {second} (image/png, 3B)]"),
        PICTURE,
    )
    outcome = await run(toolbox(yard, Sandbox(body)))
    assert names(yard.scratch) == ["codemode-a1.png", "codemode-b2.png"]
    assert str(yard.root / "t (1)") not in text_of(outcome)
    assert f"[Image saved to {yard.scratch}/codemode-b2.png (image/png, 3B)]" in text_of(outcome)


@pytest.mark.req("SUB-8")
async def test_a_script_cannot_have_files_moved_by_talking_of_them(yard: Yard):
    """Only the line right before a picture is the host's; whatever else a script says stays text."""
    other = put(yard.root / "tmp" / "pi-codemode-c3.txt", "of another session")
    claim = f"[Image saved to {other} (image/png, 3B)]"
    own = "[Image saved to /nowhere/pi-codemode-d4.png (image/png, 3B)]"
    body = outcome_of(said(claim), said(f"{claim}\n{own}"), PICTURE, said(f"[Full output: {other}]"))
    outcome = await run(toolbox(yard, Sandbox(body)))
    assert (other.exists(), names(yard.scratch)) == (True, [])
    assert claim in text_of(outcome)
