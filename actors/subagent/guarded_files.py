"""The file effects of a background run: each is checked and done in one step (SUB-2 to SUB-5)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.ports.private_dirs import make_private
from pi_project_memory.actors.ports.publish import REAL_DISK, DiskOps, publish_new, publish_replace
from pi_project_memory.actors.ports.tools import OperationRefusedError
from pi_project_memory.actors.ports.topic_files import fingerprint
from pi_project_memory.actors.ports.trace import Trace
from pi_project_memory.actors.ports.worker import in_worker
from pi_project_memory.actors.subagent.baseline import Baselines, SeenFile, count_lines
from pi_project_memory.actors.subagent.changes import Change, ChangeLog
from pi_project_memory.actors.subagent.path_policy import ReadRoots, resolve_read, resolve_write
from pi_project_memory.actors.subagent.real_paths import real_path
from pi_project_memory.actors.subagent.refusal import Refusal

MOST_BYTES = 16 * 1024 * 1024
"""A larger file is not handed through to a tool, which would show a small part of it anyway."""

_STORAGE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM})


class StorageFailedError(Exception):
    """The memory cannot be written: the run has to end, the text says why."""


@dataclass(slots=True)
class RunFiles:
    """What the calls of one run share: where they may go, what they have seen, what they have changed.

    `check` is called before every effect and raises when the run has lost its right to one (SUB-5);
    `on_touch` hears of every memory file right before it is changed.
    """

    cwd: Path
    memory_root: Path
    roots: ReadRoots
    check: Callable[[], None]
    on_touch: Callable[[str], None]
    trace: Trace
    ops: DiskOps = REAL_DISK
    baselines: Baselines = field(default_factory=Baselines)
    changes: ChangeLog = field(default_factory=ChangeLog)
    failure: StorageFailedError | None = None

    def relative(self, path: Path) -> str:
        """Return a real path inside the memory root, in whichever spelling, as topics are named."""
        return "/".join(path.parts[len(real_path(self.memory_root).parts) :])


@dataclass(slots=True)
class GuardedFiles:
    """The `FileOps` of one tool call; remembers what the call has read."""

    run: RunFiles
    seen: list[SeenFile] = field(default_factory=list)

    async def read_file(self, path: Path) -> bytes:
        """Return a file inside the read roots."""
        self.run.check()
        data, seen = await in_worker(self._read, path)
        self.seen.append(seen)
        return data

    async def access(self, path: Path, *, write: bool = False) -> None:
        """Refuse what may not be read, or written."""
        self.run.check()
        await in_worker(self._check_access, path, write)

    async def write_file(self, path: Path, data: bytes) -> None:
        """Publish a memory file that is new, or known to the run as it is on disk now."""
        self.run.check()
        # The listener is told on this thread, between a look that may refuse and the one that counts.
        self.run.on_touch(await in_worker(self._foresee, path))
        change = await in_worker(self._write, path, data)
        self.run.trace.event("published", path=change[0], change=change[1], bytes=len(data))

    async def mkdir(self, path: Path) -> None:
        """Make a directory inside the memory root; others are left to the write that follows to refuse."""
        self.run.check()
        await in_worker(self._make_directory, path)

    async def exists(self, path: Path) -> bool:
        """Tell whether a readable path leads to something."""
        self.run.check()
        return await in_worker(lambda: self._readable(path).exists())

    async def is_directory(self, path: Path) -> bool:
        """Tell whether a readable path is a directory."""
        self.run.check()
        return await in_worker(lambda: stat.S_ISDIR(self._readable(path).stat().st_mode))

    def _readable(self, path: Path) -> Path:
        return _granted(resolve_read(str(path), self.run.cwd, self.run.roots))

    def _writable(self, path: Path) -> Path:
        return _granted(resolve_write(str(path), self.run.cwd, self.run.memory_root))

    def _read(self, path: Path) -> tuple[bytes, SeenFile]:
        target = self._readable(path)
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
            if not stat.S_ISREG(status.st_mode):
                raise OperationRefusedError(f"Refused: {target} is no regular file. Read another one.")
            if status.st_size > MOST_BYTES:
                raise OperationRefusedError(
                    f"Refused: {target} has {status.st_size} bytes. Look at parts of it with head, tail or grep."
                )
            if self._readable(path) != target or not os.path.samestat(os.lstat(target), status):
                raise OperationRefusedError(f"Refused: {target} was replaced while it was opened. Try again.")
            data = file.read(MOST_BYTES)
        return data, SeenFile(target, fingerprint(status, hash(data)), count_lines(data))

    def _check_access(self, path: Path, write: bool) -> None:  # noqa: FBT001 - worker arguments are positional
        if not write:
            with open(self._readable(path), "rb", opener=_nonblocking):
                return
        self.require_known(self._writable(path))

    def require_known(self, target: Path) -> None:
        """Refuse a file that the run does not know whole, as it is on disk now (SUB-4)."""
        version = _version_of(target)
        known = self.run.baselines.of(target)
        if known is None:
            raise OperationRefusedError(
                f"Refused: {target} exists and this run has not read it whole. "
                "Read it without offset and limit first, then repeat the change on what you see."
            )
        if known != version:
            self.run.baselines.forget(target)
            raise OperationRefusedError(
                f"Refused: {target} has changed since this run read it. "
                "Read it again, then repeat the change on what you see."
            )

    def _foresee(self, path: Path) -> str:
        """Return which topic a write would change; raises what it would be refused with."""
        target = self._writable(path)
        if target.exists():
            self.require_known(target)
        return self.run.relative(target)

    def _write(self, path: Path, data: bytes) -> tuple[str, Change]:
        self.run.check()
        target = self._writable(path)
        with self._storage(target):
            change = self._publish(path, target, data)
        self.run.baselines.know(target, fingerprint(target.stat(), hash(data)))
        self.run.changes.note(self.run.relative(target), change)
        return self.run.relative(target), change

    def _publish(self, path: Path, target: Path, data: bytes) -> Change:
        if target.exists():
            publish_replace(str(target), data, self._checking(path, target, known=True))
            return "updated"
        make_private(str(target.parent), self.run.ops)
        try:
            publish_new(str(target), data, self._checking(path, target, known=False))
        except FileExistsError:
            raise OperationRefusedError(
                f"Refused: {target} was created by somebody else meanwhile. Read it, then edit it."
            ) from None
        return "created"

    def _checking(self, path: Path, target: Path, *, known: bool) -> DiskOps:
        """Return the disk with the checks made once more right before the file takes its name."""
        ops = self.run.ops

        def settle(step: Callable[[str, str], None], source: str, name: str) -> None:
            if self._writable(path) != target:
                raise OperationRefusedError(f"Refused: {path} leads elsewhere by now. Look at it again.")
            if known:
                self.require_known(target)
            step(source, name)

        if known:
            return replace(ops, rename=partial(settle, ops.rename))
        return replace(ops, link=partial(settle, ops.link))

    def _make_directory(self, path: Path) -> None:
        probe = path / "topic.md"
        self.run.check()
        if not isinstance(resolve_write(str(probe), self.run.cwd, self.run.memory_root), Refusal):
            target = self._writable(probe).parent
            with self._storage(target):
                make_private(str(target), self.run.ops)

    @contextmanager
    def _storage(self, target: Path) -> Iterator[None]:
        """Note what shows that the memory cannot be written at all: the run has to end then."""
        try:
            yield
        except OSError as error:
            if error.errno in _STORAGE_ERRORS:
                self.run.failure = StorageFailedError(f"{target} cannot be written: {error.strerror}")
            raise


def _granted(answer: Path | Refusal) -> Path:
    if isinstance(answer, Refusal):
        raise OperationRefusedError(str(answer))
    return answer


def _version_of(target: Path) -> Fingerprint:
    """Return the fingerprint of a file with its content, since times alone may miss an edit."""
    with open(target, "rb", opener=_nonblocking) as file:
        status = os.fstat(file.fileno())
        return fingerprint(status, hash(file.read(MOST_BYTES)))


def _nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
