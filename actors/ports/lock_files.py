"""The lock protocol on disk: synchronous steps, to be run in one worker thread per operation.

The theory stands in `core.lock_rules`. What it asks of the disk is three things: `link` creates a name or
fails, whole content included; a name is removed by `unlink`; a look at a file sees what is there now.

Why no interleaving gives two holders. Say that X unlinks at some place a file that X does not own. X had
then found a spent file there after it got the arbiter of that place, and still has the arbiter. Suppose the
place held another file by the time of the unlink, and that no such mistake was made before. The spent file
was removed in between, not by its holder, who is gone; so by a third process with the same arbiter; so the
arbiter of X, who lives, was removed by somebody else, which only a mistake made before can do. There is
thus no first mistake: X removes what X saw. Two holders would need such a removal of a live lock.

Why nobody waits for ever. A file of a process that is gone becomes spent with time. The topmost file of a
chain of arbiters has no arbiter, so one process alone clears it and then every file below it.

Moving a file away to check it, and putting it back when it was the wrong one, would be weaker: while a live
lock is away, another process can create one.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pi_project_memory.actors.core.lock_rules import (
    Acquire,
    Busy,
    BusyReason,
    Condition,
    Holder,
    LockRecord,
    LockSpec,
    RecoverArbiter,
    Sighting,
    TakeOver,
    condition,
    decide,
    parse_record,
    render_record,
)
from pi_project_memory.actors.ports.lock_ops import FileSeen, LockOps
from pi_project_memory.actors.ports.process_identity import Processes

ROUNDS = 8
NO_HARD_LINKS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


class LockFilesError(OSError):
    """The locks directory cannot be used as one; says which path, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A lock that this process holds: its file and the token in it."""

    path: Path
    token: str


def arbiter_of(path: Path) -> Path:
    """Return the file that admits one process at a time to the removal of a spent `path`."""
    return path.with_name(f"{path.name}.recover")


def take(directory: Path, spec: LockSpec, processes: Processes, ops: LockOps) -> Claim | Busy:
    """Try once for the lock, over its dead holder if need be; raises LockFilesError."""
    with _told(directory / spec.name):
        contender = _Contender.enter(directory, spec, processes, ops)
        try:
            return contender.contend()
        finally:
            # One that stays behind is swept later; to raise here would lose a lock just taken.
            with suppress(OSError):
                ops.unlink(contender.candidate)


def give_back(claim: Claim, ops: LockOps) -> bool:
    """Remove the file if it is still the claimed one; return whether it was. Raises LockFilesError."""
    with _told(claim.path):
        if not _bears(ops.look(claim.path), claim.token):
            return False
        ops.unlink(claim.path)
        return True


def renew(claim: Claim, ops: LockOps) -> bool:
    """Give a sign of life if the file is still the claimed one; return whether it was."""
    with _told(claim.path):
        held = _bears(ops.look(claim.path), claim.token)
        if held:
            ops.touch(claim.path)
        return held


@dataclass(frozen=True, slots=True)
class _Contender:
    """One try of one process: its record lies in `candidate`, ready to be linked where it is wanted."""

    path: Path
    spec: LockSpec
    processes: Processes
    ops: LockOps
    candidate: Path
    record: LockRecord
    disk_ahead_ms: int

    @classmethod
    def enter(cls, directory: Path, spec: LockSpec, processes: Processes, ops: LockOps) -> _Contender:
        record = LockRecord(processes.pid(), processes.issue_token(), ops.now_ms())
        candidate = directory / f".{spec.name}.{record.pid}.{ops.nonce()}.tmp"
        ops.create(candidate, render_record(record))
        seen = ops.look(candidate)
        ahead_ms = 0 if seen is None else _ahead_of(record.acquired_at, ops.now_ms(), seen.modified_ms)
        return cls(directory / spec.name, spec, processes, ops, candidate, record, ahead_ms)

    def contend(self) -> Claim | Busy:
        for _ in range(ROUNDS):
            busy = self._clear(self.path)
            if busy is not None:
                return busy
            if self._create(self.path):
                self._sweep()
                return self._claim(self.path)
        return Busy(BusyReason.CONTENDED)

    def _clear(self, path: Path) -> Busy | None:
        """Take one step towards a free `path`; None means go on."""
        seen, arbiter = self.ops.look(path), self.ops.look(arbiter_of(path))
        match decide(self._judge(seen), self._judge(arbiter), self.spec.stale_ms):
            case Acquire():
                return None
            case Busy() as busy:
                return busy
            case RecoverArbiter():
                return self._clear(arbiter_of(path))
            case TakeOver():
                return self._remove_spent(path, seen)

    def _remove_spent(self, path: Path, seen: FileSeen | None) -> Busy | None:
        arbiter = arbiter_of(path)
        if not self._create(arbiter):
            return Busy(BusyReason.RECOVERING)
        try:
            if self.ops.look(path) == seen:
                self.ops.unlink(path)
        finally:
            give_back(self._claim(arbiter), self.ops)
        return None

    def _create(self, path: Path) -> bool:
        try:
            self.ops.link(self.candidate, path)
        except FileExistsError:
            # A network disk may have linked and lost the answer.
            return _bears(self.ops.look(path), self.record.token)
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            return self._create_without_links(path)
        return True

    def _create_without_links(self, path: Path) -> bool:
        started_ms = self.ops.now_ms()
        try:
            self.ops.create(path, render_record(self.record))
        except FileExistsError:
            return False
        if self.ops.now_ms() - started_ms <= self.spec.stale_ms // 2:
            return True
        # Suspended between creating and writing: others may have begun to count the empty file as old.
        give_back(self._claim(path), self.ops)
        return False

    def _sweep(self) -> None:
        """Remove what crashes left beside the lock; longest names first, so arbiters go before theirs."""
        with suppress(OSError):
            for name in sorted(self.ops.names(self.path.parent), key=len, reverse=True):
                if name.replace(".recover", "") == self.spec.name:
                    self._clear(self.path.with_name(name))
                elif self._is_left_candidate(name):
                    self.ops.unlink(self.path.with_name(name))

    def _is_left_candidate(self, name: str) -> bool:
        if not (name.startswith(f".{self.spec.name}.") and name.endswith(".tmp")):
            return False
        sighting = self._judge(self.ops.look(self.path.with_name(name)))
        return condition(sighting, self.spec.stale_ms) is Condition.SPENT

    def _claim(self, path: Path) -> Claim:
        return Claim(path, self.record.token)

    def _judge(self, seen: FileSeen | None) -> Sighting | None:
        if seen is None:
            return None
        now_ms = self.ops.now_ms()
        file_age_ms = now_ms + self.disk_ahead_ms - seen.modified_ms
        record = parse_record(seen.raw)
        if record is None:
            return Sighting(Holder.NAMELESS, file_age_ms, file_age_ms)
        verdict = self.processes.judge(record, now_ms)
        return Sighting(verdict.holder, verdict.age_ms, file_age_ms, record.pid)


def _ahead_of(before_ms: int, after_ms: int, modified_ms: int) -> int:
    """Tell by how much the clock of a (network) disk, which stamped a file meanwhile, must be ahead of ours."""
    return modified_ms - min(max(modified_ms, before_ms), after_ms)


def _bears(seen: FileSeen | None, token: str) -> bool:
    record = None if seen is None else parse_record(seen.raw)
    return record is not None and record.token == token


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except LockFilesError:
        raise
    except OSError as error:
        # Without the name of the temporary file, so that the same cause reads the same each time.
        reason = error.strerror or error
        message = f"cannot use the lock {path}: {reason}; see that its directory exists and is writable"
        raise LockFilesError(message) from error
