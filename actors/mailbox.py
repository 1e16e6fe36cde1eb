"""Typed bounded mailboxes (LIFE-1, LIFE-6).

A mailbox has many tellers and one reader. A message says by its class what a full mailbox may do with
it: an ordinary one is refused to its teller, a mergeable one is folded into the one of its kind and
generation that already waits, and an essential one is accepted in any case. Mergeable messages may pass one
another, but none passes a message that merges with nothing; of those there are no more than the capacity, or
their number is bounded by the reader's own jobs, so the mailbox stays bounded all the same. A request left
over when the mailbox closes is answered with a typed error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar, Generic, Self, TypeVar

import anyio
from msgspec import Struct, field

from pi_project_memory.actors.ports.trace import TURN


class MailboxFullError(Exception):
    """An ordinary message found no room; the reader is behind."""


class MailboxClosedError(Exception):
    """The reader is gone and will not answer; the text says why."""


class AskTimeoutError(Exception):
    """The answer did not come within the asker's deadline."""


class Traced(Struct, frozen=True, kw_only=True):
    """Something that belongs to a turn: that of the work that makes it."""

    turn: str = field(default_factory=TURN.get)


class Message(Traced, frozen=True):
    """What actors send each other: frozen, with the generation it belongs to.

    Its turn becomes that of the work it leads to. Messages are structs, since a session waits for some
    forty of them to be defined and dataclasses would take twenty milliseconds for that.
    """

    generation: int

    essential: ClassVar[bool] = False
    lasting: ClassVar[bool] = False
    """Whether it tells a fact of the session, which no new generation makes untrue."""

    def merged_with(self, newer: Self) -> Self | None:  # noqa: ARG002 - the default merges nothing
        """Return one message that stands for both, or None if both must be delivered."""
        return None

    def undelivered(self, error: Exception) -> None:
        """Tell whoever waits for this message that nobody will handle it."""


T = TypeVar("T")
M = TypeVar("M", bound=Message)


class Reply(Generic[T]):
    """The place where one answer arrives, once; a later or unwanted one is discarded here."""

    __slots__ = ("_abandoned", "_error", "_event", "_value")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._value: list[T] = []
        self._error: Exception | None = None
        self._abandoned = False

    @property
    def open(self) -> bool:
        """Whether somebody still waits and nothing was said yet."""
        return not self._abandoned and not self._event.is_set()

    def send(self, value: T) -> bool:
        """Answer with `value`; return whether it still counts."""
        if not self.open:
            return False
        self._value.append(value)
        self._event.set()
        return True

    def fail(self, error: Exception) -> bool:
        """Answer with an error; return whether it still counts."""
        if not self.open:
            return False
        self._error = error
        self._event.set()
        return True

    def abandon(self) -> None:
        """Stop waiting: whatever comes now has no effect."""
        self._abandoned = True

    async def wait(self, deadline: float) -> T:
        """Return the answer; raise what it failed with, or AskTimeoutError after `deadline` seconds."""
        try:
            with anyio.move_on_after(deadline):
                await self._event.wait()
        finally:
            self.abandon()
        if self._error is not None:
            raise self._error
        if self._value:
            return self._value[0]
        raise AskTimeoutError(f"no answer within {deadline:g} s")


class Request(Message, Generic[T], frozen=True):
    """A message that wants an answer."""

    reply: Reply[T]

    def undelivered(self, error: Exception) -> None:
        """Answer with the error."""
        self.reply.fail(error)


class Mailbox(Generic[M]):
    """A bounded queue of messages for one reader."""

    def __init__(self, owner: str, capacity: int = 64) -> None:
        self.owner = owner
        self.capacity = capacity
        self._queue: deque[M] = deque()
        self._arrived = anyio.Event()
        self._closed: str | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def tell(self, message: M) -> None:
        """Queue `message`; raise MailboxFullError or MailboxClosedError when it cannot be delivered."""
        if self._closed is not None:
            message.undelivered(MailboxClosedError(self._closed))
            raise MailboxClosedError(self._closed)
        if self._merge(message):
            return
        if len(self._queue) >= self.capacity and not message.essential:
            error = MailboxFullError(f"the mailbox of {self.owner} holds {len(self._queue)} messages")
            message.undelivered(error)
            raise error
        self._queue.append(message)
        self._arrived.set()

    async def ask(self, message: Callable[[Reply[T]], M], deadline: float) -> T:
        """Queue the request that `message` makes, and return its answer within `deadline` seconds."""
        reply: Reply[T] = Reply()
        self.tell(message(reply))
        try:
            return await reply.wait(deadline)
        finally:
            reply.abandon()

    async def receive(self) -> M:
        """Return the next message; raise MailboxClosedError once closed and empty."""
        while not self._queue:
            if self._closed is not None:
                raise MailboxClosedError(self._closed)
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._queue.popleft()

    def finish(self, reason: str) -> None:
        """Take no more messages; the reader still gets those that wait."""
        if self._closed is None:
            self._closed = reason
        self._arrived.set()

    def close(self, reason: str) -> None:
        """Take no more messages and answer those that wait with MailboxClosedError."""
        self.finish(reason)
        while self._queue:
            self._queue.popleft().undelivered(MailboxClosedError(self._closed or reason))

    def _merge(self, newer: M) -> bool:
        """Fold `newer` into the newest of its kind, but never past a message that merges with nothing."""
        for position, waiting in reversed(list(enumerate(self._queue))):
            if type(waiting) is type(newer) and waiting.generation == newer.generation:
                merged = waiting.merged_with(newer)
                if merged is not None:
                    self._queue[position] = merged
                return merged is not None
            if type(waiting).merged_with is Message.merged_with:
                return False
        return False
