"""The loop that every actor runs (LIFE-1, LIFE-2).

An actor's fields are touched by its own loop alone. Longer work runs beside the loop as a job and
comes back as a message with the generation it began in; a stale one is dropped here, in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

from pi_project_memory.actors.mailbox import Mailbox, MailboxClosedError, Message
from pi_project_memory.actors.ports.trace import Trace, TraceValue, fault, in_turn
from pi_project_memory.actors.scopes import Generations

M = TypeVar("M", bound=Message)


class StaleGenerationError(Exception):
    """The question belongs to a generation that is over; nobody needs the answer."""


class ActorFailedError(Exception):
    """The actor failed while it handled the question."""


class Actor(Generic[M]):
    """One isolated unit: private state, a mailbox, and `handle` for each message in turn."""

    name = "actor"

    def __init__(self, mailbox: Mailbox[M], generations: Generations, trace: Trace) -> None:
        self.mailbox = mailbox
        self.generations = generations
        self.trace = trace
        self._jobs: TaskGroup | None = None

    async def rebuild(self) -> None:
        """Make the state anew, at the first start and after a failure (LIFE-4)."""

    async def handle(self, message: M) -> None:
        """Act on one message; nothing else touches the state meanwhile."""
        raise NotImplementedError

    def dropped(self, message: M) -> None:
        """Let go of what was kept for a message that came too late."""

    def abandon(self, error: Exception) -> None:
        """Answer whoever waits for this actor's jobs, which have ended without a result."""

    def start_job(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `job` beside the loop; what it raises fails the actor."""
        assert self._jobs is not None, "jobs run inside the loop"
        self._jobs.start_soon(job)

    def tell_itself(self, message: M) -> None:
        """Have a job's word handled in its turn; when the actor has ended, nobody needs it."""
        with suppress(MailboxClosedError):
            self.mailbox.tell(message)

    def trace_stale(self, message: M, reason: str, **more: TraceValue) -> None:
        """Record that `message` has no effect, and of which job it came."""
        job = getattr(message, "job", None)
        of_job = {} if job is None else {"job": job}
        kind = type(message).__name__
        self.trace.event("stale_dropped", actor=self.name, message=kind, **more, **of_job, reason=reason)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Handle messages until the mailbox is closed, then wait for the jobs."""
        try:
            async with anyio.create_task_group() as self._jobs:
                await self.rebuild()
                task_status.started()
                await self._loop()
        finally:
            self.abandon(ActorFailedError(f"{self.name} has ended"))

    async def _loop(self) -> None:
        while True:
            try:
                message = await self.mailbox.receive()
            except MailboxClosedError:
                return
            await self._deliver(message)

    async def _deliver(self, message: M) -> None:
        kind = type(message).__name__
        with in_turn(message.turn):
            if self._is_stale(message):
                self._drop(message, kind)
                return
            self.trace.event("received", actor=self.name, message=kind, generation=message.generation)
            try:
                await self.handle(message)
            except Exception as error:
                self.trace.event("message_failed", actor=self.name, message=kind, **fault(error))
                message.undelivered(ActorFailedError(f"{self.name} failed on {kind}: {error}"))
                raise
            except BaseException:
                message.undelivered(ActorFailedError(f"{self.name} was stopped while it handled {kind}"))
                raise

    def _is_stale(self, message: M) -> bool:
        if message.lasting:
            return self.generations.scope.aborted
        return not self.generations.is_current(message.generation)

    def _drop(self, message: M, kind: str) -> None:
        reason = f"the current generation is {self.generations.current}"
        self.trace_stale(message, reason, generation=message.generation)
        message.undelivered(StaleGenerationError(f"{kind} of generation {message.generation}"))
        self.dropped(message)
