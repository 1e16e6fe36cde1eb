"""Child processes that end with the call that started them, and what they print."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from pi_project_memory.supervisor.host.tools.tasks import to_the_end

READ_SIZE = 65_536
GRACE = 0.1
"""Seconds of silence after which output of processes left behind is no longer awaited."""

Sink = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended. `left_after` is set when only processes it left behind met the time limit.

    Both times are seconds; `code` is 128 plus the signal for a command that a signal ended.
    """

    code: int
    timed_out: bool = False
    left_after: float | None = None


@asynccontextmanager
async def pipe() -> AsyncIterator[tuple[asyncio.StreamReader, FileIO]]:
    """Open a pipe: a reader, and the end for a child, which this process closes once the child has it."""
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader()
    with FileIO(write_end, "w") as writer:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), FileIO(read_end)
        )
        try:
            yield reader, writer
        finally:
            transport.close()


@asynccontextmanager
async def child(
    command: Sequence[str], cwd: Path, output: FileIO, errors: FileIO, env: Mapping[str, str] | None = None
) -> AsyncIterator[Process]:
    """Run `command` in a process group of its own, which is killed when the block ends before the command.

    A block that ends otherwise than normally also kills what the command left behind. Raises OSError when the
    command cannot start.
    """
    spawning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command, cwd=cwd, env=env, stdin=DEVNULL, stdout=output, stderr=errors, start_new_session=True
        )
    )
    spare_group = False
    try:
        process = await asyncio.shield(spawning)
        output.close()
        errors.close()
        yield process
        spare_group = True
    finally:
        await to_the_end(_reap(spawning, spare_group=spare_group))


async def _reap(spawning: asyncio.Future[Process], *, spare_group: bool) -> None:
    with suppress(OSError):
        process = await spawning
        if process.returncode is None or not spare_group:
            kill_group(process)
        await process.wait()


def kill_group(process: Process) -> None:
    """End the process and everything in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def run(
    command: Sequence[str], cwd: Path, sink: Sink, env: Mapping[str, str] | None, seconds: float | None
) -> Ending:
    """Run `command`, give all it prints to `sink`, and kill it after `seconds`.

    Output of processes left behind is taken until they are silent for a moment. Cancelling kills the whole
    group. Raises OSError when the command cannot start.
    """
    async with pipe() as (reader, writer), child(command, cwd, writer, writer, env) as process:
        limit = _TimeLimit(process, asyncio.get_running_loop().time())
        exited = asyncio.ensure_future(process.wait())
        exited.add_done_callback(limit.note_exit)
        timer = asyncio.get_running_loop().call_later(seconds, limit.expire) if seconds else None
        try:
            await _pump(reader, sink, exited)
            code = await exited
        finally:
            exited.cancel()
            if timer:
                timer.cancel()
    return Ending(code if code >= 0 else 128 - code, limit.expired, limit.left_after)


@dataclass(slots=True)
class _TimeLimit:
    process: Process
    started: float
    exit_after: float | None = None
    left_after: float | None = None
    expired: bool = False

    def note_exit(self, exited: asyncio.Future[int]) -> None:
        self.exit_after = exited.get_loop().time() - self.started

    def expire(self) -> None:
        self.expired = True
        self.left_after = self.exit_after
        kill_group(self.process)


async def _pump(reader: asyncio.StreamReader, sink: Sink, exited: asyncio.Future[int]) -> None:
    reading = asyncio.ensure_future(reader.read(READ_SIZE))
    try:
        while True:
            over = exited.done()
            awaited: set[asyncio.Future[Any]] = {reading} if over else {reading, exited}
            await asyncio.wait(
                awaited,
                timeout=GRACE if over else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if reading.done():
                chunk = reading.result()
                if not chunk:
                    return
                await sink(chunk)
                reading = asyncio.ensure_future(reader.read(READ_SIZE))
            elif over:
                return
    finally:
        reading.cancel()


async def read_lines(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    """Yield what comes between LFs, of any length; an unfinished last line is dropped."""
    parts: list[bytes] = []
    while chunk := await reader.read(READ_SIZE):
        head, *rest = chunk.split(b"\n")
        parts.append(head)
        if rest:
            yield b"".join(parts)
            for line in rest[:-1]:
                yield line
            parts = [rest[-1]]
