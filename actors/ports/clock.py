"""The wall clock; waiting is the event loop's business."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Tells what time it is."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


@dataclass(slots=True)
class ManualClock:
    """A clock that stands still until it is moved."""

    milliseconds: int = 0

    def now_ms(self) -> int:
        """Return what it was set to."""
        return self.milliseconds

    def move(self, seconds: float) -> None:
        """Move the clock by `seconds`, backwards too."""
        self.milliseconds += int(seconds * 1000)
