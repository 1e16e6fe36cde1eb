"""What the lock protocol does to the disk, one callable per effect."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pi_project_memory.actors.ports.clock import SystemClock

FILE_MODE = 0o600
LARGEST_CONTENT = 4096


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as one look found it: content (b"" when it cannot be read), inode, modification time."""

    raw: bytes
    inode: tuple[int, int]
    modified_ms: int


@dataclass(frozen=True, slots=True)
class LockOps:
    """Every effect of the protocol, so that tests can stop, fail or model each one.

    `create` and `link` raise FileExistsError rather than replace anything; `look` returns None, and `unlink`
    does nothing, where no file is. `now_ms` is the wall clock, `nonce` a part of a file name that is never
    used twice.
    """

    create: Callable[[Path, bytes], None]
    link: Callable[[Path, Path], None]
    look: Callable[[Path], FileSeen | None]
    unlink: Callable[[Path], None]
    touch: Callable[[Path], None]
    names: Callable[[Path], list[str]]
    now_ms: Callable[[], int]
    nonce: Callable[[], str]


def create(path: Path, data: bytes) -> None:
    """Create `path` with `data`; nothing stays behind when writing fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def look(path: Path) -> FileSeen | None:
    """Read content and status of one and the same file; what cannot be read still has a status."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return _unread(path)
    try:
        return _seen(_read(descriptor), os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    with suppress(OSError):
        return os.read(descriptor, LARGEST_CONTENT)
    return b""


def _unread(path: Path) -> FileSeen | None:
    try:
        return _seen(b"", path.lstat())
    except FileNotFoundError:
        return None


def _seen(raw: bytes, status: os.stat_result) -> FileSeen:
    return FileSeen(raw, (status.st_dev, status.st_ino), status.st_mtime_ns // 1_000_000)


DISK = LockOps(
    create=create,
    link=os.link,
    look=look,
    unlink=lambda path: path.unlink(missing_ok=True),
    touch=os.utime,
    names=os.listdir,
    now_ms=SystemClock().now_ms,
    nonce=lambda: secrets.token_hex(6),
)
