"""Where one case of an extraction evaluation is played: temporary directories and a session in writing."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from pi_project_memory.actors.ports.host import (
    HiddenMessage,
    HistoryHead,
    JsonObject,
    ModelAnswer,
    ModelQuery,
    ModelRequest,
    NoticeLevel,
    ParentSnapshot,
    ResolvedModel,
)
from pi_project_memory.actors.ports.private_dirs import make_private
from pi_project_memory.actors.ports.publish import REAL_DISK
from pi_project_memory.actors.ports.tools import FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.ports.worker import in_worker
from pi_project_memory.actors.subagent.run import Workshop
from pi_project_memory.supervisor.evaluate.hosts import EvaluatedHost

AGENT_PROMPT = "You are a coding agent. You work on the user's project with the tools that you are given."
"""Stands where the main agent's own instructions would: an extraction is told those of its parent."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The directories of one case below `root`."""

    root: Path

    @property
    def memory(self) -> Path:
        """The memory directory."""
        return self.root / "memory"

    @property
    def project(self) -> Path:
        """The project and working directory, which is empty."""
        return self.root / "project"

    @property
    def locks(self) -> Path:
        """Where the lock of the run lies."""
        return self.root / "locks"

    def workshop(self, host: CaseHost, tools: Sequence[JsonObject], session_id: str) -> Workshop:
        """Return what a run in these directories relies on."""
        return Workshop(
            host=host,
            trace=RecordedTrace(),
            session_id=session_id,
            cwd=self.project,
            memory_dir=self.memory,
            agent_dir=self.root / "agent",
            project_root=self.project,
            worktree=self.project,
            session_dir=None,
            native_tools=tools,
        )

    async def contents(self) -> dict[str, str]:
        """Return the files of the memory directory by path."""
        return await in_worker(self._read)

    def _read(self) -> dict[str, str]:
        files = sorted(path for path in self.memory.rglob("*") if path.is_file())
        return {
            path.relative_to(self.memory).as_posix(): path.read_text(encoding="utf-8", errors="replace")
            for path in files
        }


@asynccontextmanager
async def open_stage(memory: Mapping[str, str]) -> AsyncIterator[Stage]:
    """Lay out a memory in directories that are gone after the block."""
    folder = await in_worker(lambda: tempfile.TemporaryDirectory(prefix="ppm-"))
    try:
        yield await in_worker(_lay_out, folder.name, memory)
    finally:
        with anyio.CancelScope(shield=True):
            await in_worker(folder.cleanup)


def _lay_out(folder: str, memory: Mapping[str, str]) -> Stage:
    stage = Stage(Path(folder).resolve())
    for directory in (stage.memory, stage.project, stage.locks):
        make_private(str(directory), REAL_DISK)
    for path, text in memory.items():
        make_private(str((stage.memory / path).parent), REAL_DISK)
        (stage.memory / path).write_text(text, encoding="utf-8")
    return stage


@dataclass(frozen=True, slots=True)
class CaseHost:
    """The evaluated host's models and tools, with the session of one case around them."""

    case: str
    inner: EvaluatedHost
    entries: Sequence[JsonObject]

    @property
    def head(self) -> HistoryHead:
        """The end of the conversation."""
        return HistoryHead(self.case, len(self.entries))

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        """Ask the evaluated host."""
        return await self.inner.resolve_model(query)

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        """Ask the evaluated host."""
        return await self.inner.stream_model(request)

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        """Have the evaluated host run the call."""
        return await self.inner.execute_tool(call, ops)

    async def read_history(
        self, _handle: str, start: int, stop: int | None, _types: Sequence[str] | None = None
    ) -> Sequence[JsonObject]:
        """Return a part of the conversation."""
        return self.entries[start:stop]

    async def capture_parent(self) -> ParentSnapshot:
        """Tell that there is no request of a main agent to continue."""
        return ParentSnapshot(self.case, requested=False, system_text=AGENT_PROMPT)

    async def release_parent(self, handle: str) -> None:
        """Nothing was kept."""

    async def append_entry(self, custom_type: str, data: JsonObject) -> None:
        """No session is kept."""

    async def send_message(self, message: HiddenMessage) -> None:
        """No main agent listens."""

    async def notify(self, level: NoticeLevel, text: str) -> None:
        """Tell nothing: the report does."""

    async def show_status(self, text: str | None) -> None:
        """There is no status line."""
