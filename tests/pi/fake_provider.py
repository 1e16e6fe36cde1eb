"""A model provider of our own on 127.0.0.1: it answers as scripted and keeps every request it saw.

Answers are scripted per model id, for both wires alike. A request without one gets status 500 and fails
the test when `assert_clean` runs at its end, so that nothing goes unanswered in silence.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from pi.scripting import Answer, Cut, Delay, Error, Gate, Hang, Json, Pause, Reply, Request, Responder
from pi.waiting import BOUND, Journal, within
from pi.wire import ROUTES, Encoder

MAX_HEAD_BYTES = 1 << 20


class ClientGoneError(Exception):
    """The client closed its connection, or the script broke it."""


class _Reader(asyncio.StreamReader):
    """A stream reader that tells when the other side has closed, without reading on."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_HEAD_BYTES)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


class FakeProvider:
    """The server, its scripts and its log. Open it with `fake_provider()`."""

    def __init__(self) -> None:
        self.log: Journal[Request] = Journal()
        self.problems: list[str] = []
        self.port = 0
        self._queues: defaultdict[str, deque[Answer]] = defaultdict(deque)
        self._responders: dict[str, Responder] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._started = asyncio.get_running_loop().time()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, model: str, *answers: Answer) -> None:
        """Queue answers for the next requests of `model`."""
        self._queues[model].extend(answers)

    def respond(self, model: str, responder: Responder) -> None:
        """Let `responder` answer every request of `model` that finds its queue empty."""
        self._responders[model] = responder

    def requests_for(self, model: str) -> list[Request]:
        return [request for request in self.log if request.model == model]

    def leftover(self, model: str) -> int:
        """How many queued answers of `model` nobody asked for."""
        return len(self._queues[model])

    async def request(self, model: str, nth: int = 0, bound: float = BOUND) -> Request:
        """The request number `nth` (from 0) of `model`, waiting for it if need be."""
        await self.log.find(
            lambda _: len(self.requests_for(model)) > nth,
            lambda: f"request {nth} of model {model} to arrive\n{self.describe()}",
            bound=bound,
        )
        return self.requests_for(model)[nth]

    async def client_left(self, request: Request) -> None:
        """Wait until the client of `request` has closed its connection."""
        what = f"the client to drop request #{request.number}"
        await within(request.client_left.wait(), lambda: f"{what}\n{self.describe()}")

    async def answered(self, request: Request) -> None:
        """Wait until nothing more is sent for `request`, the client's leaving included."""
        what = f"request #{request.number} to be answered"
        await within(request.finished.wait(), lambda: f"{what}\n{self.describe()}")

    def describe(self) -> str:
        """The log in words, for failure texts."""
        lines = [self._line(request) for request in self.log]
        return "\n".join(["provider log:", *(lines or ["  no request"]), *self.problems])

    def assert_clean(self) -> None:
        """Fail when a request was malformed or found no script."""
        if self.problems:
            pytest.fail(f"the fake provider met what was not scripted\n{self.describe()}")

    @staticmethod
    def _line(request: Request) -> str:
        state = "answered" if request.finished.is_set() else "open"
        end = "client left" if request.client_left.is_set() else state
        count = len(request.body.get("messages", []))
        return (
            f"  #{request.number} +{request.at:.2f}s {request.model} ({request.api}) {count} messages: {end}"
        )

    def _take(self, request: Request) -> Answer:
        if self._queues[request.model]:
            return self._queues[request.model].popleft()
        responder = self._responders.get(request.model)
        if responder is None:
            return self._refuse(
                500, f"no answer is scripted for request #{request.number} of {request.model}"
            )
        try:
            return responder(request)
        except Exception as error:  # noqa: BLE001 - reported by assert_clean, whatever it is
            return self._refuse(500, f"the responder of {request.model} raised {error!r}")

    def _refuse(self, status: int, problem: str) -> Error:
        self.problems.append(problem)
        return Error(status, {"error": {"message": f"fake provider: {problem}", "type": "unscripted"}})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after another."""
        task = asyncio.current_task()
        assert task is not None
        assert isinstance(reader, _Reader)
        self._connections.add(task)
        try:
            with contextlib.suppress(ClientGoneError, ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._exchange(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        path, headers = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        route = ROUTES.get(path)
        body = _json_object(raw)
        if route is None or body is None:
            await _send_error(writer, self._refuse(404, f"not a model request: {path} {raw[:200]!r}"))
            return
        api, encoder = route
        at = asyncio.get_running_loop().time() - self._started
        request = Request(len(self.log), at, api, str(body.get("model")), body, raw, headers)
        self.log.append(request)
        try:
            await _Connection(reader, writer, request).answer(self._take(request), encoder)
        finally:
            request.finished.set()

    async def close(self) -> None:
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class _Connection:
    """One request's answer on its way out, watching for a client that leaves."""

    def __init__(self, reader: _Reader, writer: asyncio.StreamWriter, request: Request) -> None:
        self._reader = reader
        self._writer = writer
        self._request = request

    async def answer(self, answer: Answer, encoder: Encoder) -> None:
        for pause in answer.before:
            await self._pause(pause)
        match answer:
            case Error():
                await _send_error(self._writer, answer)
            case Reply():
                await self._stream(answer, encoder)

    async def _stream(self, reply: Reply, encoder: Encoder) -> None:
        self._writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for frame in encoder(reply, self._request.model, self._request.number):
            if isinstance(frame, bytes):
                await self._send(b"%x\r\n%b\r\n" % (len(frame), frame))
            else:
                await self._pause(frame)
        await self._send(b"0\r\n\r\n")

    async def _send(self, data: bytes) -> None:
        if self._reader.ended.is_set():
            self._left()
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            self._left()

    async def _pause(self, pause: Pause) -> None:
        match pause:
            case Delay(seconds):
                await self._stay(asyncio.sleep(seconds))
            case Gate(reached, opened):
                reached.set()
                await self._stay(opened.wait())
            case Hang():
                await self._reader.ended.wait()
                self._left()
            case Cut():
                self._writer.transport.abort()
                raise ClientGoneError

    async def _stay(self, wait: Awaitable[object]) -> None:
        """Wait, unless the client leaves first."""
        work, leaving = asyncio.ensure_future(wait), asyncio.ensure_future(self._reader.ended.wait())
        try:
            await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            leaving.cancel()
        if self._reader.ended.is_set():
            self._left()

    def _left(self) -> None:
        self._request.client_left.set()
        raise ClientGoneError


def _parse_head(head: bytes) -> tuple[str, Mapping[str, str]]:
    """Path without query, and the headers with lower-case names."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    return urlsplit(first.split(" ")[1]).path, headers


def _json_object(raw: bytes) -> Json | None:
    with contextlib.suppress(ValueError):
        body = json.loads(raw)
        return body if isinstance(body, dict) else None
    return None


async def _send_error(writer: asyncio.StreamWriter, error: Error) -> None:
    body = (error.body if isinstance(error.body, str) else json.dumps(error.body)).encode()
    headers = {"content-type": "application/json", **error.headers, "content-length": str(len(body))}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {error.status} Scripted\r\n{lines}\r\n".encode() + body)
    await writer.drain()


@asynccontextmanager
async def fake_provider() -> AsyncIterator[FakeProvider]:
    """A provider that listens on a free port of 127.0.0.1 until the block ends."""
    provider = FakeProvider()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: asyncio.StreamReaderProtocol(_Reader(), provider.serve), "127.0.0.1", 0
    )
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        await provider.close()
        await server.wait_closed()
