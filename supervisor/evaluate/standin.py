"""Stands in for the service at the end of the relay: shakes hands, and then only asks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup

from pi_project_memory.actors.ports.host import JsonObject
from pi_project_memory.supervisor.evaluate.hosts import Hosts
from pi_project_memory.supervisor.host.frames import FrameDecoder
from pi_project_memory.supervisor.host.operations import ToolOperation
from pi_project_memory.supervisor.host.peer import Peer, RequestMethod
from pi_project_memory.supervisor.host.pipe import PipeHost
from pi_project_memory.supervisor.host.protocol import (
    PROTOCOL_VERSION,
    Empty,
    Initialize,
    Initialized,
    ServiceName,
    Shutdown,
)
from pi_project_memory.supervisor.version import __version__

CHUNK = 256 * 1024


class StandIn:
    """Serves the first connection to a socket; `give_up` ends the wait for it."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._decided = anyio.Event()
        self._host: PipeHost | None = None
        self._tools: Sequence[JsonObject] | None = None

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection; a second one would be a restart of the service, which is not wanted."""
        if self._host is not None:
            writer.close()
            return
        peer = Peer(writer.write, self._group)
        self._host = PipeHost(peer)
        peer.methods = {
            "initialize": RequestMethod(Initialize, self._initialize),
            "tool_operation": RequestMethod(ToolOperation, self._host.tool_operation),
            "shutdown": RequestMethod(Shutdown, self._shutdown),
        }
        self._group.start_soon(_serve, reader, writer, peer)

    def give_up(self) -> None:
        """No handshake will come any more."""
        self._decided.set()

    async def hosts(self, seconds: float) -> Hosts | None:
        """Return the host once it has shaken hands, or None when it does not within `seconds`."""
        with anyio.move_on_after(seconds):
            await self._decided.wait()
        host, tools = self._host, self._tools
        return None if host is None or tools is None else Hosts(lambda _case, _memory: host, tools)

    async def _initialize(self, start: Initialize) -> Initialized:
        self._tools = start.tools
        self._decided.set()
        service = ServiceName("pi-project-memory", __version__, os.getpid())
        return Initialized(PROTOCOL_VERSION, service, None, ())

    async def _shutdown(self, _: Shutdown) -> Empty:
        return Empty()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer) -> None:
    decoder = FrameDecoder()
    try:
        while chunk := await reader.read(CHUNK):
            for frame in decoder.feed(chunk):
                peer.receive(frame)
    except ConnectionError:
        pass  # told below, as an end like any other
    finally:
        peer.close("the host has ended")
        writer.close()
