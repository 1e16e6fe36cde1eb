"""Snapshots of a real memory directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memory_files import FAR_NS, HOUR_NS, freeze_status, put, store_at
from pi_project_memory.actors.core.snapshots import Changes, diff
from pi_project_memory.actors.ports.publish import publish_new
from pi_project_memory.actors.ports.store import DiskStore


@pytest.mark.req("IDX-7")
async def test_snapshots_tell_every_kind_of_change(root: Path):
    put(root / "MEMORY.md", "index")
    for name in ("a.md", "b.md", "sub/c.md", "d.md"):
        put(root / name, name)
    disk = DiskStore(root)
    before = await disk.snapshot()
    assert set(before) == {"MEMORY.md", "a.md", "b.md", "sub/c.md", "d.md"}
    assert diff(before, await disk.snapshot()) == Changes()
    put(root / "MEMORY.md", "xedni")
    (root / "a.md").unlink()
    (root / "b.md").rename(root / "sub" / "moved.md")
    put(root / "new.md", "new")
    replacement = put(root / "tmp", "d.md")
    shutil.copystat(root / "d.md", replacement)
    replacement.rename(root / "d.md")
    assert diff(before, await disk.snapshot()) == Changes(
        created=("new.md",),
        changed=("MEMORY.md", "d.md"),
        deleted=("a.md",),
        renamed=(("b.md", "sub/moved.md"),),
    )


@pytest.mark.req("IDX-7")
async def test_an_edit_of_the_same_size_with_its_old_time_put_back_is_a_change(root: Path):
    put(root / "a.md", "one", 1_000)
    disk = DiskStore(root)
    before = await disk.snapshot()
    put(root / "a.md", "two", 1_000)
    assert diff(before, await disk.snapshot()) == Changes(changed=("a.md",))


@pytest.mark.req("IDX-7")
async def test_same_size_edits_in_a_row_are_all_seen(root: Path):
    disk = DiskStore(root)
    before = await disk.snapshot()
    for text in ("one", "two", "six", "ten"):
        put(root / "a.md", text)
        after = await disk.snapshot()
        assert diff(before, after).touched == {"a.md"}
        before = after


@pytest.mark.req("IDX-7")
async def test_an_edit_that_moves_no_time_at_all_is_seen_even_when_looked_for_later(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    freeze_status(monkeypatch)
    put(root / "a.md", "one")
    now = 1_000
    disk = DiskStore(root, publish_new, lambda: now)
    before = await disk.snapshot()
    assert await disk.snapshot() == before
    (root / "a.md").write_text("two")
    now = HOUR_NS
    after = await disk.snapshot()
    assert diff(before, after) == Changes(changed=("a.md",))
    assert await disk.snapshot() == after


@pytest.mark.req("IDX-7")
async def test_files_at_rest_are_not_opened_for_a_snapshot(root: Path, opened: list[str]):
    put(root / "MEMORY.md")
    put(root / "a.md")
    disk = store_at(root, FAR_NS)
    before = await disk.snapshot()
    assert await disk.snapshot() == before
    assert opened == []


@pytest.mark.req("IDX-7")
async def test_settling_is_no_change_and_ends_the_reading(root: Path, opened: list[str]):
    put(root / "a.md")
    now = (root / "a.md").stat().st_ctime_ns
    disk = DiskStore(root, publish_new, lambda: now)
    before = await disk.snapshot()
    now += HOUR_NS
    assert await disk.snapshot() == before
    assert await disk.snapshot() == before
    assert opened == ["a.md", "a.md"]


@pytest.mark.req("IDX-7")
async def test_a_root_that_cannot_be_listed_is_no_deletion(root: Path):
    assert await DiskStore(root / "none").snapshot() == {}
    file = put(root / "a.md")
    with pytest.raises(NotADirectoryError):
        await DiskStore(file).snapshot()


@pytest.mark.req("IDX-7")
async def test_more_topics_than_a_scan_keeps_are_watched(root: Path):
    for number in range(250):
        put(root / f"{number}.md", "x")
    assert len(await DiskStore(root).snapshot()) == 250
