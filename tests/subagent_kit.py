"""A project, its memory and what surrounds them, for the tools of a background run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pi_project_memory.actors.ports.publish import REAL_DISK, DiskOps
from pi_project_memory.actors.ports.tools import FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent.baseline import Baselines
from pi_project_memory.actors.subagent.guarded_files import GuardedFiles, RunFiles
from pi_project_memory.actors.subagent.path_policy import ReadRoots, read_roots
from pi_project_memory.actors.subagent.toolbox import Toolbox
from pi_project_memory.supervisor.host.simulated import SearchingOps
from pi_project_memory.supervisor.host.tools.base import ToolContext
from pi_project_memory.supervisor.host.tools.registry import call_tool

OUTSIDE = "what lies outside\n"


@dataclass
class Yard:
    """Real directories below `root`; `lost` is why the run has no rights any more, "" while it has."""

    root: Path
    lost: str = ""
    touched: list[str] = field(default_factory=list)
    trace: RecordedTrace = field(default_factory=RecordedTrace)

    def __post_init__(self) -> None:
        for folder in (
            self.memory,
            self.project / "src",
            self.agent,
            self.sessions,
            self.outside,
            self.scratch,
        ):
            folder.mkdir(parents=True)
        put(self.outside / "secret.md", OUTSIDE)
        put(self.agent / "auth.json", OUTSIDE)
        put(self.sessions / "s.jsonl", OUTSIDE)
        put(self.project / "src" / "a.py", "print(1)\n")
        put(self.memory / "a.md", "one\ntwo\n")
        put(self.memory / "MEMORY.md", "- [A](a.md)\n")

    @property
    def memory(self) -> Path:
        return self.root / "memory"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def agent(self) -> Path:
        return self.root / "agent"

    @property
    def sessions(self) -> Path:
        return self.project / ".sessions"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def roots(self) -> ReadRoots:
        return read_roots(
            project=[self.project],
            own=[self.memory, self.scratch],
            agent_dir=self.agent,
            excluded=[self.sessions],
        )

    def check(self) -> None:
        if self.lost:
            raise AbortedError(self.lost)

    def files(self, ops: DiskOps = REAL_DISK, memory: Path | None = None) -> RunFiles:
        return RunFiles(
            self.project, memory or self.memory, self.roots, self.check, self.touched.append, self.trace, ops
        )

    def toolbox(self, files: RunFiles | None = None, host: Any = None) -> Toolbox:
        return Toolbox(host or LocalHost(self.scratch), files or self.files(), self.scratch)


@dataclass
class LocalHost:
    """Runs the Python forms of the tools and keeps each call; `before` runs ahead of a tool."""

    scratch: Path
    calls: list[ToolInvocation] = field(default_factory=list)
    before: Callable[[ToolInvocation], None] = lambda _: None

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        self.calls.append(call)
        self.before(call)
        context = ToolContext(Path(call.cwd), self.scratch, SearchingOps(ops))
        result = (await call_tool(call.tool, call.arguments, context)).to_wire()
        return ToolOutcome(result["content"], result["details"], result["isError"])


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def names(folder: Path) -> list[str]:
    """Return everything below a folder, temporary files and links included."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        name: (folder / name).read_bytes()
        for name in names(folder)
        if (folder / name).is_file() and not (folder / name).is_symlink()
    }


async def learn(files: RunFiles, path: Path) -> None:
    """Read a file whole, as a run does before it changes it."""
    guard = GuardedFiles(files)
    await guard.read_file(path)
    files.baselines.after_read(guard.seen[-1], {}, truncated=False, image=False)


def failing(code: int, after: int = 0) -> Callable[..., Any]:
    """Return a disk call that fails with `code`, the first `after` times not."""
    calls = iter(range(after))

    def fail(*arguments: Any) -> Any:
        for _ in calls:
            return os.write(*arguments)
        raise OSError(code, os.strerror(code))

    return fail


def text_of(outcome: ToolOutcome) -> str:
    return "\n".join(block.get("text", "") for block in outcome.content)


__all__ = [
    "OUTSIDE",
    "Baselines",
    "LocalHost",
    "Yard",
    "contents",
    "failing",
    "learn",
    "names",
    "put",
    "text_of",
]
