"""The write tool: a whole file, created or replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pi_project_memory.supervisor.host.tools.base import ToolContext, ToolResult
from pi_project_memory.supervisor.host.tools.oserrors import told_as
from pi_project_memory.supervisor.host.tools.paths import resolve
from pi_project_memory.supervisor.host.tools.truncation import encode


async def execute(params: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """Write `content` to `path` as UTF-8, creating missing directories. Raises ToolError when that fails."""
    path = resolve(params["path"], ctx.cwd)
    with told_as("realpath", path):
        async with ctx.locks.hold(path):
            with told_as("mkdir", path.parent):
                await ctx.ops.mkdir(path.parent)
            with told_as("open", path):
                await ctx.ops.write_file(path, encode(params["content"]))
    return ToolResult.of_text(f"Successfully wrote to {params['path']}")
