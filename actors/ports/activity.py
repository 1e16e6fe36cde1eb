"""Where background runs say that they are under way (CMD-3)."""

from __future__ import annotations

from typing import Protocol

from pi_project_memory.actors.core.config import Role


class ActivitySink(Protocol):
    """Hears of each run's beginning, its turns and its end."""

    def begin(self, role: Role, most_turns: int) -> None:
        """Note that a run of `role` has begun, of at most so many turns."""
        ...

    def turn(self, role: Role, number: int) -> None:
        """Note that the run has begun its `number`th turn."""
        ...

    def end(self, role: Role) -> None:
        """Note that the run has ended."""
        ...


class NoActivity:
    """Listens to nothing."""

    def begin(self, role: Role, most_turns: int) -> None:
        """Ignore it."""

    def turn(self, role: Role, number: int) -> None:
        """Ignore it."""

    def end(self, role: Role) -> None:
        """Ignore it."""
