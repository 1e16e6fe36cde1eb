"""A JSON-RPC 2.0 peer: requests, notifications and cancellation in both directions (HOST-6, HOST-7)."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeGuard, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from pi_project_memory.actors.mailbox import Reply
from pi_project_memory.supervisor.host.frames import INVALID_REQUEST, BadFrame, Frame, encode

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800

T = TypeVar("T")
Id = int | str


class RpcError(Exception):
    """An error answer, received or to be sent."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class PipeClosedError(Exception):
    """The other side is gone; nothing will be answered."""


class RequestMethod(Struct, frozen=True):
    """A method that is answered: the type of its parameters and what answers it.

    One that is `lasting` goes on when the other side sends nothing more.
    """

    params: type[Any]
    handle: Callable[[Any], Awaitable[object]]
    lasting: bool = False


class NotificationMethod(Struct, frozen=True):
    """A method without an answer; handled at once, in the order of arrival."""

    params: type[Any]
    handle: Callable[[Any], None]


Methods = Mapping[str, RequestMethod | NotificationMethod]


class Peer:
    """One side of the connection; `send` queues the bytes of one frame and never waits.

    `methods` is what the other side may call; it is set before the first frame is received.
    """

    def __init__(self, send: Callable[[bytes], None], group: TaskGroup) -> None:
        self.methods: Methods = {}
        self._send = send
        self._group = group
        self._ids = itertools.count(1)
        self._waiting: dict[Id, Reply[object]] = {}
        self._running: dict[Id, anyio.CancelScope] = {}
        self._lasting: set[Id] = set()
        self._finished = anyio.Event()
        self._gone: str | None = None
        self._deaf: str | None = None

    async def request(self, method: str, params: object, answer: type[T], deadline: float) -> T:
        """Ask the other side; cancelling the call, or its deadline in seconds, cancels it there as well."""
        if (reason := self._gone or self._deaf) is not None:
            raise PipeClosedError(reason)
        number = next(self._ids)
        frame = encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        reply = self._waiting[number] = Reply[object]()
        self._send(frame)
        try:
            return msgspec.convert(await reply.wait(deadline), answer)
        finally:
            if self._waiting.pop(number, None) is not None and self._gone is None:
                self.notify("$/cancel", {"id": number})

    def notify(self, method: str, params: object) -> None:
        """Tell the other side something, without an answer."""
        if self._gone is None:
            self._send(encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def receive(self, frame: Frame) -> None:
        """Act on one frame from the other side; after the end there is nobody to act for."""
        if self._gone is not None:
            return
        match frame:
            case BadFrame(code, reason):
                self._answer_error(None, code, reason)
            case {"method": str(method), "id": number} if _is_id(number):
                self._start(number, method, frame.get("params"))
            case {"method": "$/cancel", "params": {"id": number}} if "id" not in frame and _is_id(number):
                self._cancel(number)
            case {"method": str(method)} if "id" not in frame:
                self._deliver(method, frame.get("params"))
            case {"id": number} if "method" not in frame and ("result" in frame or "error" in frame):
                self._settle(number, frame)
            case _:
                self._answer_error(None, INVALID_REQUEST, "neither a request nor an answer")

    async def hang_up(self, reason: str) -> None:
        """Note that the other side sends nothing more, and wait for what it asked for to last.

        Whoever waits for an answer is told at once; everything else that runs is cancelled.
        """
        self._deaf = reason
        self._fail_waiting(reason)
        for number, scope in self._running.items():
            if number not in self._lasting:
                scope.cancel()
        while self._lasting:
            self._finished = anyio.Event()
            await self._finished.wait()

    def close(self, reason: str) -> None:
        """Note that the other side is gone: whoever waits is told, what runs for it is cancelled."""
        if self._gone is None:
            self._gone = reason
        self._fail_waiting(self._gone)
        for scope in self._running.values():
            scope.cancel()

    def _fail_waiting(self, reason: str) -> None:
        for reply in self._waiting.values():
            reply.fail(PipeClosedError(reason))

    def _start(self, number: Id, method: str, params: object) -> None:
        if number in self._running:
            # Under its id the refusal would pass for the answer to the request that runs.
            self._answer_error(None, INVALID_REQUEST, f"request {number} is still being answered")
            return
        entry = self.methods.get(method)
        if not isinstance(entry, RequestMethod):
            self._answer_error(number, METHOD_NOT_FOUND, f"there is no request {method!r}")
            return
        scope = self._running[number] = anyio.CancelScope()
        if entry.lasting:
            self._lasting.add(number)
        self._group.start_soon(self._run, number, method, entry, params, scope)

    async def _run(
        self, number: Id, method: str, entry: RequestMethod, params: object, scope: anyio.CancelScope
    ) -> None:
        try:
            with scope:
                result = await entry.handle(_validated(params, entry.params))
                self._answer({"jsonrpc": "2.0", "id": number, "result": result})
        except RpcError as error:
            self._answer_error(number, error.code, str(error))
        except Exception as error:  # noqa: BLE001 - an error of ours is an answer, never the end of the process
            self._answer_error(number, INTERNAL_ERROR, f"{method}: {type(error).__name__}: {error}")
        finally:
            self._running.pop(number, None)
            self._lasting.discard(number)
            self._finished.set()
        if scope.cancelled_caught:
            self._answer_error(number, CANCELLED, f"{method} was cancelled")

    def _deliver(self, method: str, params: object) -> None:
        entry = self.methods.get(method)
        if not isinstance(entry, NotificationMethod):
            self._answer_error(None, METHOD_NOT_FOUND, f"there is no notification {method!r}")
            return
        try:
            entry.handle(_validated(params, entry.params))
        except RpcError as error:
            self._answer_error(None, error.code, f"{method}: {error}")
        except Exception as error:  # noqa: BLE001 - as above
            self._answer_error(None, INTERNAL_ERROR, f"{method}: {type(error).__name__}: {error}")

    def _cancel(self, number: Id) -> None:
        if number in self._running:
            self._running[number].cancel()

    def _settle(self, number: object, frame: Mapping[str, Any]) -> None:
        reply = self._waiting.pop(number, None) if _is_id(number) else None
        if reply is None:
            # It answers a request that was cancelled meanwhile, or a frame that the other side could not
            # read. To answer an answer would have two peers go on for ever.
            return
        match frame.get("error"):
            case None:
                reply.send(frame.get("result"))
            case {"code": int(code), "message": str(message)}:
                reply.fail(RpcError(code, message))
            case error:
                reply.fail(RpcError(INTERNAL_ERROR, f"an error of unknown form: {error!r:.200}"))

    def _answer(self, message: object) -> None:
        if self._gone is None:
            self._send(encode(message))

    def _answer_error(self, number: Id | None, code: int, text: str) -> None:
        self._answer({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}})


def _is_id(value: object) -> TypeGuard[Id]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _validated(params: object, wanted: type[T]) -> T:
    try:
        return msgspec.convert(params if params is not None else {}, wanted)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"the parameters do not fit: {error}") from None
