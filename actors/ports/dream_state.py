"""The state file of dream, changed by compare-and-swap between processes (PATH-4, DRM-2, DRM-5).

`state_path` belongs to the memory root and is the one file that is written. `fallback_path` belongs to the
project, comes from older versions, is read while the first is missing, and never written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio

from pi_project_memory.actors.core.dream_state import (
    DamagedState,
    DreamState,
    UnsupportedVersion,
    parse_dream_state,
    render_dream_state,
)
from pi_project_memory.actors.core.lock_rules import LAST_DREAM_AT_LOCK, Busy
from pi_project_memory.actors.ports.clock import Clock, SystemClock
from pi_project_memory.actors.ports.locks import LockHandle, Locks
from pi_project_memory.actors.ports.publish import publish_replace
from pi_project_memory.actors.ports.worker import in_worker

LARGEST_STATE = 65_536
LOCK_TRIES = 40
LOCK_PAUSE_S = 0.025


@dataclass(frozen=True, slots=True)
class Damaged:
    """A state file that dream must neither trust nor overwrite."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path} is not a usable dream state: {self.reason}. Dream stays off and leaves the file as "
            "it is; mend the file, or delete it to start anew"
        )


@dataclass(frozen=True, slots=True)
class Swapped:
    """The new time is on disk."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Another process was first; nothing was changed."""

    current: DreamState


SwapOutcome = Swapped | Mismatch | Busy | Damaged


class DreamStates(Protocol):
    """Where the time of the last dream attempt is kept."""

    async def read(self) -> DreamState | Damaged:
        """Return what is recorded; without any file, never."""
        ...

    async def compare_and_swap(self, expected: int | None, new: int | None) -> SwapOutcome:
        """Put `new` in the place of `expected`, both as `recorded_at`; None stands for no record."""
        ...


@dataclass(frozen=True, slots=True)
class DreamStateFile:
    """The state of one memory root on disk; writers in all processes meet at `last-dream-at.lock`."""

    state_path: Path
    fallback_path: Path
    locks: Locks
    clock: Clock = field(default_factory=SystemClock)

    async def read(self) -> DreamState | Damaged:
        """Read the state file, or the older one while there is none."""
        return await in_worker(self._read)

    async def compare_and_swap(self, expected: int | None, new: int | None) -> SwapOutcome:
        """Replace the file whole under the lock; a damaged file and an unexpected time stay untouched.

        Waits about a second for the lock, which others hold for milliseconds. Raises LockFilesError and
        OSError when the disk fails, and then the old file is still there.
        """
        handle = await self._lock()
        if isinstance(handle, Busy):
            return handle
        async with handle:
            return await in_worker(self._swap, expected, new)

    async def _lock(self) -> LockHandle | Busy:
        outcome = await self.locks.acquire(LAST_DREAM_AT_LOCK)
        for _ in range(LOCK_TRIES):
            if not isinstance(outcome, Busy):
                break
            await anyio.sleep(LOCK_PAUSE_S)
            outcome = await self.locks.acquire(LAST_DREAM_AT_LOCK)
        return outcome

    def _read(self) -> DreamState | Damaged:
        for path in (self.state_path, self.fallback_path):
            try:
                raw = _read_regular(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                return Damaged(path, f"it cannot be read ({error.strerror})")
            # The clock is asked after the file: a time that another process has just written is past.
            parsed = parse_dream_state(raw, self.clock.now_ms())
            if isinstance(parsed, DamagedState | UnsupportedVersion):
                return Damaged(path, parsed.reason)
            return parsed
        return DreamState()

    def _swap(self, expected: int | None, new: int | None) -> Swapped | Mismatch | Damaged:
        current = self._read()
        if isinstance(current, Damaged):
            return current
        if current.recorded_at != expected:
            return Mismatch(current)
        self._write(new)
        return Swapped()

    def _write(self, new: int | None) -> None:
        if new is None:
            self.state_path.unlink(missing_ok=True)
        else:
            publish_replace(os.fspath(self.state_path), render_dream_state(new))


@dataclass(slots=True)
class MemoryDreamState:
    """The state as a value, for a process that shares it with nobody."""

    current: DreamState | Damaged = field(default_factory=DreamState)

    async def read(self) -> DreamState | Damaged:
        """Return the value."""
        return self.current

    async def compare_and_swap(self, expected: int | None, new: int | None) -> SwapOutcome:
        """Replace the value if it is the expected one."""
        if isinstance(self.current, Damaged):
            return self.current
        if self.current.recorded_at != expected:
            return Mismatch(self.current)
        self.current = DreamState(new)
        return Swapped()


def _read_regular(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, LARGEST_STATE)
    finally:
        os.close(descriptor)
