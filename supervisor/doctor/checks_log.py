"""The last warnings in the service's logs, read in constant memory (OBS-3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from pi_project_memory.supervisor.doctor.observations import Fact, Note, Observation
from pi_project_memory.supervisor.log import VARIABLE

RECENT_MS = 7 * 24 * 60 * 60 * 1000
MOST_SHOWN = 5
LONGEST_LINE = 64 * 1024
LONGEST_TEXT = 300

_MARKS = (b'"notice"', b'"actor_failed"')
"""One of them stands in every line that matters, so that the others need no parsing."""


class _Event(msgspec.Struct, frozen=True):
    event: str
    time: str = ""
    level: str = ""
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    actor: str = ""
    error: str = ""


def check_log(directory: Path, now_ms: int) -> Iterator[Observation]:
    """Tell the newest warnings of the last week, oldest first; they may long be settled."""
    shown: list[str] = []
    for path in _recent(directory, now_ms):
        with suppress(OSError), path.open("rb") as file:
            shown = [*_last_of(file), *shown][-MOST_SHOWN:]
        if len(shown) == MOST_SHOWN:
            break
    if not shown:
        yield Fact("No warning in the last seven days")
    for line in shown:
        yield Note(line)


def _recent(directory: Path, now_ms: int) -> list[Path]:
    """Return the log files of the last days, newest first; names begin with the time."""
    found = []
    for path in directory.glob("*.jsonl"):
        with suppress(OSError):
            status = path.stat()
            if path.is_file() and now_ms - status.st_mtime_ns // 1_000_000 <= RECENT_MS:
                found.append(path)
    return sorted(found, key=lambda path: path.name, reverse=True)


def _last_of(file: BinaryIO) -> deque[str]:
    last: deque[str] = deque(maxlen=MOST_SHOWN)
    for line in iter(lambda: file.readline(LONGEST_LINE), b""):
        if any(mark in line for mark in _MARKS):
            with suppress(msgspec.DecodeError):
                last.extend(_told(msgspec.json.decode(line, type=_Event)))
    return last


def _told(event: _Event) -> Iterator[str]:
    if event.event == "actor_failed":
        yield f"{event.time} {event.actor} failed: {event.error[:LONGEST_TEXT]}"
    elif event.event == "notice" and event.level in {"warning", "error"}:
        # What was shown may quote what was said, so that a log holds it at the level `debug` alone.
        words = event.texts.get("text") or f"{event.level} shown; {VARIABLE}=debug logs the words as well"
        yield f"{event.time} {words[:LONGEST_TEXT]}"
