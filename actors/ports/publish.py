"""Atomic publish (PATH-7): a reader, or a crash at any instant, meets the old file or the new one, whole.

The data goes into a temporary file beside the target, is read back and flushed to disk, and only then takes
the target's name. The temporary file is removed on every way out.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

PRIVATE = 0o600

_LONGEST_NAME = 100
"""Bytes of the target's name in the temporary one, which then fits where names end at 143 bytes."""

_ATTEMPTS = 10
_NO_HARD_LINKS = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK}


def _random_name() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True)
class DiskOps:
    """The calls that change the disk, so that a test can make any one of them fail or stop there."""

    open: Callable[[str, int, int], int] = os.open
    write: Callable[[int, memoryview], int] = os.write
    fsync: Callable[[int], None] = os.fsync
    link: Callable[[str, str], None] = os.link
    rename: Callable[[str, str], None] = os.rename
    unlink: Callable[[str], None] = os.unlink
    mkdir: Callable[[str, int], None] = os.mkdir
    random_name: Callable[[], str] = _random_name


REAL_DISK = DiskOps()


def publish_new(path: str, data: bytes, ops: DiskOps = REAL_DISK) -> None:
    """Create `path` with `data`, mode 0600; raises FileExistsError when there is anything of that name.

    Raises OSError when the disk fails; then nothing of that name was made.
    """
    with _temporary(path, data, PRIVATE, ops) as temporary:
        try:
            ops.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            _rename_new(temporary, path, ops)
    _flush_directory(path, ops)


def publish_replace(path: str, data: bytes, ops: DiskOps = REAL_DISK) -> None:
    """Put `data` in the place of `path`, keeping its mode; a missing file is created with mode 0600.

    A symbolic link is replaced itself, so resolve it first if its target is meant. Raises OSError when the
    disk fails; then the old file is still there.
    """
    with _temporary(path, data, _mode_of(path), ops) as temporary:
        ops.rename(temporary, path)
    _flush_directory(path, ops)


@contextmanager
def _temporary(path: str, data: bytes, mode: int, ops: DiskOps) -> Iterator[str]:
    descriptor, temporary = _create_temporary(path, ops)
    try:
        try:
            os.fchmod(descriptor, mode)
            _write_verified(descriptor, data, ops)
        finally:
            os.close(descriptor)
        yield temporary
    finally:
        # After a rename there is nothing left, and a failure here must not hide how the publish went.
        with suppress(OSError):
            ops.unlink(temporary)


def _create_temporary(path: str, ops: DiskOps) -> tuple[int, str]:
    folder, name = _split(path)
    short = os.fsencode(name)[:_LONGEST_NAME].decode("utf-8", "ignore")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(_ATTEMPTS):
        temporary = f"{folder}.{short}.{os.getpid()}.{ops.random_name()}.tmp"
        with suppress(FileExistsError):
            return ops.open(temporary, flags, PRIVATE), temporary
    raise OSError(errno.EBUSY, "every temporary name that was tried is taken", path)


def _split(path: str) -> tuple[str, str]:
    head, slash, name = path.rpartition("/")
    return head + slash or "./", name


def _write_verified(descriptor: int, data: bytes, ops: DiskOps) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[ops.write(descriptor, rest) :]
    if os.fstat(descriptor).st_size != len(data) or os.pread(descriptor, len(data), 0) != data:
        raise OSError(errno.EIO, "what was written reads back differently")
    ops.fsync(descriptor)


def _rename_new(temporary: str, path: str, ops: DiskOps) -> None:
    os.close(ops.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE))
    try:
        ops.rename(temporary, path)
    except OSError:
        ops.unlink(path)
        raise


def _mode_of(path: str) -> int:
    try:
        found = os.lstat(path).st_mode
    except FileNotFoundError:
        return PRIVATE
    return stat.S_IMODE(found) & 0o777 if stat.S_ISREG(found) else PRIVATE


def _flush_directory(path: str, ops: DiskOps) -> None:
    # The file is in place already: a directory that cannot be flushed costs durability alone.
    with suppress(OSError):
        descriptor = os.open(_split(path)[0], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            ops.fsync(descriptor)
        finally:
            os.close(descriptor)
