"""Where actors leave their traces (OBS-1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

TURN: ContextVar[str] = ContextVar("turn", default="")
"""The turn that the present work belongs to; jobs inherit it, and every event carries it."""

TraceValue = str | int | float | bool | None


class Trace(Protocol):
    """A sink for events; never given memory text or credentials."""

    def event(self, name: str, **fields: TraceValue) -> None:
        """Record that `name` happened, with plain values."""
        ...


class RecordedTrace:
    """Keeps the events in memory."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, TraceValue]]] = []

    def event(self, name: str, **fields: TraceValue) -> None:
        """Append the event."""
        self.events.append((name, with_turn(fields)))

    def named(self, name: str) -> list[dict[str, TraceValue]]:
        """Return the fields of every event called `name`, oldest first."""
        return [fields for event, fields in self.events if event == name]


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
