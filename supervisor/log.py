"""The service's own log: JSON lines by structlog, one file for each session process (OBS-1, OBS-3).

Opening it costs more than answering the handshake does, so events wait in memory until `open`; they are
few by then. A log that cannot be written is given up: `on_lost` hears why, and nothing else of the session is
touched. Texts stay out unless the environment asks for them, to debug on one's own machine.
"""

from __future__ import annotations

import json
import os
import string
import time
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from pi_project_memory.actors.core.jstext import utf16_prefix
from pi_project_memory.actors.ports.trace import Private, TraceValue, with_turn

MAX_BYTES = 5 * 1024 * 1024
"""Size at which a log file is set aside; one older part is kept."""

FILES_KEPT = 20

VARIABLE = "PI_PROJECT_MEMORY_LOG"
"""`debug` in this environment variable of the service keeps texts in the log, as `texts` of an event."""

TEXT_UNITS = 8_000
"""Units of one text that are kept; a whole request would fill the log."""

_WAITING_KEPT = 1000
_NAME_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")


def file_name_of(session_id: str) -> str:
    """Return a session's id as it stands in the names of its logs."""
    return "".join(c if c in _NAME_CHARACTERS else "_" for c in session_id)[:80]


class SessionLog:
    """A trace sink that writes to a file, once it is told where and opened; `texts` keeps what is private."""

    def __init__(self, *, texts: bool = False) -> None:
        self._texts = texts
        self.path: Path | None = None
        self.on_lost: Callable[[str], None] = lambda _problem: None
        self._session = ""
        self._waiting: list[dict[str, Any]] = []
        self._file: _RotatingFile | None = None
        self._logger: Any = None
        self._broken = False

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> SessionLog:
        """Return a log at the level that the environment asks for."""
        return cls(texts=environ.get(VARIABLE) == "debug")

    def locate(self, directory: Path, session_id: str) -> Path:
        """Settle the file's name: when it was begun, for which session, by which process."""
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self.path = directory / f"{stamp}-{file_name_of(session_id)}-{os.getpid()}.jsonl"
        self._session = session_id
        return self.path

    def event(self, name: str, **fields: TraceValue) -> None:
        """Record one event with the time it happened at."""
        record = {"at": time.time(), **self._levelled(with_turn(fields)), "event": name}
        if self._logger is not None:
            self._write(record)
        elif not self._broken and len(self._waiting) < _WAITING_KEPT:
            self._waiting.append(record)

    def open(self) -> None:
        """Open the file and write what has waited; does nothing the second time, or without a place."""
        if self._logger is not None or self._broken or self.path is None:
            return
        import structlog

        try:
            self._file = _RotatingFile(self.path)
        except OSError as error:
            self._waiting.clear()
            self._lose(error)
            return
        self._logger = structlog.wrap_logger(
            structlog.BytesLogger(self._file),  # type: ignore[arg-type]
            processors=[_time_first, structlog.processors.JSONRenderer(serializer=_dumps)],
            wrapper_class=structlog.BoundLogger,
            session=self._session,
        )
        for record in self._waiting:
            self._write(record)
        self._waiting.clear()
        prune(self.path)

    def close(self) -> None:
        """Write what is left and let go of the file."""
        if self._waiting and self._logger is None:
            self._write_plainly()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._logger = None
        self._broken = True

    def _write_plainly(self) -> None:
        """Write what has waited without loading the library, which nobody waits for at a session's end."""
        if self.path is None or self._broken:
            return
        with suppress(OSError):
            self._file = _RotatingFile(self.path)
            for record in self._waiting:
                line = _time_first(None, "", {"session": self._session, **record})
                self._file.write(_dumps(line) + b"\n")
        self._waiting.clear()

    def _levelled(self, fields: dict[str, TraceValue]) -> dict[str, Any]:
        """Return the fields without what is private, or with it apart from the rest."""
        private = {name: value for name, value in fields.items() if isinstance(value, Private)}
        if not private:
            return fields
        plain: dict[str, Any] = {name: value for name, value in fields.items() if name not in private}
        if self._texts:
            plain["texts"] = {name: utf16_prefix(text.text(), TEXT_UNITS) for name, text in private.items()}
        return plain

    def _write(self, record: dict[str, Any]) -> None:
        if self._broken:
            return
        try:
            self._logger.info(**record)
        except OSError as error:
            self._logger = None
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        self._broken = True
        self.on_lost(f"{self.path}: {error.strerror or error}")


def prune(newest: Path) -> None:
    """Remove the oldest log files beside `newest`, so that `FILES_KEPT` are left with it."""
    logs = sorted(newest.parent.glob("*.jsonl"), key=lambda path: (path == newest, path.name))
    for path in logs[:-FILES_KEPT]:
        with suppress(OSError):
            path.unlink()


class _RotatingFile:
    """The part of a binary file that structlog's logger uses, bounded in size."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._file = self._opened()

    def write(self, data: bytes) -> None:
        if self._file.tell() + len(data) > MAX_BYTES:
            self._file.close()
            self._path.replace(self._path.with_suffix(".1.jsonl"))
            self._file = self._opened()
        self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _opened(self) -> BinaryIO:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        return os.fdopen(descriptor, "ab")


def _time_first(_logger: object, _method: str, record: MutableMapping[str, Any]) -> Mapping[str, Any]:
    moment = record.pop("at")
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    return {"time": f"{seconds}.{int(moment % 1 * 1000):03d}Z", **record}


def _dumps(record: object, **_: object) -> bytes:
    try:
        return orjson.dumps(record, default=repr)
    except TypeError:
        # A file name that is not UTF-8 holds lone surrogates, which orjson refuses.
        return json.dumps(record, default=repr).encode("ascii")
