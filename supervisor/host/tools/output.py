"""What a command prints: the end of it to show, the totals, and all of it on disk when it is long."""

from __future__ import annotations

import codecs
import os
import secrets
from dataclasses import replace
from io import FileIO
from pathlib import Path

import anyio.to_thread

from pi_project_memory.supervisor.host.tools.truncation import (
    MAX_BYTES,
    MAX_LINES,
    Truncation,
    byte_len,
    truncate_tail,
)

_KEPT = 2 * MAX_BYTES
"""Characters of the end that are kept at least: more than can be shown, whatever their size in bytes."""


class OutputLog:
    """Takes output piece by piece in bounded memory; `path` is the full log, None while it is short."""

    def __init__(self, folder: Path) -> None:
        self.path: Path | None = None
        self.last_line_bytes = 0
        self._folder = folder
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._early: list[bytes] = []
        self._file: FileIO | None = None
        self._tail = ""
        self._begun = False
        self._bytes = self._breaks = 0

    async def append(self, chunk: bytes) -> None:
        """Add a piece. Raises OSError when the log cannot be written."""
        self._decode(chunk)
        if self._file is not None:
            await anyio.to_thread.run_sync(_write, self._file, chunk)
            return
        self._early.append(chunk)
        if self._is_long():
            await self._spill()

    async def finish(self) -> Truncation:
        """Return what is shown of the whole output. Raises OSError when the log cannot be written."""
        self._decode(b"", final=True)
        if self._is_long() and self._file is None:
            await self._spill()
        return replace(truncate_tail(self._tail), total_lines=self._lines, total_bytes=self._bytes)

    def close(self) -> None:
        """Close the log; it stays on disk."""
        if self._file is not None:
            self._file.close()

    @property
    def _lines(self) -> int:
        return self._breaks + (self.last_line_bytes > 0)

    def _is_long(self) -> bool:
        return self._lines > MAX_LINES or self._bytes > MAX_BYTES

    def _decode(self, chunk: bytes, *, final: bool = False) -> None:
        text = self._decoder.decode(chunk, final)
        if text and not self._begun:
            text = text.removeprefix("\ufeff")
            self._begun = True
        size, breaks = byte_len(text), text.count("\n")
        self._bytes += size
        self._breaks += breaks
        last = byte_len(text[text.rfind("\n") + 1 :])
        self.last_line_bytes = last if breaks else self.last_line_bytes + last
        tail = self._tail + text
        self._tail = tail[-_KEPT:] if len(tail) > 2 * _KEPT else tail

    async def _spill(self) -> None:
        self.path = self._folder / f"bash-{secrets.token_hex(8)}.log"
        self._file = await anyio.to_thread.run_sync(_create, self.path, b"".join(self._early))
        self._early = []


def _create(path: Path, data: bytes) -> FileIO:
    file = FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w")
    _write(file, data)
    return file


def _write(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
