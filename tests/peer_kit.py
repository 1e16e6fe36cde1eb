"""A JSON-RPC peer with methods of every kind, alone or connected to another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from actors_kit import turns
from pi_project_memory.supervisor.host.frames import FrameDecoder
from pi_project_memory.supervisor.host.peer import (
    NotificationMethod,
    Peer,
    RequestMethod,
    RpcError,
)

Json = dict[str, Any]


class Greeting(Struct, frozen=True, rename="camel"):
    first_name: str
    times: int = 1


class Greeted(Struct, frozen=True, rename="camel"):
    text: str


class Side:
    """A peer, what it has sent, and what its methods were told."""

    def __init__(self, group: TaskGroup) -> None:
        self.decoder = FrameDecoder()
        self.sent: list[Json] = []
        self.told: list[object] = []
        self.ended: list[str] = []
        self.peer = Peer(self._note, group)
        self.peer.methods = {
            "greet": RequestMethod(Greeting, self.greet),
            "wait": RequestMethod(Json, self.wait),
            "fail": RequestMethod(Json, self.fail),
            "refuse": RequestMethod(Json, self.refuse),
            "unwritable": RequestMethod(Json, self.unwritable),
            "tell": NotificationMethod(Greeting, self.told.append),
            "tell_badly": NotificationMethod(Json, self.tell_badly),
        }

    def _note(self, data: bytes) -> None:
        self.sent += [frame for frame in FrameDecoder().feed(data) if isinstance(frame, dict)]

    def feed(self, *messages: object, raw: bytes = b"") -> None:
        """Let the peer receive frames, as they would come out of the pipe."""
        data = b"".join(json.dumps(message).encode() + b"\n" for message in messages) + raw
        for frame in self.decoder.feed(data):
            self.peer.receive(frame)

    def call(self, number: object, method: str, **params: object) -> None:
        self.feed({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def answered(self) -> Json:
        """Return what each id was answered with: a result or an error code."""
        return {
            frame["id"]: frame["error"]["code"] if "error" in frame else frame["result"]
            for frame in self.sent
        }

    @property
    def only(self) -> Json:
        assert len(self.sent) == 1
        return self.sent[0]

    async def greet(self, params: Greeting) -> Greeted:
        return Greeted(f"hello {params.first_name}" * params.times)

    async def wait(self, params: Json) -> str:
        try:
            await anyio.sleep(params.get("seconds", 1000))
        finally:
            self.ended.append(str(params.get("name", "wait")))
        return "waited"

    async def fail(self, _params: Json) -> None:
        raise ValueError("the store is odd: \ud83d")

    async def refuse(self, _params: Json) -> None:
        raise RpcError(-32002, "an old handle")

    async def unwritable(self, _params: Json) -> object:
        return object()

    def tell_badly(self, _params: Json) -> None:
        raise KeyError("nobody")


@asynccontextmanager
async def one_side() -> AsyncIterator[Side]:
    async with anyio.create_task_group() as group:
        yield Side(group)
        await turns()
        group.cancel_scope.cancel()


@asynccontextmanager
async def two_sides() -> AsyncIterator[tuple[Side, Side]]:
    """Two peers, each of which gets what the other sends one turn of the loop later."""
    async with anyio.create_task_group() as group:
        sides = Side(group), Side(group)
        loop = asyncio.get_running_loop()
        for side, other in (sides, sides[::-1]):
            side.peer._send = partial(_transmit, loop, side._note, other)
        yield sides
        await turns()
        group.cancel_scope.cancel()


def _transmit(
    loop: asyncio.AbstractEventLoop, note: Callable[[bytes], None], other: Side, data: bytes
) -> None:
    note(data)
    loop.call_soon(partial(other.feed, raw=data))


def ask(side: Side, method: str = "greet", answer: Any = object, deadline: float = 10) -> Awaitable[Any]:
    return side.peer.request(method, {"firstName": "Ada"}, answer, deadline)
