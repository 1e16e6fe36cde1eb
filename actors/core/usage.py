"""Tokens and cost of background requests, added up (EXT-8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from pi_project_memory.actors.core.jsjson import MAX_SAFE_INTEGER


class Usage(Struct, frozen=True):
    """Requests made, tokens in the host's terms, and cost in US dollars."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float = 0.0

    def plus(self, reported: object) -> Usage:
        """Return the sum with what one answer reports; what it leaves out counts as nothing."""
        usage = reported if isinstance(reported, Mapping) else {}
        cost = usage.get("cost")
        return Usage(
            self.requests + 1,
            self.input + _count(usage, "input"),
            self.output + _count(usage, "output"),
            self.cache_read + _count(usage, "cacheRead"),
            self.cache_write + _count(usage, "cacheWrite"),
            self.cost + (_amount(cost, "total") if isinstance(cost, Mapping) else 0.0),
        )

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of two runs."""
        return Usage(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.cost + other.cost,
        )


def _count(usage: Mapping[str, Any], name: str) -> int:
    return int(_amount(usage, name))


def _amount(usage: Mapping[str, Any], name: str) -> float:
    # JavaScript counts no further, and no infinity is a sum.
    value = usage.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_SAFE_INTEGER:
        return value
    return 0.0
