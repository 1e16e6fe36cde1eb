"""A dream actor over real files: a project's directories, a scripted model, locks, state and session files."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from pi_project_memory.actors.background_messages import (
    DreamDone,
    DreamDrainWanted,
    DreamStatus,
    DreamStatusWanted,
    DreamWanted,
    TurnsSettled,
)
from pi_project_memory.actors.consolidation import Consolidation
from pi_project_memory.actors.core.config import Config, DreamConfig, ModelRef, Models, RoleModel
from pi_project_memory.actors.dream import DreamActor
from pi_project_memory.actors.mailbox import Mailbox
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.dream_state import DreamStateFile
from pi_project_memory.actors.ports.host import HistoryHead, ModelInfo, ModelRequest
from pi_project_memory.actors.ports.locks import FileLocks
from pi_project_memory.actors.ports.sessions import SessionFiles
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.scopes import AbortScope, Generations
from pi_project_memory.actors.subagent.aftermath import Aftermath
from pi_project_memory.actors.subagent.run import Workshop
from pi_project_memory.supervisor.host.scenario import Reply, ToolUse
from pi_project_memory.supervisor.host.simulated import ScriptedModels, SimulatedHost
from pi_project_memory.supervisor.host.tools.registry import TOOLS

NOW = 1_796_048_090_000
HOUR = 3_600_000
API = "anthropic-messages"
HEAD = HistoryHead("h1", 0)
RULES = "the memory section"
DONE = Reply(text="Done.")
HANGS = Reply(hang=True)


def tool(name: str, **arguments: Any) -> ToolUse:
    return ToolUse(name, arguments)


def calls(*uses: ToolUse, delay: float = 0.0) -> Reply:
    return Reply(calls=list(uses), delay=delay)


@dataclass
class Place:
    """The directories that every session of a project shares, and its wall clock."""

    root: Path
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))

    def __post_init__(self) -> None:
        for folder in (self.agent, self.project, self.memory, self.locks, self.sessions, self.scratch):
            folder.mkdir(parents=True)

    @property
    def agent(self) -> Path:
        return self.root / "agent"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def memory(self) -> Path:
        return self.agent / "project-memory/projects/-project/memory"

    @property
    def locks(self) -> Path:
        return self.agent / "project-memory/memory-roots/hash/locks"

    @property
    def state(self) -> Path:
        return self.locks.parent / "state.json"

    @property
    def sessions(self) -> Path:
        return self.agent / "sessions/--project--"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    def states(self) -> DreamStateFile:
        older = self.memory.parent / "state.json"
        return DreamStateFile(self.state, older, FileLocks(self.locks), self.clock)

    def record(self, time: int) -> None:
        self.state.write_text(json.dumps({"schemaVersion": 1, "lastDreamAt": time}))

    def recorded(self) -> int | None:
        """Return the time that the state file holds."""
        return json.loads(self.state.read_bytes())["lastDreamAt"] if self.state.exists() else None

    def add_sessions(self, count: int, *, at: int = NOW - HOUR, name: str = "other") -> list[str]:
        """Write session files that were changed at the time `at`, and return their ids."""
        ids = [f"{name}-{number}" for number in range(count)]
        for session_id in ids:
            path = self.sessions / f"2026-11-30T12-00-00-000Z_{session_id}.jsonl"
            header = {"type": "session", "version": 3, "id": session_id, "cwd": str(self.project)}
            path.write_text(json.dumps(header) + '\n{"type":"message","text":"use port 5434"}\n')
            os.utime(path, ns=(at * 1_000_000,) * 2)
        return ids

    def held(self) -> list[str]:
        """Return the names of the lock files."""
        return sorted(path.name for path in self.locks.iterdir())

    def topics(self) -> list[str]:
        return sorted(path.name for path in self.memory.iterdir())


@dataclass
class Shown:
    """An activity sink that keeps what it hears."""

    heard: list[str] = field(default_factory=list)

    def begin(self, role: str, most_turns: int) -> None:
        self.heard.append(f"{role} begins, {most_turns} turns at most")

    def turn(self, role: str, number: int) -> None:
        self.heard.append(f"{role} turn {number}")

    def end(self, role: str) -> None:
        self.heard.append(f"{role} ends")


class Dreamer:
    """One session with its own process's memory: a host, a model, and the dream actor."""

    def __init__(
        self,
        place: Place,
        replies: Sequence[Reply] = (DONE,),
        own_id: str = "own",
        model: ModelRef | None = None,
        **dream: Any,
    ) -> None:
        self.place = place
        role = RoleModel(model or ModelRef("sim", "dream"))
        self.config = Config(models=Models(dream=role), dream=DreamConfig(**dream))
        models = ScriptedModels({"sim/dream": replies}, API, ModelInfo("sim", "main", API), str(place.memory))
        declared = [asdict(each.declaration) for each in TOOLS.values()]
        self.host = SimulatedHost(models, declared_tools=declared, scratch=place.scratch)
        self.trace = RecordedTrace()
        self.scope = AbortScope("session")
        self.generations = Generations(self.scope)
        self.mailbox: Mailbox[Any] = Mailbox("dream")
        self.activity = Shown()
        self.touched: list[str] = []
        self.ended = 0
        self.consolidation = Consolidation(
            self._workshop(own_id),
            self.host,
            FileLocks(place.locks),
            place.states(),
            SessionFiles(place.sessions, own_id),
            place.clock,
            self._rules,
        )

    def _workshop(self, own_id: str) -> Workshop:
        place = self.place
        return Workshop(
            host=self.host,
            trace=self.trace,
            session_id=own_id,
            cwd=place.project,
            memory_dir=place.memory,
            agent_dir=place.agent,
            project_root=place.project,
            worktree=place.project,
            session_dir=place.sessions,
            native_tools=self.host.declared_tools,
        )

    def equip(self, **parts: Any) -> None:
        """Put other parts into the consolidation."""
        self.consolidation = replace(self.consolidation, **parts)

    def make(self, mailbox: Mailbox[Any] | None = None) -> DreamActor:
        """Return an actor for one life."""
        aftermath = Aftermath(
            "dream",
            self.host,
            Notifier(self.host, self.trace),
            self.trace,
            str(self.place.memory),
            self.touched.append,
            self._note_end,
            self._note_end,
        )
        return DreamActor(
            mailbox or self.mailbox,
            self.generations,
            self.trace,
            consolidation=self.consolidation,
            aftermath=aftermath,
            activity=self.activity,
            config=self.config,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            await group.start(self.make().run)
            yield
            self.scope.abort("the session ends")
            self.mailbox.close("the session ends")

    async def settle(self, turns: int = 1, seconds: float = 1.0) -> None:
        """Tell of settled turns; in the seconds that follow whatever is begun and does not wait ends."""
        self.mailbox.tell(TurnsSettled(self.generations.current, HEAD, turns, "off"))
        await anyio.sleep(seconds)

    async def ask(self) -> DreamDone:
        """Run `/memory dream`."""
        done: DreamDone = await self.mailbox.ask(
            lambda reply: DreamWanted(self.generations.current, reply, "off"), 1_000
        )
        return done

    async def drain(self) -> None:
        await self.mailbox.ask(lambda reply: DreamDrainWanted(self.generations.current, reply), 1_000)

    async def status(self) -> DreamStatus:
        status: DreamStatus = await self.mailbox.ask(
            lambda reply: DreamStatusWanted(self.generations.current, reply), 1_000
        )
        return status

    def requests(self) -> list[ModelRequest]:
        return self.host.models.requests_to("sim/dream")

    def runs(self) -> list[tuple[str, str]]:
        """Return how the runs so far ended, by ending and finish."""
        return [(str(run["ending"]), str(run["finish"])) for run in self.trace.named("run_ended")]

    async def _rules(self) -> str:
        return RULES

    def _note_end(self) -> None:
        self.ended += 1


def ready(root: Path, replies: Sequence[Reply] = (DONE,), **options: Any) -> Dreamer:
    """Return a session in which every gate is open: five others, the last attempt 25 hours ago."""
    place = Place(root)
    place.record(NOW - 25 * HOUR)
    place.add_sessions(5)
    return Dreamer(place, replies, **options)
