"""The scratch directory of a run: private, and gone on every way out."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from pi_project_memory.actors.subagent import scratch
from pi_project_memory.actors.subagent.scratch import PREFIX, adopt_log, scratch_directory


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's temporary directory for this test."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def left(temp: Path) -> list[str]:
    return [path.name for path in temp.iterdir()]


@pytest.mark.req("SUB-8")
async def test_it_is_private_and_named_so_that_it_can_be_recognised(temp: Path):
    async with scratch_directory() as one, scratch_directory() as other:
        assert one != other
        for path in (one, other):
            assert path.parent == temp
            assert path.name.startswith(PREFIX)
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert left(temp) == []


@pytest.mark.req("SUB-8")
async def test_it_is_removed_with_everything_in_it(temp: Path):
    async with scratch_directory() as path:
        (path / "deep" / "er").mkdir(parents=True)
        (path / "deep" / "er" / "bash-1.log").write_text("x")
        (path / "bash-2.log").write_text("x")
        (path / "bash-2.log").chmod(0o400)
    assert left(temp) == []


@pytest.mark.req("SUB-8")
async def test_a_link_in_it_is_removed_and_not_followed(temp: Path):
    outside = temp.parent / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    async with scratch_directory() as path:
        (path / "link").symlink_to(outside)
    assert left(temp) == []
    assert (outside / "kept").exists()


@pytest.mark.req("SUB-8")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, asyncio.CancelledError])
async def test_it_is_removed_when_the_run_fails(temp: Path, error: type[BaseException]):
    with pytest.raises(error):
        async with scratch_directory():
            raise error
    assert left(temp) == []


@pytest.mark.req("SUB-8")
async def test_it_is_removed_when_the_run_is_cancelled(temp: Path):
    with anyio.move_on_after(5):
        async with scratch_directory():
            await anyio.sleep_forever()
    assert left(temp) == []


@pytest.mark.req("SUB-8")
async def test_it_is_removed_when_the_task_itself_is_cancelled(temp: Path):
    inside = anyio.Event()

    async def run() -> None:
        async with scratch_directory():
            inside.set()
            await anyio.sleep_forever()

    task = asyncio.create_task(run())
    await inside.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert left(temp) == []


@pytest.mark.req("SUB-8")
@pytest.mark.parametrize("native", [False, True], ids=["by a scope", "by the task"])
async def test_a_cancellation_while_it_is_made_leaves_nothing(
    temp: Path,
    monkeypatch: pytest.MonkeyPatch,
    native: bool,  # noqa: FBT001 - a column of the table
):
    loop, real = asyncio.get_running_loop(), tempfile.mkdtemp
    scope = anyio.CancelScope()
    tasks: list[asyncio.Task[None]] = []

    def making(**arguments: str) -> str:
        path = real(**arguments)
        loop.call_soon_threadsafe(tasks[0].cancel if native else scope.cancel)
        return path

    async def run() -> None:
        with scope:
            async with scratch_directory():
                await anyio.sleep_forever()

    monkeypatch.setattr(scratch.tempfile, "mkdtemp", making)
    tasks.append(asyncio.create_task(run()))
    with suppress(asyncio.CancelledError):
        await tasks[0]
    assert left(temp) == []


@pytest.mark.req("SUB-8")
async def test_a_full_disk_is_an_error_and_nothing_is_left(temp: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(**_: str) -> str:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(scratch.tempfile, "mkdtemp", failing)
    with pytest.raises(OSError, match="No space"):
        async with scratch_directory():
            raise AssertionError
    assert left(temp) == []


@pytest.mark.req("SUB-8")
async def test_one_that_somebody_else_removed_is_no_error(temp: Path):
    async with scratch_directory() as path:
        path.rmdir()
    assert left(temp) == []


@pytest.mark.req("SUB-8")
@pytest.mark.parametrize("name", ["pi-bash-0a1b.log", "bash-0a1b.log"])
def test_a_log_is_moved_in_and_made_private(tmp_path: Path, name: str):
    log = tmp_path / name
    log.write_text("x")
    log.chmod(0o644)
    inside = tmp_path / "scratch"
    inside.mkdir()
    moved = adopt_log(str(log), inside)
    assert moved == inside / "bash-0a1b.log"
    assert stat.S_IMODE(moved.stat().st_mode) == 0o600
    assert not log.exists()
    assert adopt_log(str(moved), inside) == moved, "one that lies there already stays"


@pytest.mark.req("SUB-8")
@pytest.mark.parametrize(
    "name", ["secret.md", "pi-bash-.log", "pi-bash-1.txt", "xpi-bash-1.log", "auth.json"]
)
def test_nothing_else_is_moved(tmp_path: Path, name: str):
    other = tmp_path / name
    other.write_text("x")
    inside = tmp_path / "scratch"
    inside.mkdir()
    with pytest.raises(FileNotFoundError):
        adopt_log(str(other), inside)
    assert other.exists()
    assert left(inside) == []
