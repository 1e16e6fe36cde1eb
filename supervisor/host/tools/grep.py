"""The grep tool: lines that match, found by ripgrep."""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cache
from math import floor
from pathlib import Path
from typing import Any

import orjson

from pi_project_memory.supervisor.host.tools.base import ToolContext, ToolError, ToolResult
from pi_project_memory.supervisor.host.tools.paths import resolve
from pi_project_memory.supervisor.host.tools.processes import child, pipe, read_lines
from pi_project_memory.supervisor.host.tools.truncation import (
    MAX_BYTES,
    MAX_GREP_UNITS,
    UNLIMITED_LINES,
    at_least_one,
    byte_len,
    format_size,
    truncate_head,
    truncate_line,
)

DEFAULT_LIMIT = 100
_FIXED = ("--no-config", "--json", "--line-number", "--color=never", "--hidden", "--sort=path")
_NO_MATCH = 1


async def execute(params: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """Show the lines below `path` that match `pattern`, sorted by file, at most `limit` matches.

    `context` lines around each match come too. Raises ToolError when `path` does not exist, ripgrep is
    missing or refuses the pattern.
    """
    root = resolve(params.get("path") or ".", ctx.cwd)
    try:
        in_directory = await ctx.ops.is_directory(root)
    except OSError as error:
        raise ToolError(f"Path not found: {root}") from error
    context = min(floor(params.get("context", 0)), UNLIMITED_LINES)
    matches = Matches(in_directory, max(0, context), at_least_one(params.get("limit", DEFAULT_LIMIT)))
    target = "." if in_directory else str(root)
    command = [_ripgrep(), *_options(params, matches.context), "--", params["pattern"], target]
    try:
        await _search(command, root if in_directory else ctx.cwd, matches)
    except OSError as error:
        raise ToolError(f"Failed to run ripgrep: {error}") from error
    return matches.result()


def _options(params: Mapping[str, Any], context: int) -> list[str]:
    options = list(_FIXED)
    if params.get("ignoreCase"):
        options.append("--ignore-case")
    if params.get("literal"):
        options.append("--fixed-strings")
    if params.get("glob"):
        # ripgrep never matches a leading "./".
        options += ["--glob", re.sub(r"^(!?)(?:\./)+", r"\1", params["glob"])]
    if context:
        options += ["--context", str(context)]
    return options


@cache
def _ripgrep() -> str:
    beside = Path(sys.executable).with_name("rg")
    found = shutil.which("rg") or (str(beside) if beside.exists() else None)
    if found is None:
        raise ToolError("grep needs ripgrep: put rg on the PATH, for example with pip install ripgrep.")
    return found


async def _search(command: list[str], cwd: Path, matches: Matches) -> None:
    async with (
        pipe() as (lines, output),
        pipe() as (complaints, errors),
        child(command, cwd, output, errors) as process,
        aclosing(read_lines(lines)) as events,
    ):
        complaint = asyncio.ensure_future(complaints.read())
        try:
            async for line in events:
                if matches.take(orjson.loads(line)):
                    return
            message = (await complaint).decode(errors="replace").strip()
        finally:
            complaint.cancel()
        code = await process.wait()
    if code not in {0, _NO_MATCH}:
        raise ToolError(message or f"ripgrep exited with code {code}")


@dataclass(slots=True)
class Matches:
    """The lines found so far, and when there are enough."""

    in_directory: bool
    context: int
    limit: int
    count: int = 0
    more: bool = False
    shortened: bool = False
    rows: list[str] = field(default_factory=list)
    row_count: int = 0
    bytes: int = -1
    file: str = ""
    window_end: int = 0

    def take(self, event: Mapping[str, Any]) -> bool:
        """Take one event of ripgrep's JSON output; return whether the search can stop."""
        if event["type"] not in {"match", "context"}:
            return False
        is_match = event["type"] == "match"
        file, text = _decoded(event["data"]["path"]), _decoded(event["data"]["lines"])
        number = event["data"]["line_number"]
        if self.count < self.limit:
            self._add(file, number, text, is_match=is_match)
            self.count += is_match
            self.window_end = number + self.context
            return False
        # The last match still gets its context; one more match proves that something was left out.
        in_window = file == self.file and number <= self.window_end
        if in_window:
            self._add(file, number, text, is_match=False)
        self.more = self.more or is_match
        return self.more and not (in_window and number < self.window_end)

    def _add(self, file: str, number: int, text: str, *, is_match: bool) -> None:
        self.file = file
        line, was_cut = truncate_line(text.removesuffix("\n").removesuffix("\r"))
        self.shortened = self.shortened or was_cut
        name = file.removeprefix("./").replace("\\", "/") if self.in_directory else file.rpartition("/")[2]
        row = f"{name}:{number}: {line}" if is_match else f"{name}-{number}- {line}"
        if self.bytes <= MAX_BYTES:
            self.rows.append(row)
        self.bytes += byte_len(row) + 1
        self.row_count += 1

    def result(self) -> ToolResult:
        """Return what the model sees, with notices for everything left out."""
        if not self.count:
            return ToolResult.of_text("No matches found")
        cut = truncate_head("\n".join(self.rows), UNLIMITED_LINES)
        cut = replace(cut, total_lines=self.row_count, total_bytes=self.bytes)
        notices, details = [], dict[str, Any]()
        if self.more:
            more = f"Use limit={self.limit * 2} for more, or refine pattern"
            notices.append(f"{self.limit} matches limit reached. {more}")
            details["matchLimitReached"] = self.limit
        if cut.truncated:
            notices.append(f"{format_size(MAX_BYTES)} limit reached")
            details["truncation"] = cut.to_wire()
        if self.shortened:
            notices.append(f"Some lines truncated to {MAX_GREP_UNITS} chars. Use read tool to see full lines")
            details["linesTruncated"] = True
        note = f"\n\n[{'. '.join(notices)}]" if notices else ""
        return ToolResult.of_text(cut.content + note, details)


def _decoded(text: Mapping[str, str]) -> str:
    if "text" in text:
        return text["text"]
    return base64.b64decode(text["bytes"]).decode(errors="replace")
