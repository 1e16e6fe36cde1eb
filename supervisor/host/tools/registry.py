"""The six tools by name, and calling one the way Pi's agent loop does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pi_project_memory.supervisor.host.tools import bash, edit, find, grep, read, write
from pi_project_memory.supervisor.host.tools.arguments import checked_arguments
from pi_project_memory.supervisor.host.tools.base import ToolContext, ToolError, ToolResult
from pi_project_memory.supervisor.host.tools.schemas import DECLARATIONS, ToolDeclaration

Execute = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]

_EXECUTE: Mapping[str, Execute] = {
    "read": read.execute,
    "find": find.execute,
    "grep": grep.execute,
    "write": write.execute,
    "edit": edit.execute,
    "bash": bash.execute,
}
_PREPARE: Mapping[str, Callable[[Any], Any]] = {"edit": edit.prepare}


@dataclass(frozen=True, slots=True)
class LocalTool:
    """A tool: how it is declared and how it runs. `execute` takes checked arguments and raises ToolError."""

    declaration: ToolDeclaration
    execute: Execute

    def arguments(self, given: Any) -> dict[str, Any]:
        """Return the arguments of a call as `execute` takes them. Raises ToolError for what does not fit."""
        name = self.declaration.name
        prepared = _PREPARE.get(name, lambda same: same)(given)
        return checked_arguments(name, self.declaration.parameters, prepared)


TOOLS: Mapping[str, LocalTool] = {
    declaration.name: LocalTool(declaration, _EXECUTE[declaration.name]) for declaration in DECLARATIONS
}


async def call_tool(name: str, arguments: Any, ctx: ToolContext) -> ToolResult:
    """Check `arguments` (JSON as a model sent it), run the tool, and return a failure as an error result.

    Cancelling the task ends the call: a command with its whole process group, a write only once it is done.
    """
    tool = TOOLS.get(name)
    if tool is None:
        return ToolResult.of_text(f"Tool {name} not found", is_error=True)
    try:
        return await tool.execute(tool.arguments(arguments), ctx)
    except ToolError as error:
        return ToolResult.of_text(str(error), is_error=True)
