"""What the reports of all evaluations have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.core.usage import Usage

_LABEL = 12


def cost_lines(usage: Usage) -> Iterator[str]:
    """Yield what the requests have cost, in tokens and money."""
    yield line(
        "tokens",
        f"{usage.input:,} in, {usage.output:,} out, {usage.cache_read:,} read from the cache, "
        f"{usage.cache_write:,} written to it, in {usage.requests} requests",
    )
    yield line("cost", f"${usage.cost:.4f}, by the host's price list")


def time_lines(seconds: Sequence[float], parallel: int) -> Iterator[str]:
    """Yield how long the answers took, of which `parallel` were awaited at a time."""
    if seconds:
        spread = f"{median(seconds):.2f} s in the median, {max(seconds):.2f} s at most"
        yield line("time", f"{spread}, with {parallel} at a time")


def listed(names: Sequence[str]) -> str:
    """Return names in a row."""
    return ", ".join(names) or "nothing"


def ratio(value: float | None) -> str:
    """Return a share with two decimals; a dash where there is none."""
    return "-" if value is None else f"{value:.2f}"


def line(label: str, text: str) -> str:
    """Return one labelled line, cleaned of what a model or a provider could do to a terminal."""
    return f"  {label:<{_LABEL}}{sanitize_line(text)}"
