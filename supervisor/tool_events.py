"""From a tool's result, as the host tells it, to what it means to the index."""

from __future__ import annotations

from pathlib import Path

from pi_project_memory.actors.mailbox import Reply
from pi_project_memory.actors.messages import ToolUsed
from pi_project_memory.supervisor.host.protocol import TOOL_RESULT_EVENTS, ToolResult
from pi_project_memory.supervisor.host.tools.base import ToolError
from pi_project_memory.supervisor.host.tools.paths import resolve


def tool_used(event: ToolResult, cwd: str) -> ToolUsed | None:
    """Return what a tool's result means to the index; None for a failed call and for other tools.

    What a script read has not been seen by the model, so a nested read counts for nothing.
    """
    if event.is_error or event.tool_name not in TOOL_RESULT_EVENTS:
        return None
    nobody: Reply[str | None] = Reply()
    if event.tool_name == "bash":
        command = event.input.get("command")
        return ToolUsed(0, nobody, "bash", "", command) if isinstance(command, str) else None
    path = _absolute(event.input.get("path"), cwd)
    if path is None or (event.nested and event.tool_name == "read"):
        return None
    return ToolUsed(
        0,
        nobody,
        event.tool_name,
        path,
        offset=_integer(event.input.get("offset")),
        limit=_integer(event.input.get("limit")),
        complete=not event.truncated and not event.has_image,
    )


def _absolute(path: object, cwd: str) -> str | None:
    if not isinstance(path, str):
        return None
    try:
        return str(resolve(path, Path(cwd)))
    except ToolError:
        return None


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
