"""Asking another program one question, within bounded time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio

from pi_project_memory.actors.ports.programs import run_program

TIME_LIMIT = 10.0
"""Seconds that a program has for its answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a program ended, what it printed, and the last line of its complaint."""

    code: int
    output: str
    complaint: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Why a program gave none."""

    reason: str


async def ask(
    command: Sequence[str], cwd: str, environ: Mapping[str, str], seconds: float = TIME_LIMIT
) -> Answer | NoAnswer:
    """Run `command` once, without input; after `seconds` it is killed with its children."""
    try:
        with anyio.fail_after(seconds):
            done = await run_program(command, cwd, environ)
    except TimeoutError:
        return NoAnswer(f"it did not answer within {seconds:g} s")
    except (OSError, ValueError) as error:
        return NoAnswer(f"it cannot be started: {error}")
    lines = done.complaint.decode("utf-8", "replace").strip().splitlines()
    return Answer(done.code, done.output.decode("utf-8", "replace"), lines[-1].strip() if lines else "")
