"""Calls the six restricted tools for a background run (SUB-1 to SUB-6)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

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
from pi_project_memory.actors.subagent.path_policy import resolve_read, resolve_write
from pi_project_memory.actors.subagent.refusal import Refusal
from pi_project_memory.actors.subagent.scratch import adopt_log

COMMAND_SECONDS = 60
"""How long a command may run when the model sets no bound, in seconds."""

MOST_ARGUMENT_UNITS = 2_000_000
"""Characters of one argument; more is refused before a tool sees it."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one run; a call never raises for what a model did, it answers with what to do."""

    host: ToolHost
    files: RunFiles
    scratch: Path

    async def call(self, call_id: str, tool: str, arguments: object) -> ToolOutcome:
        """Run one call.

        Raises what `RunFiles.check` raises when the run has lost its rights, and StorageFailedError when
        the memory cannot be written.
        """
        self.files.check()
        started = anyio.current_time()
        try:
            outcome = await self._run(call_id, tool, arguments)
        except (OperationRefusedError, HostError) as refused:
            outcome = _error(str(refused))
        took = round((anyio.current_time() - started) * 1000, 1)
        self.files.trace.event(
            "tool_called",
            tool=tool if tool in TOOL_NAMES else "unknown",
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
            raise OperationRefusedError(f"There is no tool {tool} here. Use {', '.join(TOOL_NAMES)}.")
        given = _checked(arguments)
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
        invocation = ToolInvocation(call_id, tool, arguments, str(self.files.cwd))
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
        bounded = {"timeout": COMMAND_SECONDS, **arguments}
        outcome = await self._execute(call_id, "bash", bounded, GuardedFiles(self.files))
        await in_worker(self._note_removals, there)
        return await in_worker(self._adopt_output, outcome)

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

    def _adopt_output(self, outcome: ToolOutcome) -> ToolOutcome:
        """Bring the full output of a long command into scratch and name it there."""
        log = (outcome.details or {}).get("fullOutputPath")
        if not isinstance(log, str):
            return outcome
        try:
            kept = str(adopt_log(log, self.scratch))
        except OSError:
            return outcome
        content = [_renamed(block, log, kept) for block in outcome.content]
        return ToolOutcome(content, {**(outcome.details or {}), "fullOutputPath": kept}, outcome.is_error)


def _renamed(block: JsonObject, old: str, new: str) -> JsonObject:
    text = block.get("text")
    return {**block, "text": text.replace(old, new)} if isinstance(text, str) else block


def _checked(arguments: object) -> JsonObject:
    """Return the arguments if they are an object of a sane size."""
    if not isinstance(arguments, dict):
        raise OperationRefusedError("The arguments are no JSON object. Call the tool again with one.")
    for name, value in arguments.items():
        if isinstance(value, str) and len(value) > MOST_ARGUMENT_UNITS:
            raise OperationRefusedError(f"`{name}` is too long ({len(value)} characters). Use far less.")
    return arguments


def _error(text: str) -> ToolOutcome:
    return ToolOutcome([{"type": "text", "text": text}], None, is_error=True)
