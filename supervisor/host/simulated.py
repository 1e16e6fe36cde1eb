"""The simulated host: a session without Pi, with scripted models and real files (HOST-2)."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec

from pi_project_memory.actors.core.config import ThinkingLevel
from pi_project_memory.actors.core.selection import TOOL_NAME
from pi_project_memory.actors.ports.codemode import (
    CodemodeLoadout,
    CodemodeWanted,
    Script,
    ScriptOutcome,
    ScriptTools,
)
from pi_project_memory.actors.ports.host import (
    HiddenMessage,
    HistoryHead,
    HostError,
    JsonObject,
    ModelAnswer,
    ModelInfo,
    ModelQuery,
    ModelRequest,
    NoticeLevel,
    ParentSnapshot,
    ResolvedModel,
    StaleHistoryError,
)
from pi_project_memory.actors.ports.tools import (
    FileOps,
    OperationRefusedError,
    ToolInvocation,
    ToolOutcome,
)
from pi_project_memory.supervisor.host.scenario import Reply, ToolUse
from pi_project_memory.supervisor.host.tools.base import ToolContext, ToolError
from pi_project_memory.supervisor.host.tools.fileops import RealFileOps
from pi_project_memory.supervisor.host.tools.registry import call_tool

T = TypeVar("T")

NO_SCRIPTS = "the simulated host runs no scripts"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One model request as it arrived, with the loop time in seconds."""

    request: ModelRequest
    at: float


@dataclass(slots=True)
class ScriptedModels:
    """Models that answer from a script, one list of replies for each `provider/model-id`."""

    script: Mapping[str, Sequence[Reply]]
    api: str
    active: ModelInfo
    memory_dir: str = ""
    reasoning: bool = True
    exchanges: list[Exchange] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    _used: dict[str, int] = field(default_factory=dict)

    def resolve(self, query: ModelQuery) -> ResolvedModel:
        """Find a scripted model, or the active one."""
        if query.provider is None or query.model_id is None:
            return ResolvedModel("ok", self.active, query.thinking_level)
        info = ModelInfo(query.provider, query.model_id, self.api, reasoning=self.reasoning)
        if info.label not in self.script:
            return ResolvedModel("not_found")
        level: ThinkingLevel = query.thinking_level if self.reasoning else "off"
        return ResolvedModel("ok", info, level)

    async def stream(self, request: ModelRequest) -> ModelAnswer:
        """Answer a request with the next reply of its model; the last one repeats."""
        label = f"{request.provider}/{request.model_id}"
        self.exchanges.append(Exchange(request, anyio.current_time()))
        replies = self.script.get(label) or [Reply(text="")]
        number = self._used.get(label, 0)
        self._used[label] = number + 1
        reply = replies[min(number, len(replies) - 1)]
        try:
            await anyio.sleep(reply.delay)
            if reply.hang:
                await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(label)
            raise
        return _answer(_placed(reply, self.memory_dir), request, self.api)

    def requests_to(self, label: str) -> list[ModelRequest]:
        """Return the requests that one model has got, oldest first."""
        return [e.request for e in self.exchanges if f"{e.request.provider}/{e.request.model_id}" == label]


class Transcript:
    """A session's entries as a tree of which one branch is active."""

    def __init__(self) -> None:
        self._branch: list[JsonObject] = []
        self._ids = itertools.count(1)
        self._handles = itertools.count(1)
        self._handle = f"h{next(self._handles)}"

    @property
    def head(self) -> HistoryHead:
        """The end of the active branch."""
        return HistoryHead(self._handle, len(self._branch))

    @property
    def entries(self) -> Sequence[JsonObject]:
        """The active branch from its root."""
        return self._branch

    def append(self, entry: JsonObject) -> str:
        """Add an entry at the end of the branch and return its id."""
        entry_id = f"{next(self._ids):08x}"
        parent = self._branch[-1]["id"] if self._branch else None
        self._branch.append({"id": entry_id, "parentId": parent, **entry})
        return entry_id

    def move_to(self, entry_id: str | None) -> HistoryHead:
        """Make the branch that ends at an entry the active one."""
        ids = [entry["id"] for entry in self._branch]
        self._branch = self._branch[: ids.index(entry_id) + 1] if entry_id else []
        return self.renew()

    def renew(self) -> HistoryHead:
        """Give the branch a new handle, after a move or a compaction."""
        self._handle = f"h{next(self._handles)}"
        return self.head

    def read(self, handle: str, start: int, stop: int | None) -> Sequence[JsonObject]:
        """Return entries of the active branch; raises StaleHistoryError for another handle."""
        if handle != self._handle:
            raise StaleHistoryError(f"{handle} is not the active branch {self._handle}")
        return self._branch[start:stop]


@dataclass(slots=True)
class SimulatedHost:
    """Implements `Host` for one scripted session and keeps what it was told."""

    models: ScriptedModels
    transcript: Transcript = field(default_factory=Transcript)
    notices: list[tuple[NoticeLevel, str]] = field(default_factory=list)
    statuses: list[str | None] = field(default_factory=list)
    sent: list[HiddenMessage] = field(default_factory=list)
    history_reads: list[tuple[str, int, int | None]] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    section: str = ""
    main_requests: int = 0
    declared_tools: Sequence[JsonObject] = ()
    scratch: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    gone: bool = False
    _parents: Iterator[int] = field(default_factory=itertools.count)

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        """Look a model up in the script."""
        self._check()
        return self.models.resolve(query)

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        """Answer from the script."""
        self._check()
        return await self.models.stream(request)

    async def read_history(
        self, handle: str, start: int, stop: int | None, types: Sequence[str] | None = None
    ) -> Sequence[JsonObject]:
        """Return branch entries."""
        self._check()
        self.history_reads.append((handle, start, stop))
        entries = self.transcript.read(handle, start, stop)
        return [entry if types is None or entry["type"] in types else _outline(entry) for entry in entries]

    async def append_entry(self, custom_type: str, data: JsonObject) -> None:
        """Keep an entry on the branch."""
        self._check()
        self.transcript.append({"type": "custom", "customType": custom_type, "data": data})

    async def send_message(self, message: HiddenMessage) -> None:
        """Put a hidden message on the branch, where the next model call finds it."""
        self._check()
        self.sent.append(message)
        self.transcript.append(hidden_entry(message))

    async def capture_parent(self) -> ParentSnapshot:
        """Describe the main agent's request; its messages are those of the transcript."""
        self._check()
        return ParentSnapshot(
            handle=f"p{next(self._parents)}",
            requested=self.main_requests > 0,
            system_text=f"You are the main agent.\n\n{self.section}",
            model=self.models.active,
            section=self.section or None,
            tools=self.declared_tools,
        )

    async def release_parent(self, handle: str) -> None:
        """Note that a request need not be kept any more."""
        self._check()
        self.released.append(handle)

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        """Run the Python form of a tool, with the effects that were given."""
        self._check()
        context = ToolContext(Path(call.cwd), self.scratch, SearchingOps(ops))
        result = (await call_tool(call.tool, call.arguments, context)).to_wire()
        return ToolOutcome(result["content"], result["details"], result["isError"])

    async def codemode_loadout(self, _wanted: CodemodeWanted) -> CodemodeLoadout:
        """Say that no scripts are run here; a background run goes on without them."""
        raise HostError(NO_SCRIPTS)

    async def run_script(self, _script: Script, _call: ScriptTools) -> ScriptOutcome:
        """Say that no scripts are run here."""
        raise HostError(NO_SCRIPTS)

    async def notify(self, level: NoticeLevel, text: str) -> None:
        """Keep a notice."""
        self._check()
        self.notices.append((level, text))

    async def show_status(self, text: str | None) -> None:
        """Keep a status line."""
        self._check()
        self.statuses.append(text)

    def _check(self) -> None:
        if self.gone:
            raise HostError("the host is gone")


@dataclass(frozen=True, slots=True)
class SearchingOps:
    """Adds to the effects of a background tool the search that the Python form of `find` leaves to them."""

    inner: FileOps

    async def read_file(self, path: Path) -> bytes:
        """Return the whole content of a regular file."""
        return await _refused(self.inner.read_file(path))

    async def access(self, path: Path, *, write: bool = False) -> None:
        """Raise unless the file may be read (and written)."""
        await _refused(self.inner.access(path, write=write))

    async def write_file(self, path: Path, data: bytes) -> None:
        """Create the file or replace its content."""
        await _refused(self.inner.write_file(path, data))

    async def mkdir(self, path: Path) -> None:
        """Create the directory and its parents."""
        await _refused(self.inner.mkdir(path))

    async def exists(self, path: Path) -> bool:
        """Tell whether the path leads to something."""
        return await _refused(self.inner.exists(path))

    async def is_directory(self, path: Path) -> bool:
        """Tell whether the path is a directory."""
        return await _refused(self.inner.is_directory(path))

    async def glob(self, pattern: str, root: Path, limit: int) -> list[str]:
        """Search by itself, below a path that was allowed."""
        return await RealFileOps().glob(pattern, root, limit)


async def _refused(effect: Awaitable[T]) -> T:
    try:
        return await effect
    except OperationRefusedError as refused:
        raise ToolError(str(refused)) from None


def _outline(entry: JsonObject) -> JsonObject:
    return {key: entry[key] for key in ("id", "type")}


def hidden_entry(message: HiddenMessage) -> JsonObject:
    """Return a hidden message as a session keeps it."""
    return {
        "type": "custom_message",
        "customType": message.custom_type,
        "content": message.content,
        "display": message.display,
        "details": message.details,
    }


def message_entry(role: str, content: list[JsonObject], **fields: Any) -> JsonObject:
    """Return a message as a session keeps it."""
    return {"type": "message", "message": {"role": role, "content": content, **fields}}


def text_block(text: str) -> JsonObject:
    """Return a block of text."""
    return {"type": "text", "text": text}


def _placed(reply: Reply, memory_dir: str) -> Reply:
    """Return the reply with the memory directory in the place of `{{memory}}`."""
    if reply.calls is None:
        return reply
    text = msgspec.json.encode(reply.calls).decode().replace("{{memory}}", memory_dir)
    return msgspec.structs.replace(reply, calls=msgspec.json.decode(text, type=list[ToolUse]))


def _answer(reply: Reply, request: ModelRequest, api: str) -> ModelAnswer:
    if reply.error is not None:
        message = _message([], request, api, "error", errorMessage=reply.error.message)
        return ModelAnswer(message, reply.error.status)
    if reply.calls is not None:
        calls = [_call(number, call.tool, call.arguments) for number, call in enumerate(reply.calls)]
        return ModelAnswer(_message(calls, request, api, "toolUse"), 200)
    if reply.choose is not None and request.tools:
        call = _call(0, TOOL_NAME, {"selected_memories": reply.choose})
        return ModelAnswer(_message([call], request, api, "toolUse"), 200)
    return ModelAnswer(_message([text_block(_text(reply))], request, api, reply.stop), 200)


def _text(reply: Reply) -> str:
    if reply.choose is None:
        return reply.text or ""
    import orjson

    return orjson.dumps({"selected_memories": reply.choose}).decode()


def _call(number: int, name: str, arguments: JsonObject) -> JsonObject:
    return {"type": "toolCall", "id": f"call-{number}", "name": name, "arguments": arguments}


def _message(
    content: list[JsonObject], request: ModelRequest, api: str, stop: str, **fields: Any
) -> JsonObject:
    usage = {
        "input": 100,
        "output": 10,
        "cacheRead": 0,
        "cacheWrite": 0,
        "totalTokens": 110,
        "cost": {"input": 0.0001, "output": 0.0002, "cacheRead": 0, "cacheWrite": 0, "total": 0.0003},
    }
    return {
        "role": "assistant",
        "content": content,
        "api": api,
        "provider": request.provider,
        "model": request.model_id,
        "stopReason": stop,
        "usage": usage,
        "timestamp": 0,
        **fields,
    }
