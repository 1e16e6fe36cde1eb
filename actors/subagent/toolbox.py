"""Calls the six restricted tools for a background run (SUB-1 to SUB-6)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from pi_project_memory.actors.ports.codemode import CODEMODE
from pi_project_memory.actors.ports.host import HostError, JsonObject
from pi_project_memory.actors.ports.tools import (
    TOOL_NAMES,
    OperationRefusedError,
    ToolHost,
    ToolInvocation,
    ToolOutcome,
)
from pi_project_memory.actors.ports.trace import Private
from pi_project_memory.actors.ports.worker import in_worker
from pi_project_memory.actors.subagent.bash_policy import Allowed, check_command
from pi_project_memory.actors.subagent.guarded_files import GuardedFiles, RunFiles
from pi_project_memory.actors.subagent.overflow import adopt_files
from pi_project_memory.actors.subagent.path_policy import resolve_read, resolve_write
from pi_project_memory.actors.subagent.refusal import Refusal

COMMAND_SECONDS = 60
"""How long a command may run when the model sets no bound, in seconds."""

MOST_ARGUMENT_UNITS = 2_000_000
"""Characters of all the texts of one argument; more is refused before a tool sees it."""

_INVOCATIONS = itertools.count(1)
"""A model may repeat the id of a call, and two runs may be under way: the host needs one of ours."""

_TRACED = {*TOOL_NAMES, CODEMODE}


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one run; a call never raises for what a model did, it answers with what to do.

    Outcomes have their form for programs too where they are `structured`.
    """

    host: ToolHost
    files: RunFiles
    scratch: Path
    structured: bool = False

    async def call(self, call_id: str, tool: str, arguments: object) -> ToolOutcome:
        """Run one call.

        Raises what `RunFiles.check` raises when the run has lost its rights, and StorageFailedError when
        the memory cannot be written.
        """
        return await self.watched(tool, arguments, partial(self._run, call_id, tool, arguments))

    async def watched(
        self, tool: str, arguments: object, work: Callable[[], Awaitable[ToolOutcome]]
    ) -> ToolOutcome:
        """Do the work of one call between two looks at the run's rights, and trace it; raises as `call` does."""
        self.files.check()
        started = anyio.current_time()
        try:
            outcome = await work()
        except (OperationRefusedError, HostError) as refused:
            outcome = _error(str(refused))
        took = round((anyio.current_time() - started) * 1000, 1)
        self.files.trace.event(
            "tool_called",
            tool=tool if tool in _TRACED else "unknown",
            failed=outcome.is_error,
            ms=took,
            arguments=Private(arguments),
            result=Private(outcome.content),
        )
        self.files.check()
        if self.files.failure is not None:
            raise self.files.failure
        return outcome

    async def _run(self, call_id: str, tool: str, arguments: object) -> ToolOutcome:
        if tool not in TOOL_NAMES:
            raise OperationRefusedError(f"There is no tool {tool[:64]} here. Use {', '.join(TOOL_NAMES)}.")
        given = checked(arguments)
        match tool:
            case "bash":
                return await self._bash(call_id, given)
            case "find" | "grep":
                given = await in_worker(self._searchable, given)
            case "edit":
                await in_worker(self._require_editable, given)
        operations = GuardedFiles(self.files)
        outcome = await self._execute(call_id, tool, given, operations)
        if tool == "read" and not outcome.is_error:
            self._judge_read(given, outcome, operations)
        return outcome

    async def _execute(
        self, call_id: str, tool: str, arguments: JsonObject, operations: GuardedFiles
    ) -> ToolOutcome:
        self.files.check()
        cwd = str(self.files.cwd)
        invocation = ToolInvocation(unique(call_id), tool, arguments, cwd, self.structured)
        return await self.host.execute_tool(invocation, operations)

    async def _bash(self, call_id: str, arguments: JsonObject) -> ToolOutcome:
        command = arguments.get("command")
        if not isinstance(command, str):
            raise OperationRefusedError("bash needs its command as a text in `command`.")
        verdict = await in_worker(lambda: self._check_command(command))
        if not isinstance(verdict, Allowed):
            raise OperationRefusedError(str(verdict))
        there = await in_worker(lambda: [path for path in verdict.removals if path.exists()])
        for path in there:
            self.files.on_touch(self.files.relative(path))
        bound = arguments.get("timeout")
        bounded = {**arguments, "timeout": COMMAND_SECONDS if bound is None else bound}
        outcome = await self._execute(call_id, "bash", bounded, GuardedFiles(self.files))
        await in_worker(self._note_removals, there)
        return await in_worker(adopt_files, outcome, self.scratch)

    def _check_command(self, command: str) -> Allowed | Refusal:
        files = self.files
        return check_command(command, cwd=files.cwd, roots=files.roots, memory_root=files.memory_root)

    def _searchable(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments with the real directory to search, which holds nothing that is excluded."""
        shown = arguments.get("path") or "."
        if not isinstance(shown, str):
            raise OperationRefusedError("`path` must be a text.")
        target = resolve_read(shown, self.files.cwd, self.files.roots)
        if isinstance(target, Refusal):
            raise OperationRefusedError(str(target))
        hidden = self.files.roots.hidden_below(target)
        if hidden is not None:
            raise OperationRefusedError(
                f"Refused: {shown}: {hidden} inside it is closed to this run. Search a directory beside it."
            )
        return {**arguments, "path": str(target)}

    def _require_editable(self, arguments: JsonObject) -> None:
        """Refuse an edit of an unknown file before the tool has read it and offered its text."""
        path = arguments.get("path")
        if not isinstance(path, str):
            return  # the tool itself says what is missing
        target = resolve_write(path, self.files.cwd, self.files.memory_root)
        if isinstance(target, Refusal):
            raise OperationRefusedError(str(target))
        with contextlib.suppress(FileNotFoundError):
            GuardedFiles(self.files).require_known(target)

    def _judge_read(
        self, arguments: Mapping[str, Any], outcome: ToolOutcome, operations: GuardedFiles
    ) -> None:
        truncation = (outcome.details or {}).get("truncation")
        truncated = bool(isinstance(truncation, dict) and truncation.get("truncated"))
        image = any(block.get("type") == "image" for block in outcome.content)
        for seen in operations.seen:
            self.files.baselines.after_read(seen, arguments, truncated=truncated, image=image)

    def _note_removals(self, there: list[Path]) -> None:
        for path in there:
            if not path.exists():
                self.files.baselines.forget(path)
                self.files.changes.note(self.files.relative(path), "deleted")


def unique(call_id: str) -> str:
    """Return an id of ours for a call."""
    return f"{call_id}#{next(_INVOCATIONS)}"


def checked(arguments: object) -> JsonObject:
    """Return the arguments if they are an object of a sane size."""
    if not isinstance(arguments, dict):
        raise OperationRefusedError("The arguments are no JSON object. Call the tool again with one.")
    for name, value in arguments.items():
        length = len(name) + _text_length(value)
        if length > MOST_ARGUMENT_UNITS:
            raise OperationRefusedError(f"`{name[:64]}` is too long ({length} characters). Use far less.")
    return arguments


def _text_length(value: object) -> int:
    """Return how many characters a JSON value holds."""
    waiting, length = [value], 0
    while waiting:
        match waiting.pop():
            case str(text):
                length += len(text)
            case list(items):
                waiting.extend(items)
            case dict(fields):
                waiting.extend((*fields.keys(), *fields.values()))
    return length


def _error(text: str) -> ToolOutcome:
    return ToolOutcome([{"type": "text", "text": text}], None, is_error=True)
