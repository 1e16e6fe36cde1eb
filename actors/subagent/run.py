"""One background run, from its model to its last effect (EXT-6, SUB-1 to SUB-9).

The caller holds the run's lock. Everything the run takes, scratch and the parent's request, is given back on
every way out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

from pi_project_memory.actors.core.config import Role, ThinkingLevel
from pi_project_memory.actors.core.parent_request import obstacle
from pi_project_memory.actors.core.replay import ModelKey
from pi_project_memory.actors.core.sanitize import sanitize
from pi_project_memory.actors.ports.host import (
    HostError,
    HostPorts,
    JsonObject,
    ModelInfo,
    ModelRequest,
    Models,
    ParentSnapshot,
    StreamOptions,
)
from pi_project_memory.actors.ports.locks import LockHandle
from pi_project_memory.actors.ports.tools import ToolHost
from pi_project_memory.actors.ports.trace import LabelledTrace, Trace, fault
from pi_project_memory.actors.ports.worker import in_worker
from pi_project_memory.actors.prompts import fill, prompt
from pi_project_memory.actors.subagent.changes import Change
from pi_project_memory.actors.subagent.codemode import Codemode, Scripting, inherit_codemode
from pi_project_memory.actors.subagent.guarded_files import RunFiles
from pi_project_memory.actors.subagent.loop import BackgroundLoop, LoopResult
from pi_project_memory.actors.subagent.path_policy import ReadRoots, read_roots
from pi_project_memory.actors.subagent.scratch import PREFIX, scratch_directory
from pi_project_memory.actors.subagent.toolbox import Toolbox

HEADING = "## Background memory task tools"
RELEASE_SECONDS = 5.0
"""How long a host may take to let go of what it kept for a run."""


class BackgroundHost(HostPorts, ToolHost, Protocol):
    """What a run needs of a host."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What all runs of a session have in common.

    `native_tools` are the host's declarations of the six tools; `worktree` holds the session's `cwd`;
    `codemode` is the parent's, None where the host runs no scripts.
    """

    host: BackgroundHost
    trace: Trace
    session_id: str
    cwd: Path
    memory_dir: Path
    agent_dir: Path
    project_root: Path
    worktree: Path
    session_dir: Path | None
    native_tools: Sequence[JsonObject]
    codemode: Codemode | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: who does it with which model, what it is told, and where it may look.

    `conversation` gives the messages of an independent request for a model; `rules` is the memory section
    to add where the parent's prompt lacks it; `check` raises when the run has lost its rights. `compacted`
    says that the parent's request does not hold the whole conversation any more.
    """

    role: Role
    model: ModelInfo
    level: ThinkingLevel
    max_tokens: int | None
    max_turns: int
    task: str
    rules: str
    conversation: Callable[[ModelKey], Sequence[JsonObject]]
    check: Callable[[], None]
    on_turn: Callable[[int], None]
    on_touch: Callable[[str], None]
    recent_messages: int | None = None
    compacted: bool = False
    reads_sessions: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to; `independent` says why it did not continue the parent's request, if it did not."""

    result: LoopResult
    changes: dict[str, Change]
    independent: str


async def execute(workshop: Workshop, plan: Plan, models: Models, lock: LockHandle) -> Report:
    """Run to the end.

    Raises AbortedError, HostError, StorageFailedError, LockLostError, or OSError of the scratch directory.
    """
    trace = LabelledTrace(workshop.trace, {"actor": plan.role})
    async with scratch_directory() as scratch, _parent_request(workshop, trace) as parent:
        roots = await in_worker(lambda: _roots(workshop, plan, scratch))
        files = RunFiles(workshop.cwd, workshop.memory_dir, roots, plan.check, plan.on_touch, trace)
        independent = _why_independent(workshop, plan, parent)
        scripting = await inherit_codemode(workshop.codemode, parent, trace)
        opening = _opening(workshop, plan, roots, parent, independent, scripting)

        async def before_turn(turn: int) -> None:
            plan.check()
            if not await lock.still_held():
                raise LockLostError(f"the lock of the {plan.role} run was taken by another process")
            plan.on_turn(turn)

        six = Toolbox(workshop.host, files, scratch)
        tools = six if scripting is None else scripting.toolbox(six)
        loop = BackgroundLoop(models, tools, opening.request, plan.max_turns, before_turn)
        result = await loop.run()
        plan.check()
        return Report(result, files.changes.changes, independent)


class LockLostError(Exception):
    """Another process holds the lock that this run was begun under."""


def key_of(model: ModelInfo) -> ModelKey:
    """Return which model this is, as messages name theirs."""
    return (model.provider, model.api, model.id)


@asynccontextmanager
async def _parent_request(workshop: Workshop, trace: Trace) -> AsyncIterator[ParentSnapshot | None]:
    """Have the host keep the parent's request for the length of the block; None where it has none."""
    try:
        snapshot = await workshop.host.capture_parent()
    except HostError as error:
        trace.event("parent_not_captured", **fault(error))
        yield None
        return
    try:
        yield snapshot
    finally:
        with suppress(HostError), anyio.move_on_after(RELEASE_SECONDS, shield=True):
            await workshop.host.release_parent(snapshot.handle)


def _roots(workshop: Workshop, plan: Plan, scratch: Path) -> ReadRoots:
    own = [workshop.memory_dir, scratch]
    sessions = [] if workshop.session_dir is None else [workshop.session_dir]
    return read_roots(
        project=(workshop.project_root, workshop.worktree),
        own=[*own, *sessions] if plan.reads_sessions else own,
        agent_dir=workshop.agent_dir,
        excluded=() if plan.reads_sessions else sessions,
    )


def _why_independent(workshop: Workshop, plan: Plan, parent: ParentSnapshot | None) -> str:
    if parent is None:
        return "the host keeps no request of the main agent"
    return obstacle(
        requested=parent.requested,
        parent_model=key_of(parent.model) if parent.model else None,
        model=key_of(plan.model),
        recent_messages=plan.recent_messages,
        compacted=plan.compacted,
        images_blocked=parent.images_blocked,
        forced_prompt=parent.forced_prompt,
        hidden_tools=parent.hidden_tools,
        parent_tools=parent.tools,
        native_tools=workshop.native_tools,
    )


@dataclass(frozen=True, slots=True)
class _Opening:
    """What every request of a run begins with."""

    model: ModelInfo
    options: StreamOptions
    messages: Sequence[JsonObject]
    parent: str | None = None
    system_prompt: str | None = None
    tools: Sequence[JsonObject] = ()

    def request(self, added: Sequence[JsonObject]) -> ModelRequest:
        """Return the request that carries what the run has added so far."""
        return ModelRequest(
            provider=self.model.provider,
            model_id=self.model.id,
            messages=[*self.messages, *added],
            options=self.options,
            system_prompt=self.system_prompt,
            tools=self.tools,
            parent=self.parent,
        )


def _opening(
    workshop: Workshop,
    plan: Plan,
    roots: ReadRoots,
    parent: ParentSnapshot | None,
    independent: str,
    scripting: Scripting | None = None,
) -> _Opening:
    """Continue the parent's request with one user message, or open a conversation of the run's own."""
    options = StreamOptions(
        max_tokens=plan.max_tokens,
        reasoning=None if plan.level == "off" else plan.level,
        cache_retention="short",
        session_id=workshop.session_id,
        disable_continuation=True,
    )
    section = "\n".join([tool_section(workshop, roots), *([prompt("tool_codemode")] if scripting else [])])
    rules = [] if parent is not None and parent.section else [plan.rules]
    if parent is not None and not independent:
        message = user_message("\n\n".join([*rules, section, plan.task]))
        return _Opening(plan.model, options, [message], parent=parent.handle)
    system = [parent.system_text] if parent is not None and parent.system_text else []
    return _Opening(
        plan.model,
        options,
        [*plan.conversation(key_of(plan.model)), user_message(plan.task)],
        system_prompt="\n\n".join([*system, *rules, section]),
        tools=scripting.declarations(workshop.native_tools) if scripting else workshop.native_tools,
    )


def tool_section(workshop: Workshop, roots: ReadRoots) -> str:
    """Return the section that tells a run what it may use, where (PRM-1)."""
    return fill(
        prompt("tool_section"),
        cwd=sanitize(str(workshop.cwd)),
        memory_directory=sanitize(str(workshop.memory_dir)),
        read_roots=sanitize(", ".join(map(str, _lasting(roots)))),
    )


def _lasting(roots: ReadRoots) -> list[Path]:
    """Return the readable directories without scratch: another name each time would miss every cache."""
    return [root for root in roots.allowed if not root.name.startswith(PREFIX)]


def user_message(text: str) -> JsonObject:
    """Return a user's message of one text."""
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}
