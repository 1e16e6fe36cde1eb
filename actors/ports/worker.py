"""One hop into a worker thread that no cancellation cuts short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import anyio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def in_worker(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return `function(*args)`, run in a worker thread.

    Once it has begun it runs to its end and its effect is whole; a cancellation that came meanwhile, by
    anyio's scopes or by the task itself, is raised then.
    """
    await asyncio.sleep(0)
    job = asyncio.get_running_loop().run_in_executor(None, function, *args)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not job.done():
            try:
                await asyncio.wait([job])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        job.exception()  # asked for, or asyncio logs that nobody did
        raise cancelled
    return job.result()
