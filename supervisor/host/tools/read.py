"""The read tool: a text file or a part of it, or a picture."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pi_project_memory.supervisor.host.tools import images
from pi_project_memory.supervisor.host.tools.base import (
    ImageBlock,
    TextBlock,
    ToolContext,
    ToolError,
    ToolResult,
)
from pi_project_memory.supervisor.host.tools.jsnumbers import number_text
from pi_project_memory.supervisor.host.tools.oserrors import told_as
from pi_project_memory.supervisor.host.tools.paths import other_spellings, resolve
from pi_project_memory.supervisor.host.tools.truncation import (
    MAX_BYTES,
    Truncation,
    byte_len,
    format_size,
    truncate_head,
)


async def execute(params: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """Return the file at `path`, from line `offset` (counted from 1) on and at most `limit` lines.

    Long text is cut with a note on how to go on, and `details.truncation` tells by how much. A picture comes
    as an image block. Raises ToolError when the file cannot be read or ends before `offset`.
    """
    data = await _load(resolve(params["path"], ctx.cwd), ctx)
    mime = images.mime_type(data)
    if mime is not None:
        return _picture(data, mime)
    text, truncation = shown_text(
        data.decode(errors="replace"), params["path"], params.get("offset"), params.get("limit")
    )
    return ToolResult.of_text(text, {"truncation": truncation.to_wire()} if truncation else None)


async def _load(path: Path, ctx: ToolContext) -> bytes:
    with told_as("access", path):
        try:
            return await ctx.ops.read_file(path)
        except FileNotFoundError:
            for spelling in other_spellings(path):
                if await ctx.ops.exists(spelling):
                    return await ctx.ops.read_file(spelling)
            raise


def _picture(data: bytes, mime: str) -> ToolResult:
    note = f"Read image file [{mime}]"
    if not images.fits(data, mime):
        omitted = "[Image omitted: could not be resized below the inline image size limit.]"
        return ToolResult.of_text(f"{note}\n{omitted}")
    return ToolResult((TextBlock(note), ImageBlock(base64.b64encode(data).decode(), mime)))


def shown_text(
    text: str, path: str, offset: float | None, limit: float | None
) -> tuple[str, Truncation | None]:
    """Return what the model sees of a file, and the truncation when the tool itself cut it.

    Raises ToolError when the file has no line `offset`.
    """
    lines = text.split("\n")
    start = max(0, offset - 1) if offset else 0
    if start >= len(lines):
        raise ToolError(f"Offset {number_text(offset or 0)} is beyond end of file ({len(lines)} lines total)")
    end = len(lines) if limit is None else min(start + limit, len(lines))
    cut = truncate_head("\n".join(lines[int(start) : int(end)]))
    if cut.first_line_exceeds_limit:
        return _too_long(start + 1, lines[int(start)], path), cut
    if cut.truncated:
        return cut.content + _cut_note(cut, start, len(lines)), cut
    if end < len(lines):
        left, following = number_text(len(lines) - end), number_text(end + 1)
        return f"{cut.content}\n\n[{left} more lines in file. Use offset={following} to continue.]", None
    return cut.content, None


def _too_long(number: float, line: str, path: str) -> str:
    line_number, size, limit = number_text(number), format_size(byte_len(line)), format_size(MAX_BYTES)
    way_out = f"sed -n '{line_number}p' {path} | head -c {MAX_BYTES}"
    return f"[Line {line_number} is {size}, exceeds {limit} limit. Use bash: {way_out}]"


def _cut_note(cut: Truncation, start: float, total: int) -> str:
    last = start + cut.output_lines
    shown = f"{number_text(start + 1)}-{number_text(last)} of {total}"
    limit = f" ({format_size(MAX_BYTES)} limit)" if cut.truncated_by == "bytes" else ""
    return f"\n\n[Showing lines {shown}{limit}. Use offset={number_text(last + 1)} to continue.]"
