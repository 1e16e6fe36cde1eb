"""A whole service on a simulated host over real files, and a host whose calls a test can hold."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyio
from msgspec import structs

from pi_project_memory.actors.extractor import CURSOR_TYPE
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.git import CommandGit
from pi_project_memory.actors.ports.host import ModelInfo, ModelRequest
from pi_project_memory.actors.ports.store import DiskStore
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.supervisor.host import player
from pi_project_memory.supervisor.host.player import Places, Session, lay_out, write_config
from pi_project_memory.supervisor.host.protocol import (
    AgentSettled,
    AgentStartAnswer,
    BeforeAgentStart,
    Capabilities,
    Command,
    CommandAnswer,
    RunContext,
    Shutdown,
)
from pi_project_memory.supervisor.host.scenario import Reply, Scenario, ToolUse, UserTurn
from pi_project_memory.supervisor.host.simulated import (
    ScriptedModels,
    SimulatedHost,
    message_entry,
    text_block,
)
from pi_project_memory.supervisor.host.tools.registry import TOOLS
from pi_project_memory.supervisor.lifecycle import Lifecycle
from pi_project_memory.supervisor.memory import Memory
from pi_project_memory.supervisor.service import MemoryService, open_service
from pi_project_memory.supervisor.setup import Environment

API = "anthropic-messages"
SELECTOR, EXTRACTOR, DREAM = "sim/selector", "sim/extractor", "sim/dream"
INDEX = "- [Deployment](deploy.md) — how it is deployed\n"
TOPIC = "---\nname: Deployment\ndescription: how it is deployed\nmetadata:\n  type: project\n---\nmake ship\n"
FILES = {"MEMORY.md": INDEX, "deploy.md": TOPIC}
SAID = "please write commit messages in the imperative"
HANGS = Reply(hang=True)
NOTHING = Reply(text="Nothing to save.")


def keeping(name: str, delay: float = 0.0) -> Reply:
    """Return an answer that writes a topic after `delay` seconds."""
    use = ToolUse("write", {"path": f"{{{{memory}}}}/{name}", "content": "kept\n"})
    return Reply(calls=[use], delay=delay)


@dataclass(frozen=True, slots=True)
class Gate:
    """Where a call of the service stops until a test opens it, whatever is cancelled meanwhile."""

    reached: anyio.Event = field(default_factory=anyio.Event)
    opened: anyio.Event = field(default_factory=anyio.Event)

    async def passed(self) -> None:
        self.reached.set()
        await self.opened.wait()

    def open(self) -> None:
        self.opened.set()


class HeldHost(SimulatedHost):
    """Answers a call that `gates` names only when its gate is opened, deaf to cancellation till then.

    A gate has the name of a call, and behind it the model or tool that it is about: `stream_model extractor`.
    With `done` at its end it holds the answer, when the call has had its effect.
    """

    gates: dict[str, Gate]

    def hold(self, call: str) -> Gate:
        gate = self.gates[call] = Gate()
        return gate


def _held(name: str) -> Any:
    async def call(host: HeldHost, *args: Any, **kwargs: Any) -> Any:
        about = getattr(args[0], "model_id", None) or getattr(args[0], "tool", None) if args else None
        what = f"{name} {about}" if about else name
        before, after = host.gates.pop(what, None), host.gates.pop(f"{what} done", None)
        with anyio.CancelScope(shield=before is not None or after is not None):
            if before is not None:
                await before.passed()
            answer = await getattr(SimulatedHost, name)(host, *args, **kwargs)
            if after is not None:
                await after.passed()
            return answer

    return call


for _name in (
    *("resolve_model", "stream_model", "read_history", "append_entry", "send_message", "capture_parent"),
    *("release_parent", "execute_tool", "notify", "show_status"),
):
    setattr(HeldHost, _name, _held(_name))


@dataclass
class Stage:
    """One session; `initialize` has been answered and the set-up goes on behind it."""

    session: Session
    service: MemoryService
    host: HeldHost
    trace: RecordedTrace
    places: Places
    trusted: bool = True

    @property
    def life(self) -> Lifecycle:
        return self.service._life

    @property
    def memory(self) -> Memory:
        assert self.life.memory is not None, self.life.off
        return self.life.memory

    @property
    def context(self) -> RunContext:
        return structs.replace(self.session.context, trusted=self.trusted)

    async def ready(self) -> Memory:
        """Wait until the set-up is done and memory is on."""
        assert await self.life.ready(60) is not None, self.life.off
        return self.memory

    # What happens in the session.

    async def prompt(self, text: str = SAID, **event: Any) -> AgentStartAnswer:
        """Begin a run, as far as its first model call."""
        return await self.service.before_agent_start(BeforeAgentStart(self.context, "user", text, **event))

    async def say(self, text: str = SAID, seconds: float = 1.0) -> AgentStartAnswer:
        """Play a whole turn, and let some time pass for what follows from it."""
        answer = await self.session.step(UserTurn(user=text))
        assert isinstance(answer, AgentStartAnswer)
        await anyio.sleep(seconds)
        return answer

    def hear(self, text: str = SAID) -> None:
        """Let a user's message be on the branch, as if an earlier process had taken it."""
        self.host.transcript.append(message_entry("user", [text_block(text)]))

    def settle(self, *, aborted: bool = False) -> None:
        self.service.agent_settled(AgentSettled(self.context, aborted))

    async def command(self, text: str, *, wait: bool = True) -> CommandAnswer:
        return await self.service.command(Command(text, self.context, wait))

    async def status(self) -> str:
        return (await self.command("status")).text

    def configure(self, config: Mapping[str, Any] | str) -> Path:
        """Write config.json; a mapping goes over the defaults of the stage, a text as it is."""
        write_config(self.places, config if isinstance(config, str) else {**_BASE, **config})
        return self.places.agent_dir / "project-memory" / "config.json"

    async def reload(self, config: Mapping[str, Any] | str | None = None) -> CommandAnswer:
        if config is not None:
            self.configure(config)
        return await self.command("reload-config")

    async def shut_down(self, reason: Any = "quit") -> float:
        """End the session and return how many seconds that took."""
        started = anyio.current_time()
        await self.service.shutdown(Shutdown(reason))
        return anyio.current_time() - started

    # What came of it.

    def requests(self, label: str = EXTRACTOR) -> list[ModelRequest]:
        return self.host.models.requests_to(label)

    def texts(self, label: str = EXTRACTOR) -> list[str]:
        """Return each request's messages but its task as one text."""
        return [str(request.messages[:-1]) for request in self.requests(label)]

    @property
    def cancelled(self) -> list[str]:
        return self.host.models.cancelled

    def ours(self) -> list[str]:
        """Return the kinds of our entries and messages on the branch, oldest first."""
        entries = self.host.transcript.entries
        return [str(entry["customType"]) for entry in entries if "customType" in entry]

    @property
    def cursors(self) -> int:
        return self.ours().count(CURSOR_TYPE)

    def locks(self) -> list[str]:
        found = self.places.agent_dir.rglob("*.lock*")
        return sorted(path.name for path in found if path.is_file())

    def files(self) -> list[str]:
        """Return the names of the topics in the memory."""
        return sorted(str(path.relative_to(self.places.memory)) for path in self.places.memory.rglob("*.md"))

    def ended(self) -> list[tuple[Any, Any]]:
        """Return how the background runs ended: role and ending."""
        return [(event["actor"], event["ending"]) for event in self.trace.named("run_ended")]


_BASE: dict[str, Any] = {"dream": {"enabled": False}}


@asynccontextmanager
async def staged(
    root: Path,
    *replies: Reply,
    config: Mapping[str, Any] | str | None = None,
    models: Mapping[str, Sequence[Reply]] | None = None,
    memory: Mapping[str, str] = FILES,
    trusted: bool = True,
    status: bool = False,
    prepare: Any = None,
    **environment: Any,
) -> AsyncIterator[Stage]:
    """Begin a session; `replies` are the extractor's. `prepare` is called with the places before it begins.

    Whatever a test leaves undone, the session has ended behind the block.
    """
    script = {SELECTOR: [Reply(choose=[])], EXTRACTOR: list(replies) or [NOTHING], "sim/main": [NOTHING]}
    script |= {DREAM: [NOTHING], **{label: list(each) for label, each in (models or {}).items()}}
    written = config if isinstance(config, str) else {**_BASE, **(config or {})}
    scenario = Scenario("staged", [], memory=dict(memory), models=script, config=written, trusted=trusted)
    places, clock, trace = Places(root), ManualClock(time.time_ns() // 1_000_000), RecordedTrace()
    lay_out(scenario, places, clock.now_ms() / 1000)
    if prepare is not None:
        prepare(places)
    host = HeldHost(
        ScriptedModels(script, API, ModelInfo("sim", "main", API), str(places.memory)),
        declared_tools=[asdict(tool.declaration) for tool in TOOLS.values()],
        scratch=places.scratch,
    )
    host.gates = {}
    surroundings = structs.replace(
        Environment(trace, clock, CommandGit(), DiskStore, str(root / "home")), **environment
    )
    async with open_service(host, surroundings) as service:
        session = Session(scenario, places, host, trace, clock, service)
        start = structs.replace(player._handshake(session), capabilities=Capabilities(status=status))
        await service.initialize(start)
        yield Stage(session, service, host, trace, places, trusted)


def add_sessions(places: Places, count: int = 5) -> None:
    """Leave session files of others in the project, enough to open dream's last gate."""
    folder = places.root / "sessions"
    folder.mkdir(exist_ok=True)
    for number in range(count):
        header = {"type": "session", "version": 3, "id": f"other-{number}", "cwd": str(places.project)}
        (folder / f"other-{number}.jsonl").write_text(json.dumps(header) + "\n")
