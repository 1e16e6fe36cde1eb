"""`pi-project-memory serve`: the service on its standard input and output (HOST-2, HOST-6, HOST-11)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import NoReturn

import anyio

from pi_project_memory.supervisor.host.frames import FrameDecoder
from pi_project_memory.supervisor.host.peer import Peer
from pi_project_memory.supervisor.host.pipe import HostEvents, PipeHost
from pi_project_memory.supervisor.log import SessionLog
from pi_project_memory.supervisor.service import open_service
from pi_project_memory.supervisor.setup import Environment

CHUNK = 256 * 1024
"""Bytes read at a time."""

LAST_WRITES = 2.0
"""Seconds that the last frames get to leave the process."""


def serve() -> NoReturn:
    """Run until the host shuts the session down or goes away, and end the process."""
    if sys.stdin.isatty():
        sys.exit("`pi-project-memory serve` is started by Pi, not by hand; try `pi-project-memory doctor`.")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl+C is the host's alone
    anyio.run(_serve, _claim_stdout())
    # A worker thread that hangs on a dead disk would keep the interpreter from ending.
    os._exit(0)


async def _serve(output: int) -> None:
    log = SessionLog()
    reader, writer = await _connect(output)
    ended = anyio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with anyio.create_task_group() as group:
        peer = Peer(writer.write, group)
        host = PipeHost(peer)
        async with open_service(host, Environment.real(log)) as service:
            peer.methods = HostEvents(service, host, log, ended.set).methods()
            group.start_soon(_read, reader, peer, ended)
            await ended.wait()
            peer.close("the host is gone")
        group.cancel_scope.cancel()
    log.close()
    with anyio.move_on_after(LAST_WRITES):
        await _flush(writer)


async def _read(reader: asyncio.StreamReader, peer: Peer, ended: anyio.Event) -> None:
    """Hand every frame to the peer until the host closes the pipe."""
    decoder = FrameDecoder()
    try:
        while chunk := await reader.read(CHUNK):
            for frame in decoder.feed(chunk):
                peer.receive(frame)
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
