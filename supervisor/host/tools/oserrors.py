"""Failures of the operating system in the words that Node uses, which is what a model gets to read."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pi_project_memory.supervisor.host.tools.base import ToolError

_MEANINGS = {
    errno.EACCES: "permission denied",
    errno.EEXIST: "file already exists",
    errno.EISDIR: "illegal operation on a directory",
    errno.ELOOP: "too many symbolic links encountered",
    errno.ENAMETOOLONG: "name too long",
    errno.ENOENT: "no such file or directory",
    errno.ENOSPC: "no space left on device",
    errno.ENOTDIR: "not a directory",
    errno.EPERM: "operation not permitted",
    errno.EROFS: "read-only file system",
}


def error_code(error: OSError) -> str:
    """Return the symbolic name of the error, `ENOENT` and the like."""
    return errno.errorcode.get(error.errno or 0, "EIO")


@contextmanager
def told_as(call: str, path: Path) -> Iterator[None]:
    """Raise a ToolError for an OSError inside, with the system call and the path it names."""
    try:
        yield
    except OSError as error:
        meaning = _MEANINGS.get(error.errno or 0) or (error.strerror or "unknown error").lower()
        place = "read" if isinstance(error, IsADirectoryError) and call != "open" else f"{call} '{path}'"
        raise ToolError(f"{error_code(error)}: {meaning}, {place}") from error
