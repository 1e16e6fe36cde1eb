"""`pi-project-memory serve`: the service on its standard input and output (HOST-2, HOST-6, HOST-11)."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from typing import NoReturn

import anyio

from pi_project_memory.supervisor.host.events import HostEvents
from pi_project_memory.supervisor.host.frames import FrameDecoder
from pi_project_memory.supervisor.host.peer import Peer
from pi_project_memory.supervisor.host.pipe import PipeHost
from pi_project_memory.supervisor.log import SessionLog

CHUNK = 256 * 1024
"""Bytes read at a time."""

LAST_WRITES = 2.0
"""Seconds that the last frames get to leave the process."""

LAST_RESORT = 4.5
"""Seconds after the end at which the process stops waiting for a worker thread that hangs on a dead disk."""


def serve() -> NoReturn:
    """Run until the host shuts the session down or goes away, and end the process."""
    if not (_is_pipe(0) and _is_pipe(1)):
        sys.exit("`pi-project-memory serve` is started by Pi, not by hand; try `pi-project-memory doctor`.")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl+C is the host's alone
    anyio.run(_serve, _claim_stdout())
    # A worker thread that hangs on a dead disk would keep the interpreter from ending.
    os._exit(0)


def _is_pipe(descriptor: int) -> bool:
    """Return whether a host can be at the other end; a terminal, a file or no input at all is none."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _serve(output: int) -> None:
    log = SessionLog.of(os.environ)
    reader, writer = await _connect(output)
    ended = anyio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with anyio.create_task_group() as group:
        peer = Peer(writer.write, group)
        host = PipeHost(peer)
        events = HostEvents(host, log, ended.set)
        peer.methods = events.methods()
        group.start_soon(_read, reader, peer, ended)
        group.start_soon(_run_session, host, events, log, ended)
        await ended.wait()
        asyncio.get_running_loop().call_later(LAST_RESORT, os._exit, 1)
        peer.close("the host is gone")
    log.close()
    with anyio.move_on_after(LAST_WRITES):
        await _flush(writer)


async def _run_session(host: PipeHost, events: HostEvents, log: SessionLog, ended: anyio.Event) -> None:
    """Load and run the service once the host has greeted, until the session has ended."""
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(_cancel_after, waiting.cancel_scope, ended)
        await events.greeted.wait()
        waiting.cancel_scope.cancel()
    if events.start is None or ended.is_set():
        return
    from pi_project_memory.supervisor.service import open_service
    from pi_project_memory.supervisor.setup import Environment

    async with open_service(host, Environment.real(log)) as service:
        await service.initialize(events.start, events.log_file)
        events.attach(service)
        await ended.wait()


async def _cancel_after(scope: anyio.CancelScope, event: anyio.Event) -> None:
    await event.wait()
    scope.cancel()


async def _read(reader: asyncio.StreamReader, peer: Peer, ended: anyio.Event) -> None:
    """Hand every frame to the peer until the host closes the pipe; what it asked to last is finished."""
    decoder = FrameDecoder()
    try:
        while chunk := await reader.read(CHUNK):
            for frame in decoder.feed(chunk):
                peer.receive(frame)
        await peer.hang_up("the host is gone")
    finally:
        ended.set()


async def _flush(writer: asyncio.StreamWriter) -> None:
    try:
        writer.close()
        await writer.wait_closed()
    except OSError:
        return  # nobody reads any more


def _claim_stdout() -> int:
    """Keep standard output for frames alone: whatever prints by accident lands on standard error."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    return output


async def _connect(output: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", 0))
    # A reader's protocol, though nothing is read: it is the one that can tell when its pipe has closed.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(output, "wb", 0)
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
