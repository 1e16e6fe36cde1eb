"""The test clock itself: jumps over timers, never over real work."""

from __future__ import annotations

import asyncio
import time

import anyio
import anyio.to_thread
import pytest


async def test_a_minute_passes_at_once():
    started = time.monotonic()
    await anyio.sleep(60)
    assert asyncio.get_running_loop().time() == pytest.approx(60)
    assert time.monotonic() - started < 30


async def test_threads_hold_the_clock():
    with anyio.move_on_after(2) as scope:
        await anyio.to_thread.run_sync(time.sleep, 0.05)
        await asyncio.to_thread(time.sleep, 0.05)
    assert not scope.cancelled_caught


@pytest.mark.real_time
async def test_real_time_is_real():
    loop = asyncio.get_running_loop()
    before = loop.time()
    await anyio.sleep(0.01)
    assert loop.time() - before > 0.005
