"""One line of a log as a typed event; whatever does not fit is left out rather than refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pi_project_memory.actors.core.sanitize import sanitize, sanitize_line

OUTSIDE = 0
"""The number under which stands what belongs to no turn."""

MOST = 1e10
"""A number beyond this measures nothing of a turn."""

Scalar = str | int | float | bool | None

_TIME = re.compile(r"(19[89]|[2-9]\d\d)\d-\d\d-\d\dT")
"""How a time begins that leaves room for what began before it."""

_OWN_KEYS = frozenset({"time", "session", "event", "turn", "actor", "texts"})


@dataclass(frozen=True, slots=True)
class Event:
    """What happened: `at` in milliseconds since the epoch, `turn` counts from 1, `actor` may be ""."""

    at: float
    name: str
    turn: int
    actor: str
    session: str
    fields: Mapping[str, Scalar]
    texts: Mapping[str, str]

    @property
    def ms(self) -> float:
        """How long it took, as the event itself says; 0 when it does not."""
        return self.number("ms")

    def number(self, field: str) -> float:
        """Return a field that counts or measures something; 0 when it holds no sensible number."""
        value = self.fields.get(field)
        return float(value) if isinstance(value, (int, float)) and 0 <= value <= MOST else 0.0

    def text(self, field: str) -> str:
        """Return a field as text; "" when it is not there."""
        value = self.fields.get(field)
        return "" if value is None else str(value)


def turn_of(record: Any) -> int | None:
    """Return the turn of a JSON value of the log, or None when it is no event; cheap, as most are not wanted."""
    match record:
        case {"time": str(time), "event": str()} if _TIME.match(time):
            return _turn(record.get("turn"))
    return None


def event_of(record: Any) -> Event | None:
    """Return the event that a JSON value of the log stands for, or None when it is none."""
    if turn_of(record) is None:
        return None
    at = _milliseconds(record["time"])
    return None if at is None else _event(at, record["event"], record)


def _event(at: float, name: str, record: Mapping[str, object]) -> Event:
    texts = record.get("texts")
    return Event(
        at=at,
        name=sanitize_line(name),
        turn=_turn(record.get("turn")),
        actor=_line(record.get("actor")),
        session=_line(record.get("session")),
        fields={sanitize_line(key): _scalar(value) for key, value in record.items() if key not in _OWN_KEYS},
        texts={sanitize_line(key): sanitize(str(text)) for key, text in texts.items()}
        if isinstance(texts, dict)
        else {},
    )


def _milliseconds(time: str) -> float | None:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000


def _turn(value: object) -> int:
    """Return the number in a name such as `t3`; a name of another form is no turn."""
    number = value[1:] if isinstance(value, str) and value.startswith("t") else ""
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else OUTSIDE  # noqa: PLR2004 - more digits count no turns


def _line(value: object) -> str:
    return sanitize_line(value) if isinstance(value, str) else ""


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return sanitize_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
