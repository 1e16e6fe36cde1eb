"""`trace --follow`: events as they happen (OBS-2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from pi_project_memory.supervisor.traces.events import Event
from pi_project_memory.supervisor.traces.logs import LogFile, list_logs
from pi_project_memory.supervisor.traces.records import parse
from pi_project_memory.supervisor.traces.tail import Tail

FIRST_SHOWN = 10
"""Events that are shown of what was there before."""


@dataclass(slots=True)
class Follower:
    """Follows one log, and with `newest` goes over to each session that begins meanwhile.

    `turn` None follows every turn. `pause` waits between two looks and may raise to end it all.
    """

    directory: Path
    newest: bool
    turn: int | None
    pause: Callable[[], None]
    _known: set[Path] = field(default_factory=set)

    def follow(self, log: LogFile) -> Iterator[LogFile | Event]:
        """Yield each log as it is begun, and its events; never ends by itself. Raises TraceError."""
        self._known = {there.path for there in list_logs(self.directory)}
        yield log
        with closing(Tail(log.path)) as tail:
            yield from deque(self._events(tail), maxlen=FIRST_SHOWN)
            while True:
                yield from self._events(tail)
                if (begun := self._begun()) is not None:
                    tail.go_to(begun.path)
                    yield begun
                else:
                    self.pause()

    def _events(self, tail: Tail) -> Iterator[Event]:
        events = map(parse, tail.lines())
        return (event for event in events if event and self.turn in {None, event.turn})

    def _begun(self) -> LogFile | None:
        """Return a log that was not there before."""
        if not self.newest:
            return None
        logs = list_logs(self.directory)
        fresh = next((log for log in logs if log.path not in self._known), None)
        self._known = {log.path for log in logs}
        return fresh
