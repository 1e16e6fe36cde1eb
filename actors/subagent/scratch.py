"""The private scratch directory of one run (SUB-8)."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from pi_project_memory.actors.ports.worker import in_worker

PREFIX = "pi-project-memory-"

_LOG_NAME = re.compile(r"(?:pi-)?(bash-\w+\.log|codemode-\w+\.(?:txt|png|jpg|gif|webp))")
"""How hosts name the full output of a command or script, and the pictures of a script."""


@asynccontextmanager
async def scratch_directory() -> AsyncIterator[Path]:
    """Make a directory below the system's temporary one and remove it on every way out."""
    made: list[str] = []
    try:
        # A cancellation can come while the worker makes it: it is known here all the same.
        await in_worker(lambda: made.append(tempfile.mkdtemp(prefix=PREFIX)))
        yield Path(made[0])
    finally:
        with anyio.CancelScope(shield=True):
            await in_worker(_remove, made)


def _remove(paths: Sequence[str]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def adopt_log(log: str, scratch: Path) -> Path:
    """Move a full output or picture, which the host wrote to its temporary directory, into scratch.

    Returns where it lies now; what is no fresh regular file of a temporary directory stays where it is.
    """
    source = Path(log)
    named = _LOG_NAME.fullmatch(source.name)
    if source.parent == scratch:
        return source
    if named is None or source.is_symlink() or not source.is_file():
        raise FileNotFoundError(log)
    target = scratch / named[1]
    shutil.move(source, target)
    os.chmod(target, 0o600)  # noqa: PTH101 - one call beside the move
    return target
