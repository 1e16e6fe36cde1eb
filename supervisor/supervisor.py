"""Starts the actors, restarts one that fails, stops them in reverse (LIFE-4).

One for one: an actor's failure never touches another. Its mailbox outlives it, so what waits is handled
by the next one; the message it failed on is answered with an error and not tried again. An actor that
fails more often than its restart intensity allows is off for the session: its mailbox is closed with the
reason, and the owner is told once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.mailbox import Mailbox
from pi_project_memory.actors.ports.trace import Trace, fault


class RestartIntensity(Struct, frozen=True):
    """At most `restarts` restarts within any `seconds`."""

    restarts: int = 3
    seconds: float = 60.0


class ChildSpec(Struct, frozen=True):
    """How one actor is made, how often it may fail, and how long it may take to stop, in seconds.

    With `after` it is not made before that event, and nobody waits for it to be.
    """

    id: str
    mailbox: Mailbox[Any]
    factory: Callable[[Mailbox[Any]], Actor[Any]]
    intensity: RestartIntensity = RestartIntensity()
    shutdown: float = 0.8
    after: anyio.Event | None = None


CANCEL_BOUND = 0.5
"""Seconds that a cancelled actor gets for its clean-up before the others are stopped."""


class _Child:
    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.begun = False
        self.ended = anyio.Event()
        self.cancel = anyio.CancelScope()
        self.failures: deque[float] = deque()

    def may_restart(self, now: float) -> bool:
        """Count a failure at `now` (seconds) and tell whether the intensity still allows a restart."""
        limit = self.spec.intensity
        self.failures.append(now)
        while now - self.failures[0] > limit.seconds:
            self.failures.popleft()
        return len(self.failures) <= limit.restarts

    async def stop(self) -> bool:
        """End the actor, by cancelling it after its bound; return whether it ended by itself."""
        self.spec.mailbox.close("the session has ended")
        if not self.begun:
            self.cancel.cancel()
            return True
        if await self._ends_within(self.spec.shutdown):
            return True
        self.cancel.cancel()
        await self._ends_within(CANCEL_BOUND)
        return False

    async def _ends_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self.ended.wait()
        return self.ended.is_set()


class Supervisor:
    """Runs a fixed list of children inside a task group of its owner."""

    def __init__(
        self, specs: Sequence[ChildSpec], trace: Trace, on_given_up: Callable[[str, Exception], None]
    ) -> None:
        self._children = [_Child(spec) for spec in specs]
        self._trace = trace
        self._on_given_up = on_given_up
        self._stopping = False

    async def start(self, group: TaskGroup) -> None:
        """Start the children in order, each after the one before it has built its state."""
        for child in self._children:
            if self._stopping:
                return
            child.begun = child.spec.after is None
            await group.start(self._run, child, name=child.spec.id)

    async def stop(self) -> list[str]:
        """Stop the children in reverse; return the ids of those that had to be cancelled."""
        self._stopping = True
        return [child.spec.id for child in reversed(self._children) if not await child.stop()]

    async def _run(self, child: _Child, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        started = _Started(task_status)
        try:
            with child.cancel:
                await self._wait_turn(child, started)
                while not await self._run_once(child, started):
                    pass
        finally:
            started.started()
            child.ended.set()

    @staticmethod
    async def _wait_turn(child: _Child, started: _Started) -> None:
        if child.spec.after is not None:
            started.started()
            await child.spec.after.wait()
            child.begun = True

    async def _run_once(self, child: _Child, started: _Started) -> bool:
        """Run one life of the actor; return whether it was the last."""
        try:
            actor = child.spec.factory(child.spec.mailbox)
            await actor.run(task_status=started)
        except Exception as error:  # noqa: BLE001 - whatever an actor raises is its supervisor's to judge
            return not self._restarts(child, _first_cause(error))
        return True

    def _restarts(self, child: _Child, cause: Exception) -> bool:
        """Tell whether a failed actor gets another life; one that failed too often is turned off."""
        self._trace.event("actor_failed", actor=child.spec.id, where=_place(cause), **fault(cause))
        if self._stopping:
            return False
        if child.may_restart(anyio.current_time()):
            return True
        child.spec.mailbox.close(f"{child.spec.id} failed too often: {cause}")
        self._on_given_up(child.spec.id, cause)
        return False


class _Started(TaskStatus[None]):
    """Reports the start once: of the first life that gets so far, or of an actor that ends before."""

    def __init__(self, status: TaskStatus[None]) -> None:
        self._status: TaskStatus[None] | None = status

    def started(self, value: None = None) -> None:
        if self._status is not None:
            self._status.started(value)
            self._status = None


def _place(error: Exception) -> str:
    """Return the file and line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else ""


def _first_cause(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
