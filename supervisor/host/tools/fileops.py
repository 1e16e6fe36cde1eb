"""The file effects of the tools on real files."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import anyio.to_thread

from pi_project_memory.supervisor.host.tools.base import ToolError
from pi_project_memory.supervisor.host.tools.listing import matching_paths
from pi_project_memory.supervisor.host.tools.tasks import to_the_end


class RealFileOps:
    """Reads and writes as the user who runs the process; pipes, sockets and devices are refused."""

    async def read_file(self, path: Path) -> bytes:
        """Return the whole content of a regular file."""
        return await anyio.to_thread.run_sync(_read, path, abandon_on_cancel=True)

    async def access(self, path: Path, *, write: bool = False) -> None:
        """Raise OSError unless the file can be read (and written)."""
        await anyio.to_thread.run_sync(_check_access, path, write)

    async def write_file(self, path: Path, data: bytes) -> None:
        """Create the file or replace its content in place, keeping its mode."""
        await to_the_end(anyio.to_thread.run_sync(_write, path, data))

    async def mkdir(self, path: Path) -> None:
        """Create the directory and its parents; one that exists is fine."""
        await to_the_end(anyio.to_thread.run_sync(_make_directory, path))

    async def exists(self, path: Path) -> bool:
        """Tell whether the path leads to something."""
        return await anyio.to_thread.run_sync(os.path.exists, path)

    async def is_directory(self, path: Path) -> bool:
        """Tell whether the path is a directory; raise OSError when it does not exist."""
        return stat.S_ISDIR((await anyio.to_thread.run_sync(os.stat, path)).st_mode)

    async def glob(self, pattern: str, root: Path, limit: int) -> list[str]:
        """Return at most `limit` paths under `root` that match, in order; see `matching_paths`."""
        stop = threading.Event()
        try:
            return await anyio.to_thread.run_sync(
                matching_paths, pattern, root, limit, stop.is_set, abandon_on_cancel=True
            )
        finally:
            stop.set()


def _open(path: Path, flags: int) -> int:
    """Open without waiting for the other end of a pipe, and refuse what is no regular file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise ToolError(f"{path} is not a regular file; pipes, sockets and devices are neither read nor written.")


def _read(path: Path) -> bytes:
    with os.fdopen(_open(path, os.O_RDONLY), "rb", buffering=0) as file:
        return file.readall()


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(_open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(data)


def _check_access(path: Path, write: bool) -> None:  # noqa: FBT001 - a worker thread takes no keywords
    mode = os.R_OK | os.W_OK if write else os.R_OK
    if not os.access(path, mode):
        path.stat()
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
