"""Locks between processes that share a memory root (LCK-1, LCK-2, LCK-3)."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import anyio

from pi_project_memory.actors.core.lock_rules import Busy, BusyReason, LockSpec
from pi_project_memory.actors.ports.lock_files import Claim, give_back, renew, take
from pi_project_memory.actors.ports.lock_ops import DISK, LockOps
from pi_project_memory.actors.ports.process_identity import Processes, SystemProcesses
from pi_project_memory.actors.ports.worker import in_worker


class LockHandle(ABC):
    """A lock that is held; `async with` releases it on every way out, cancellation included."""

    @abstractmethod
    async def release(self) -> bool:
        """Give the lock back unless it is another's by now; return whether it was still held."""

    @abstractmethod
    async def still_held(self) -> bool:
        """Tell whether the lock is still ours, and give a sign of life.

        Who holds a lock for long asks between its steps, more often than the stale time: processes in other
        containers or on other machines have nothing else to tell a long run from a crash.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()


class Locks(Protocol):
    """The locks of one memory root."""

    async def acquire(self, spec: LockSpec) -> LockHandle | Busy:
        """Try once, without waiting for another holder.

        Raises LockFilesError when the directory cannot be used. A cancelled call leaves nothing held.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileLocks:
    """Locks as files in `directory`, which must exist."""

    directory: Path
    processes: Processes = field(default_factory=SystemProcesses)
    ops: LockOps = DISK

    async def acquire(self, spec: LockSpec) -> LockHandle | Busy:
        """Try once for the lock, in one worker thread hop."""
        outcomes: list[Claim | Busy] = []
        try:
            await in_worker(lambda: outcomes.append(take(self.directory, spec, self.processes, self.ops)))
        except asyncio.CancelledError:
            self._undo(outcomes)
            raise
        outcome = outcomes[0]
        return outcome if isinstance(outcome, Busy) else FileLockHandle(outcome, self.ops)

    def _undo(self, outcomes: list[Claim | Busy]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Claim):
                give_back(outcome, self.ops)


@dataclass(frozen=True, slots=True)
class FileLockHandle(LockHandle):
    """A lock file with our token in it."""

    claim: Claim
    ops: LockOps

    async def release(self) -> bool:
        """Remove the file if it still bears our token."""
        released = False
        try:
            with anyio.CancelScope(shield=True):
                released = await in_worker(give_back, self.claim, self.ops)
        except asyncio.CancelledError:
            # Cancelled again before the worker began; afterwards this finds nothing to do.
            give_back(self.claim, self.ops)
            raise
        return released

    async def still_held(self) -> bool:
        """Look for our token in the file and renew the file's modification time."""
        return await in_worker(renew, self.claim, self.ops)


@dataclass(frozen=True, slots=True)
class MemoryLocks:
    """Locks within one process; `outsiders` names the locks that some other process holds."""

    outsiders: dict[str, Busy] = field(default_factory=dict)
    held: dict[str, LockHandle] = field(default_factory=dict)

    async def acquire(self, spec: LockSpec) -> LockHandle | Busy:
        """Hand out the lock unless it is held."""
        if spec.name in self.outsiders:
            return self.outsiders[spec.name]
        if spec.name in self.held:
            return Busy(BusyReason.HELD)
        handle = MemoryLockHandle(spec.name, self)
        self.held[spec.name] = handle
        return handle


@dataclass(frozen=True, slots=True, eq=False)
class MemoryLockHandle(LockHandle):
    """An entry in the table of the locks it came from."""

    name: str
    locks: MemoryLocks

    async def release(self) -> bool:
        """Take the entry out if it is still this one."""
        held = self._is_held()
        if held:
            del self.locks.held[self.name]
        return held

    async def still_held(self) -> bool:
        """Tell whether the entry is still this one."""
        return self._is_held()

    def _is_held(self) -> bool:
        return self.locks.held.get(self.name) is self
