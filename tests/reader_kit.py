"""The two reading actors over an in-memory store and a simulated host, on virtual time."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

from actors_kit import turns
from pi_project_memory.actors.core.config import SelectorModel
from pi_project_memory.actors.index import IndexActor
from pi_project_memory.actors.mailbox import (
    Mailbox,
    MailboxClosedError,
    Reply,
)
from pi_project_memory.actors.messages import (
    BackgroundWrites,
    BranchChanged,
    ChangesDue,
    ChangesWanted,
    IndexMessage,
    PrefetchMessage,
    PrefetchStatus,
    PrefetchStatusWanted,
    PromptSubmitted,
    Section,
    SectionOutdated,
    SectionWanted,
    ToolUsed,
    UserMessageSeen,
)
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.host import HiddenMessage, ModelInfo, ModelRequest
from pi_project_memory.actors.ports.store import InMemoryStore
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.prefetch import PrefetchActor, PrefetchPorts
from pi_project_memory.actors.scopes import AbortScope, Generations
from pi_project_memory.actors.selector import Selector
from pi_project_memory.supervisor.asking import answer_or_none
from pi_project_memory.supervisor.host.scenario import ProviderError
from pi_project_memory.supervisor.host.scenario import Reply as ModelReply
from pi_project_memory.supervisor.host.simulated import (
    ScriptedModels,
    SimulatedHost,
    Transcript,
    hidden_entry,
    message_entry,
    text_block,
)
from pi_project_memory.supervisor.supervisor import ChildSpec, Supervisor

MODEL = "sim/main"
DIRECTORY = "/m"
DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS
RECALL_WAIT = 2.0

TOPICS = {
    "MEMORY.md": "- [A](a.md) — a\n- [B](b.md) — b\n",
    "a.md": "---\nname: a\ndescription: about a\nmetadata:\n  type: user\n---\nthe text of a\n",
    "b.md": "---\nname: b\ndescription: about b\nmetadata:\n  type: project\n---\nthe text of b\n",
}


def choosing(*names: str, delay: float = 0.0) -> ModelReply:
    return ModelReply(choose=list(names), delay=delay)


def failing(status: int | None = None, message: str = "no", delay: float = 0.0) -> ModelReply:
    return ModelReply(error=ProviderError(message, status), delay=delay)


HANGING = ModelReply(hang=True)


class Reader:
    """An index and a prefetch actor under their supervisor, and everything around them."""

    def __init__(
        self,
        *replies: ModelReply,
        files: Mapping[str, str] = TOPICS,
        transcript: Transcript | None = None,
        store: InMemoryStore | None = None,
        api: str = "openai-completions",
        configured: SelectorModel | None = None,
    ) -> None:
        self.models = ScriptedModels({MODEL: replies}, api, ModelInfo("sim", "main", api))
        self.host = SimulatedHost(self.models, transcript=transcript or Transcript())
        self.store = store or filled(files)
        self.clock = ManualClock(NOW_MS)
        self.trace = RecordedTrace()
        self.generations = Generations(AbortScope("session"))
        self.index: Mailbox[IndexMessage] = Mailbox("index")
        self.prefetch: Mailbox[PrefetchMessage] = Mailbox("prefetch")
        self.given_up: list[str] = []
        self.head = self.host.transcript.head
        self._configured = configured or SelectorModel()
        self._index_actors = itertools.count()
        self._supervisor = Supervisor(
            [
                ChildSpec("index", self.index, self._make_index),
                ChildSpec("prefetch", self.prefetch, self._make_prefetch),
            ],
            self.trace,
            lambda name, _: self.given_up.append(name),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Reader]:
        async with anyio.create_task_group() as group:
            await self._supervisor.start(group)
            yield self
            await self._supervisor.stop()

    @property
    def number(self) -> int:
        return self.generations.current

    @property
    def requests(self) -> list[ModelRequest]:
        """The selector's requests."""
        return self.models.requests_to(MODEL)

    @property
    def late(self) -> list[HiddenMessage]:
        """What was sent to the session without being waited for."""
        return self.host.sent

    @property
    def warnings(self) -> list[str]:
        return [text for level, text in self.host.notices if level == "warning"]

    def kept(self, kind: str) -> list[dict[str, Any]]:
        """The data of the branch's entries of one kind."""
        entries = self.host.transcript.entries
        return [entry["data"] for entry in entries if entry.get("customType") == kind]

    async def prompt(self, text: str, wait: float = RECALL_WAIT) -> HiddenMessage | None:
        """Submit a prompt as the service does, and put what comes of it in time on the branch."""
        self.head = self.host.transcript.head
        reply: Reply[HiddenMessage | None] = Reply()
        with suppress(MailboxClosedError):
            self.prefetch.tell(PromptSubmitted(self.number, reply, text))
        message = await answer_or_none(reply.wait(wait))
        self.host.transcript.append(message_entry("user", [text_block(text)]))
        if message is not None:
            self.host.transcript.append(hidden_entry(message))
        return message

    async def turn(self, text: str) -> HiddenMessage | None:
        """Submit a prompt, and let its echo come."""
        message = await self.prompt(text)
        await self.say(text)
        return message

    async def say(self, text: str) -> None:
        """Let a user message enter the session."""
        self.prefetch.tell(UserMessageSeen(self.number, text))
        await turns()

    async def status(self) -> PrefetchStatus:
        return await self.prefetch.ask(lambda reply: PrefetchStatusWanted(self.number, reply), 5.0)

    async def change_branch(self, *, moved: bool = True) -> None:
        self.head = head = self.host.transcript.renew()
        self.index.tell(SectionOutdated(self.number))
        self.prefetch.tell(BranchChanged(self.number, head, moved))
        await turns(20)

    async def section(self) -> Section:
        return await self.index.ask(lambda reply: SectionWanted(self.number, reply), 5.0)

    async def changes(self) -> HiddenMessage | None:
        """Ask for a notice before a request, and put it on the branch."""
        notice = await self.index.ask(lambda reply: ChangesWanted(self.number, reply), 5.0)
        if notice is not None:
            self.host.transcript.append(hidden_entry(notice))
        return notice

    async def told(self) -> list[str]:
        """The files that a notice names now, as lines without their dash."""
        notice = await self.changes()
        lines = notice.content.splitlines() if notice else []
        return [line.removeprefix("- ") for line in lines if line.startswith("- ")]

    async def settle(self) -> None:
        self.index.tell(ChangesDue(self.number))
        await turns(20)

    async def tool(self, tool: str, path: str = "", **fields: Any) -> str | None:
        """Let the main agent's tool have done its work; return what is added to its result."""
        answer = await self.index.ask(lambda reply: ToolUsed(self.number, reply, tool, path, **fields), 5.0)
        await turns(20)
        return answer

    async def background(self, *paths: str, ended: bool = False) -> None:
        self.index.tell(BackgroundWrites(self.number, paths, ended))
        await turns()

    def _make_index(self, mailbox: Mailbox[Any]) -> IndexActor:
        return IndexActor(
            mailbox,
            self.generations,
            self.trace,
            host=self.host,
            store=self.store,
            clock=self.clock,
            directory=DIRECTORY,
            prefetch=self.prefetch,
            remade=next(self._index_actors) > 0,
        )

    def _make_prefetch(self, mailbox: Mailbox[Any]) -> PrefetchActor:
        selector = Selector(self.host, self.store, self._configured, "s1-memory-selector")
        notifier = Notifier(self.host, self.trace)
        ports = PrefetchPorts(self.host, self.store, selector, self.clock, DIRECTORY, self.index, notifier)
        return PrefetchActor(mailbox, self.generations, self.trace, ports=ports, head=self.head)


def filled(files: Mapping[str, str], store: InMemoryStore | None = None) -> InMemoryStore:
    """Put files that are new at `NOW_MS` into a store."""
    store = store or InMemoryStore()
    for path, text in files.items():
        store.put(path, text, mtime_ms=NOW_MS)
    return store


def texts(request: ModelRequest) -> list[str]:
    """The text of each message of a request."""
    return ["\n".join(block["text"] for block in message["content"]) for message in request.messages]


def queries(requests: Sequence[ModelRequest]) -> list[str]:
    """The query that each request asks about."""
    return [texts(request)[-1].rpartition("Request:\n\n")[2] for request in requests]


def catalogue(request: ModelRequest) -> str:
    """The request's list of topics."""
    return str(request.messages[0]["content"][0]["text"])


def said(*names: str) -> str:
    return json.dumps({"selected_memories": list(names)})
