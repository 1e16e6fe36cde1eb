"""Asking another program one question, within bounded time and memory."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import anyio

TIME_LIMIT = 10.0
"""Seconds that a program has for its answer."""

OUTPUT_LIMIT = 16 * 1024
"""Bytes kept of each output."""

_REAP_LIMIT = 1.0


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
            return await _run(command, cwd, environ)
    except TimeoutError:
        return NoAnswer(f"it did not answer within {seconds:g} s")
    except (OSError, ValueError) as error:
        return NoAnswer(f"it cannot be started: {error}")


class _Output(asyncio.SubprocessProtocol):
    """Keeps the start of one output and the end of the other."""

    def __init__(self) -> None:
        self.printed = self.complained = b""
        self.ended = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.printed += data[: OUTPUT_LIMIT - len(self.printed)]
        else:
            self.complained = (self.complained + data)[-OUTPUT_LIMIT:]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.ended.set()

    def answer(self, code: int) -> Answer:
        lines = self.complained.decode("utf-8", "replace").strip().splitlines()
        return Answer(code, self.printed.decode("utf-8", "replace"), lines[-1].strip() if lines else "")


async def _run(command: Sequence[str], cwd: str, environ: Mapping[str, str]) -> Answer:
    transport, output = await asyncio.get_running_loop().subprocess_exec(
        _Output, *command, stdin=asyncio.subprocess.DEVNULL, env=environ, cwd=cwd, start_new_session=True
    )
    try:
        await output.ended.wait()
    except BaseException:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        raise
    finally:
        transport.close()
        with anyio.move_on_after(_REAP_LIMIT, shield=True):
            await output.ended.wait()
    return output.answer(transport.get_returncode() or 0)
