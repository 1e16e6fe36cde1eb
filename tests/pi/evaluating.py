"""Runs `pi-project-memory evaluate` over the real Pi, as a user would."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pi import install_pi
from pi.pi_home import PiHome
from pi.waiting import within

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@asynccontextmanager
async def evaluating(
    home: PiHome, what: str, *arguments: str, fixture: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run an evaluation with `pi` on its PATH; it has ended when the block ends."""
    program = home.root / "bin" / "pi"
    program.write_text(f'#!/bin/sh\nexec "{install_pi.node_binary()}" "{install_pi.CLI}" "$@"\n', "utf-8")
    program.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pi_project_memory.supervisor.main"),
        *("evaluate", what, str(fixture or FIXTURES / what), *arguments),
        cwd=home.project,
        env=home.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def outcome(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    """Exit code, report and complaints."""
    output, errors = await within(process.communicate(), lambda: "the evaluation to end")
    return process.returncode, output.decode(), errors.decode()


async def evaluate(home: PiHome, what: str, *arguments: str) -> tuple[int | None, str, str]:
    """Run an evaluation of the prepared fixture to its end."""
    async with evaluating(home, what, *arguments) as process:
        return await outcome(process)


def traces(home: PiHome) -> list[str]:
    """What lies in a home and is neither the test's nor a file that Pi makes at every start."""
    places = (home.user_home, home.temp_dir, home.project, home.agent_dir)
    known = {"extensions", "settings.json", "models.json", ".git", "auth.json", "models-store.json"}
    return sorted(entry.name for place in places for entry in place.iterdir() if entry.name not in known)
