"""Private directories, and the error that tells why one cannot be used (PATH-5)."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from pi_project_memory.actors.ports.publish import DiskOps

PRIVATE_DIRECTORY = 0o700

_REMEDIES = {
    errno.ENAMETOOLONG: (
        "The file system takes no name or path this long. If this is the memory directory, set "
        "autoMemoryDirectory in config.json to a shorter path; if it lies below project-memory, move the "
        "agent directory (PI_CODING_AGENT_DIR) to a file system that takes longer names"
    ),
    errno.ENOENT: "A directory above it is gone, or a symbolic link to nothing: mend that",
    errno.ENOTDIR: "A part of this path is not a directory: move that file away or choose another directory",
    errno.ELOOP: "Its symbolic links lead in a circle or where none may be: mend or remove them",
    errno.EACCES: "Give yourself the right to read and write there, or choose another directory",
    errno.EPERM: "Give yourself the right to read and write there, or choose another directory",
    errno.EROFS: "The file system is mounted read-only: mount it for writing or choose another directory",
    errno.ENOSPC: "Make room on this disk",
    errno.EDQUOT: "Make room in your quota on this disk",
}


class InitialisationError(Exception):
    """The project's directories cannot be used; the text names the path, what is wrong and what to do."""

    def __init__(self, path: str, problem: str, remedy: str) -> None:
        self.path = path
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{path}: {problem}. {remedy}.")


def explain(error: OSError, otherwise: str) -> InitialisationError:
    """Return what `error` means for the user; `otherwise` is the path to name when it carries none."""
    remedy = _REMEDIES.get(error.errno or 0, "Check this path and the disk it lies on")
    path = error.filename2 or error.filename or otherwise
    return InitialisationError(str(path), error.strerror or str(error), remedy)


def make_private(path: str, ops: DiskOps) -> None:
    """Make `path` and what is missing above it, each with mode 0700; what exists is left as it is."""
    missing = [path]
    while not _exists(missing[-1]):
        missing.append(str(Path(missing[-1]).parent))
    for directory in reversed(missing[:-1]):
        with suppress(FileExistsError):
            ops.mkdir(directory, PRIVATE_DIRECTORY)
            Path(directory).chmod(PRIVATE_DIRECTORY)


def _exists(path: str) -> bool:
    # Anything but a missing file is an error to tell before the first directory is made.
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def make_real(path: str, ops: DiskOps) -> None:
    """Make `path` private where it is missing; raises InitialisationError for a link or a file."""
    make_private(path, ops)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise InitialisationError(
            path,
            "it must be a directory itself, not a symbolic link or a file",
            "Move it away; the directory is then made anew",
        )
