"""Atomic publish: the old file or the new one, whole, whatever fails and wherever the process dies."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_project_memory.actors.ports.publish import (
    REAL_DISK,
    DiskOps,
    publish_new,
    publish_replace,
)
from pi_project_memory.actors.ports.worker import in_worker

OLD, NEW = b"old\n" * 50, b"new content\n" * 5000

Publish = Callable[..., None]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def without_hard_links(code: int = errno.EPERM) -> DiskOps:
    return replace(REAL_DISK, link=failing(code))


def recording(log: list[str]) -> DiskOps:
    def wrap(name: str) -> Callable[..., Any]:
        call = getattr(REAL_DISK, name)

        def recorded(*args: Any) -> Any:
            result = call(*args)
            directory = name == "fsync" and stat.S_ISDIR(os.fstat(args[0]).st_mode)
            log.append("fsync directory" if directory else name)
            return result

        return recorded

    return DiskOps(
        **{field.name: wrap(field.name) for field in fields(DiskOps) if field.name != "random_name"}
    )


@pytest.mark.req("PATH-5", "PATH-7")
def test_a_new_file_is_private_whole_and_alone(tmp_path: Path):
    previous = os.umask(0o277)
    try:
        publish_new(str(tmp_path / "a.md"), NEW)
        publish_replace(str(tmp_path / "b.md"), NEW)
    finally:
        os.umask(previous)
    assert names(tmp_path) == ["a.md", "b.md"]
    assert (tmp_path / "a.md").read_bytes() == (tmp_path / "b.md").read_bytes() == NEW
    assert mode_of(tmp_path / "a.md") == mode_of(tmp_path / "b.md") == 0o600
    assert (tmp_path / "a.md").stat().st_nlink == 1


@pytest.mark.req("PATH-7")
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o664, 0o400])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, mode: int):
    target = tmp_path / "a.md"
    target.write_bytes(OLD)
    target.chmod(mode)
    publish_replace(str(target), b"")
    assert (target.read_bytes(), mode_of(target)) == (b"", mode)
    assert names(tmp_path) == ["a.md"]


@pytest.mark.req("PATH-7")
@pytest.mark.parametrize("ops", [REAL_DISK, without_hard_links(), without_hard_links(errno.EOPNOTSUPP)])
@pytest.mark.parametrize("kind", ["file", "link", "dangling", "directory"])
def test_a_new_file_never_clobbers(tmp_path: Path, ops: DiskOps, kind: str):
    target, other = tmp_path / "a.md", tmp_path / "other"
    other.write_bytes(OLD)
    match kind:
        case "file":
            target.write_bytes(OLD)
        case "link":
            target.symlink_to(other)
        case "dangling":
            target.symlink_to(tmp_path / "nowhere")
        case _:
            target.mkdir()
    with pytest.raises(FileExistsError):
        publish_new(str(target), NEW, ops)
    assert names(tmp_path) == ["a.md", "other"]
    assert other.read_bytes() == OLD
    assert kind != "file" or target.read_bytes() == OLD


@pytest.mark.req("PATH-7")
def test_replacing_a_link_leaves_its_target_alone(tmp_path: Path):
    other = tmp_path / "other"
    other.write_bytes(OLD)
    (tmp_path / "a.md").symlink_to(other)
    publish_replace(str(tmp_path / "a.md"), NEW)
    assert not (tmp_path / "a.md").is_symlink()
    assert mode_of(tmp_path / "a.md") == 0o600
    assert other.read_bytes() == OLD


@pytest.mark.req("PATH-7")
@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EACCES, errno.EMLINK])
def test_without_hard_links_a_new_file_is_created_exclusively(tmp_path: Path, code: int):
    publish_new(str(tmp_path / "a.md"), NEW, without_hard_links(code))
    assert names(tmp_path) == ["a.md"]
    assert (tmp_path / "a.md").read_bytes() == NEW
    assert mode_of(tmp_path / "a.md") == 0o600


@pytest.mark.req("PATH-7")
def test_without_hard_links_a_failed_rename_leaves_nothing(tmp_path: Path):
    ops = replace(without_hard_links(), rename=failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        publish_new(str(tmp_path / "a.md"), NEW, ops)
    assert names(tmp_path) == []


@pytest.mark.req("PATH-7")
@pytest.mark.parametrize(
    ("publish", "step", "code"),
    [
        *((publish_new, step, errno.ENOSPC) for step in ("open", "write", "fsync")),
        *((publish_replace, step, errno.ENOSPC) for step in ("open", "write", "fsync", "rename")),
        (publish_new, "link", errno.EIO),
        (publish_new, "link", errno.ENOSPC),
    ],
)
def test_a_failing_disk_changes_nothing_and_leaves_nothing(
    tmp_path: Path, publish: Publish, step: str, code: int
):
    target = tmp_path / "a.md"
    if publish is publish_replace:
        target.write_bytes(OLD)
    before = names(tmp_path)
    with pytest.raises(OSError) as caught:
        publish(str(target), NEW, replace(REAL_DISK, **{step: failing(code)}))
    assert caught.value.errno == code
    assert names(tmp_path) == before
    assert not before or target.read_bytes() == OLD


@pytest.mark.req("PATH-7")
def test_short_writes_are_continued_and_a_full_disk_in_between_changes_nothing(tmp_path: Path):
    target = tmp_path / "a.md"

    def in_pieces(descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data[:1000])

    publish_new(str(target), NEW, replace(REAL_DISK, write=in_pieces))
    assert target.read_bytes() == NEW

    room = [3000]

    def until_full(descriptor: int, data: memoryview) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "full")
        room[0] -= 1000
        return in_pieces(descriptor, data)

    with pytest.raises(OSError, match="full"):
        publish_replace(str(target), OLD * 100, replace(REAL_DISK, write=until_full))
    assert target.read_bytes() == NEW
    assert names(tmp_path) == ["a.md"]


@pytest.mark.req("PATH-7")
@pytest.mark.parametrize("published", [publish_new, publish_replace])
def test_what_reads_back_differently_is_not_published(tmp_path: Path, published: Publish):
    def lying(descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, bytes(len(data)))

    def losing(_: int, data: memoryview) -> int:
        return len(data)

    for write in (lying, losing):
        with pytest.raises(OSError, match="reads back differently"):
            published(str(tmp_path / "a.md"), NEW, replace(REAL_DISK, write=write))
        assert names(tmp_path) == []


@pytest.mark.req("PATH-7")
def test_data_is_on_disk_before_the_name_and_the_name_before_success(tmp_path: Path):
    log: list[str] = []
    publish_new(str(tmp_path / "a.md"), NEW, recording(log))
    assert log == ["open", "write", "fsync", "link", "unlink", "fsync directory"]
    log.clear()
    publish_replace(str(tmp_path / "a.md"), OLD, recording(log))
    assert log == ["open", "write", "fsync", "rename", "fsync directory"]


@pytest.mark.req("PATH-7")
def test_a_directory_that_cannot_be_flushed_is_no_failure(tmp_path: Path):
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not for directories")

    publish_new(str(tmp_path / "a.md"), NEW, replace(REAL_DISK, fsync=fsync))
    assert (tmp_path / "a.md").read_bytes() == NEW


@pytest.mark.req("PATH-7")
def test_a_planted_temporary_name_is_neither_followed_nor_removed(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.write_bytes(OLD)
    planted = tmp_path / f".a.md.{os.getpid()}.guessed.tmp"
    planted.symlink_to(outside)
    names = iter(["guessed", "fresh"])
    publish_new(str(tmp_path / "a.md"), NEW, replace(REAL_DISK, random_name=lambda: next(names)))
    assert outside.read_bytes() == OLD
    assert planted.is_symlink()
    assert (tmp_path / "a.md").read_bytes() == NEW

    with pytest.raises(OSError, match="temporary name") as caught:
        publish_replace(str(tmp_path / "a.md"), OLD, replace(REAL_DISK, random_name=lambda: "guessed"))
    assert not isinstance(caught.value, FileExistsError)
    assert planted.is_symlink()
    assert (tmp_path / "a.md").read_bytes() == NEW


@pytest.mark.req("PATH-7")
@pytest.mark.parametrize("name", ["x" * 252 + ".md", "é" * 126 + ".md", "\udcff" * 252 + ".md", "ab.md"])
def test_the_temporary_name_lies_beside_the_target_and_is_short(tmp_path: Path, name: str):
    seen: list[str] = []

    def link(source: str, target: str) -> None:
        seen.append(source)
        os.link(source, target)

    publish_new(str(tmp_path / name), NEW, replace(REAL_DISK, link=link, random_name=lambda: "0" * 16))
    assert (tmp_path / name).read_bytes() == NEW
    temporary = Path(seen[0])
    assert temporary.parent == tmp_path
    assert len(os.fsencode(temporary.name)) <= 143
    assert temporary.name.startswith("." + name[:40].replace("\udcff", ""))
    assert temporary.name.endswith(f".{os.getpid()}.{'0' * 16}.tmp")


@pytest.mark.req("PATH-7")
def test_relative_paths_and_missing_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    publish_new("a.md", NEW)
    publish_replace("a.md", OLD)
    assert (tmp_path / "a.md").read_bytes() == OLD
    assert names(tmp_path) == ["a.md"]
    with pytest.raises(FileNotFoundError):
        publish_new("missing/a.md", NEW)


@pytest.mark.req("PATH-7")
def test_of_many_that_create_the_same_file_one_wins(tmp_path: Path):
    outcomes: list[object] = []
    start = threading.Barrier(8)

    def attempt(number: int) -> None:
        start.wait()
        try:
            publish_new(str(tmp_path / "a.md"), b"%d" % number * 1000)
        except FileExistsError:
            outcomes.append(None)
        else:
            outcomes.append(b"%d" % number * 1000)

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [outcome for outcome in outcomes if outcome]
    assert len(outcomes) == 8
    assert winners == [(tmp_path / "a.md").read_bytes()]
    assert names(tmp_path) == ["a.md"]


CRASHES = """
import os, sys
from dataclasses import fields, replace
from pi_project_memory.actors.ports import publish

kind, folder = sys.argv[1], sys.argv[2]
OLD, NEW = b"old\\n" * 50, b"new content\\n" * 5000
STEPS = [field.name for field in fields(publish.DiskOps) if field.name not in ("random_name", "mkdir")]

def no_links(*_):
    raise OSError(1, "no hard links here")

BASE = replace(publish.REAL_DISK, link=no_links) if kind == "without-links" else publish.REAL_DISK

def dying(at):
    instants = iter(range(1000))
    def stop_here():
        if next(instants) == at:
            os._exit(9)
    def wrap(call):
        def stepped(*args):
            stop_here()
            result = call(*args)
            stop_here()
            return result
        return stepped
    return replace(BASE, **{name: wrap(getattr(BASE, name)) for name in STEPS})

for at in range(100):
    target = f"{folder}/{at}/a.md"
    os.mkdir(f"{folder}/{at}")
    if kind == "replace":
        with open(target, "wb") as file:
            file.write(OLD)
    child = os.fork()
    if child == 0:
        run = publish.publish_replace if kind == "replace" else publish.publish_new
        run(target, NEW, dying(at))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
    content = open(target, "rb").read() if os.path.exists(target) else None
    left = [name for name in os.listdir(f"{folder}/{at}") if name != "a.md"]
    whole = {OLD: "old", NEW: "new", None: "none", b"": "empty"}.get(content, "TORN")
    hidden = all(name.startswith(".a.md.") and name.endswith(".tmp") for name in left)
    print(whole, len(left), hidden)
"""


@pytest.mark.req("PATH-7")
@pytest.mark.real_time
@pytest.mark.parametrize(
    ("kind", "states"),
    [("new", ["none", "new"]), ("replace", ["old", "new"]), ("without-links", ["none", "empty", "new"])],
)
def test_death_at_any_instant_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, kind: str, states: list[str]
):
    finished = subprocess.run(
        [sys.executable, "-c", CRASHES, kind, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    seen = [line.split() for line in finished.stdout.splitlines()]
    assert len(seen) >= 10
    assert list(dict.fromkeys(state for state, _, _ in seen)) == states
    assert all(int(left) <= 1 and hidden == "True" for _, left, hidden in seen)


async def run_async(publish: Any, path: Path) -> None:
    await in_worker(publish, str(path), NEW)


@pytest.mark.req("PATH-7")
async def test_a_publish_that_began_completes_in_spite_of_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    loop = asyncio.get_running_loop()
    entered, go_on = asyncio.Event(), threading.Event()
    real_fchmod = os.fchmod

    def held(descriptor: int, mode: int) -> None:
        loop.call_soon_threadsafe(entered.set)
        assert go_on.wait(10)
        real_fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", held)

    async def cancelled_by_scope() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(run_async, publish_new, tmp_path / "scope.md")
                await entered.wait()
                scope.cancel()
                loop.call_later(0, go_on.set)
        assert scope.cancelled_caught

    async def cancelled_itself() -> None:
        task = asyncio.create_task(run_async(publish_replace, tmp_path / "task.md"))
        await entered.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    for attempt in (cancelled_by_scope, cancelled_itself):
        entered.clear()
        go_on.clear()
        await attempt()
    assert (tmp_path / "scope.md").read_bytes() == (tmp_path / "task.md").read_bytes() == NEW
    assert names(tmp_path) == ["scope.md", "task.md"]


@pytest.mark.req("PATH-7")
async def test_a_cancelled_scope_waits_without_spinning(monkeypatch: pytest.MonkeyPatch):
    go_on, waits = threading.Event(), [0]
    real_wait = asyncio.wait

    async def counted(*args: Any) -> Any:
        waits[0] += 1
        return await real_wait(*args)

    monkeypatch.setattr(asyncio, "wait", counted)

    async def release() -> None:
        with anyio.CancelScope(shield=True):
            while not waits[0]:
                await asyncio.sleep(0)
            scope.cancel()
            for _ in range(100):
                await asyncio.sleep(0)
            go_on.set()

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(release)
            assert await in_worker(go_on.wait, 10.0)
    assert waits == [1]


@pytest.mark.req("PATH-7")
async def test_what_was_cancelled_before_it_began_does_nothing(tmp_path: Path):
    with anyio.CancelScope() as scope:
        scope.cancel()
        await in_worker(publish_new, str(tmp_path / "a.md"), NEW)
    assert scope.cancelled_caught
    task = asyncio.create_task(run_async(publish_new, tmp_path / "a.md"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(tmp_path) == []


@pytest.mark.req("PATH-7")
async def test_errors_of_the_worker_reach_the_caller(tmp_path: Path):
    await in_worker(publish_new, str(tmp_path / "a.md"), OLD)
    with pytest.raises(FileExistsError):
        await in_worker(publish_new, str(tmp_path / "a.md"), NEW)
    await in_worker(publish_replace, str(tmp_path / "a.md"), NEW)
    assert (tmp_path / "a.md").read_bytes() == NEW
