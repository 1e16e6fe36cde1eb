"""The host behind a pipe: its `Host` calls become requests, its events become method calls (HOST-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from pi_project_memory.actors.mailbox import AskTimeoutError
from pi_project_memory.actors.ports.codemode import (
    CodemodeLoadout,
    CodemodeWanted,
    Script,
    ScriptCall,
    ScriptOutcome,
    ScriptTools,
)
from pi_project_memory.actors.ports.host import (
    HiddenMessage,
    HostError,
    JsonObject,
    ModelAnswer,
    ModelQuery,
    ModelRequest,
    NoticeLevel,
    ParentSnapshot,
    ResolvedModel,
    StaleHistoryError,
)
from pi_project_memory.actors.ports.tools import FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.supervisor.host.operations import (
    OperationError,
    OperationResult,
    ToolOperation,
    perform,
)
from pi_project_memory.supervisor.host.peer import (
    INVALID_PARAMS,
    Peer,
    PipeClosedError,
    RpcError,
)
from pi_project_memory.supervisor.host.protocol import (
    Empty,
)

VERSION_MISMATCH = -32001
STALE_HISTORY = -32002

QUICK = 10.0
"""Seconds for what a host answers from memory."""

MODEL = 3600.0
"""Seconds for a model request; whoever asks has a tighter bound of its own."""

TOOL = 600.0
"""Seconds for one tool call or script; commands have a tighter bound of their own."""

HISTORY_CHUNK = 200
"""Entries asked for at a time, which keeps a frame far below its limit."""

T = TypeVar("T")


class _Range(Struct, frozen=True, rename="camel"):
    handle: str
    start: int
    stop: int
    types: Sequence[str] | None


class _Entries(Struct, frozen=True, rename="camel"):
    entries: list[JsonObject]


class _NewEntry(Struct, frozen=True, rename="camel"):
    custom_type: str
    data: JsonObject


class PipeHost:
    """Asks the process at the other end of the pipe."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._operations: dict[str, FileOps] = {}
        self._scripts: dict[str, ScriptTools] = {}

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        """Ask for a model of the host's registry."""
        return await self._ask("model/resolve", query, ResolvedModel, QUICK)

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        """Have one model request run; cancelling the call aborts it there."""
        return await self._ask("model/stream", request, ModelAnswer, MODEL)

    async def read_history(
        self, handle: str, start: int, stop: int | None, types: Sequence[str] | None = None
    ) -> Sequence[JsonObject]:
        """Return branch entries, fetched in chunks until one falls short."""
        entries: list[JsonObject] = []
        first = start
        while stop is None or first < stop:
            last = first + HISTORY_CHUNK if stop is None else min(first + HISTORY_CHUNK, stop)
            wanted = _Range(handle, first, last, types)
            part = (await self._ask("history/read", wanted, _Entries, QUICK)).entries
            entries.extend(part)
            if len(part) < last - first:
                break
            first = last
        return entries

    async def append_entry(self, custom_type: str, data: JsonObject) -> None:
        """Keep an entry on the branch."""
        await self._ask("entry/append", _NewEntry(custom_type, data), Empty, QUICK)

    async def send_message(self, message: HiddenMessage) -> None:
        """Hand a message to the next model call."""
        await self._ask("message/send", message, Empty, QUICK)

    async def capture_parent(self) -> ParentSnapshot:
        """Have the main agent's request kept."""
        return await self._ask("parent/capture", Empty(), ParentSnapshot, QUICK)

    async def release_parent(self, handle: str) -> None:
        """Have a kept request dropped."""
        await self._ask("parent/release", {"handle": handle}, Empty, QUICK)

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        """Have a tool executed; its file effects come back through `tool_operation`."""
        self._operations[call.call_id] = ops
        try:
            return await self._ask("tools/execute", call, ToolOutcome, TOOL)
        finally:
            del self._operations[call.call_id]

    async def tool_operation(self, params: ToolOperation) -> OperationResult:
        """Perform one file effect of a tool call that is under way."""
        ops = self._operations.get(params.call_id)
        if ops is None:
            return OperationResult(error=OperationError("EPERM", f"the call {params.call_id} is over"))
        return await perform(ops, params)

    async def codemode_loadout(self, wanted: CodemodeWanted) -> CodemodeLoadout:
        """Ask how tools are declared beside codemode."""
        return await self._ask("codemode/loadout", wanted, CodemodeLoadout, QUICK)

    async def run_script(self, script: Script, call: ScriptTools) -> ScriptOutcome:
        """Have a script run; its calls come back through `script_call`."""
        self._scripts[script.call_id] = call
        try:
            return await self._ask("codemode/run", script, ScriptOutcome, TOOL)
        finally:
            del self._scripts[script.call_id]

    async def script_call(self, params: ScriptCall) -> ToolOutcome:
        """Run one call of a script that is under way."""
        call = self._scripts.get(params.script_id)
        if call is None:
            raise RpcError(INVALID_PARAMS, f"the script {params.script_id} is over")
        return await call(params.call_id, params.tool, params.arguments)

    async def notify(self, level: NoticeLevel, text: str) -> None:
        """Show a notice."""
        self._peer.notify("ui/notify", {"level": level, "text": text})

    async def show_status(self, text: str | None) -> None:
        """Set or clear the status line."""
        self._peer.notify("ui/status", {"text": text})

    async def _ask(self, method: str, params: object, answer: type[T], seconds: float) -> T:
        try:
            return await self._peer.request(method, params, answer, seconds)
        except RpcError as error:
            kind = StaleHistoryError if error.code == STALE_HISTORY else HostError
            raise kind(f"{method}: {error}") from None
        except (PipeClosedError, AskTimeoutError, msgspec.ValidationError) as error:
            raise HostError(f"{method}: {error}") from None
