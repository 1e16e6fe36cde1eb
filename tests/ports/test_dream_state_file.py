from __future__ import annotations

import asyncio
import errno
import json
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pi_project_memory.actors.core.dream_state import DreamState
from pi_project_memory.actors.core.lock_rules import LAST_DREAM_AT_LOCK, Busy, BusyReason
from pi_project_memory.actors.ports import dream_state
from pi_project_memory.actors.ports.clock import ManualClock, SystemClock
from pi_project_memory.actors.ports.dream_state import (
    Damaged,
    DreamStateFile,
    MemoryDreamState,
    Mismatch,
    Swapped,
)
from pi_project_memory.actors.ports.locks import FileLocks, LockHandle, MemoryLocks

NOW = 1_796_048_090_000
LATER = NOW + 5_000


@pytest.fixture
def state(tmp_path: Path) -> DreamStateFile:
    for name in ("root", "root/locks", "project"):
        (tmp_path / name).mkdir()
    return DreamStateFile(
        tmp_path / "root/state.json",
        tmp_path / "project/state.json",
        FileLocks(tmp_path / "root/locks"),
        ManualClock(LATER),
    )


def text(time: object, *, version: object = 1, name: str = "lastDreamAt") -> str:
    return json.dumps({"schemaVersion": version, name: time})


DAMAGE = {
    "syntax": "{bad",
    "empty": "",
    "version": text(NOW, version=2),
    "words": text("yesterday"),
    "null": text(None),
    "not a number": '{"schemaVersion":1,"lastDreamAt":NaN}',
}


def everything(state: DreamStateFile) -> dict[str, bytes]:
    root = state.state_path.parent.parent
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.req("PATH-4", "DRM-1")
async def test_without_any_file_dream_was_never_attempted_and_nothing_is_made(state: DreamStateFile) -> None:
    assert await state.read() == DreamState(None)
    assert everything(state) == {}


@pytest.mark.req("PATH-4")
@pytest.mark.parametrize("name", ["lastDreamAt", "lastSuccessfulDreamAt"])
async def test_the_project_s_older_file_is_read_only_while_the_shared_one_is_missing(
    state: DreamStateFile, name: str
) -> None:
    state.fallback_path.write_text(text(NOW - 7, name=name))
    assert await state.read() == DreamState(NOW - 7)
    state.state_path.write_text(text(NOW))
    assert await state.read() == DreamState(NOW)


@pytest.mark.req("PATH-4", "PATH-5", "DRM-2")
async def test_a_swap_writes_the_shared_file_alone_whole_and_private(state: DreamStateFile) -> None:
    state.fallback_path.write_text(text(NOW - 7, name="lastSuccessfulDreamAt"))
    old = state.fallback_path.read_bytes()
    assert await state.compare_and_swap(NOW - 7, NOW) == Swapped()
    assert json.loads(state.state_path.read_bytes()) == {"schemaVersion": 1, "lastDreamAt": NOW}
    assert stat.S_IMODE(state.state_path.stat().st_mode) == 0o600
    assert list(everything(state)) == [str(state.fallback_path), str(state.state_path)]
    assert state.fallback_path.read_bytes() == old


@pytest.mark.req("DRM-2", "C23")
@pytest.mark.parametrize("before", [None, 0, NOW - 7, LATER + 99])
async def test_an_attempt_is_rolled_back_to_what_was_recorded_before(
    state: DreamStateFile, before: int | None
) -> None:
    if before is not None:
        state.state_path.write_text(text(before))
    assert await state.compare_and_swap(before, NOW) == Swapped()
    assert await state.read() == DreamState(NOW)
    assert await state.compare_and_swap(NOW, before) == Swapped()
    current = await state.read()
    assert isinstance(current, DreamState)
    assert current.recorded_at == before


@pytest.mark.req("DRM-2", "C19")
@pytest.mark.parametrize(("recorded", "expected"), [(NOW, NOW - 1), (NOW, None), (None, NOW)])
async def test_a_rollback_that_finds_another_time_changes_nothing(
    state: DreamStateFile, recorded: int | None, expected: int | None
) -> None:
    if recorded is not None:
        state.state_path.write_text(text(recorded))
    before = everything(state)
    assert await state.compare_and_swap(expected, NOW + 1) == Mismatch(DreamState(recorded))
    assert everything(state) == before


@pytest.mark.req("DRM-2", "C19")
@pytest.mark.parametrize("recorded", [None, NOW])
async def test_of_two_swaps_at_once_one_wins_and_the_other_is_told(
    state: DreamStateFile, recorded: int | None
) -> None:
    if recorded is not None:
        state.state_path.write_text(text(recorded))
    rival = replace(state, locks=FileLocks(state.state_path.parent / "locks"))
    outcomes = await asyncio.gather(
        state.compare_and_swap(recorded, NOW + 1), rival.compare_and_swap(recorded, NOW + 2)
    )
    winner = NOW + 1 + outcomes.index(Swapped())
    assert sorted(outcomes, key=repr) == [Mismatch(DreamState(winner)), Swapped()]
    assert await state.read() == DreamState(winner)
    assert list(everything(state)) == [str(state.state_path)]


@pytest.mark.req("DRM-2", "DRM-5")
async def test_the_form_in_memory_behaves_alike() -> None:
    state = MemoryDreamState()
    assert await state.compare_and_swap(NOW, NOW + 1) == Mismatch(DreamState(None))
    assert await state.compare_and_swap(None, NOW) == Swapped()
    assert await state.read() == DreamState(NOW)
    damaged = Damaged(Path("state.json"), "it is not")
    broken = MemoryDreamState(damaged)
    assert await broken.read() == damaged
    assert await broken.compare_and_swap(None, NOW) == damaged


@pytest.mark.req("DRM-5", "C19")
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("place", ["state_path", "fallback_path"])
async def test_a_damaged_file_is_told_and_never_overwritten(
    state: DreamStateFile, damage: str, place: str
) -> None:
    path: Path = getattr(state, place)
    path.write_text(damage)
    found = await state.read()
    assert isinstance(found, Damaged)
    assert found.path == path
    assert str(path) in str(found)
    for expected in (None, NOW):
        assert await state.compare_and_swap(expected, NOW + 1) == found
    assert everything(state) == {str(path): damage.encode()}


@pytest.mark.req("DRM-5")
async def test_a_link_or_a_directory_in_the_place_of_the_file_is_damage(state: DreamStateFile) -> None:
    outside = state.state_path.parent / "outside.json"
    outside.write_text(text(NOW))
    state.state_path.symlink_to(outside)
    assert isinstance(await state.compare_and_swap(NOW, NOW + 1), Damaged)
    assert outside.read_text() == text(NOW)
    state.state_path.unlink()
    state.state_path.mkdir()
    assert isinstance(await state.compare_and_swap(NOW, NOW + 1), Damaged)
    assert state.state_path.is_dir()


@pytest.mark.req("DRM-1", "C19")
async def test_a_time_in_the_future_counts_as_never_and_can_be_replaced(state: DreamStateFile) -> None:
    state.state_path.write_text(text(LATER + 1))
    current = await state.read()
    assert current == DreamState(LATER + 1, ahead_of_clock=True)
    assert isinstance(current, DreamState)
    assert current.last_dream_at is None
    assert await state.compare_and_swap(current.recorded_at, NOW) == Swapped()
    assert await state.read() == DreamState(NOW)


@pytest.mark.req("LCK-1", "DRM-2")
async def test_a_lock_in_other_hands_makes_the_swap_wait_and_then_give_up(state: DreamStateFile) -> None:
    state.state_path.write_text(text(NOW))
    held = Busy(BusyReason.HELD, 7, 5)
    loop = asyncio.get_running_loop()
    started = loop.time()
    busy = replace(state, locks=MemoryLocks({LAST_DREAM_AT_LOCK.name: held}))
    assert await busy.compare_and_swap(NOW, NOW + 1) == held
    assert loop.time() - started == pytest.approx(1.0)
    assert state.state_path.read_text() == text(NOW)


@pytest.mark.req("LCK-1", "DRM-2")
async def test_a_lock_that_is_given_back_in_time_lets_the_swap_through(state: DreamStateFile) -> None:
    handle = await state.locks.acquire(LAST_DREAM_AT_LOCK)
    assert isinstance(handle, LockHandle)
    swap = asyncio.create_task(state.compare_and_swap(None, NOW))
    await asyncio.sleep(0.5)
    assert not swap.done()
    await handle.release()
    assert await swap == Swapped()


def refuse(path: str, data: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", path)


@pytest.mark.req("PATH-7", "DRM-2")
async def test_a_full_disk_leaves_the_old_time_and_no_lock(
    state: DreamStateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.state_path.write_text(text(NOW))
    publish = dream_state.publish_replace
    monkeypatch.setattr(dream_state, "publish_replace", refuse)
    with pytest.raises(OSError, match="No space"):
        await state.compare_and_swap(NOW, NOW + 1)
    assert everything(state) == {str(state.state_path): text(NOW).encode()}
    monkeypatch.setattr(dream_state, "publish_replace", publish)
    assert await state.compare_and_swap(NOW, NOW + 1) == Swapped()


@pytest.mark.req("LCK-1", "DRM-2")
async def test_a_cancelled_swap_keeps_the_lock_until_its_write_has_ended(
    state: DreamStateFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, opened = threading.Event(), threading.Event()
    publish = dream_state.publish_replace

    def slow(path: str, data: bytes) -> None:
        reached.set()
        assert opened.wait(10)
        publish(path, data)

    monkeypatch.setattr(dream_state, "publish_replace", slow)
    lock = state.state_path.parent / "locks" / LAST_DREAM_AT_LOCK.name
    swap = asyncio.create_task(state.compare_and_swap(None, NOW))
    assert await asyncio.to_thread(reached.wait, 10)
    swap.cancel()
    await asyncio.sleep(0)
    assert lock.exists()
    opened.set()
    with pytest.raises(asyncio.CancelledError):
        await swap
    assert not lock.exists()
    assert await state.read() == DreamState(NOW)


RIVAL = """
import asyncio, sys
from pathlib import Path
from pi_project_memory.actors.ports.dream_state import DreamStateFile, Swapped
from pi_project_memory.actors.ports.locks import FileLocks
root = Path(sys.argv[1])
state = DreamStateFile(root / "root/state.json", root / "project/state.json", FileLocks(root / "root/locks"))
print("ready", flush=True)
input()
async def compete():
    lost = 0
    for turn in range(20):
        while True:
            current = (await state.read()).recorded_at
            if type(await state.compare_and_swap(current, (current or 0) + 1)) is Swapped:
                break
            lost += 1
    print(lost)
asyncio.run(compete())
"""


@pytest.mark.real_time
@pytest.mark.req("DRM-2", "LCK-1", "C19")
async def test_two_processes_that_count_by_swaps_lose_no_count(state: DreamStateFile) -> None:
    root = state.state_path.parent.parent
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", RIVAL, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for rival in rivals:
            assert rival.stdout is not None
            assert rival.stdout.readline() == "ready\n"
        for rival in rivals:
            assert rival.stdin is not None
            rival.stdin.write("\n")
            rival.stdin.flush()
        for rival in rivals:
            assert int(rival.communicate(timeout=60)[0]) >= 0
    finally:
        for rival in rivals:
            rival.kill()
            rival.communicate()
    assert await replace(state, clock=SystemClock()).read() == DreamState(40)
    assert list((root / "root/locks").iterdir()) == []
