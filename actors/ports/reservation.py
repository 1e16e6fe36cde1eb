"""Which namespace a project has: the plain one if it was there first, else one of its own (PATH-3)."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress

from pi_project_memory.actors.core.identity import as_utf8, collision_namespace, plain_namespace
from pi_project_memory.actors.ports.private_dirs import InitialisationError, make_real
from pi_project_memory.actors.ports.publish import DiskOps, publish_new, publish_replace

MARKER = ".project-root"

_NAME_IN_USE = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}
_LONGEST_MARKER = 64 * 1024
_ATTEMPTS = 60
_PATIENCE = 20
"""Looks at an empty marker before it counts as left by a crash."""

_PAUSE = 0.01
"""Seconds between two looks."""


def reserve_namespace(agent_dir: str, root: str, ops: DiskOps) -> str:
    """Return the namespace directory of the project at `root`, reserved for it.

    Raises InitialisationError, or OSError when the disk fails.
    """
    plain, collision = plain_namespace(agent_dir, root), collision_namespace(agent_dir, root)
    owner = as_utf8(root)
    is_legacy = _read_owner(collision) == owner and _read_owner(plain) is None
    stays = is_legacy and not _move_back(collision, plain, ops)
    for namespace in (collision,) if stays else (plain, collision):
        if _claim(namespace, owner, ops):
            return namespace
    raise InitialisationError(
        f"{collision}/{MARKER}",
        f"it does not name this project, {root}",
        "If it was changed by hand, make that path its only line again; otherwise move its directory away",
    )


def _move_back(collision: str, plain: str, ops: DiskOps) -> bool:
    """Give a directory of an older version its plain name; False when anything is there already."""
    try:
        ops.rename(collision, plain)
    except FileNotFoundError:
        return True  # another process of this project was faster
    except OSError as error:
        if error.errno in _NAME_IN_USE:
            return False
        raise
    return True


def _claim(namespace: str, owner: bytes, ops: DiskOps) -> bool:
    """Reserve `namespace` if nobody has, and tell whether it is the owner's."""
    make_real(namespace, ops)
    marker = f"{namespace}/{MARKER}"
    for attempt in range(_ATTEMPTS):
        found = _read_owner(namespace)
        if found:
            return found == owner
        if found is None:
            with suppress(FileExistsError):
                publish_new(marker, owner + b"\n", ops)
        elif attempt < _PATIENCE:
            # Without hard links another process creates its marker empty and fills it the next instant.
            time.sleep(_PAUSE)
        else:
            _fill_empty(namespace, owner, ops)
    raise InitialisationError(marker, "it stays empty", "Remove this file")


def _fill_empty(namespace: str, owner: bytes, ops: DiskOps) -> None:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        time.sleep(_PAUSE)
    else:
        if _read_owner(namespace) == b"":
            publish_replace(f"{namespace}/{MARKER}", owner + b"\n", ops)
    finally:
        os.close(descriptor)


def _read_owner(namespace: str) -> bytes | None:
    """Return the root that the marker names, empty for an empty marker, None without one."""
    marker = f"{namespace}/{MARKER}"
    try:
        descriptor = os.open(marker, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InitialisationError(marker, "it is not a regular file", "Move it away")
        return os.read(descriptor, _LONGEST_MARKER).removesuffix(b"\n")
    finally:
        os.close(descriptor)
