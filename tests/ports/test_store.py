"""The index, the scan and the recall read of a real memory directory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_files import FAR_NS, FULL, freeze_status, put, scanned, store_at
from pi_project_memory.actors.core.frontmatter import Header
from pi_project_memory.actors.core.windows import index_window, topic_window
from pi_project_memory.actors.ports import topic_files
from pi_project_memory.actors.ports.publish import publish_new
from pi_project_memory.actors.ports.store import DiskStore
from pi_project_memory.actors.ports.topic_files import (
    UnsafeFileError,
    is_topic_path,
    walk_topics,
)


@pytest.mark.req("IDX-3")
async def test_the_index_is_read_as_it_is(root: Path):
    (root / "MEMORY.md").write_bytes("\ufeff# Prefs\r\n日 ".encode() + b"\xff")
    assert await DiskStore(root).read_index() == "\ufeff# Prefs\r\n日 \ufffd"


@pytest.mark.req("IDX-3", "IDX-2", "C05")
async def test_prose_in_a_curated_index_is_loaded_and_never_rewritten(root: Path):
    text = "## Prefs\n" + "prose\n" * 39
    put(root / "MEMORY.md", text)
    for number in range(400):
        put(root / f"{number}.md")
    assert await DiskStore(root).read_index() == text
    assert (root / "MEMORY.md").read_text() == text


def dangling(root: Path, outside: Path) -> None:
    (root / "MEMORY.md").symlink_to(root / "nowhere.md")


def a_directory(root: Path, outside: Path) -> None:
    (root / "MEMORY.md").mkdir()


def a_fifo(root: Path, outside: Path) -> None:
    os.mkfifo(root / "MEMORY.md")


def a_link_outside(root: Path, outside: Path) -> None:
    (root / "MEMORY.md").symlink_to(outside / "secret.md")


def a_loop(root: Path, outside: Path) -> None:
    (root / "MEMORY.md").symlink_to(root / "MEMORY.md")


BAD_INDEXES = [dangling, a_directory, a_fifo, a_link_outside, a_loop]


@pytest.mark.req("IDX-3")
@pytest.mark.parametrize("make", BAD_INDEXES)
async def test_a_bad_index_is_empty_and_stays_as_it_is(
    root: Path, outside: Path, make: Callable[[Path, Path], None]
):
    put(root / "a.md")
    make(root, outside)
    before = os.lstat(root / "MEMORY.md")
    assert await DiskStore(root).read_index() == ""
    assert os.lstat(root / "MEMORY.md").st_ino == before.st_ino
    assert sorted(path.name for path in root.iterdir()) == ["MEMORY.md", "a.md"]


@pytest.mark.req("IDX-3")
@pytest.mark.parametrize("make", BAD_INDEXES)
async def test_the_lower_level_raises_instead(root: Path, outside: Path, make: Callable[[Path, Path], None]):
    make(root, outside)
    put(root / "a.md")
    with pytest.raises(OSError):
        DiskStore(root).read_index_file()
    with pytest.raises(FileExistsError):
        DiskStore(root).backfill()


@pytest.mark.req("IDX-3")
async def test_missing_roots_and_refused_reads_give_an_empty_index(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    assert await DiskStore(root / "none").read_index() == ""
    assert not (root / "none").exists()
    put(root / "MEMORY.md", "text")

    def refused(*args: object) -> int:
        raise PermissionError(13, "not yours")

    monkeypatch.setattr(topic_files.os, "open", refused)
    assert await DiskStore(root).read_index() == ""


@pytest.mark.req("IDX-3")
async def test_an_index_that_leads_to_a_file_inside_the_root_is_read(root: Path):
    put(root / "notes" / "index.md", "- [A](a.md)\n")
    (root / "MEMORY.md").symlink_to("notes/index.md")
    assert await DiskStore(root).read_index() == "- [A](a.md)\n"


@pytest.mark.req("IDX-2", "C07")
async def test_a_missing_index_is_backfilled_once_within_its_bounds(root: Path):
    for number in range(400):
        put(root / f"{number:03}.md", FULL.replace("description: d", "description: " + "x" * 180), number)
    index = await DiskStore(root).read_index()
    assert index.startswith("- [n](399.md) — xxx")
    assert (len(index.splitlines()), len(index)) == (133, 133 * 150)
    assert (root / "MEMORY.md").read_text() == index
    assert not index_window(index).truncated
    put(root / "newer.md")
    assert await DiskStore(root).read_index() == index


@pytest.mark.req("IDX-2")
async def test_without_a_topic_no_index_is_made(root: Path):
    assert await DiskStore(root).read_index() == ""
    assert not list(root.iterdir())


@pytest.mark.req("IDX-2", "IDX-3")
async def test_who_comes_second_to_the_backfill_reads_the_index_of_the_first(root: Path):
    put(root / "a.md")

    def outrun(path: str, data: bytes) -> None:
        put(Path(path), "the other one")
        publish_new(path, data)

    assert await DiskStore(root, outrun).read_index() == "the other one"
    assert (root / "MEMORY.md").read_text() == "the other one"


@pytest.mark.req("IDX-3")
@pytest.mark.parametrize("error", [FileExistsError, PermissionError, OSError])
async def test_a_backfill_that_fails_gives_an_empty_index_and_raises_below(root: Path, error: type[OSError]):
    put(root / "a.md")

    def failing(path: str, data: bytes) -> None:
        raise error(path)

    assert await DiskStore(root, failing).read_index() == ""
    with pytest.raises(error):
        DiskStore(root, failing).backfill()


@pytest.mark.req("IDX-5")
async def test_topics_come_newest_first_and_by_path_when_equal(root: Path):
    put(root / "old.md", mtime_s=1_000)
    put(root / "sub" / "deep" / "new.md", mtime_s=3_000.5)
    put(root / "b.md", mtime_s=2_000)
    put(root / "a.md", mtime_s=2_000)
    topics = await DiskStore(root).scan()
    assert [(topic.path, topic.mtime_ms) for topic in topics] == [
        ("sub/deep/new.md", 3_000_500.0),
        ("a.md", 2_000_000.0),
        ("b.md", 2_000_000.0),
        ("old.md", 1_000_000.0),
    ]
    assert topics[0].size == len(FULL)
    assert topics[0].header == Header("n", "d", "user", None, "yaml")


@pytest.mark.req("IDX-5", "SEL-3")
async def test_order_goes_by_the_file_and_not_by_modified(root: Path):
    put(root / "a.md", "---\nmodified: 2099-01-01\n---\n", 1_000)
    put(root / "b.md", "---\nmodified: 1999-01-01\n---\n", 2_000)
    assert await scanned(root) == ["b.md", "a.md"]


@pytest.mark.req("IDX-5")
async def test_only_lowercase_md_outside_reserved_directories_and_not_the_index(root: Path):
    for path in ("a.md", "sub/MEMORY.md", "x/Agents/b.md", ".hidden/c.md", ".md"):
        put(root / path)
    for path in ("MEMORY.md", "A.MD", "a.txt", "b.md.tmp", "notmd", ".git/a.md", "x/agents/a.md"):
        put(root / path)
    for path in ("skills/deep/a.md", "y/node_modules/a.md"):
        put(root / path)
    (root / "dir.md").mkdir()
    put(root / "dir.md" / "in.md")
    expected = {"a.md", "sub/MEMORY.md", "x/Agents/b.md", ".hidden/c.md", ".md", "dir.md/in.md"}
    assert set(await scanned(root)) == expected


@pytest.mark.req("IDX-5")
async def test_two_hundred_are_kept_and_bad_ones_do_not_count(root: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(210):
        put(root / f"{number:03}.md", mtime_s=number)
    real = os.open

    def failing(path: Path, *args: int) -> int:
        if Path(path).name in {"209.md", "200.md"}:
            raise PermissionError(13, "not yours", str(path))
        return real(path, *args)

    monkeypatch.setattr(topic_files.os, "open", failing)
    assert await scanned(root) == [f"{number:03}.md" for number in range(208, 7, -1) if number != 200]


@pytest.mark.req("IDX-5")
async def test_the_header_window_is_65536_bytes(root: Path):
    def with_end_at(size: int) -> str:
        start, end = "---\nname: n\n#", "\n---"
        filling = size - len(start) - len(end)
        return start + "日" * (filling // 3) + "x" * (filling % 3) + end

    put(root / "fits.md", with_end_at(65_536))
    put(root / "over.md", with_end_at(65_537))
    names = {topic.path: topic.header.name for topic in await DiskStore(root).scan()}
    assert names == {"fits.md": "n", "over.md": ""}


@pytest.mark.req("IDX-5")
async def test_files_that_are_no_utf8_are_kept_with_replacement(root: Path):
    (root / "a.md").write_bytes(b"---\nname: caf\xe9\n---\n")
    (root / "b.md").write_bytes(b"\0\xff\xfe")
    assert {topic.header.name for topic in await DiskStore(root).scan()} == {"caf\ufffd", ""}


@pytest.mark.req("IDX-5")
async def test_a_directory_that_cannot_be_listed_gives_no_topics(root: Path, monkeypatch: pytest.MonkeyPatch):
    assert await DiskStore(root / "none").scan() == ()
    file = put(root / "a.md")
    assert await DiskStore(file).scan() == ()
    real = os.scandir

    def refused(path: str) -> object:
        if path == str(root):
            raise PermissionError(13, "not yours", path)
        return real(path)

    monkeypatch.setattr(topic_files.os, "scandir", refused)
    assert await DiskStore(root).scan() == ()
    with pytest.raises(PermissionError):
        walk_topics(root)


@pytest.mark.req("IDX-5")
async def test_a_subdirectory_that_cannot_be_listed_hides_no_other(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root / "bad" / "a.md")
    put(root / "good" / "b.md")
    real = os.scandir

    def refused(path: str) -> object:
        if path.endswith("bad"):
            raise PermissionError(13, "not yours", path)
        return real(path)

    monkeypatch.setattr(topic_files.os, "scandir", refused)
    assert await scanned(root) == ["good/b.md"]


@pytest.mark.req("IDX-5")
async def test_a_file_that_vanishes_between_listing_and_reading_is_left_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root / "a.md")
    put(root / "b.md")
    real = os.open

    def racing(path: Path, *args: int) -> int:
        if Path(path).name == "a.md":
            Path(path).unlink()
        return real(path, *args)

    monkeypatch.setattr(topic_files.os, "open", racing)
    assert await scanned(root) == ["b.md"]


@pytest.mark.req("IDX-5")
async def test_one_file_is_open_at_a_time(root: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(40):
        put(root / "sub" / f"{number}.md")
    counts: list[int] = []
    real = os.fdopen

    def counting(descriptor: int, mode: str) -> object:
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
        return real(descriptor, mode)

    monkeypatch.setattr(topic_files.os, "fdopen", counting)
    assert len(await DiskStore(root).scan()) == 40
    assert len(set(counts)) == 1


@pytest.mark.req("IDX-5")
async def test_only_regular_files_are_opened(root: Path, opened: list[str]):
    put(root / "a.md")
    os.mkfifo(root / "fifo.md")
    (root / "device.md").symlink_to("/dev/zero")
    (root / "link.md").symlink_to("fifo.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "socket.md"))
        assert await scanned(root) == ["a.md"]
        assert set(await DiskStore(root).snapshot()) == {"a.md"}
        assert set(await store_at(root, FAR_NS).snapshot()) == {"a.md"}
        assert set(opened) == {"a.md"}
        for name in ("fifo.md", "device.md", "link.md", "socket.md"):
            with pytest.raises(UnsafeFileError, match="is not a regular file"):
                await DiskStore(root).read_topic(name)
        assert set(opened) == {"a.md"}


@pytest.mark.req("IDX-5")
async def test_a_file_swapped_for_a_fifo_before_it_is_opened_neither_hangs_nor_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    put(root / "a.md")
    put(root / "b.md")
    real = os.open

    def swapping(path: Path, *args: int) -> int:
        if Path(path).name == "a.md":
            Path(path).unlink()
            os.mkfifo(path)
        return real(path, *args)

    monkeypatch.setattr(topic_files.os, "open", swapping)
    assert await scanned(root) == ["b.md"]


@pytest.mark.req("IDX-5")
async def test_headers_of_files_at_rest_are_read_once(root: Path, opened: list[str]):
    put(root / "a.md")
    put(root / "b.md")
    disk = store_at(root, FAR_NS)
    first = await disk.scan()
    assert sorted(opened) == ["a.md", "b.md"]
    assert await disk.scan() == first
    assert len(opened) == 2
    put(root / "a.md", FULL.replace("name: n", "name: m"))
    assert {topic.header.name for topic in await disk.scan()} == {"m", "n"}
    assert opened[2:] == ["a.md"]


@pytest.mark.req("IDX-5", "IDX-7")
async def test_an_edit_that_moves_no_time_and_no_size_is_still_seen_by_the_scan(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    freeze_status(monkeypatch)
    put(root / "a.md", "---\nname: a\n---\n")
    disk = store_at(root, 1_000)
    assert (await disk.scan())[0].header.name == "a"
    (root / "a.md").write_text("---\nname: b\n---\n")
    assert (await disk.scan())[0].header.name == "b"


@pytest.mark.req("RCL-1")
async def test_a_topic_is_read_with_enough_for_its_window_and_its_fingerprint(root: Path):
    put(root / "sub" / "a.md", "x\n" * 100_000, 1_700_000_000.25)
    read = await DiskStore(root).read_topic("sub/a.md")
    assert (len(read.data), read.path, read.mtime_ms) == (65_536, "sub/a.md", 1_700_000_000_250.0)
    assert read.fingerprint.size == 200_000
    window = topic_window(read.data)
    assert (window.lines, window.truncated) == (200, True)


@pytest.mark.req("RCL-1", "SEL-4")
@pytest.mark.parametrize(
    "path",
    [
        "",
        "../a.md",
        "/etc/a.md",
        "sub/../a.md",
        "./a.md",
        "sub//a.md",
        "MEMORY.md",
        "a.txt",
        "a.MD",
        ".git/a.md",
        "x/agents/a.md",
        "a\0.md",
        "a.md/",
    ],
)
async def test_paths_that_name_no_topic_are_refused(root: Path, path: str):
    put(root / "a.md")
    put(root / "MEMORY.md")
    put(root / ".git" / "a.md")
    put(root / "x" / "agents" / "a.md")
    assert not is_topic_path(path)
    with pytest.raises(UnsafeFileError, match="is no topic"):
        await DiskStore(root).read_topic(path)


@pytest.mark.req("RCL-1")
@pytest.mark.parametrize("path", ["gone.md", "\ud800.md", "sub/gone.md"])
async def test_a_topic_that_is_gone_raises(root: Path, path: str):
    with pytest.raises(FileNotFoundError):
        await DiskStore(root).read_topic(path)
