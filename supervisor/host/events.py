"""The methods that a host may call over the pipe, from the handshake on (HOST-4, HOST-6).

The service takes longer to load than the handshake may take to answer, so the table stands before the
service does: a request waits for it, a notification is kept for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from pi_project_memory.actors.core.identity import data_directory
from pi_project_memory.actors.ports.codemode import ScriptCall
from pi_project_memory.supervisor.host.frames import INVALID_REQUEST
from pi_project_memory.supervisor.host.handshake import VersionMismatchError, answer_handshake
from pi_project_memory.supervisor.host.operations import ToolOperation
from pi_project_memory.supervisor.host.peer import Methods, NotificationMethod, RequestMethod, RpcError
from pi_project_memory.supervisor.host.pipe import PipeHost
from pi_project_memory.supervisor.host.protocol import (
    AgentSettled,
    AgentStartAnswer,
    BeforeAgentStart,
    BeforeCompact,
    Command,
    Complete,
    Completions,
    Empty,
    HistoryChanged,
    Initialize,
    Initialized,
    Shutdown,
    ToolResult,
    UserMessage,
)
from pi_project_memory.supervisor.log import SessionLog

if TYPE_CHECKING:
    from pi_project_memory.supervisor.service import MemoryService

VERSION_MISMATCH = -32001

LOG_DELAY = 0.5
"""Seconds behind an answer after which the log is opened; what happens until then is kept."""

P = TypeVar("P")
R = TypeVar("R")


class HostEvents:
    """Answers the handshake, and hands everything else to the service once it is there."""

    def __init__(self, host: PipeHost, log: SessionLog, end: Callable[[], None]) -> None:
        self.greeted = anyio.Event()
        self.start: Initialize | None = None
        self.log_file: str | None = None
        self._host = host
        self._log = log
        self._log.on_lost = self._log_lost
        self._end = end
        self._service: MemoryService | None = None
        self._attached = anyio.Event()
        self._kept: list[Callable[[MemoryService], None]] = []

    def attach(self, service: MemoryService) -> None:
        """Give the service what has arrived meanwhile, and from now on everything."""
        self._service = service
        for deliver in self._kept:
            deliver(service)
        self._kept.clear()
        self._attached.set()

    def methods(self) -> Methods:
        """Return each method with the type of its parameters and what handles it."""
        return {
            "initialize": RequestMethod(Initialize, self._initialize),
            "before_agent_start": RequestMethod(BeforeAgentStart, self._before_agent_start),
            "user_message": self._notification(
                UserMessage, lambda service, event: service.user_message(event)
            ),
            "tool_result": self._request(ToolResult, lambda service, event: service.tool_result(event)),
            "agent_settled": self._notification(
                AgentSettled, lambda service, event: service.agent_settled(event)
            ),
            "history_changed": self._notification(
                HistoryChanged, lambda service, event: service.history_changed(event)
            ),
            "before_compact": self._request(
                BeforeCompact, lambda service, event: service.before_compact(event)
            ),
            "command": self._request(Command, lambda service, event: service.command(event)),
            "complete": RequestMethod(Complete, self._complete),
            "tool_operation": RequestMethod(ToolOperation, self._host.tool_operation),
            "tool_call": RequestMethod(ScriptCall, self._host.script_call),
            "shutdown": RequestMethod(Shutdown, self._shutdown, lasting=True),
        }

    def _request(self, params: type[P], handle: Callable[[MemoryService, P], Awaitable[R]]) -> RequestMethod:
        async def waiting(event: Any) -> R:
            return await handle(await self._present(), event)

        return RequestMethod(params, waiting)

    def _notification(
        self, params: type[P], handle: Callable[[MemoryService, P], None]
    ) -> NotificationMethod:
        def keeping(event: Any) -> None:
            if self._service is not None:
                handle(self._service, event)
            else:
                self._kept.append(lambda service: handle(service, event))

        return NotificationMethod(params, keeping)

    def _log_lost(self, problem: str) -> None:
        if self._service is not None:
            self._service.log_lost(problem)

    async def _present(self) -> MemoryService:
        await self._attached.wait()
        assert self._service is not None, "attached"
        return self._service

    async def _initialize(self, params: Initialize) -> Initialized:
        if self.start is not None:
            raise RpcError(INVALID_REQUEST, "the session is initialized already")
        path = self._log.locate(Path(data_directory(params.agent_dir)) / "logs", params.session.id)
        try:
            answer = answer_handshake(params, str(path))
        except VersionMismatchError as error:
            raise RpcError(VERSION_MISMATCH, str(error)) from None
        self.start, self.log_file = params, str(path)
        asyncio.get_running_loop().call_soon(self.greeted.set)  # behind the answer
        return answer

    async def _before_agent_start(self, params: BeforeAgentStart) -> AgentStartAnswer:
        answer = await (await self._present()).before_agent_start(params)
        # The log is opened well behind the first answer, since its library takes longer to load than that.
        asyncio.get_running_loop().call_later(LOG_DELAY, self._log.open)
        return answer

    async def _complete(self, params: Complete) -> Completions:
        return (await self._present()).complete(params)

    async def _shutdown(self, params: Shutdown) -> Empty:
        if self.start is not None:
            await (await self._present()).shutdown(params)
        asyncio.get_running_loop().call_soon(self._end)  # behind the answer
        return Empty()
