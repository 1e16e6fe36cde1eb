"""Reading a log while it is written, across its rotation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from pi_project_memory.supervisor.traces.records import LONGEST_LINE

CHUNK = 64 * 1024
"""Bytes read at a time."""


class Tail:
    """Follows one file by name; holds no more than one chunk and one unfinished line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._too_long = False

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def go_to(self, path: Path) -> None:
        """Follow another file from now on."""
        self.close()
        self._path = path

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines that have come since the last time; those too long are left out."""
        if self._file is None:
            self._open()
        yield from self._new_lines()
        if self._file is not None and self._replaced(self._file):
            # What was written between the reading and the renaming is still in the old file.
            yield from self._new_lines()
            self.close()
            self._open()
            yield from self._new_lines()

    def _open(self) -> None:
        self._rest, self._too_long = b"", False
        with suppress(FileNotFoundError):
            self._file = self._path.open("rb", buffering=0)

    def _replaced(self, file: BinaryIO) -> bool:
        """Tell whether the name leads to another file now, or the file has become shorter."""
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False  # the name is free for a moment while the parts are exchanged
        return not os.path.samestat(there, os.fstat(file.fileno())) or there.st_size < file.tell()

    def _new_lines(self) -> Iterator[bytes]:
        while self._file is not None and (chunk := self._file.read(CHUNK)):
            *whole, rest = (self._rest + chunk).split(b"\n")
            if whole and self._too_long:
                del whole[0]
                self._too_long = False
            self._too_long = self._too_long or len(rest) > LONGEST_LINE
            self._rest = b"" if self._too_long else rest
            yield from whole
