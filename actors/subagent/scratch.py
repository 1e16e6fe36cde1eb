"""The private scratch directory of one run (SUB-8)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from pi_project_memory.actors.ports.worker import in_worker

PREFIX = "pi-project-memory-"


@asynccontextmanager
async def scratch_directory() -> AsyncIterator[Path]:
    """Make a directory below the system's temporary one and remove it on every way out."""
    path = Path(await in_worker(lambda: tempfile.mkdtemp(prefix=PREFIX)))
    try:
        yield path
    finally:
        with anyio.CancelScope(shield=True):
            await in_worker(lambda: shutil.rmtree(path, ignore_errors=True))


def adopt_log(log: str, scratch: Path) -> Path:
    """Move a command's full output, which the host wrote to its temporary directory, into scratch.

    Returns where it lies now; what is no fresh regular file of a temporary directory stays where it is.
    """
    source = Path(log)
    target = scratch / f"bash-{source.stem.rpartition('-')[2]}.log"
    if source.parent == scratch:
        return source
    if not source.name.startswith("pi-bash-") or source.is_symlink() or not source.is_file():
        raise FileNotFoundError(log)
    shutil.move(source, target)
    os.chmod(target, 0o600)  # noqa: PTH101 - one call beside the move
    return target
