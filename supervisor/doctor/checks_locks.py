"""Locks: who holds them, and what was left behind; looked at and never touched (LCK-1 to LCK-3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from pi_project_memory.actors.core.lock_rules import (
    DREAM_LOCK,
    EXTRACT_LOCK,
    LAST_DREAM_AT_LOCK,
    Condition,
    Holder,
    LockSpec,
    Sighting,
    condition,
    parse_record,
)
from pi_project_memory.actors.ports.lock_ops import DISK, FileSeen
from pi_project_memory.actors.ports.process_identity import Processes, parse_token
from pi_project_memory.supervisor.doctor.observations import (
    Fact,
    Finding,
    Note,
    Observation,
    duration,
)

_SPECS = {spec.name: spec for spec in (EXTRACT_LOCK, DREAM_LOCK, LAST_DREAM_AT_LOCK)}
_ARBITER = ".recover"


def check_locks(directory: Path, processes: Processes, now_ms: int) -> Iterator[Observation]:
    """Judge every lock in `directory` by the rules of those who take them."""
    if not directory.is_dir():
        return
    seen = {path: DISK.look(path) for path in sorted(directory.iterdir()) if _spec(path) is not None}
    if not seen:
        yield Fact("No lock is held")
    for path, file in seen.items():
        spec = _spec(path)
        if file is not None and spec is not None:
            yield _told(path, spec, _sighting(file, processes, now_ms), _is_foreign(file))


def _spec(path: Path) -> LockSpec | None:
    return _SPECS.get(path.name.replace(_ARBITER, ""))


def _sighting(seen: FileSeen, processes: Processes, now_ms: int) -> Sighting:
    file_age = now_ms - seen.modified_ms
    record = parse_record(seen.raw)
    if record is None:
        return Sighting(Holder.NAMELESS, file_age, file_age)
    verdict = processes.judge(record, now_ms)
    return Sighting(verdict.holder, verdict.age_ms, file_age, record.pid)


def _is_foreign(seen: FileSeen) -> bool:
    record = parse_record(seen.raw)
    return record is not None and parse_token(record.token) is None


def _told(path: Path, spec: LockSpec, sighting: Sighting, foreign: bool) -> Observation:  # noqa: FBT001 - a fact
    match condition(sighting, spec.stale_ms):
        case Condition.SPENT:
            what = (
                "the takeover of a lock was cut short"
                if path.name.endswith(_ARBITER)
                else "a lock was left behind"
            )
            remedy = (
                f"none is needed, the next run takes it over; or, with no Pi running: rm {quote(str(path))}"
            )
            return Finding(f"{what}: {_holder(sighting)}", str(path), remedy)
        case Condition.LIVE:
            held = f"{path.name} is held by process {sighting.pid}, for {duration(sighting.record_age_ms)}"
            return Note(f"{held}; it is not a lock of this tool") if foreign else Fact(held)
        case _:
            limit = duration(spec.stale_ms)
            return Note(f"{path.name} waits: {_holder(sighting)}; it is taken over when it is {limit} old")


def _holder(sighting: Sighting) -> str:
    age = duration(sighting.file_age_ms)
    match sighting.holder:
        case Holder.NAMELESS:
            return f"its content names no holder, and it was written {age} ago"
        case Holder.HIDDEN:
            return f"its process {sighting.pid} cannot be seen from here and gave its last sign {age} ago"
        case _:
            return f"its process {sighting.pid} is gone, and its last sign was {age} ago"
