"""Waiting that a cancellation cannot cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(job: Awaitable[T]) -> T:
    """Await `job` even when cancelled meanwhile, and raise the cancellation only after it has ended."""
    task = asyncio.ensure_future(job)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None and not task.cancelled():
        task.exception()
        raise cancelled
    return task.result()
