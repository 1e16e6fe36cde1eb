"""Where actors leave their traces (OBS-1).

An event is a name with plain values: who did what to which file, how much, how long. What the user, a model, a
memory file or a provider has said in its own words is wrapped as `Private`, and a log leaves it out unless it
was asked to keep texts.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from msgspec import Struct

TURN: ContextVar[str] = ContextVar("turn", default="")
"""The turn that the present work belongs to; jobs inherit it, and every event carries it."""


class Private(Struct, frozen=True):
    """A text, or a JSON value that holds texts, which is nobody's to read in a log by default."""

    value: object

    def text(self) -> str:
        """Return the text, or the value as JSON."""
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False, default=str)


TraceValue = str | int | float | bool | Private | None


class Trace(Protocol):
    """A sink for events."""

    def event(self, name: str, **fields: TraceValue) -> None:
        """Record that `name` happened; texts are given as `Private`, credentials never."""
        ...


class RecordedTrace:
    """Keeps the events in memory, texts included."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, TraceValue]]] = []

    def event(self, name: str, **fields: TraceValue) -> None:
        """Append the event."""
        self.events.append((name, {key: _revealed(value) for key, value in with_turn(fields).items()}))

    def named(self, name: str) -> list[dict[str, TraceValue]]:
        """Return the fields of every event called `name`, oldest first."""
        return [fields for event, fields in self.events if event == name]


class LabelledTrace(Struct, frozen=True):
    """Passes events on with `labels`, which they carry unless they name the same field themselves."""

    sink: Trace
    labels: Mapping[str, TraceValue]

    def event(self, name: str, **fields: TraceValue) -> None:
        """Record the event with the labels."""
        self.sink.event(name, **{**self.labels, **fields})


def fault(error: BaseException) -> dict[str, TraceValue]:
    """Return the fields that tell of an error: its kind for everybody, its words in private."""
    kind = type(error).__name__
    if isinstance(error, OSError) and error.errno is not None:
        kind = f"{kind} {errno.errorcode.get(error.errno, error.errno)}"
    return {"error": kind, "words": Private(str(error))}


@contextmanager
def in_turn(turn: str) -> Iterator[None]:
    """Let what happens in the block, and the jobs begun in it, belong to `turn`; "" changes nothing."""
    token = TURN.set(turn) if turn else None
    try:
        yield
    finally:
        if token is not None:
            TURN.reset(token)


def with_turn(fields: dict[str, TraceValue]) -> dict[str, TraceValue]:
    """Return the fields with the present turn, unless they name one or there is none."""
    turn = TURN.get()
    return {"turn": turn, **fields} if turn else fields


def _revealed(value: TraceValue) -> TraceValue:
    return value.text() if isinstance(value, Private) else value
