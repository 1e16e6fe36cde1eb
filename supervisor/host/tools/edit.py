"""The edit tool: exact replacements in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import anyio.to_thread

from pi_project_memory.supervisor.host.tools.base import ToolContext, ToolError, ToolResult
from pi_project_memory.supervisor.host.tools.changes import edit_details
from pi_project_memory.supervisor.host.tools.matching import Edit, plan, rejoin, to_lf
from pi_project_memory.supervisor.host.tools.oserrors import error_code, told_as
from pi_project_memory.supervisor.host.tools.paths import resolve
from pi_project_memory.supervisor.host.tools.truncation import encode

_BOM = "\ufeff"


def prepare(arguments: Any) -> Any:
    """Return the arguments with `edits` as a list.

    Models also send it as JSON text, as a single edit, or as `oldText` and `newText` beside the path.
    """
    if not isinstance(arguments, dict):
        return arguments
    prepared = dict(arguments)
    edits = prepared.get("edits")
    if isinstance(edits, str):
        edits = _parsed(edits)
    if _is_edit(edits):
        edits = [edits]
    if isinstance(edits, list):
        prepared["edits"] = edits
    if _is_edit(prepared):
        beside = {name: prepared.pop(name) for name in ("oldText", "newText")}
        prepared["edits"] = [*(edits if isinstance(edits, list) else []), beside]
    return prepared


def _is_edit(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), str) for name in ("oldText", "newText")
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


async def execute(params: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """Make every replacement of `edits` in the file at `path`, or none.

    All are matched against the file as it was. `details` holds `diff`, `patch` and `firstChangedLine`. Raises
    ToolError when the file cannot be read and written or an edit does not apply.
    """
    path = params["path"]
    edits = [Edit(edit["oldText"], edit["newText"]) for edit in params["edits"]]
    if not edits:
        raise ToolError("Edit tool input is invalid. edits must contain at least one replacement.")
    file = resolve(path, ctx.cwd)
    with told_as("realpath", file):
        async with ctx.locks.hold(file):
            text = await _load(file, path, ctx)
            new, details = await anyio.to_thread.run_sync(_edited, text, edits, path)
            with told_as("open", file):
                await ctx.ops.write_file(file, encode(new))
    return ToolResult.of_text(f"Successfully replaced {len(edits)} block(s) in {path}.", details)


async def _load(file: Path, path: str, ctx: ToolContext) -> str:
    try:
        await ctx.ops.access(file, write=True)
    except OSError as error:
        raise ToolError(f"Could not edit file: {path}. Error code: {error_code(error)}.") from error
    with told_as("read", file):
        return (await ctx.ops.read_file(file)).decode(errors="replace")


def _edited(text: str, edits: list[Edit], path: str) -> tuple[str, dict[str, Any]]:
    """Return the new text and its details; a byte order mark takes no part in the matching."""
    mark = text[: text.startswith(_BOM)]
    original = text[len(mark) :]
    changes = plan(to_lf(original), edits, path)
    return mark + rejoin(original, changes), edit_details(path, to_lf(original), changes)
