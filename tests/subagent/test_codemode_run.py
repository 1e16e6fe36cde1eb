"""Codemode from the first request of a run to its end: what is declared, what is told, what is left."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pi_project_memory.actors.core.lock_rules import EXTRACT_LOCK
from pi_project_memory.actors.ports.codemode import (
    CodemodeHost,
    CodemodeLoadout,
    CodemodeWanted,
    Script,
    ScriptOutcome,
    ScriptTools,
)
from pi_project_memory.actors.ports.host import CodemodeSettings, ModelInfo, ModelRequest, ParentSnapshot
from pi_project_memory.actors.ports.locks import LockHandle, MemoryLocks
from pi_project_memory.actors.ports.tools import TOOL_NAMES
from pi_project_memory.actors.prompts import prompt
from pi_project_memory.actors.subagent.codemode import Codemode
from pi_project_memory.actors.subagent.run import Plan, Report, Workshop, execute
from pi_project_memory.supervisor.host.scenario import Reply, ToolUse
from pi_project_memory.supervisor.host.simulated import ScriptedModels, SimulatedHost
from pi_project_memory.supervisor.host.tools.registry import TOOLS
from subagent_kit import Yard

pytestmark = pytest.mark.req("SUB-7")

MODEL = ModelInfo("sim", "main", "anthropic-messages")
DECLARED = [asdict(tool.declaration) for tool in TOOLS.values()]
CODEMODE = {"name": "codemode", "description": "Run scripts", "parameters": {"type": "object"}}
RULE = prompt("tool_codemode")
SCRIPT = Reply(calls=[ToolUse("codemode", {"code": "…"})])


@dataclass
class Sandbox:
    """Writes one topic, as a script, and hides in mode `only` what Pi hides there."""

    topic: Path
    wanted: list[CodemodeWanted] = field(default_factory=list)

    async def codemode_loadout(self, wanted: CodemodeWanted) -> CodemodeLoadout:
        self.wanted.append(wanted)
        hidden = TOOL_NAMES if wanted.mode == "only" else ()
        return CodemodeLoadout(CODEMODE, {"read": "read, also from scripts"}, hidden)

    async def run_script(self, script: Script, call: ScriptTools) -> ScriptOutcome:
        outcome = await call(f"{script.call_id}/1", "write", {"path": str(self.topic), "content": "kept\n"})
        return ScriptOutcome(outcome.content)


class Host(SimulatedHost):
    """A host whose main agent's request is as `parent` says."""

    __slots__ = ("parent",)

    async def capture_parent(self) -> ParentSnapshot:
        return msgspec.structs.replace(await SimulatedHost.capture_parent(self), **self.parent)


@dataclass
class Stage:
    yard: Yard
    host: Host

    async def run(self, codemode: CodemodeHost, settings: CodemodeSettings) -> Report:
        held = await MemoryLocks().acquire(EXTRACT_LOCK)
        assert isinstance(held, LockHandle)
        async with held:
            return await execute(self.workshop(Codemode(codemode, settings)), self.plan(), self.host, held)

    def workshop(self, codemode: Codemode) -> Workshop:
        yard = self.yard
        return Workshop(
            host=self.host,
            trace=yard.trace,
            session_id="session-1",
            cwd=yard.project,
            memory_dir=yard.memory,
            agent_dir=yard.agent,
            project_root=yard.project,
            worktree=yard.project,
            session_dir=None,
            native_tools=DECLARED,
            codemode=codemode,
        )

    def plan(self) -> Plan:
        return Plan(
            role="extractor",
            model=MODEL,
            level="off",
            max_tokens=None,
            max_turns=3,
            task="the task",
            rules="the rules",
            conversation=lambda _: [],
            check=self.yard.check,
            on_turn=lambda _: None,
            on_touch=self.yard.touched.append,
        )

    @property
    def first(self) -> ModelRequest:
        return self.host.models.exchanges[0].request


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def stage(tmp_path: Path, temp: Path) -> Stage:
    yard = Yard(tmp_path / "yard")
    models = ScriptedModels({"sim/main": [SCRIPT, Reply(text="Saved.")]}, MODEL.api, MODEL)
    host = Host(models, declared_tools=[*DECLARED, CODEMODE], main_requests=1, scratch=temp)
    host.parent = {}
    return Stage(yard, host)


def told(request: ModelRequest) -> str:
    return f"{request.system_prompt}\n{request.messages[-1]['content'][0]['text']}"


async def test_in_mode_on_the_parents_request_is_continued_as_it_is(stage: Stage, temp: Path):
    topic = stage.yard.memory / "new.md"
    report = await stage.run(Sandbox(topic), CodemodeSettings(active=True))
    assert (report.independent, report.changes) == ("", {"new.md": "created"})
    assert (stage.first.parent, stage.first.tools) == ("p0", ())
    assert told(stage.first).count(RULE) == 1
    assert f"\n{RULE}\n\nthe task" in told(stage.first)
    assert (topic.read_text(), list(temp.iterdir())) == ("kept\n", [])


async def test_in_mode_on_an_independent_request_declares_all_seven(stage: Stage):
    stage.host.parent = {"requested": False}
    await stage.run(Sandbox(stage.yard.memory / "new.md"), CodemodeSettings(active=True))
    assert [tool["name"] for tool in stage.first.tools] == [*(t["name"] for t in DECLARED), "codemode"]
    assert {tool["name"]: tool for tool in stage.first.tools}["read"][
        "description"
    ] == "read, also from scripts"
    assert (stage.first.system_prompt or "").endswith(f"\n{RULE}")


async def test_in_mode_only_the_request_is_independent_and_declares_codemode_alone(stage: Stage):
    stage.host.parent = {"hidden_tools": TOOL_NAMES}
    sandbox = Sandbox(stage.yard.memory / "new.md")
    report = await stage.run(sandbox, CodemodeSettings(active=True, mode="only", inline_budget=50))
    assert "hidden" in report.independent
    assert (stage.first.parent, stage.first.tools) == (None, [CODEMODE])
    assert told(stage.first).count(RULE) == 1
    assert sandbox.wanted == [CodemodeWanted("only", 50, TOOL_NAMES)]
    assert report.changes == {"new.md": "created"}


@pytest.mark.parametrize("active", [True, False])
async def test_without_scripts_a_run_has_the_six_tools_and_goes_on(stage: Stage, *, active: bool):
    """The simulated host runs none, and says so; a script is answered like any other unknown tool."""
    report = await stage.run(stage.host, CodemodeSettings(active=active, mode="only"))
    assert report.result.finish == "done"
    assert RULE not in told(stage.first)
    answer: Any = stage.host.models.exchanges[1].request.messages[-1]
    assert (answer["isError"], "There is no tool codemode here" in answer["content"][0]["text"]) == (
        True,
        True,
    )
    assert len(stage.yard.trace.named("codemode_unavailable")) == active
