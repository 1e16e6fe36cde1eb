"""An asyncio event loop on virtual time.

Timers cost nothing: when no thread, child process or pipe is at work, the clock jumps to the next
deadline. While something real is pending the loop waits for it and the clock stands still, so that a
slow machine can never make a timer fire early.
"""

from __future__ import annotations

import asyncio
import selectors
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STUCK_AFTER = 20.0
"""Real seconds without any completion before a test is called stuck."""


class Limiter(Protocol):
    """The part of an anyio capacity limiter that tells whether its threads work."""

    @property
    def borrowed_tokens(self) -> float: ...


class _JumpingSelector(selectors.BaseSelector):
    """Polls real descriptors, and spends a requested timeout on the virtual clock instead of sleeping."""

    def __init__(self, real: selectors.BaseSelector, loop: VirtualClockLoop) -> None:
        self._real = real
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is not None and not self._loop.has_real_work():
            self._loop.advance(timeout)
            return []
        ready = self._real.select(STUCK_AFTER)
        if not ready:
            raise RuntimeError("nothing real completed and no timer is due: the test waits for ever")
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """A selector loop whose `time()` starts at 0.0 seconds and only moves by jumps."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        self._jobs: weakref.WeakSet[asyncio.Future[Any]] = weakref.WeakSet()
        self._processes: weakref.WeakSet[Any] = weakref.WeakSet()
        self._being_spawned = 0
        self._limiters: list[Limiter] = []
        super().__init__(_JumpingSelector(selectors.DefaultSelector(), self))

    def time(self) -> float:
        return self._virtual_now

    def advance(self, seconds: float) -> None:
        self._virtual_now += seconds

    def watch(self, limiter: Limiter) -> None:
        """Count the threads of `limiter` as real work."""
        self._limiters.append(limiter)

    def has_real_work(self) -> bool:
        return (
            self._being_spawned > 0
            or any(not job.done() for job in self._jobs)
            or any(limiter.borrowed_tokens for limiter in self._limiters)
            or any(process.get_returncode() is None for process in self._processes)
        )

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        job = super().run_in_executor(executor, func, *args)
        self._jobs.add(job)
        return job

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        self._being_spawned += 1
        try:
            transport, protocol = await super().subprocess_exec(*args, **kwargs)
        finally:
            self._being_spawned -= 1
        self._processes.add(transport)
        return transport, protocol
