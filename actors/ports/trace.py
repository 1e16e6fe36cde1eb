"""Where actors leave their traces (OBS-1)."""

from __future__ import annotations

from typing import Protocol

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
        self.events.append((name, fields))

    def named(self, name: str) -> list[dict[str, TraceValue]]:
        """Return the fields of every event called `name`, oldest first."""
        return [fields for event, fields in self.events if event == name]
