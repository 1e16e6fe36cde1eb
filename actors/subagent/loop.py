"""The background loop: a request, its tool calls in parallel, their results, until nothing is called (EXT-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

import anyio

from pi_project_memory.actors.ports.host import JsonObject, ModelRequest, Models
from pi_project_memory.actors.ports.tools import ToolOutcome
from pi_project_memory.actors.scopes import AbortedError

Finish = Literal["done", "turn limit", "api error"]

T = TypeVar("T")


class Tools(Protocol):
    """What a model may call: `Toolbox`, or one with more in it."""

    async def call(self, call_id: str, tool: str, arguments: object) -> ToolOutcome:
        """Run one call; raises only what ends the run."""
        ...


@dataclass(frozen=True, slots=True)
class LoopResult:
    """How a loop ended, after how many requests, and with which error of the provider."""

    finish: Finish
    turns: int
    error: str = ""


@dataclass(slots=True)
class BackgroundLoop:
    """One run's conversation with its model.

    `request` makes a request of the messages that the run has added so far; `before_turn` is told the
    number of each turn as it begins, and raises when the run has lost its rights.
    """

    models: Models
    toolbox: Tools
    request: Callable[[Sequence[JsonObject]], ModelRequest]
    max_turns: int
    before_turn: Callable[[int], Awaitable[None]]
    _added: list[JsonObject] = field(default_factory=list)

    async def run(self) -> LoopResult:
        """Run to the end; raises what the host, the toolbox or an abort raises."""
        for turn in range(1, self.max_turns + 1):
            await self.before_turn(turn)
            message = (await self.models.stream_model(self.request(self._added))).message
            if message.get("stopReason") == "aborted":
                raise AbortedError("the host aborted the model request")
            if message.get("stopReason") == "error":
                return LoopResult("api error", turn, str(message.get("errorMessage") or "unknown error"))
            self._added.append(message)
            calls = _tool_calls(message)
            if not calls:
                return LoopResult("done", turn)
            self._added.extend(await side_by_side([partial(self._call, call) for call in calls]))
        return LoopResult("turn limit", self.max_turns)

    async def _call(self, call: Mapping[str, Any]) -> JsonObject:
        call_id, tool = str(call.get("id")), str(call.get("name"))
        if call.get("argumentsError"):
            text = f"The arguments of {tool} are not valid JSON. Call it again with valid ones."
            outcome = ToolOutcome([{"type": "text", "text": text}], is_error=True)
        else:
            outcome = await self.toolbox.call(call_id, tool, call.get("arguments"))
        return {
            "role": "toolResult",
            "toolCallId": call_id,
            "toolName": tool,
            "content": outcome.content,
            "isError": outcome.is_error,
            "timestamp": 0,
        }


async def side_by_side(jobs: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Run the jobs together and return their results in order; the first error ends all and is raised."""
    results: dict[int, T] = {}

    async def run(position: int) -> None:
        results[position] = await jobs[position]()

    try:
        async with anyio.create_task_group() as group:
            for position in range(len(jobs)):
                group.start_soon(run, position)
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    return [results[position] for position in range(len(jobs))]


def _tool_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "toolCall"]
