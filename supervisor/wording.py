"""How times and numbers are said to a person."""

from __future__ import annotations

_DAY_MS = 86_400_000


def elapsed(seconds: float) -> str:
    """Return a length of time in its two largest units, such as `12 s`, `3 min 5 s` or `2 h 10 min`."""
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 topic` or `2 topics`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def age(mtime_ms: float, now_ms: float) -> str:
    """Return how many whole days ago something was changed, as `today`, `1 day` or `2 days`."""
    days = max(int((now_ms - mtime_ms) // _DAY_MS), 0)
    return counted(days, "day") if days else "today"
