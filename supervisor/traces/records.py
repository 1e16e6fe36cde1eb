"""A log's lines, read one at a time: what a log weighs is not what reading it takes."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import orjson

from pi_project_memory.supervisor.traces.events import OUTSIDE, Event, event_of, turn_of
from pi_project_memory.supervisor.traces.logs import LogFile, TraceError

LONGEST_LINE = 1024 * 1024
"""Bytes of a line; a longer one is no event."""

MOST_EVENTS = 5_000
"""Events of one turn that are kept; a run that makes more has gone astray."""

_MOST_BETWEEN = 500
_LISTED = 20


@dataclass(slots=True)
class TurnRecords:
    """What a log holds of one turn, in the order of the log.

    With `turn` None it is the latest; `counts` are the events of every turn in the log, `unreadable` the lines
    that are no events, `left_out` the events beyond those kept.
    """

    turn: int | None
    events: list[Event] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)
    unreadable: int = 0
    left_out: int = 0
    _between: deque[object] = field(default_factory=lambda: deque(maxlen=_MOST_BETWEEN))
    _latest: int = OUTSIDE

    @property
    def number(self) -> int:
        """The turn that the events belong to."""
        return self._latest if self.turn is None else self.turn

    def add(self, record: object) -> None:
        """Take the next JSON value of the log; one that is no event is counted."""
        turn = turn_of(record)
        if turn is None:
            self.unreadable += 1
            return
        self.counts[turn] = self.counts.get(turn, 0) + 1
        if self.turn is None and turn > self._latest:
            self._begin(turn)
        if turn == self.number:
            self._keep([*self._between, record])
            self._between.clear()
        elif turn == OUTSIDE and self.events:
            self._between.append(record)

    def _begin(self, turn: int) -> None:
        self._latest, self.left_out = turn, 0
        self.events.clear()
        self._between.clear()

    def _keep(self, records: Iterable[object]) -> None:
        for record in records:
            event = event_of(record)
            if event is None:
                self.unreadable += 1
            elif len(self.events) < MOST_EVENTS:
                self.events.append(event)
            else:
                self.left_out += 1


def read_turn(log: LogFile, turn: int | None) -> TurnRecords:
    """Return what a log holds of a turn, the latest with None; raises TraceError.

    What belongs to no turn is taken in where it happened between two events of the turn.
    """
    records = TurnRecords(turn)
    for line in read_lines(log):
        records.add(None if line is None else load(line))
    if records.events and records.number != (OUTSIDE if turn is None else None):
        return records
    raise TraceError(_missing(log, records))


def read_lines(log: LogFile) -> Iterator[bytes | None]:
    """Yield the lines of both parts of a log, older first, and None for one that is too long."""
    for file in _open_parts(log):
        with file:
            yield from _lines(file)


def parse(line: bytes) -> Event | None:
    """Return the event in a line, or None if it holds none."""
    return event_of(load(line))


def load(line: bytes) -> object:
    """Return the JSON value in a line, or None if it holds none."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return _loosely(line)


def _loosely(line: bytes) -> object:
    # A lone surrogate, which file names can hold, is written as an escape that orjson refuses.
    if rb"\ud" not in line:
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _open_parts(log: LogFile) -> list[BinaryIO]:
    """Return the parts that are there, older first; a rotation between the two openings starts over."""
    while True:
        newer = _open(log.path)
        older = _open(log.older)
        if newer is None or older is None or not _same(newer, older):
            break
        newer.close()
        older.close()
    parts = [part for part in (older, newer) if part is not None]
    if not parts:
        raise TraceError(f"{log.path} is gone: the oldest logs are removed when new ones begin.")
    return parts


def _open(path: Path) -> BinaryIO | None:
    try:
        # Without O_NONBLOCK a named pipe in this place would wait for ever.
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None


def _same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.sameopenfile(one.fileno(), other.fileno())


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    while line := file.readline(LONGEST_LINE):
        whole = True
        while len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            whole = False
            line = file.readline(LONGEST_LINE)
        yield line if whole else None


def _missing(log: LogFile, records: TurnRecords) -> str:
    turns = sorted(number for number in records.counts if number != OUTSIDE)
    if not turns:
        return f"{log.path} holds no turn yet. --turn 0 shows what happened outside of turns."
    shown = ", ".join(map(str, turns[-_LISTED:]))
    more = f"…, {shown}" if len(turns) > _LISTED else shown
    return f"There is no turn {records.number} in {log.path}. There are: {more}; 0 is what belongs to none."
