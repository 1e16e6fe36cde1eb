"""What the Python tools do beyond agreeing with Pi's: guards, cancellation, process groups, logs, listings."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from pi_project_memory.supervisor.host.tools import (
    TOOLS,
    FileLocks,
    RealFileOps,
    ToolContext,
    ToolError,
    ToolResult,
    call_tool,
    fileops,
    grep,
)
from pi_project_memory.supervisor.host.tools.jsnumbers import number_text, parse_number
from pi_project_memory.supervisor.host.tools.listing import matching_paths
from pi_project_memory.supervisor.host.tools.output import OutputLog
from pi_project_memory.supervisor.host.tools.truncation import MAX_BYTES, format_size

pytestmark = pytest.mark.req("HOST-2", "SUB-1")

PATIENCE = 30.0
"""Real seconds until a test that waits for an event in another process gives up."""


@dataclass
class SpyOps(RealFileOps):
    """Real effects that are noted, and refused for one name."""

    refused: str = ""
    seen: list[str] = field(default_factory=list)

    def note(self, effect: str, path: Path) -> None:
        self.seen.append(f"{effect} {path.name}")
        if path.name == self.refused:
            raise ToolError(f"{path.name} is off limits")

    async def read_file(self, path: Path) -> bytes:
        self.note("read", path)
        return await super().read_file(path)

    async def access(self, path: Path, *, write: bool = False) -> None:
        self.note("access", path)
        await super().access(path, write=write)

    async def write_file(self, path: Path, data: bytes) -> None:
        self.note("write", path)
        await super().write_file(path, data)

    async def mkdir(self, path: Path) -> None:
        self.note("mkdir", path)
        await super().mkdir(path)

    async def is_directory(self, path: Path) -> bool:
        self.note("is_directory", path)
        return await super().is_directory(path)

    async def glob(self, pattern: str, root: Path, limit: int) -> list[str]:
        self.note("glob", root)
        return await super().glob(pattern, root, limit)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    return project


def context(project: Path, **parts: Any) -> ToolContext:
    return ToolContext(cwd=project, scratch=project.parent / "scratch", **({"ops": RealFileOps()} | parts))


async def call(project: Path, tool: str, **params: Any) -> ToolResult:
    return await call_tool(tool, params, context(project))


EDIT = {"path": "f.md", "edits": [{"oldText": "a", "newText": "b"}]}


@pytest.mark.parametrize(
    ("tool", "params", "effects"),
    [
        ("read", {"path": "f.md"}, ["read f.md"]),
        ("write", {"path": "f.md", "content": "x"}, ["mkdir project", "write f.md"]),
        ("edit", EDIT, ["access f.md", "read f.md", "write f.md"]),
        ("find", {"pattern": "*"}, ["glob project"]),
        ("grep", {"pattern": "zzz"}, ["is_directory project"]),
    ],
)
@pytest.mark.real_time
async def test_every_effect_on_files_goes_through_the_operations_once(
    project: Path, tool: str, params: dict[str, Any], effects: list[str]
):
    (project / "f.md").write_text("a")
    ops = SpyOps()
    assert not (await call_tool(tool, params, context(project, ops=ops))).is_error
    assert ops.seen == effects


@pytest.mark.parametrize(
    ("tool", "params"),
    [
        ("read", {"path": "f.md"}),
        ("write", {"path": "f.md", "content": "x"}),
        ("edit", EDIT),
        ("find", {"pattern": "*", "path": "f.md"}),
        ("grep", {"pattern": "a", "path": "f.md"}),
    ],
)
async def test_a_refusal_of_the_operations_is_the_error_that_the_model_reads(
    project: Path, tool: str, params: dict[str, Any]
):
    (project / "f.md").write_text("a")
    result = await call_tool(tool, params, context(project, ops=SpyOps(refused="f.md")))
    assert result == ToolResult.of_text("f.md is off limits", is_error=True)
    assert (project / "f.md").read_text() == "a"


async def test_an_unknown_tool_is_an_error_result(project: Path):
    assert list(TOOLS) == ["read", "find", "grep", "write", "edit", "bash"]
    assert await call(project, "ls") == ToolResult.of_text("Tool ls not found", is_error=True)


# --- changes of files -----------------------------------------------------------------------------------------


async def test_edits_of_one_file_under_two_names_wait_for_each_other(project: Path):
    class SlowOps(RealFileOps):
        async def read_file(self, path: Path) -> bytes:
            data = await super().read_file(path)
            await asyncio.sleep(1)
            return data

    (project / "f.md").write_text("one two")
    (project / "link.md").symlink_to("f.md")
    ctx = context(project, ops=SlowOps(), locks=FileLocks())
    first = {"path": "f.md", "edits": [{"oldText": "one", "newText": "1"}]}
    second = {"path": "link.md", "edits": [{"oldText": "two", "newText": "2"}]}
    await asyncio.gather(call_tool("edit", first, ctx), call_tool("edit", second, ctx))
    assert (project / "f.md").read_text() == "1 2"


async def test_a_cancelled_write_ends_only_once_it_is_done(project: Path, monkeypatch: pytest.MonkeyPatch):
    started, go_on, write = threading.Event(), threading.Event(), fileops._write

    def slow_write(path: Path, data: bytes) -> None:
        started.set()
        go_on.wait(PATIENCE)
        write(path, data)

    monkeypatch.setattr(fileops, "_write", slow_write)
    task = asyncio.create_task(call(project, "write", path="f.md", content="whole"))
    await anyio.to_thread.run_sync(started.wait)
    for _ in range(2):
        task.cancel()
        await asyncio.wait([task], timeout=0)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (project / "f.md").read_text() == "whole"


async def test_a_cancelled_search_stops_walking(project: Path, monkeypatch: pytest.MonkeyPatch):
    started, stopped = threading.Event(), threading.Event()

    def endless_walk(pattern: str, root: Path, limit: int, is_stopped: Any) -> list[str]:
        started.set()
        while not is_stopped():
            stopped.wait(0.001)
        stopped.set()
        return []

    monkeypatch.setattr(fileops, "matching_paths", endless_walk)
    task = asyncio.create_task(call(project, "find", pattern="*"))
    await anyio.to_thread.run_sync(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await anyio.to_thread.run_sync(stopped.wait, PATIENCE)


@pytest.mark.parametrize("tool", ["read", "write", "edit"])
async def test_pipes_are_refused_at_once(project: Path, tool: str):
    os.mkfifo(project / "pipe")
    reader = os.open(project / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    params = {"path": "pipe", "content": "x", "edits": EDIT["edits"]}
    result = await call_tool(tool, params, context(project))
    os.close(reader)
    assert result.is_error
    assert "not a regular file" in result.text


async def test_a_device_without_an_end_is_refused(project: Path):
    assert "not a regular file" in (await call(project, "read", path="/dev/zero")).text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.EACCES, "EACCES: permission denied, access '{path}'"),
        (errno.EIO, "EIO: input/output error, access '{path}'"),
    ],
)
async def test_a_failure_of_the_system_names_code_call_and_path(project: Path, code: int, text: str):
    class FailingOps(RealFileOps):
        async def read_file(self, path: Path) -> bytes:
            raise OSError(code, os.strerror(code))

    result = await call_tool("read", {"path": "f"}, context(project, ops=FailingOps()))
    assert result == ToolResult.of_text(text.format(path=project / "f"), is_error=True)


def png_header(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x02\0\0\0"


JPEG_HEADER = b"\xff\xd8\xff\xe0\0\x04JF\xff\xc0\0\x11\x08" + struct.pack(">HH", 2000, 2001)
WEBP_HEADER = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (2000).to_bytes(3, "little") + b"\0\0\0"


@pytest.mark.parametrize(
    "data",
    [
        png_header(2001, 1),
        png_header(1, 2001),
        png_header(0, 1),
        png_header(1, 1) + b"\0" * 3_600_000,
        JPEG_HEADER,
        JPEG_HEADER[:14],
        WEBP_HEADER,
    ],
    ids=["wide", "high", "empty", "heavy", "jpeg", "cut jpeg", "webp"],
)
async def test_a_picture_that_would_need_scaling_is_told_and_left_out(project: Path, data: bytes):
    (project / "picture").write_bytes(data)
    result = await call(project, "read", path="picture")
    assert "[Image omitted" in result.text
    assert len(result.content) == 1


# --- commands ---------------------------------------------------------------------------------------------------


async def holder(fifo: Path) -> int:
    """Wait until a command has opened `fifo` for writing; the descriptor ends with its last process."""
    async with asyncio.timeout(PATIENCE):
        return await anyio.to_thread.run_sync(os.open, fifo, os.O_RDONLY, abandon_on_cancel=True)


async def ended(descriptor: int) -> bool:
    async with asyncio.timeout(PATIENCE):
        end = await anyio.to_thread.run_sync(os.read, descriptor, 1, abandon_on_cancel=True)
    os.close(descriptor)
    return end == b""


async def cancelled(task: asyncio.Task[ToolResult]) -> None:
    task.cancel()
    async with asyncio.timeout(PATIENCE):
        await asyncio.wait([task])
    assert task.cancelled()


GROUPS = {
    "shell and child": "exec 9>{fifo}; sleep 60 & wait",
    "pipeline": "exec 9>{fifo}; sleep 60 | cat",
    "child that outlives its shell": (
        "(while kill -0 $$ 2>/dev/null; do echo; done; exec 9>{fifo}; sleep 60 & while :; do echo; done) & exit 0"
    ),
    "deaf to signals": "trap '' TERM INT HUP; exec 9>{fifo}; sleep 60",
}


@pytest.mark.parametrize("command", GROUPS.values(), ids=GROUPS)
@pytest.mark.real_time
async def test_cancelling_a_command_ends_its_whole_group(project: Path, command: str):
    fifo = project / "fifo"
    os.mkfifo(fifo)
    task = asyncio.create_task(call(project, "bash", command=command.format(fifo=fifo)))
    descriptor = await holder(fifo)
    await cancelled(task)
    assert await ended(descriptor)


@pytest.mark.real_time
async def test_a_timeout_ends_the_whole_group(project: Path):
    fifo = project / "fifo"
    os.mkfifo(fifo)
    command = GROUPS["shell and child"].format(fifo=fifo)
    task = asyncio.create_task(call(project, "bash", command=command, timeout=2))
    descriptor = await holder(fifo)
    assert (await task).text == "Command timed out after 2 seconds"
    assert await ended(descriptor)


@pytest.mark.real_time
async def test_a_command_cancelled_before_its_start_is_known_is_ended_too(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    fifo, start = project / "fifo", asyncio.create_subprocess_exec
    os.mkfifo(fifo)

    async def slow_start(*command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **options)
        await asyncio.sleep(0.5)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow_start)
    command = GROUPS["shell and child"].format(fifo=fifo)
    task = asyncio.create_task(call(project, "bash", command=command))
    descriptor = await holder(fifo)
    await cancelled(task)
    assert await ended(descriptor)


@pytest.mark.req("SUB-8")
@pytest.mark.real_time
async def test_long_output_is_logged_whole_in_the_scratch_directory(project: Path):
    result = await call(project, "bash", command="seq 200000; exit 7")
    (log,) = (project.parent / "scratch").iterdir()
    assert log.read_text() == "".join(f"{number}\n" for number in range(1, 200_001))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert log.name.startswith("bash-")
    assert log.suffix == ".log"
    assert result.details is not None
    assert result.details["fullOutputPath"] == str(log)
    assert result.text.endswith(
        f"[Showing lines 198001-200000 of 200000. Full output: {log}]\n\nCommand exited with code 7"
    )


@pytest.mark.req("SUB-8")
@pytest.mark.real_time
async def test_short_output_leaves_no_log(project: Path):
    assert (await call(project, "bash", command="seq 2000")).details is None
    assert list((project.parent / "scratch").iterdir()) == []


@pytest.mark.req("SUB-8")
@pytest.mark.real_time
async def test_a_command_whose_log_cannot_be_written_is_ended_with_an_error(project: Path):
    fifo = project / "fifo"
    os.mkfifo(fifo)
    (project.parent / "scratch").rmdir()
    task = asyncio.create_task(call(project, "bash", command=f"exec 9>{fifo}; seq 3000; sleep 60"))
    descriptor = await holder(fifo)
    result = await task
    assert result.is_error
    assert str(project.parent / "scratch") in result.text
    assert await ended(descriptor)


async def test_output_without_end_is_kept_in_bounded_memory(tmp_path: Path):
    log = OutputLog(tmp_path)
    for _ in range(100):
        await log.append("é".encode() * 10_000 + b"\n")
    shown = await log.finish()
    log.close()
    assert len(log._tail) <= 4 * MAX_BYTES
    assert (shown.total_lines, shown.total_bytes, shown.output_lines) == (100, 2_000_100, 2)
    assert log.path is not None
    assert log.path.stat().st_size == 2_000_100


@pytest.mark.real_time
async def test_a_command_gets_the_environment_of_its_context(project: Path):
    ctx = context(project, env={"NAME": "value", "PATH": os.environ["PATH"]})
    result = await call_tool("bash", {"command": 'echo "$NAME $HOME"'}, ctx)
    assert result.text == "value \n"


@pytest.mark.real_time
async def test_a_command_in_a_directory_that_is_gone_is_an_error(project: Path):
    project.rmdir()
    result = await call(project, "bash", command="pwd")
    assert result.text == f"Working directory does not exist: {project}\nCannot execute bash commands."


# --- grep ---------------------------------------------------------------------------------------------------------


@pytest.mark.real_time
async def test_matches_are_sorted_by_file_and_the_search_stops_at_the_limit(project: Path):
    for number in range(300):
        (project / f"{number:03}.md").write_text("hit\n" * 200)
    result = await call(project, "grep", pattern="hit", limit=250)
    names = [line.split(":")[0] for line in result.text.split("\n\n")[0].split("\n")]
    assert names == ["000.md"] * 200 + ["001.md"] * 50
    assert result.details == {"matchLimitReached": 250}


def stand_in_for_ripgrep(project: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Have grep run a script that holds a pipe open; return the pipe."""
    program, fifo = project / "rg", project / "fifo"
    os.mkfifo(fifo)
    program.write_text(f"#!/bin/sh\nexec 9>{fifo}\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(grep, "_ripgrep", lambda: str(program))
    return fifo


@pytest.mark.real_time
async def test_ripgrep_is_ended_once_there_are_enough_matches(project: Path, monkeypatch: pytest.MonkeyPatch):
    hit = '{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"x\\\\n"},"line_number":1}}'
    fifo = stand_in_for_ripgrep(project, monkeypatch, f"while :; do echo '{hit}'; done")
    task = asyncio.create_task(call(project, "grep", pattern="x", limit=1))
    descriptor = await holder(fifo)
    async with asyncio.timeout(PATIENCE):
        assert "[1 matches limit reached." in (await task).text
    assert await ended(descriptor)


@pytest.mark.real_time
async def test_cancelling_a_search_ends_ripgrep(project: Path, monkeypatch: pytest.MonkeyPatch):
    fifo = stand_in_for_ripgrep(project, monkeypatch, "sleep 60")
    task = asyncio.create_task(call(project, "grep", pattern="x"))
    descriptor = await holder(fifo)
    await cancelled(task)
    assert await ended(descriptor)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'out of luck' >&2; exit 2", "out of luck"),
        ("exit 3", "ripgrep exited with code 3"),
        ("exit 1", "No matches found"),
    ],
)
@pytest.mark.real_time
async def test_what_ripgrep_complains_about_is_the_error(
    project: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
):
    fifo = stand_in_for_ripgrep(project, monkeypatch, script)
    task = asyncio.create_task(call(project, "grep", pattern="x"))
    os.close(await holder(fifo))
    assert (await task).text == message


@pytest.mark.real_time
async def test_a_line_with_a_unicode_line_separator_is_found(project: Path):
    (project / "a.md").write_text("one \u2028 two\n")
    assert (await call(project, "grep", pattern="two")).text == "a.md:1: one \u2028 two"


@pytest.mark.real_time
async def test_a_user_configuration_of_ripgrep_changes_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    (project / "rc").write_text("--invert-match\n")
    (project / "a.md").write_text("yes\nno\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(project / "rc"))
    assert (await call(project, "grep", pattern="yes", path="a.md")).text == "a.md:1: yes"


async def test_a_missing_ripgrep_is_told_with_the_way_to_get_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "executable", str(project / "python"))
    grep._ripgrep.cache_clear()
    result = await call(project, "grep", pattern="x")
    grep._ripgrep.cache_clear()
    assert result.is_error
    assert "pip install ripgrep" in result.text


# --- find ---------------------------------------------------------------------------------------------------------


def fill(top: Path, *names: str) -> None:
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")


def found(pattern: str, top: Path) -> list[str]:
    return matching_paths(pattern, top, 1000, lambda: False)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.md", [".hid/e.md", "A.md", "src/b.md", "src/x/src/c.md"]),
        ("a.md", ["A.md"]),
        ("A.md", ["A.md"]),
        ("B.md", []),
        ("src", ["src/", "src/x/src/"]),
        ("src/*.md", ["src/b.md"]),
        ("./src/*.md", ["src/b.md"]),
        ("**/src/*.md", ["src/b.md", "src/x/src/c.md"]),
        ("**/**/c.md", ["src/x/src/c.md"]),
        ("src/**", ["src/b.md", "src/x/", "src/x/src/", "src/x/src/c.md"]),
        ("src/**/c.md", ["src/x/src/c.md"]),
        ("{A,b}.md", ["A.md", "src/b.md"]),
        ("[!A].md", [".hid/e.md", "src/b.md", "src/x/src/c.md"]),
        ("\\[z\\]", ["[z]"]),
        ("[[]z]", ["[z]"]),
        ("*,*", ["one,two"]),
        ("loop", ["loop"]),
    ],
)
def test_patterns_match_names_at_any_depth_and_paths_from_the_top(
    project: Path, pattern: str, expected: list[str]
):
    fill(project, "A.md", "src/b.md", "src/x/src/c.md", ".hid/e.md", "[z]", "one,two")
    fill(project, ".git/config.md", "node_modules/m/d.md")
    (project / "loop").symlink_to(project)
    assert found(pattern, project) == expected


def test_an_absolute_pattern_matches_whole_paths(project: Path):
    fill(project, "a.md", "src/b.md", "src/x/b.md")
    assert found(f"{project}/src/*.md", project) == ["src/b.md"]
    assert found("/src/*.md", project) == []


@pytest.mark.parametrize("pattern", ["[a", "{a,b", "a}", "[z-a]", "a\\"])
async def test_a_malformed_pattern_is_named(project: Path, pattern: str):
    result = await call(project, "find", pattern=pattern)
    assert result.is_error
    assert repr(pattern) in result.text


def test_names_that_are_not_utf8_are_listed_with_replacement(project: Path):
    Path(os.fsdecode(os.fsencode(project) + b"/\xff.md")).write_text("x")
    assert found("*.md", project) == ["\ufffd.md"]


def test_a_walk_that_is_stopped_lists_nothing_more(project: Path):
    fill(project, "a.md", "b.md")
    assert matching_paths("*", project, 1000, lambda: True) == []


TREE = (
    *("a", "b/a", "b/x.md", "b/c/a", "b/c/x.md", "build/x.md", "c/build/y.txt", "x.md", "y.txt", "a b", "!k"),
    *("#h", "[z]", "d/b/x.md", "d/b/c/z.md", ".hid/x.md", "a.md/x", "A.MD"),
)
RULES = (
    *(
        "a",
        "/a",
        "a/",
        "/b/",
        "*.md",
        "*.md\n!x.md",
        "b/*",
        "b/**",
        "**/a",
        "b/**/x.md",
        "**/b/x.md",
        "build",
    ),
    *("build/", "build/\n!build/x.md", "?", "[ab]", "[!a]", "\\#h", "#h", "\\!k", "!k\n*", "*\n!*/\n!*.md"),
    *(
        "*.{md,txt}",
        "a b ",
        "a\\ b",
        "/*\n!/b",
        "/b/a",
        "c/a",
        "[",
        "\\",
        "x.md\r\ny.txt",
        "  ",
        "**",
        "*/x.md",
    ),
    "b/c\n!b/c/x.md",
)


def listed_by_ripgrep(top: Path) -> list[str]:
    options = ("--no-config", "--files", "--hidden", "--no-ignore-global", "--no-messages", "--sort=path")
    anywhere = (
        () if any((place / ".git").exists() for place in (top, *top.parents)) else ("--no-require-git",)
    )
    command = [grep._ripgrep(), *options, *anywhere, "--glob=!.git", "./"]
    listing = subprocess.run(command, cwd=top, capture_output=True, text=True, check=False).stdout
    return sorted(line.removeprefix("./") for line in listing.splitlines())


def assert_listed_alike(top: Path) -> None:
    assert [name for name in found("*", top) if not name.endswith("/")] == listed_by_ripgrep(top)


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("name", [".gitignore", "d/.gitignore", "b/.ignore"])
def test_ignore_files_leave_out_what_ripgrep_leaves_out(project: Path, name: str, rules: str):
    fill(project, *TREE)
    (project / name).write_bytes(rules.encode())
    assert_listed_alike(project)


@pytest.mark.parametrize("repositories", [[], [".git"], [".git", "d/.git"], ["d/.git"]], ids=str)
def test_git_rules_end_at_a_nested_repository_within_a_repository(project: Path, repositories: list[str]):
    fill(project, *TREE)
    (project / ".gitignore").write_text("x.md\n")
    (project / "d/.gitignore").write_text("z.md\n")
    (project / "b/.ignore").write_text("!x.md\n")
    for repository in repositories:
        (project / repository).mkdir()
    assert_listed_alike(project)
    expected = ["d/b/x.md"] if "d/.git" in repositories and ".git" in repositories else []
    assert found("d/**/x.md", project) == expected


def test_a_byte_order_mark_is_no_part_of_the_first_rule(project: Path):
    fill(project, "x.md", "y.md")
    (project / ".gitignore").write_text("\ufeffx.md\n")
    assert found("*.md", project) == ["y.md"]


def test_rules_above_the_top_count(project: Path):
    fill(project, "sub/x.md", "sub/y.md")
    (project / ".gitignore").write_text("x.md\n/sub/y.md\n")
    assert found("*", project / "sub") == []


# --- numbers as JavaScript has them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (5.0, "5"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (123456789.125, "123456789.125"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (2**53 + 1, "9007199254740992"),
    ],
)
def test_a_number_as_text(number: float, text: str):
    assert number_text(number) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[
            ("", 0),
            (" \u00a0\n", 0),
            ("2", 2),
            ("2.", 2),
            (".5", 0.5),
            ("+1e3", 1000),
            ("0x1F", 31),
            ("0b11", 3),
        ],
        *[("1e400", None), ("Infinity", None), ("1_000", None), ("٣", None), ("-0x1", None), ("2px", None)],
    ],
)
def test_text_as_a_number(text: str, number: float | None):
    assert parse_number(text) == number


@pytest.mark.parametrize(
    ("size", "text"),
    [(1023, "1023B"), (1024, "1.0KB"), (1280, "1.3KB"), (51_200, "50.0KB"), (2_621_440, "2.5MB")],
)
def test_sizes_round_halves_up(size: int, text: str):
    assert format_size(size) == text
