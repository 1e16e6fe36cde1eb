"""What a run did to the memory, for its summary (EXT-8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Change = Literal["created", "updated", "deleted"]

_AFTER: dict[tuple[Change | None, Change], Change | None] = {
    (None, "created"): "created",
    (None, "updated"): "updated",
    (None, "deleted"): "deleted",
    ("created", "updated"): "created",
    ("created", "deleted"): None,
    ("updated", "updated"): "updated",
    ("updated", "deleted"): "deleted",
    ("deleted", "created"): "updated",
}
"""What two changes of one file come to; None where nothing is left of them."""


@dataclass(slots=True)
class ChangeLog:
    """The net changes of a run by path relative to the memory root."""

    _changes: dict[str, Change] = field(default_factory=dict)

    def note(self, path: str, change: Change) -> None:
        """Add one change to what the file has been through."""
        result = _AFTER.get((self._changes.get(path), change), change)
        if result is None:
            del self._changes[path]
        else:
            self._changes[path] = result

    @property
    def changes(self) -> dict[str, Change]:
        """Return the net change of each file, in the order they were first touched."""
        return dict(self._changes)
