"""One change of a file at a time: write and edit of the same real file wait for each other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakValueDictionary

import anyio.to_thread


def _real_path(path: Path) -> str:
    try:
        return os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return str(path)


class FileLocks:
    """Locks by real path, kept only while somebody holds or awaits them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, path: Path) -> AsyncIterator[None]:
        """Hold the file behind `path`; two spellings of one file are one. Raises OSError for a link cycle."""
        key = await anyio.to_thread.run_sync(_real_path, path)
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield
