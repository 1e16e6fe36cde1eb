"""Messages of every kind a mailbox knows, and an actor that does what a test tells it to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.mailbox import Mailbox, Message, Request
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.scopes import AbortScope, Generations

T = TypeVar("T")


class Note(Message, frozen=True):
    """An ordinary message: refused when there is no room."""

    number: int = 0


class Tally(Message, frozen=True):
    """An essential message; two are folded into one that holds the numbers of both."""

    numbers: tuple[int, ...] = ()

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        return type(self)(newer.generation, self.numbers + newer.numbers)


class Count(Tally, frozen=True):
    """Another kind of the same sort, which merges with its own alone."""


class Chapter(Message, frozen=True):
    """An essential message that merges with those of its own book alone."""

    book: int = 0
    numbers: tuple[int, ...] = ()

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self | None:
        if newer.book != self.book:
            return None
        return type(self)(newer.generation, self.book, self.numbers + newer.numbers)


class Gauge(Message, frozen=True):
    """An ordinary message of which the newest is enough."""

    number: int = 0

    def merged_with(self, newer: Self) -> Self:
        return newer


class Ended(Message, frozen=True):
    """An essential message that is never merged; its number is bounded by who tells it."""

    number: int = 0

    essential: ClassVar[bool] = True


class Question(Request[str], frozen=True):
    """A message that wants a text for an answer."""

    text: str = ""


async def nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(slots=True)
class Script:
    """What the lives of one actor do, and what they have done; `lives` counts the actors made."""

    act: Callable[[ScriptedActor, Message], Awaitable[None]] = nothing
    rebuild: Callable[[int], Awaitable[None]] = nothing
    farewell: Callable[[int], Awaitable[None]] = nothing
    lives: int = 0
    handled: list[tuple[int, Message]] = field(default_factory=list)
    dropped: list[Message] = field(default_factory=list)
    abandoned: list[str] = field(default_factory=list)


class ScriptedActor(Actor[Any]):
    """Notes what it is told, then acts as its script says; `seen` is its private state."""

    name = "scripted"

    def __init__(
        self, mailbox: Mailbox[Any], generations: Generations, trace: RecordedTrace, script: Script
    ) -> None:
        super().__init__(mailbox, generations, trace)
        self.script = script
        self.seen = 0
        script.lives += 1
        self.life = script.lives

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        await super().run(task_status=task_status)
        await self.script.farewell(self.life)

    async def rebuild(self) -> None:
        await self.script.rebuild(self.life)

    async def handle(self, message: Message) -> None:
        self.seen += 1
        self.script.handled.append((self.life, message))
        await self.script.act(self, message)

    def dropped(self, message: Message) -> None:
        self.script.dropped.append(message)

    def abandon(self, error: Exception) -> None:
        self.script.abandoned.append(str(error))


class Stage:
    """One scripted actor with its own session scope, generations, mailbox and trace."""

    def __init__(self, script: Script | None = None, capacity: int = 64) -> None:
        self.session = AbortScope("session")
        self.generations = Generations(self.session)
        self.trace = RecordedTrace()
        self.script = script or Script()
        self.mailbox: Mailbox[Any] = Mailbox("scripted", capacity)

    def actor(self, mailbox: Mailbox[Any] | None = None) -> ScriptedActor:
        return ScriptedActor(mailbox or self.mailbox, self.generations, self.trace, self.script)

    def ask(self, text: str, deadline: float = 100.0, generation: int = 0) -> Coroutine[Any, Any, str]:
        return self.mailbox.ask(lambda reply: Question(generation, reply, text), deadline)


class Outcome:
    """How a call ended, once it has: with a value or with an exception."""

    def __init__(self) -> None:
        self.value: object = None
        self.error: BaseException | None = None
        self.at: float | None = None

    async def of(self, call: Awaitable[object]) -> None:
        """Await `call` and note what came of it, and when (in seconds of the loop's clock)."""
        try:
            self.value = await call
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self.at = anyio.current_time()


async def turns(count: int = 5) -> None:
    """Let everything else run for `count` turns of the event loop, in no time."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()
