"""A simulated host that fails, waits or lies where a test wants it to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec

from pi_project_memory.actors.ports.host import (
    HiddenMessage,
    JsonObject,
    ModelAnswer,
    ModelRequest,
    NoticeLevel,
    ParentSnapshot,
)
from pi_project_memory.actors.ports.tools import FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.supervisor.host.simulated import SimulatedHost


class TroubledHost(SimulatedHost):
    """Raises what `trouble` names for a call, waits as many seconds as `slow` names for it.

    `parent` is put over the snapshot of the main agent's request; `ran` keeps the tools that were called. With
    `beside` a tool works that many seconds later in a task of its own, as it does behind a pipe: no cancellation
    of the call reaches it.
    """

    __slots__ = ("beside", "parent", "ran", "slow", "tasks", "trouble")

    def prepare(self, **parent: Any) -> TroubledHost:
        self.parent = parent
        self.trouble: dict[str, BaseException] = {}
        self.slow: dict[str, float] = {}
        self.ran: list[ToolInvocation] = []
        self.beside: float | None = None
        self.tasks: list[asyncio.Task[ToolOutcome]] = []
        return self

    async def capture_parent(self) -> ParentSnapshot:
        await self._meet("capture")
        return msgspec.structs.replace(await SimulatedHost.capture_parent(self), **self.parent)

    async def release_parent(self, handle: str) -> None:
        await anyio.sleep(self.slow.get("release", 0))
        await SimulatedHost.release_parent(self, handle)
        await self._meet("released")

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        await self._meet("stream")
        return await SimulatedHost.stream_model(self, request)

    async def read_history(
        self, handle: str, start: int, stop: int | None, types: Sequence[str] | None = None
    ) -> Sequence[JsonObject]:
        await self._meet("history")
        return await SimulatedHost.read_history(self, handle, start, stop, types)

    async def append_entry(self, custom_type: str, data: JsonObject) -> None:
        await self._meet("append")
        await SimulatedHost.append_entry(self, custom_type, data)

    async def send_message(self, message: HiddenMessage) -> None:
        await self._meet("send")
        await SimulatedHost.send_message(self, message)

    async def notify(self, level: NoticeLevel, text: str) -> None:
        await self._meet("notify")
        await SimulatedHost.notify(self, level, text)

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        self.ran.append(call)
        await self._meet("tool")
        if self.beside is None:
            return await SimulatedHost.execute_tool(self, call, ops)
        self.tasks.append(asyncio.create_task(self._work_beside(self.beside, call, ops)))
        await asyncio.wait(self.tasks)
        return self.tasks[-1].result()

    async def _work_beside(self, seconds: float, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        await anyio.sleep(seconds)
        return await SimulatedHost.execute_tool(self, call, ops)

    async def _meet(self, point: str) -> None:
        if point in self.slow:
            await anyio.sleep(self.slow[point])
        if point in self.trouble:
            raise self.trouble[point]
