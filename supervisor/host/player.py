"""Plays a scenario against a real service in this process, over real files (HOST-2)."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
import orjson

from pi_project_memory.actors.core.identity import config_file
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.git import CommandGit
from pi_project_memory.actors.ports.host import HistoryHead, ModelInfo, merge_payload
from pi_project_memory.actors.ports.store import DiskStore
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.supervisor.host.protocol import (
    PROTOCOL_VERSION,
    AgentSettled,
    AgentStartAnswer,
    BeforeAgentStart,
    BeforeCompact,
    Command,
    HistoryChanged,
    HostName,
    Initialize,
    RunContext,
    SessionIdentity,
    Shutdown,
    ToolResult,
    UserMessage,
)
from pi_project_memory.supervisor.host.scenario import (
    Action,
    ClockMove,
    Compaction,
    ConfigEdit,
    OutsideEdit,
    Scenario,
    Step,
    ToolUse,
    TreeMove,
    UserCommand,
    UserTurn,
    Wait,
)
from pi_project_memory.supervisor.host.simulated import (
    ScriptedModels,
    SimulatedHost,
    hidden_entry,
    message_entry,
    text_block,
)
from pi_project_memory.supervisor.host.tools.base import ToolContext
from pi_project_memory.supervisor.host.tools.fileops import RealFileOps
from pi_project_memory.supervisor.host.tools.registry import TOOLS, call_tool
from pi_project_memory.supervisor.service import MemoryService, open_service
from pi_project_memory.supervisor.setup import Environment

_MAIN = {"api": "anthropic-messages", "provider": "sim", "model": "main", "stopReason": "stop"}
"""Who the main agent's answers say they come from."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a scenario is played: agent directory, project, home and scratch, below one folder."""

    root: Path

    @property
    def agent_dir(self) -> Path:
        """The agent directory."""
        return self.root / "agent"

    @property
    def project(self) -> Path:
        """The working directory of the session."""
        return self.root / "project"

    @property
    def scratch(self) -> Path:
        """Where long outputs of the main agent's tools go."""
        return self.root / "scratch"

    @property
    def memory(self) -> Path:
        """The memory directory that a scenario lays out, by a configured path."""
        return self.root / "memory"


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one step: the step, the answer of the service if it gives one, and how long it took."""

    step: Step
    seconds: float
    answer: object = None


@dataclass(slots=True)
class Session:
    """One scenario under way."""

    scenario: Scenario
    places: Places
    host: SimulatedHost
    trace: RecordedTrace
    clock: ManualClock
    service: MemoryService
    turn_ends: list[str | None] = field(default_factory=lambda: [None])

    async def play(self) -> list[Played]:
        """Play every step in order."""
        played = []
        for step in self.scenario.typed_steps():
            started = anyio.current_time()
            answer = await self.step(step)
            played.append(Played(step, anyio.current_time() - started, answer))
        return played

    async def step(self, step: Step) -> object:
        """Play one step and return what the service answered, if anything."""
        players: dict[type[Any], Callable[[Any], Awaitable[object]]] = {
            UserTurn: self._turn,
            Compaction: self._compact,
            TreeMove: self._move,
            OutsideEdit: self._edit,
            ConfigEdit: self._configure,
            ClockMove: self._move_clock,
            Wait: self._wait,
            UserCommand: self._command,
        }
        return await players[type(step)](step)

    @property
    def context(self) -> RunContext:
        """What holds now."""
        return RunContext(self.host.transcript.head, self.scenario.trusted, self.host.models.active, "off")

    async def _turn(self, turn: UserTurn) -> AgentStartAnswer:
        answer = await self.service.before_agent_start(BeforeAgentStart(self.context, "user", turn.user))
        if not answer.pending:
            self.host.section = answer.section.text if answer.section else ""
        self.host.main_requests += 1
        self._add_user(turn.user)
        if answer.message is not None:
            self.host.transcript.append(hidden_entry(answer.message))
        for number, action in enumerate(turn.answer):
            await self._act(number, action)
        self.turn_ends.append(self.host.transcript.entries[-1]["id"])
        self.service.agent_settled(AgentSettled(self.context, turn.aborted))
        return answer

    def _add_user(self, text: str) -> None:
        self.host.transcript.append(message_entry("user", [text_block(text)]))
        self.service.user_message(UserMessage(text, self.host.transcript.head))

    async def _act(self, number: int, action: Action) -> None:
        await anyio.sleep(action.wait)
        if action.queued is not None:
            self._add_user(action.queued)
        if action.call is not None:
            await self._call(f"main-{len(self.turn_ends)}-{number}", action.call)
        if action.say is not None:
            self.host.transcript.append(message_entry("assistant", [text_block(action.say)], **_MAIN))

    async def _call(self, call_id: str, use: ToolUse) -> None:
        call = {"type": "toolCall", "id": call_id, "name": use.tool, "arguments": use.arguments}
        self.host.transcript.append(message_entry("assistant", [call], **_MAIN))
        context = ToolContext(self.places.project, self.places.scratch, RealFileOps())
        result = await call_tool(use.tool, use.arguments, context)
        wire = result.to_wire()
        truncation = (wire["details"] or {}).get("truncation") or {}
        event = ToolResult(
            tool_name=use.tool,
            tool_call_id=call_id,
            input=use.arguments,
            is_error=result.is_error,
            truncated=bool(truncation.get("truncated")),
            has_image=any(block["type"] == "image" for block in wire["content"]),
        )
        appended = (await self.service.tool_result(event)).append
        content = [*wire["content"], *([text_block(appended)] if appended else [])]
        self.host.transcript.append(
            message_entry(
                "toolResult", content, toolCallId=call_id, toolName=use.tool, isError=result.is_error
            )
        )

    async def _compact(self, step: Compaction) -> None:
        await self.service.before_compact(BeforeCompact(self.context, "manual"))
        ends = self.turn_ends[: max(len(self.turn_ends) - step.compact, 1)]
        ids = [entry["id"] for entry in self.host.transcript.entries]
        kept = ids.index(ends[-1]) + 1 if ends[-1] else 0
        first = ids[kept] if kept < len(ids) else None
        self.host.transcript.append({"type": "compaction", "summary": "…", "firstKeptEntryId": first})
        self.service.history_changed(HistoryChanged("compact", self.host.transcript.renew()))

    async def _move(self, step: TreeMove) -> None:
        self.turn_ends = self.turn_ends[: step.back_to + 1]
        head: HistoryHead = self.host.transcript.move_to(self.turn_ends[-1])
        self.service.history_changed(HistoryChanged("tree", head))

    async def _edit(self, step: OutsideEdit) -> None:
        for name, text in step.edit.items():
            path = self.places.memory / name
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

    async def _configure(self, step: ConfigEdit) -> None:
        write_config(self.places, step.config)

    async def _move_clock(self, step: ClockMove) -> None:
        self.clock.move(step.clock)

    async def _wait(self, step: Wait) -> None:
        await anyio.sleep(step.wait)

    async def _command(self, step: UserCommand) -> object:
        return await self.service.command(Command(step.command, self.context, wait=True))


@asynccontextmanager
async def open_session(scenario: Scenario, root: Path) -> AsyncIterator[Session]:
    """Lay a scenario out below `root` and begin its session; leaving the block shuts it down."""
    places = Places(root)
    clock = ManualClock(time.time_ns() // 1_000_000)
    lay_out(scenario, places, clock.now_ms() / 1000)
    trace = RecordedTrace()
    models = ScriptedModels(
        scenario.models, scenario.api, ModelInfo("sim", "main", scenario.api), str(places.memory)
    )
    declared = [asdict(tool.declaration) for tool in TOOLS.values()]
    host = SimulatedHost(models, declared_tools=declared, scratch=places.scratch)
    environment = Environment(trace, clock, CommandGit(), DiskStore, str(places.root / "home"))
    async with open_service(host, environment) as service:
        session = Session(scenario, places, host, trace, clock, service)
        await service.initialize(_handshake(session))
        yield session
        await service.shutdown(Shutdown("quit"))


def lay_out(scenario: Scenario, places: Places, now: float) -> None:
    """Write the scenario's files; `now` in seconds since the epoch gives the ages their meaning."""
    for directory in (places.agent_dir, places.project, places.scratch, places.memory, places.root / "home"):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder, files in ((places.memory, scenario.memory), (places.project, scenario.project)):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name, age in scenario.ages.items():
        os.utime(places.memory / name, (now - age, now - age))
    write_config(places, scenario.config)


def write_config(places: Places, config: Any) -> None:
    """Write the configuration: a text as it is, anything else over the scenario's own defaults."""
    path = Path(config_file(str(places.agent_dir)))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if isinstance(config, str):
        path.write_text(config, encoding="utf-8")
        return
    roles = {role: {"model": f"sim/{role}"} for role in ("selector", "extractor", "dream")}
    defaults = {"autoMemoryDirectory": str(places.memory), "models": roles}
    path.write_bytes(orjson.dumps(merge_payload(defaults, config or {}), option=orjson.OPT_INDENT_2))


def _handshake(session: Session) -> Initialize:
    return Initialize(
        protocol_version=PROTOCOL_VERSION,
        host=HostName("simulated", "1"),
        mode="embedded",
        agent_dir=str(session.places.agent_dir),
        cwd=str(session.places.project),
        trusted=session.scenario.trusted,
        session=SessionIdentity(
            "simulated-1", str(session.places.root / "sessions"), uses_default_directory=True
        ),
        history=session.host.transcript.head,
        model=session.host.models.active,
        thinking_level="off",
        tools=session.host.declared_tools,
    )
