"""Running another program to its end, within bounded memory; whoever asks bounds the time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
from msgspec import Struct

OUTPUT_LIMIT = 16 * 1024
"""Bytes kept of each output."""

_REAP_LIMIT = 1.0


class Finished(Struct, frozen=True):
    """A program's exit code, the start of what it printed, the end of what it complained of."""

    code: int
    output: bytes
    complaint: bytes


class _Output(asyncio.SubprocessProtocol):
    """Keeps what is kept of the outputs, and tells when the child is reaped and its pipes are closed."""

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


async def run_program(command: Sequence[str], cwd: str, environ: Mapping[str, str]) -> Finished:
    """Run `command` without input; cancelled, it is killed with all its children.

    Raises OSError or ValueError when it cannot be started.
    """
    # Cancelled while it starts a program, asyncio waits for the end of all that the program has started.
    with anyio.CancelScope(shield=True):
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
    return Finished(transport.get_returncode() or 0, output.printed, output.complained)
