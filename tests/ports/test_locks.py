from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_project_memory.actors.core.lock_rules import (
    DREAM_LOCK,
    EXTRACT_LOCK,
    LAST_DREAM_AT_LOCK,
    Busy,
    BusyReason,
    Holder,
    LockRecord,
    LockSpec,
)
from pi_project_memory.actors.ports.lock_files import LockFilesError
from pi_project_memory.actors.ports.lock_ops import DISK, FileSeen, LockOps
from pi_project_memory.actors.ports.locks import FileLocks, LockHandle, Locks, MemoryLocks
from pi_project_memory.actors.ports.process_identity import (
    SystemProcesses,
    Token,
    Vantage,
    Verdict,
    format_token,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
SPECS = [EXTRACT_LOCK, DREAM_LOCK, LAST_DREAM_AT_LOCK]
LOCK = EXTRACT_LOCK.name
ARBITER = f"{LOCK}.recover"


@dataclass
class CastProcesses:
    """Processes as the test casts them; whom it does not name is gone."""

    cast: dict[int, Holder] = field(default_factory=dict)
    issued: int = 0

    def pid(self) -> int:
        return 1000

    def issue_token(self) -> str:
        self.issued += 1
        return f"token {self.issued}"

    def judge(self, record: LockRecord, now_ms: int) -> Verdict:
        return Verdict(self.cast.get(record.pid, Holder.GONE), now_ms - record.acquired_at)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "locks").mkdir()
    return tmp_path / "locks"


@pytest.fixture
def locks(folder: Path) -> FileLocks:
    return FileLocks(folder, CastProcesses({1000: Holder.ALIVE}))


def put(path: Path, content: bytes | dict[str, object], *, age_ms: int = 0) -> None:
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    made_at = DISK.now_ms() - age_ms
    os.utime(path, ns=(made_at * 1_000_000, made_at * 1_000_000))


def left_by(pid: int, *, age_ms: int, token: str = "x") -> dict[str, object]:
    return {"pid": pid, "token": token, "acquiredAt": DISK.now_ms() - age_ms}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def held(locks: Locks, spec: LockSpec = EXTRACT_LOCK) -> LockHandle:
    outcome = await locks.acquire(spec)
    assert isinstance(outcome, LockHandle), outcome
    return outcome


async def refused(locks: Locks, spec: LockSpec = EXTRACT_LOCK) -> Busy:
    outcome = await locks.acquire(spec)
    assert isinstance(outcome, Busy), outcome
    return outcome


@pytest.fixture(params=["files", "memory"])
def either(request: pytest.FixtureRequest, locks: FileLocks) -> Locks:
    return locks if request.param == "files" else MemoryLocks()


@pytest.mark.req("LCK-1")
async def test_one_holder_at_a_time_and_one_lock_does_not_concern_another(either: Locks) -> None:
    handle = await held(either)
    assert (await refused(either)).reason is BusyReason.HELD
    async with await held(either, DREAM_LOCK), await held(either, LAST_DREAM_AT_LOCK):
        assert await handle.still_held()
    assert await handle.release()
    assert not await handle.still_held()
    async with await held(either) as second:
        assert not await handle.release()
        assert await second.still_held()
    await (await held(either)).release()


@pytest.mark.req("LCK-1")
async def test_an_error_inside_gives_the_lock_back(either: Locks) -> None:
    with pytest.raises(ZeroDivisionError):
        async with await held(either):
            raise ZeroDivisionError
    await held(either)


async def test_memory_locks_can_be_in_other_hands() -> None:
    busy = Busy(BusyReason.HELD, 7, 5)
    locks = MemoryLocks({LOCK: busy})
    assert await refused(locks) == busy
    await held(locks, DREAM_LOCK)


@pytest.mark.req("LCK-1", "PATH-4", "PATH-5")
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_the_file_says_who_and_since_when_and_is_private(folder: Path, spec: LockSpec) -> None:
    before = DISK.now_ms()
    async with await held(FileLocks(folder), spec):
        assert names(folder) == [spec.name]
        content = json.loads((folder / spec.name).read_bytes())
        assert list(content) == ["pid", "token", "acquiredAt"]
        assert content["pid"] == os.getpid()
        assert before <= content["acquiredAt"] <= DISK.now_ms()
        assert stat.S_IMODE((folder / spec.name).stat().st_mode) == 0o600
    assert names(folder) == []


@pytest.mark.req("LCK-1", "C14")
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_a_dead_holder_is_taken_over_after_the_stale_time_and_not_before(
    folder: Path, locks: FileLocks, spec: LockSpec
) -> None:
    put(folder / spec.name, left_by(7, age_ms=spec.stale_ms - MINUTE // 2))
    busy = await refused(locks, spec)
    assert (busy.reason, busy.holder_pid) == (BusyReason.YOUNG, 7)
    assert busy.age_ms is not None
    assert busy.age_ms >= spec.stale_ms - MINUTE // 2
    assert names(folder) == [spec.name]

    put(folder / spec.name, left_by(7, age_ms=spec.stale_ms + MINUTE))
    async with await held(locks, spec):
        assert names(folder) == [spec.name]
        assert json.loads((folder / spec.name).read_bytes())["token"] == "token 2"
    assert names(folder) == []


@pytest.mark.req("LCK-1")
async def test_the_arbiter_is_there_while_the_dead_lock_is_removed(folder: Path, locks: FileLocks) -> None:
    put(folder / LOCK, left_by(7, age_ms=HOUR))
    seen: list[tuple[str, list[str]]] = []

    def unlink(path: Path) -> None:
        seen.append((path.name, [name for name in names(folder) if name.startswith(LOCK)]))
        DISK.unlink(path)

    await held(replace(locks, ops=replace(DISK, unlink=unlink)))
    assert seen[:2] == [(LOCK, [LOCK, ARBITER]), (ARBITER, [ARBITER])]


@pytest.mark.req("LCK-1", "LCK-2")
@pytest.mark.parametrize("age_ms", [0, HOUR, 30 * 24 * HOUR, -HOUR, -30 * 24 * HOUR])
async def test_a_live_holder_is_never_evicted_by_age(folder: Path, locks: FileLocks, age_ms: int) -> None:
    put(folder / LOCK, left_by(1000, age_ms=age_ms), age_ms=age_ms)
    before = (folder / LOCK).read_bytes()
    assert (await refused(locks)).reason is BusyReason.HELD
    assert (folder / LOCK).read_bytes() == before
    assert names(folder) == [LOCK]


@pytest.mark.real_time
@pytest.mark.req("LCK-2", "C15")
async def test_a_lock_older_than_the_process_that_now_has_its_id_is_taken_over(folder: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for pid in (child.pid, os.getpid()):
            put(folder / LOCK, left_by(pid, age_ms=24 * HOUR))
            async with await held(FileLocks(folder)):
                assert names(folder) == [LOCK]
        at_once = LockSpec(LOCK, 0)
        put(folder / LOCK, left_by(child.pid, age_ms=1))
        busy = await refused(FileLocks(folder), at_once)
        assert (busy.reason, busy.holder_pid) == (BusyReason.HELD, child.pid)
    finally:
        child.kill()
        child.communicate()
    async with await held(FileLocks(folder), at_once):
        assert names(folder) == [LOCK]


@pytest.mark.req("LCK-2")
@pytest.mark.parametrize("boot_id", ["99999999-2222-3333-4444-555555555555", "-"])
async def test_a_holder_out_of_sight_counts_as_gone_after_a_stale_time_of_silence(
    folder: Path, boot_id: str
) -> None:
    locks = FileLocks(folder)
    token = format_token(Token(Vantage(boot_id, "1"), 5, 5), "0123456789abcdef")
    elsewhere = left_by(os.getpid(), age_ms=5 * HOUR, token=token)
    put(folder / LOCK, elsewhere, age_ms=14 * MINUTE)
    assert (await refused(locks)).reason is BusyReason.YOUNG
    put(folder / LOCK, elsewhere, age_ms=16 * MINUTE)
    async with await held(locks):
        assert names(folder) == [LOCK]


@pytest.mark.req("LCK-2")
async def test_a_holder_gives_a_sign_of_life_when_it_asks_for_its_lock(
    folder: Path, locks: FileLocks
) -> None:
    handle = await held(locks)
    content = (folder / LOCK).read_bytes()
    put(folder / LOCK, content, age_ms=HOUR)
    out_of_sight = replace(locks, processes=CastProcesses({1000: Holder.HIDDEN}))
    assert await handle.still_held()
    assert DISK.now_ms() - (folder / LOCK).stat().st_mtime_ns // 1_000_000 < MINUTE
    assert (folder / LOCK).read_bytes() == content
    assert (await refused(out_of_sight)).reason is BusyReason.YOUNG


@pytest.mark.req("LCK-1")
@pytest.mark.parametrize("thief", [left_by(5, age_ms=0), b"", b"{", None])
async def test_a_release_never_removes_what_is_not_ours(
    folder: Path, locks: FileLocks, thief: bytes | dict[str, object] | None
) -> None:
    handle = await held(locks)
    (folder / LOCK).unlink()
    if thief is not None:
        put(folder / LOCK, thief, age_ms=HOUR)
    status = [(path.name, path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()]
    assert not await handle.still_held()
    assert not await handle.release()
    assert [(path.name, path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()] == status


NAMELESS = [
    b"",
    b'{"pid":12',
    b'{"pid":"abc","token":"x","acquiredAt":1}',
    b"\0" * 100,
    b"somebody else's notes",
    b"x" * 100_000,
]


@pytest.mark.req("LCK-3", "LCK-2", "C16")
@pytest.mark.parametrize("content", NAMELESS, ids=range(len(NAMELESS)))
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
async def test_content_that_names_nobody_ages_by_its_file(
    folder: Path, locks: FileLocks, content: bytes, spec: LockSpec
) -> None:
    for young in (0, spec.stale_ms - MINUTE // 2):
        put(folder / spec.name, content, age_ms=young)
        busy = await refused(locks, spec)
        assert (busy.reason, busy.holder_pid) == (BusyReason.YOUNG, None)
        assert (folder / spec.name).read_bytes() == content
    put(folder / spec.name, content, age_ms=spec.stale_ms + 5 * MINUTE)
    async with await held(locks, spec):
        assert names(folder) == [spec.name]
    assert names(folder) == []


@pytest.mark.req("LCK-2", "C16")
@pytest.mark.parametrize("arbiter", [left_by(8, age_ms=20 * MINUTE), b"", b'{"pid":1'])
@pytest.mark.parametrize("lock", [None, left_by(7, age_ms=HOUR), b""])
async def test_an_arbiter_left_by_a_crash_is_recovered_by_the_same_rule(
    folder: Path,
    locks: FileLocks,
    lock: bytes | dict[str, object] | None,
    arbiter: bytes | dict[str, object],
) -> None:
    if lock is not None:
        put(folder / LOCK, lock, age_ms=HOUR)
    put(folder / ARBITER, arbiter, age_ms=20 * MINUTE)
    async with await held(locks):
        assert names(folder) == [LOCK]
    assert names(folder) == []


@pytest.mark.req("LCK-1", "LCK-2")
@pytest.mark.parametrize("arbiter", [left_by(8, age_ms=MINUTE), left_by(1000, age_ms=5 * HOUR), b""])
async def test_a_takeover_under_way_is_left_alone(
    folder: Path, locks: FileLocks, arbiter: bytes | dict[str, object]
) -> None:
    put(folder / LOCK, left_by(7, age_ms=HOUR))
    put(folder / ARBITER, arbiter, age_ms=MINUTE)
    assert (await refused(locks)).reason is BusyReason.RECOVERING
    assert names(folder) == [LOCK, ARBITER]


@pytest.mark.req("LCK-2")
async def test_a_chain_of_crashed_takeovers_is_cleared_in_one_go(folder: Path, locks: FileLocks) -> None:
    for depth in range(6):
        put(folder / (LOCK + depth * ".recover"), left_by(8, age_ms=HOUR))
    async with await held(locks):
        assert names(folder) == [LOCK]


@pytest.mark.req("LCK-2")
async def test_left_candidates_are_swept_and_those_of_others_are_not(folder: Path, locks: FileLocks) -> None:
    put(folder / f".{LOCK}.7.aa.tmp", left_by(7, age_ms=HOUR))
    put(folder / f".{LOCK}.8.bb.tmp", b"", age_ms=HOUR)
    kept = {
        f".{LOCK}.9.cc.tmp": left_by(9, age_ms=MINUTE),
        f".{LOCK}.1000.dd.tmp": left_by(1000, age_ms=HOUR),
        f".{DREAM_LOCK.name}.7.ee.tmp": left_by(7, age_ms=HOUR),
        f"{LOCK}.recovered": b"",
        "notes.txt": b"",
    }
    for name, content in kept.items():
        put(folder / name, content, age_ms=HOUR)
    async with await held(locks):
        assert names(folder) == sorted([LOCK, *kept])


@pytest.mark.req("LCK-3")
async def test_a_link_is_not_followed_and_its_target_survives(folder: Path, locks: FileLocks) -> None:
    target = folder.parent / "target"
    put(target, left_by(7, age_ms=HOUR), age_ms=HOUR)
    (folder / LOCK).symlink_to(target)
    assert (await refused(locks)).reason is BusyReason.YOUNG
    long_ago = DISK.now_ms() * 1_000_000 - HOUR * 1_000_000
    os.utime(folder / LOCK, ns=(long_ago, long_ago), follow_symlinks=False)
    await held(locks)
    assert not (folder / LOCK).is_symlink()
    assert json.loads(target.read_bytes())["pid"] == 7


@pytest.mark.req("LCK-3")
async def test_a_pipe_in_the_place_of_a_lock_holds_nobody_up(folder: Path, locks: FileLocks) -> None:
    os.mkfifo(folder / LOCK)
    assert (await refused(locks)).reason is BusyReason.YOUNG


async def test_a_directory_in_the_place_of_a_lock_is_an_error_that_names_it(
    folder: Path, locks: FileLocks
) -> None:
    (folder / LOCK).mkdir()
    long_ago = DISK.now_ms() * 1_000_000 - HOUR * 1_000_000
    os.utime(folder / LOCK, ns=(long_ago, long_ago))
    with pytest.raises(LockFilesError, match=str(folder / LOCK)):
        await locks.acquire(EXTRACT_LOCK)
    assert names(folder) == [LOCK]


async def test_a_missing_directory_is_an_error_that_names_it_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(LockFilesError, match=r"missing.*extract\.lock.*exists and is writable"):
        await FileLocks(tmp_path / "missing").acquire(EXTRACT_LOCK)
    assert names(tmp_path) == []


def without_links(ops: LockOps = DISK) -> LockOps:
    def link(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(target))

    return replace(ops, link=link)


@pytest.mark.req("LCK-1", "LCK-2")
async def test_a_disk_without_hard_links_gives_the_same_lock(folder: Path, locks: FileLocks) -> None:
    locks = replace(locks, ops=without_links())
    put(folder / LOCK, left_by(7, age_ms=HOUR))
    async with await held(locks) as handle:
        assert names(folder) == [LOCK]
        assert await handle.still_held()
        assert (await refused(locks)).reason is BusyReason.HELD
        assert json.loads((folder / LOCK).read_bytes())["pid"] == 1000
    assert names(folder) == []


@pytest.mark.req("LCK-2")
async def test_who_sleeps_while_writing_its_lock_without_hard_links_does_not_count_on_it(
    folder: Path, locks: FileLocks
) -> None:
    asleep_ms = 0

    def create(path: Path, data: bytes) -> None:
        nonlocal asleep_ms
        DISK.create(path, data)
        asleep_ms += 8 * MINUTE if path.name == LOCK else 0

    ops = without_links(replace(DISK, create=create, now_ms=lambda: DISK.now_ms() + asleep_ms))
    assert (await refused(replace(locks, ops=ops))).reason is BusyReason.CONTENDED
    assert asleep_ms > 0
    assert names(folder) == []


@pytest.mark.req("LCK-2")
async def test_a_lost_answer_of_a_network_disk_loses_no_lock(folder: Path, locks: FileLocks) -> None:
    def link(source: Path, target: Path) -> None:
        DISK.link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists", str(target))

    put(folder / LOCK, left_by(7, age_ms=HOUR))
    async with await held(replace(locks, ops=replace(DISK, link=link))):
        assert names(folder) == [LOCK]
    assert names(folder) == []


@pytest.mark.req("LCK-3")
@pytest.mark.parametrize("ahead_ms", [-HOUR, HOUR])
async def test_the_clock_of_the_disk_may_be_wrong(folder: Path, locks: FileLocks, ahead_ms: int) -> None:
    def look(path: Path) -> FileSeen | None:
        seen = DISK.look(path)
        return None if seen is None else replace(seen, modified_ms=seen.modified_ms + ahead_ms)

    locks = replace(locks, ops=replace(DISK, look=look))
    put(folder / LOCK, b"", age_ms=14 * MINUTE)
    assert (await refused(locks)).reason is BusyReason.YOUNG
    put(folder / LOCK, b"", age_ms=16 * MINUTE)
    await held(locks)


def fails(path: Path, *_: object) -> None:
    raise OSError(errno.EIO, "Input/output error", str(path))


@pytest.mark.parametrize("broken", ["names", "unlink"])
async def test_a_failing_cleanup_does_not_cost_the_lock(folder: Path, locks: FileLocks, broken: str) -> None:
    failing = replace(locks, ops=replace(DISK, **{broken: fails}))
    await held(failing)
    assert json.loads((folder / LOCK).read_bytes())["pid"] == 1000


@pytest.mark.parametrize("broken", ["create", "link", "look"])
async def test_a_failing_disk_is_told_with_the_path_and_nothing_is_held(
    folder: Path, locks: FileLocks, broken: str
) -> None:
    with pytest.raises(LockFilesError, match=rf"{folder / LOCK}.*Input/output error"):
        await replace(locks, ops=replace(DISK, **{broken: fails})).acquire(EXTRACT_LOCK)
    assert LOCK not in names(folder)
    await held(locks)


def test_a_disk_that_fills_up_leaves_no_half_written_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space"):
        DISK.create(folder / "a", b"data")
    assert names(folder) == []


@dataclass
class Gate:
    """Holds one effect up until it is opened; `reached` tells that the worker stands before or after it."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def after(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        def held_up(*arguments: Any) -> Any:
            answer = effect(*arguments)
            self.reached.set()
            assert self.opened.wait(10)
            return answer

        return held_up


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


async def reach(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.reached.wait, 10)


@pytest.mark.req("LCK-2")
async def test_a_task_cancelled_while_it_acquires_holds_nothing(
    folder: Path, locks: FileLocks, gate: Gate
) -> None:
    slow = replace(locks, ops=replace(DISK, link=gate.after(DISK.link)))
    task = asyncio.create_task(slow.acquire(EXTRACT_LOCK))
    await reach(gate)
    assert names(folder)[-1] == LOCK
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    gate.opened.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(folder) == []


@pytest.mark.req("LCK-2")
async def test_a_scope_cancelled_while_it_acquires_releases_on_the_way_out(
    folder: Path, locks: FileLocks, gate: Gate
) -> None:
    slow = replace(locks, ops=replace(DISK, link=gate.after(DISK.link)))

    async def work() -> None:
        async with await held(slow):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await reach(gate)
        group.cancel_scope.cancel()
        gate.opened.set()
    assert names(folder) == []


@pytest.mark.req("LCK-1")
async def test_a_cancelled_holder_releases(folder: Path, locks: FileLocks) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with await held(locks):
            inside.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(folder) == []


@pytest.mark.req("LCK-1")
async def test_a_release_on_the_way_out_of_a_cancelled_scope_leaves_the_loop_alone(
    folder: Path, locks: FileLocks
) -> None:
    threads: list[threading.Thread] = []

    def unlink(path: Path) -> None:
        threads.append(threading.current_thread())
        DISK.unlink(path)

    handle = await held(replace(locks, ops=replace(DISK, unlink=unlink)))
    with anyio.CancelScope() as scope:
        async with handle:
            scope.cancel()
            await anyio.sleep_forever()
    assert names(folder) == []
    assert threading.main_thread() not in threads


@pytest.mark.req("LCK-1")
@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_a_release_that_is_cancelled_again_and_again_still_happens(
    folder: Path, locks: FileLocks, cancellations: int
) -> None:
    handle = await held(locks)
    task = asyncio.create_task(handle.release())
    for _ in range(cancellations):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(folder) == []


@pytest.mark.real_time
@pytest.mark.req("LCK-1", "LCK-2", "C14")
async def test_a_killed_process_leaves_a_lock_that_others_get_after_the_stale_time(folder: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from pi_project_memory.actors.core.lock_rules import LockSpec\n"
        "from pi_project_memory.actors.ports.locks import FileLocks\n"
        "outcome = asyncio.run(FileLocks(Path(sys.argv[1])).acquire(LockSpec('x.lock', 0)))\n"
        "print(type(outcome).__name__, flush=True)\n"
        "input()\n"
    )
    spec = LockSpec("x.lock", 0)
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"FileLockHandle\n"
        busy = await refused(FileLocks(folder), spec)
        assert (busy.reason, busy.holder_pid) == (BusyReason.HELD, child.pid)
    finally:
        child.kill()
        child.communicate()
    patient = LockSpec("x.lock", HOUR)
    assert (await refused(FileLocks(folder), patient)).reason is BusyReason.YOUNG
    async with await held(FileLocks(folder), spec):
        assert names(folder) == ["x.lock"]
    assert names(folder) == []


def test_the_processes_of_this_machine_are_the_default(folder: Path) -> None:
    assert FileLocks(folder) == FileLocks(folder, SystemProcesses(), DISK)
