"""A server that takes a model request of any API, keeps it, and answers with a scripted HTTP error.

The other provider of these tests speaks two wires in full; this one speaks none, and so can stand for all.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from node_oracle import ask_node
from pi.scripting import Json

MAX_HEAD_BYTES = 1 << 20

_UNPACK = "(data) => require('zlib').zstdDecompressSync(Buffer.from(data, 'base64')).toString('utf8')"


@dataclass(frozen=True, slots=True)
class Captured:
    """One request: method, path without query, and the body as text, unpacked."""

    method: str
    path: str
    text: str

    @property
    def body(self) -> Json:
        body: Json = json.loads(self.text)
        return body


class CaptureProvider:
    """The server. Open it with `capture_provider()`."""

    def __init__(self) -> None:
        self.log: list[Captured] = []
        self.port = 0
        self._answers: deque[int] = deque()
        self._otherwise = 429
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, *statuses: int, otherwise: int = 429) -> None:
        """Answer the next requests with these statuses and every later one with `otherwise`."""
        self._answers = deque(statuses)
        self._otherwise = otherwise

    def take(self) -> list[Captured]:
        """The requests since the last call."""
        taken, self.log = self.log, []
        return taken

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                await self._exchange(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    def close(self) -> None:
        for writer in self._open:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        raw = await _body(reader, headers)
        method, target, _ = first.split(" ", 2)
        text = await _unpacked(raw) if headers.get("content-encoding") == "zstd" else raw.decode()
        self.log.append(Captured(method, target.partition("?")[0], text))
        status = self._answers.popleft() if self._answers else self._otherwise
        writer.write(_error(status))
        await writer.drain()


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    parts: list[bytes] = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(parts)


async def _unpacked(raw: bytes) -> str:
    packed = base64.b64encode(raw).decode("ascii")
    (text,) = await asyncio.to_thread(ask_node, _UNPACK, [packed])
    return str(text)


def _error(status: int) -> bytes:
    """An error that every API's adapter takes for one; its words say nothing of the output's form."""
    error = {"code": status, "type": "scripted", "message": "this server refuses", "status": "SCRIPTED"}
    body = json.dumps({"error": error, "message": "this server refuses"}).encode()
    head = (
        f"HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def capture_provider() -> AsyncIterator[CaptureProvider]:
    """A server that listens on a free port of 127.0.0.1 until the block ends."""
    provider = CaptureProvider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        provider.close()
        await server.wait_closed()
