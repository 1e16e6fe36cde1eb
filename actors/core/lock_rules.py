"""When a lock file may be taken, and by whom (LCK-1, LCK-2, LCK-3).

Theory. A lock is a file that exists. Whoever creates it holds it, and creating is atomic, so what needs
care is removing. A file may go in two ways only:

1. its own writer releases it, or
2. another process removes it as *spent*: old enough, and its holder gone. For that the other process must
   hold the file's arbiter, `<file>.recover`, and must have found the file spent since it got the arbiter.

An arbiter is a lock file like any other, so the same two ways hold for it, with `<file>.recover.recover`
as its own arbiter, and so on: one crash within a takeover adds one level, one later takeover clears all.

Whether a file is spent depends on what can be known of its holder:

| holder    | known because                                     | old enough by                       |
| --------- | ------------------------------------------------- | ----------------------------------- |
| alive     | its process runs                                  | never                               |
| gone      | its process ended, or its id was given to another | the age of its record               |
| hidden    | it runs, if it does, where we cannot look         | that age and the age of the file    |
| nameless  | the content names nobody: half-written or foreign | the age of the file                 |

The age of a file counts from its last modification, which a holder renews as a sign of life. A stamp that
lies ahead of the clock by more than the stale time is as wrong as one that lies behind it: a clock was off,
and the file counts as old. A young file is left alone whatever became of its holder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated

import msgspec

from pi_project_memory.actors.core.jsjson import MAX_SAFE_INTEGER

MINUTE_MS = 60_000
LARGEST_PID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LockSpec:
    """A lock's file name within the locks directory and the age in milliseconds that makes it stale."""

    name: str
    stale_ms: int


EXTRACT_LOCK = LockSpec("extract.lock", 15 * MINUTE_MS)
DREAM_LOCK = LockSpec("dream.lock", 60 * MINUTE_MS)
LAST_DREAM_AT_LOCK = LockSpec("last-dream-at.lock", MINUTE_MS)


class LockRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The whole content of a lock file; `acquired_at` in milliseconds since the epoch."""

    pid: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PID)]
    token: Annotated[str, msgspec.Meta(min_length=1)]
    acquired_at: Annotated[int, msgspec.Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]


def parse_record(raw: bytes) -> LockRecord | None:
    """Return the record in `raw`, or None for content that names no holder; further fields are let pass."""
    try:
        return msgspec.json.decode(raw, type=LockRecord)
    except (msgspec.DecodeError, RecursionError):
        return None


def render_record(record: LockRecord) -> bytes:
    """Return `record` as the bytes of a lock file."""
    return msgspec.json.encode(record)


class Holder(Enum):
    """What can be known of the process that a lock file names."""

    ALIVE = auto()
    GONE = auto()
    HIDDEN = auto()
    NAMELESS = auto()


class Condition(Enum):
    """What a place in the locks directory is worth to somebody who wants it."""

    ABSENT = auto()
    YOUNG = auto()
    LIVE = auto()
    SPENT = auto()


@dataclass(frozen=True, slots=True)
class Sighting:
    """A lock file as one look found it; both ages in milliseconds, negative when stamped in the future."""

    holder: Holder
    record_age_ms: int
    file_age_ms: int
    pid: int | None = None


class BusyReason(Enum):
    """Why a lock cannot be had now."""

    HELD = "held"
    YOUNG = "too young to be taken over"
    RECOVERING = "being taken over"
    CONTENDED = "contended"


@dataclass(frozen=True, slots=True)
class Acquire:
    """Nobody is there: create the file."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The file is spent and its arbiter free: get the arbiter, look again, remove the file."""


@dataclass(frozen=True, slots=True)
class RecoverArbiter:
    """The file and its arbiter are both spent: the arbiter comes first."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Come back later. Process id and age in milliseconds are None where nobody is named."""

    reason: BusyReason
    holder_pid: int | None = None
    age_ms: int | None = None


Decision = Acquire | Busy | TakeOver | RecoverArbiter


def condition(sighting: Sighting | None, stale_ms: int) -> Condition:
    """Weigh one look at one file by the table above."""
    if sighting is None:
        return Condition.ABSENT
    if sighting.holder is Holder.ALIVE:
        return Condition.LIVE
    old = all(abs(age) > stale_ms for age in _ages_that_count(sighting))
    return Condition.SPENT if old else Condition.YOUNG


def _ages_that_count(sighting: Sighting) -> tuple[int, ...]:
    return {
        Holder.ALIVE: (),
        Holder.GONE: (sighting.record_age_ms,),
        Holder.HIDDEN: (sighting.record_age_ms, sighting.file_age_ms),
        Holder.NAMELESS: (sighting.file_age_ms,),
    }[sighting.holder]


def decide(lock: Sighting | None, arbiter: Sighting | None, stale_ms: int) -> Decision:
    """Tell what somebody who wants the place of `lock` does next, given what stands there."""
    match condition(lock, stale_ms):
        case Condition.ABSENT:
            return Acquire()
        case Condition.SPENT:
            return _decide_takeover(arbiter, stale_ms)
        case Condition.LIVE:
            return _busy(BusyReason.HELD, lock)
        case Condition.YOUNG:
            return _busy(BusyReason.YOUNG, lock)


def _decide_takeover(arbiter: Sighting | None, stale_ms: int) -> Decision:
    match condition(arbiter, stale_ms):
        case Condition.ABSENT:
            return TakeOver()
        case Condition.SPENT:
            return RecoverArbiter()
        case Condition.LIVE | Condition.YOUNG:
            return _busy(BusyReason.RECOVERING, arbiter)


def _busy(reason: BusyReason, sighting: Sighting | None) -> Busy:
    if sighting is None:
        return Busy(reason)
    age = sighting.file_age_ms if sighting.holder is Holder.NAMELESS else sighting.record_age_ms
    return Busy(reason, sighting.pid, age)
