"""The bash tool: a shell command, its output and its exit code."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pi_project_memory.supervisor.host.tools.base import ToolContext, ToolError, ToolResult
from pi_project_memory.supervisor.host.tools.jsnumbers import number_text
from pi_project_memory.supervisor.host.tools.output import OutputLog
from pi_project_memory.supervisor.host.tools.processes import Ending, run
from pi_project_memory.supervisor.host.tools.truncation import MAX_BYTES, Truncation, format_size

MAX_TIMEOUT = 2_147_483.647
"""Seconds; the longest timer that JavaScript has."""


async def execute(params: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
    """Run `command` in the working directory, both outputs merged, at most `timeout` seconds.

    The end of long output is shown; all of it goes to `bash-<id>.log` in the scratch directory, named in the
    result and in `details.fullOutputPath`. A non-zero exit code is an error result. Raises ToolError after
    `timeout`, for one that is out of range and when the command cannot start.
    """
    timeout = _checked(params.get("timeout"))
    if not await ctx.ops.exists(ctx.cwd):
        raise ToolError(f"Working directory does not exist: {ctx.cwd}\nCannot execute bash commands.")
    log = OutputLog(ctx.scratch)
    try:
        ending = await run([*_shell(), params["command"]], ctx.cwd, log.append, ctx.env, timeout)
        shown = await log.finish()
    except OSError as error:
        raise ToolError(f"The command could not be run with its log in {ctx.scratch}: {error}") from error
    finally:
        log.close()
    if ending.timed_out:
        raise ToolError(_with_status(_text(shown, log, ""), _timeout_status(ending, timeout or 0)))
    return _result(shown, log, ending.code)


def _checked(timeout: float | None) -> float | None:
    if timeout is not None and timeout <= 0:
        raise ToolError("Invalid timeout: must be a finite number of seconds")
    if timeout is not None and timeout > MAX_TIMEOUT:
        raise ToolError(f"Invalid timeout: maximum is {MAX_TIMEOUT} seconds")
    return timeout


@cache
def _shell() -> tuple[str, str]:
    usual = "/bin/bash"
    return (usual if Path(usual).exists() else shutil.which("bash") or "sh"), "-c"


def _result(shown: Truncation, log: OutputLog, code: int) -> ToolResult:
    text = _text(shown, log, "(no output)")
    details = {"truncation": shown.to_wire(), "fullOutputPath": str(log.path)} if shown.truncated else None
    if code:
        text = _with_status(text, f"Command exited with code {code}")
    return ToolResult.of_text(text, details, is_error=code != 0)


def _text(shown: Truncation, log: OutputLog, empty: str) -> str:
    if not shown.truncated:
        return shown.content or empty
    last = shown.total_lines
    if shown.last_line_partial:
        size, line = format_size(shown.output_bytes), format_size(log.last_line_bytes)
        extent = f"last {size} of line {last} (line is {line})"
    else:
        limit = f" ({format_size(MAX_BYTES)} limit)" if shown.truncated_by == "bytes" else ""
        extent = f"lines {last - shown.output_lines + 1}-{last} of {last}{limit}"
    return f"{shown.content}\n\n[Showing {extent}. Full output: {log.path}]"


def _timeout_status(ending: Ending, timeout: float) -> str:
    status = f"Command timed out after {number_text(timeout)} seconds"
    if ending.left_after is None:
        return status
    return (
        f"{status}. The shell exited with code {ending.code} after {number_text(round(ending.left_after, 1))} "
        "seconds, but background processes it started kept writing output until the timeout."
    )


def _with_status(text: str, status: str) -> str:
    return f"{text}\n\n{status}" if text else status
