"""What the fake provider answers, as data: a reply is a row of steps, some of which make the client wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
Api: TypeAlias = Literal["openai-completions", "anthropic-messages"]
Stop: TypeAlias = Literal["auto", "length", "refusal"]
"""Why the model ended: `auto` is a tool call when the reply has one, else the plain end."""


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning; the signature goes out on the anthropic wire alone."""

    text: str
    signature: str = "signed-by-the-fake-provider"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; `arguments` given as a string go out as they are, valid JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


@dataclass(frozen=True, slots=True)
class Gate:
    """The reply stops here until the test opens the gate; `reached` tells the test that it has."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self) -> None:
        self.opened.set()


@dataclass(frozen=True, slots=True)
class Hang:
    """No further byte until the client goes away."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks."""


Part: TypeAlias = Text | Thinking | ToolCall
Pause: TypeAlias = Delay | Gate | Hang | Cut
Step: TypeAlias = Part | Pause


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the reply reports; `input` leaves the cached ones out."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A streamed answer with status 200; `before` passes before the response headers."""

    steps: tuple[Step, ...]
    before: tuple[Pause, ...] = ()
    stop: Stop = "auto"
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Error:
    """An HTTP error; a string as body goes out as it is."""

    status: int
    body: Json | str = field(
        default_factory=lambda: {"error": {"message": "scripted error", "type": "api_error"}}
    )
    before: tuple[Pause, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


Answer: TypeAlias = Reply | Error


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One model request as it arrived.

    `number` counts all requests of the provider from 0, `at` is in seconds since the provider started,
    header names are lower case. `client_left` is set when the client closed the connection before the
    answer was complete, `finished` when nothing more is sent for this request.
    """

    number: int
    at: float
    api: Api
    model: str
    body: Json
    raw: bytes
    headers: Mapping[str, str]
    client_left: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)


Responder: TypeAlias = Callable[[Request], Answer]


def stream(*steps: Step, stop: Stop = "auto", usage: Usage | None = None) -> Reply:
    return Reply(steps, stop=stop, usage=usage or Usage())


def text(content: str) -> Reply:
    return Reply((Text(content),))


def call(name: str, **arguments: Any) -> Reply:
    """A reply that is one tool call."""
    return Reply((ToolCall(name, arguments),))


def calls(*tool_calls: ToolCall) -> Reply:
    return Reply(tool_calls)


def hang() -> Reply:
    """Not even the response headers arrive."""
    return Reply((), before=(Hang(),))
