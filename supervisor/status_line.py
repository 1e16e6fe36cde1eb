"""Long work in the host's status line: which role, turn n of m, for how long (CMD-3)."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from pi_project_memory.actors.core.config import Role
from pi_project_memory.actors.ports.host import HostError, Notices
from pi_project_memory.supervisor.wording import elapsed

REFRESH_SECONDS = 1.0

_DOING: dict[Role, str] = {"selector": "selecting", "extractor": "extracting", "dream": "dreaming"}


class Work(Struct, frozen=True):
    """A run under way; `since` in seconds of the event loop's clock."""

    most_turns: int
    since: float
    number: int = 0


class StatusLine:
    """An `ActivitySink` that keeps the line up to date while anything runs."""

    def __init__(self, host: Notices, group: TaskGroup) -> None:
        self._host = host
        self._group = group
        self._works: dict[Role, Work] = {}
        self._running = False
        self._changed = anyio.Event()

    def begin(self, role: Role, most_turns: int) -> None:
        """Show a run that has begun."""
        self._works[role] = Work(most_turns, anyio.current_time())
        self._changed.set()
        if not self._running:
            self._running = True
            self._group.start_soon(self._refresh)

    def turn(self, role: Role, number: int) -> None:
        """Show the turn that a run is in."""
        if role in self._works:
            self._works[role] = replace(self._works[role], number=number)
            self._changed.set()

    def end(self, role: Role) -> None:
        """Show a run no more."""
        self._works.pop(role, None)
        self._changed.set()

    async def _refresh(self) -> None:
        try:
            while self._works:
                changed = self._changed = anyio.Event()
                await self._show(line(self._works, anyio.current_time()))
                with anyio.move_on_after(REFRESH_SECONDS):
                    await changed.wait()
        finally:
            self._running = False
        await self._show(None)

    async def _show(self, text: str | None) -> None:
        try:
            await self._host.show_status(text)
        except HostError:
            return  # the line is a convenience


def line(works: dict[Role, Work], now: float) -> str:
    """Return the line for what runs at the time `now`."""
    parts = [
        f"{_DOING[role]} (turn {work.number} of {work.most_turns}, {elapsed(now - work.since)})"
        for role, work in works.items()
    ]
    return f"memory: {', '.join(parts)}"
