"""Links, cycles and bounds of a walk through a real memory directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from memory_files import FULL, SECRET, put, scanned
from pi_project_memory.actors.ports import topic_files
from pi_project_memory.actors.ports.store import DiskStore
from pi_project_memory.actors.ports.topic_files import (
    UnsafeFileError,
    read_regular_file,
    walk_topics,
)


@pytest.mark.req("IDX-5")
async def test_links_that_stay_inside_the_root_are_followed(root: Path):
    put(root / "real" / "a.md")
    put(root / "notes.txt", FULL)
    (root / "alias.md").symlink_to("real/a.md")
    (root / "text.md").symlink_to(root / "notes.txt")
    (root / "folder").symlink_to("real")
    assert set(await scanned(root)) == {"real/a.md", "alias.md", "text.md", "folder/a.md"}
    assert (await DiskStore(root).read_topic("folder/a.md")).data == FULL.encode()


@pytest.mark.req("IDX-5")
async def test_links_that_leave_the_root_are_never_read_and_are_reported(
    root: Path, outside: Path, opened: list[str]
):
    put(root / "a.md")
    (root / "leak.md").symlink_to(outside / "secret.md")
    (root / "sub").symlink_to(outside)
    (root / "up.md").symlink_to("../outside/secret.md")
    (root / "hop.md").symlink_to("sub/secret.md")
    (root / "data.txt").symlink_to(outside / "secret.md")
    disk = DiskStore(root)
    assert await scanned(root) == ["a.md"]
    assert await disk.read_index() == "- [n](a.md) — d\n"
    assert set(await disk.snapshot()) == {"MEMORY.md", "a.md"}
    assert "secret.md" not in opened
    assert walk_topics(root).outside == ("hop.md", "leak.md", "sub", "up.md")
    for name in ("leak.md", "sub/secret.md", "up.md", "hop.md"):
        with pytest.raises(UnsafeFileError, match="leads out of the memory directory"):
            await disk.read_topic(name)


@pytest.mark.req("IDX-5")
async def test_a_link_put_in_place_of_a_listed_file_leaks_nothing(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root / "a.md")
    put(root / "sub" / "secret.md")
    real = os.open

    def swapping(path: Path, *args: int) -> int:
        if Path(path).name == "a.md":
            Path(path).unlink()
            Path(path).symlink_to(outside / "secret.md")
        elif (root / "sub").is_dir() and not (root / "sub").is_symlink():
            (root / "sub").rename(outside.parent / "moved")
            (root / "sub").symlink_to(outside)
        return real(path, *args)

    monkeypatch.setattr(topic_files.os, "open", swapping)
    assert await scanned(root) == []
    with pytest.raises(UnsafeFileError):
        await DiskStore(root).read_topic("a.md")


@pytest.mark.req("IDX-5")
async def test_a_file_swapped_after_it_was_opened_is_refused(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root / "a.md")
    real = os.open

    def swapping(path: Path, *args: int) -> int:
        (root / "a.md").unlink()
        (root / "a.md").symlink_to(outside / "secret.md")
        descriptor = real(path, *args)
        (root / "a.md").unlink()
        put(root / "a.md")
        return descriptor

    monkeypatch.setattr(topic_files.os, "open", swapping)
    with pytest.raises(UnsafeFileError):
        read_regular_file(root, "a.md", 100)


@pytest.mark.req("IDX-5")
async def test_cycles_end_and_name_no_topic_twice(root: Path):
    put(root / "a" / "x.md")
    put(root / "b" / "y.md")
    (root / "a" / "self").symlink_to(".")
    (root / "a" / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "loop.md").symlink_to("loop.md")
    assert set(await scanned(root)) == {"a/x.md", "b/y.md"}


@pytest.mark.req("IDX-5")
async def test_directories_that_link_to_each_other_are_entered_once_by_link(root: Path):
    for name in "abcdef":
        put(root / name / f"{name}.md")
        for other in "abcdef":
            if other != name:
                (root / name / other).symlink_to(f"../{other}")
    found = await scanned(root)
    assert {f"{name}/{name}.md" for name in "abcdef"} <= set(found)
    assert len(found) == len(set(found)) == 12


@pytest.mark.req("IDX-5")
async def test_links_into_reserved_directories_and_to_the_index_are_no_topics(root: Path):
    put(root / "MEMORY.md", "index")
    put(root / ".git" / "config", SECRET)
    put(root / "agents" / "a.md", SECRET)
    (root / "config.md").symlink_to(".git/config")
    (root / "robots").symlink_to("agents")
    (root / "index.md").symlink_to("MEMORY.md")
    assert await scanned(root) == []
    with pytest.raises(UnsafeFileError, match="reserved directory"):
        await DiskStore(root).read_topic("config.md")


@pytest.mark.req("IDX-5", "PATH-5")
async def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path):
    put(root / "a.md")
    (tmp_path / "linked").symlink_to(root)
    assert await scanned(tmp_path / "linked") == ["a.md"]
    assert (await DiskStore(tmp_path / "linked").read_topic("a.md")).data == FULL.encode()


@pytest.mark.req("IDX-5")
async def test_a_sibling_whose_name_begins_like_the_root_is_outside(root: Path, tmp_path: Path):
    put(tmp_path / "memory-other" / "a.md", SECRET)
    (root / "a.md").symlink_to(tmp_path / "memory-other" / "a.md")
    assert await scanned(root) == []


@pytest.mark.req("IDX-5")
def test_directories_nested_deeper_than_recursion_and_path_names_go_end_at_the_depth_bound(root: Path):
    put(root / "a.md")
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    try:
        walk = walk_topics(root)
        assert ([found.path for found in walk.topics], walk.complete) == (["a.md"], False)
    finally:
        unnest(root / "d")


def unnest(top: Path) -> None:
    """Remove a tree that is too deep for recursion and for path names."""
    while True:
        cut = top / "/".join("d" * 500)
        moved = top.with_name("rest")
        if not cut.is_dir():
            break
        cut.rename(moved)
        shutil.rmtree(top)
        moved.rename(top)
    shutil.rmtree(top)


@pytest.mark.req("IDX-5")
async def test_the_depth_bound_is_32_levels(root: Path):
    put(root / "/".join("d" * 32) / "in.md")
    assert walk_topics(root).complete
    put(root / "/".join("d" * 33) / "out.md")
    walk = walk_topics(root)
    assert ([Path(found.path).name for found in walk.topics], walk.complete) == (["in.md"], False)


@pytest.mark.req("IDX-5")
def test_directories_and_entries_are_bounded_and_the_nearest_come_first(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root / "z" / "near.md")
    put(root / "a" / "deep" / "far.md")
    put(root / "link-target" / "t.md")
    (root / "a-link").symlink_to("link-target")
    assert walk_topics(root).complete
    monkeypatch.setattr(topic_files, "MOST_DIRECTORIES", 4)
    walk = walk_topics(root)
    assert ([found.path for found in walk.topics], walk.complete) == (
        ["link-target/t.md", "z/near.md"],
        False,
    )
    monkeypatch.setattr(topic_files, "MOST_DIRECTORIES", 100)
    monkeypatch.setattr(topic_files, "MOST_ENTRIES", 6)
    walk = walk_topics(root)
    assert ([found.path for found in walk.topics], walk.complete) == (["link-target/t.md"], False)
    monkeypatch.setattr(topic_files, "MOST_ENTRIES", 3)
    assert not walk_topics(root).complete


@pytest.mark.req("IDX-5")
def test_reserved_directories_cost_nothing(root: Path, monkeypatch: pytest.MonkeyPatch):
    put(root / "sub" / "a.md")
    for name in (".git", "agents", "skills", "node_modules"):
        put(root / name / "deep" / "b.md")
        put(root / "sub" / name / "deep" / "b.md")
    monkeypatch.setattr(topic_files, "MOST_DIRECTORIES", 2)
    walk = walk_topics(root)
    assert ([found.path for found in walk.topics], walk.complete) == (["sub/a.md"], True)
