"""An extractor actor over real files: a session's transcript, a scripted model, locks, and what it tells."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import anyio

from host_kit import TroubledHost
from pi_project_memory.actors.background_messages import (
    ExtractionDone,
    ExtractionWanted,
    ExtractorMessage,
    ExtractorStatus,
    ExtractorStatusWanted,
    TurnsSettled,
)
from pi_project_memory.actors.core.config import Config, ExtractionConfig, ModelRef, Models, RoleModel
from pi_project_memory.actors.extraction import Extraction
from pi_project_memory.actors.extractor import CURSOR_TYPE, ExtractorActor
from pi_project_memory.actors.mailbox import Mailbox
from pi_project_memory.actors.messages import BranchChanged, Reconfigured
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.activity import NoActivity
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.host import JsonObject, ModelInfo, ModelRequest
from pi_project_memory.actors.ports.locks import Locks, MemoryLocks
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.scopes import AbortScope, Generations
from pi_project_memory.actors.subagent.aftermath import Aftermath
from pi_project_memory.actors.subagent.run import Workshop
from pi_project_memory.supervisor.host.scenario import Reply, ToolUse
from pi_project_memory.supervisor.host.simulated import ScriptedModels, message_entry, text_block
from pi_project_memory.supervisor.host.tools.registry import TOOLS
from pi_project_memory.supervisor.supervisor import ChildSpec, Supervisor
from subagent_kit import Yard

API = "anthropic-messages"
MAIN = ModelInfo("sim", "main", API)
NOTHING = Reply(text="Nothing to save.")
SAID = "please always use tabs"


def config(role: RoleModel | None = None, **extraction: Any) -> Config:
    """Return a configuration whose extractor has a model of its own, so that its requests are independent."""
    model = role or RoleModel(ModelRef("sim", "extractor"))
    return Config(models=Models(extractor=model), extraction=ExtractionConfig(**extraction))


def write(name: str, text: str = "kept\n") -> ToolUse:
    return ToolUse("write", {"path": f"{{{{memory}}}}/{name}", "content": text})


def writing(name: str, delay: float = 0.0) -> Reply:
    return Reply(calls=[write(name)], delay=delay)


@dataclass
class Theatre:
    """One session with an extractor; `replies` is what its model answers, the last for ever."""

    yard: Yard
    replies: Sequence[Reply] = (NOTHING,)
    config: Config = field(default_factory=config)
    locks: Locks = field(default_factory=MemoryLocks)
    trace: RecordedTrace = field(default_factory=RecordedTrace)
    touched: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        script = {"sim/extractor": self.replies, "sim/main": self.replies}
        models = ScriptedModels(script, API, MAIN, str(self.yard.memory))
        declared = [asdict(tool.declaration) for tool in TOOLS.values()]
        self.host = TroubledHost(models, declared_tools=declared, main_requests=1, scratch=self.yard.scratch)
        self.host.prepare()
        self.session = AbortScope("session")
        self.generations = Generations(self.session)
        self.mailbox: Mailbox[ExtractorMessage] = Mailbox("extractor")
        self.lives: list[ExtractorActor] = []
        spec = ChildSpec("extractor", self.mailbox, self._make)
        self.supervisor = Supervisor([spec], self.trace, lambda name, _: self.given_up.append(name))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Theatre]:
        async with anyio.create_task_group() as group:
            await self.supervisor.start(group)
            try:
                yield self
            finally:
                self.session.abort("the session ends")
                with anyio.CancelScope(shield=True):
                    await self.supervisor.stop()

    # What happens in the session.

    def say(self, text: str = SAID, answer: str = "Will do.") -> None:
        self.add(message_entry("user", [text_block(text)]))
        self.add(message_entry("assistant", [text_block(answer)], provider="sim", api=API, model="main"))

    def add(self, entry: JsonObject) -> str:
        return self.host.transcript.append(entry)

    def tell(self, message: ExtractorMessage) -> None:
        self.mailbox.tell(message)

    def settle(self, turns: int = 1) -> None:
        self.tell(TurnsSettled(self.generations.current, self.host.transcript.head, turns, "off"))

    async def turn(self, text: str = SAID) -> None:
        """Play one settled turn and let what follows from it happen, a second of it."""
        self.say(text)
        self.settle()
        await anyio.sleep(1)

    async def ask(
        self, cause: Literal["compaction", "shutdown", "manual"] = "manual", deadline: float = 1_000
    ) -> ExtractionDone:
        head = self.host.transcript.head
        return await self.mailbox.ask(
            lambda reply: ExtractionWanted(self.generations.current, reply, cause, head, "off"), deadline
        )

    def move_to(self, entry_id: str | None) -> None:
        """Navigate the session tree."""
        self.branch(self.host.transcript.move_to(entry_id), moved=True)

    def branch(self, head: Any, *, moved: bool) -> None:
        self.tell(BranchChanged(self.generations.current, head, moved))

    def reload(self, fresh: Config | None = None) -> None:
        self.config = fresh or self.config
        number = self.generations.advance("the configuration was read anew")
        self.tell(Reconfigured(number, self.config))

    # What came of it.

    async def status(self) -> ExtractorStatus:
        return await self.mailbox.ask(
            lambda reply: ExtractorStatusWanted(self.generations.current, reply), 10
        )

    @property
    def requests(self) -> list[ModelRequest]:
        return [exchange.request for exchange in self.host.models.exchanges]

    @property
    def runs(self) -> list[list[str]]:
        """What the user said in the conversation of each run, the extractor's own task left out."""
        first = [request for request in self.requests if not _follows(request)]
        return [[text for text in map(_user_text, request.messages[:-1]) if text] for request in first]

    @property
    def begun(self) -> list[str]:
        """The causes of the runs that were begun, empty ones included."""
        return [str(event["cause"]) for event in self.trace.named("extraction_begun")]

    @property
    def cursors(self) -> list[str]:
        """What each cursor entry on the branch names."""
        return [
            entry["data"]["through"]
            for entry in self.host.transcript.entries
            if entry.get("customType") == CURSOR_TYPE
        ]

    @property
    def last_id(self) -> str:
        return str(self.host.transcript.entries[-1]["id"])

    @property
    def warnings(self) -> list[str]:
        return [text for _, text in self.host.notices]

    # How it is made.

    def _make(self, mailbox: Mailbox[ExtractorMessage]) -> ExtractorActor:
        actor = ExtractorActor(
            mailbox,
            self.generations,
            self.trace,
            extraction=Extraction(self._workshop(), self.host, self.locks, ManualClock(), self._rules),
            aftermath=self._aftermath(),
            activity=NoActivity(),
            config=self.config,
            head=self.host.transcript.head,
        )
        self.lives.append(actor)
        return actor

    def _aftermath(self) -> Aftermath:
        notifier = Notifier(self.host, self.trace)
        return Aftermath(
            "extractor",
            self.host,
            notifier,
            self.trace,
            str(self.yard.memory),
            on_touch=self.touched.append,
            on_end=lambda: self.ended.append("told"),
            on_lost=lambda: self.ended.append("lost"),
        )

    def _workshop(self) -> Workshop:
        yard = self.yard
        return Workshop(
            host=self.host,
            trace=self.trace,
            session_id="s",
            cwd=yard.project,
            memory_dir=yard.memory,
            agent_dir=yard.agent,
            project_root=yard.project,
            worktree=yard.project,
            session_dir=yard.sessions,
            native_tools=self.host.declared_tools,
        )

    async def _rules(self) -> str:
        return "the memory section"


def _follows(request: ModelRequest) -> bool:
    """Whether the request is not the first of its run."""
    return request.messages[-1]["role"] == "toolResult"


def _user_text(message: JsonObject) -> str:
    return str(message["content"][0].get("text", "")) if message["role"] == "user" else ""


def theatre(root: Path, *replies: Reply, **fields: Any) -> Theatre:
    return Theatre(Yard(root / "yard"), replies or (NOTHING,), **fields)


__all__ = ["NOTHING", "SAID", "Theatre", "config", "replace", "theatre", "write", "writing"]
