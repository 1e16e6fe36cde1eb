"""Proves that a process which lives on is found, named and waited for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from pi.processes import descendants, gone, mentioning

pytestmark = pytest.mark.real_time


async def test_a_process_is_found_by_its_environment_until_it_ends(tmp_path: Path):
    process = await asyncio.create_subprocess_exec("sleep", "600", env={"MARKER": str(tmp_path)})

    def look() -> list[int]:
        return [found.pid for found in mentioning(str(tmp_path))]

    try:
        assert look() == [process.pid]
        assert process.pid in [child.pid for child in descendants(os.getpid())]
        with pytest.raises(pytest.fail.Exception, match="sleep 600"):
            await gone(lambda: mentioning(str(tmp_path)), bound=0.1)
    finally:
        process.kill()
    await gone(lambda: mentioning(str(tmp_path)))
    await process.wait()
