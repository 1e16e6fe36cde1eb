"""The find tool: paths by glob pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pi_project_memory.supervisor.host.tools.base import ToolContext, ToolError, ToolResult
from pi_project_memory.supervisor.host.tools.paths import resolve
from pi_project_memory.supervisor.host.tools.truncation import (
    MAX_BYTES,
    UNLIMITED_LINES,
    at_least_one,
    format_size,
    truncate_head,
)

DEFAULT_LIMIT = 1000


async def execute(params: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """List the paths that match `pattern` below `path`, at most `limit`, relative to it.

    Raises ToolError when `path` does not exist or the pattern is malformed.
    """
    root = resolve(params.get("path") or ".", ctx.cwd)
    limit = at_least_one(params.get("limit", DEFAULT_LIMIT))
    if not await ctx.ops.exists(root):
        raise ToolError(f"Path not found: {root}")
    # One more than shown tells "exactly as many" from "more".
    return _listed(await ctx.ops.glob(params["pattern"], root, limit + 1), limit)


def _listed(paths: list[str], limit: int) -> ToolResult:
    if not paths:
        return ToolResult.of_text("No files found matching pattern")
    cut = truncate_head("\n".join(paths[:limit]), UNLIMITED_LINES)
    details: dict[str, Any] = {}
    notices = []
    if len(paths) > limit:
        notices.append(f"{limit} results limit reached")
        details["resultLimitReached"] = limit
    if cut.truncated:
        notices.append(f"{format_size(MAX_BYTES)} limit reached")
        details["truncation"] = cut.to_wire()
    note = f"\n\n[{'. '.join(notices)}]" if notices else ""
    return ToolResult.of_text(cut.content + note, details)
