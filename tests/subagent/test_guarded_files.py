"""The file effects of a background run: where they may land, and that nothing is ever left half done."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.ports.publish import REAL_DISK, DiskOps
from pi_project_memory.actors.ports.tools import OperationRefusedError
from pi_project_memory.actors.ports.topic_files import fingerprint
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent import guarded_files
from pi_project_memory.actors.subagent.guarded_files import (
    MOST_BYTES,
    GuardedFiles,
    RunFiles,
    StorageFailedError,
)
from subagent_kit import OUTSIDE, Yard, contents, failing, learn, names, put

NEW = b"new text\n"


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Yard(tmp_path)


def link(path: Path, target: Path | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def swap_for_link(folder: Path, target: Path) -> None:
    """Put a link to `target` in the place of a directory."""
    folder.rename(folder.with_name(f"{folder.name}.moved"))
    folder.symlink_to(target)


# Where a write may land.

ALLOWED = [
    "memory/new.md",
    "memory/MEMORY.md.md",
    "memory/deep/er/new.md",
    "memory/sub/MEMORY.md",
    "memory/./new.md",
    "memory/deep/../new.md",
    "project/../memory/new.md",
    "memory/with space & ünïcode 🎉.md",
    "memory/-rf.md",
    "memory/gitlike/.gitx/new.md",
]


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize("path", ALLOWED)
async def test_a_new_topic_is_private_and_so_are_its_directories(yard: Yard, path: str):
    await GuardedFiles(yard.files()).write_file(yard.root / path, NEW)
    written = Path(os.path.normpath(yard.root / path))
    assert written.read_bytes() == NEW
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    for folder in written.parents:
        if folder == yard.memory:
            break
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.req("SUB-2")
async def test_the_index_may_be_written_and_deeper_directories_made_ahead(yard: Yard):
    files = yard.files()
    await learn(files, yard.memory / "MEMORY.md")
    guard = GuardedFiles(files)
    await guard.mkdir(yard.memory / "x" / "y")
    await guard.write_file(yard.memory / "MEMORY.md", NEW)
    assert (yard.memory / "MEMORY.md").read_bytes() == NEW
    assert stat.S_IMODE((yard.memory / "x" / "y").stat().st_mode) == 0o700


def _nothing(_: Yard) -> None:
    """Leave the yard as it is."""


def _linked_file(yard: Yard) -> None:
    link(yard.memory / "leak.md", yard.outside / "secret.md")


def _dangling(yard: Yard) -> None:
    link(yard.memory / "leak.md", yard.outside / "not-there.md")


def _linked_directory(yard: Yard) -> None:
    link(yard.memory / "leak", yard.outside)


def _chain(yard: Yard) -> None:
    link(yard.memory / "leak.md", "one/two.md")
    link(yard.memory / "one" / "two.md", "../three.md")
    link(yard.memory / "three.md", yard.outside / "secret.md")


def _deep_chain(yard: Yard) -> None:
    link(yard.memory / "one" / "two" / "leak", "../up")
    link(yard.memory / "one" / "up", "../../outside")


def _loop(yard: Yard) -> None:
    link(yard.memory / "leak.md", "other.md")
    link(yard.memory / "other.md", "leak.md")


def _index_link(yard: Yard) -> None:
    (yard.memory / "MEMORY.md").unlink()
    link(yard.memory / "MEMORY.md", yard.outside / "secret.md")


def _into_reserved(yard: Yard) -> None:
    (yard.memory / "skills").mkdir()
    link(yard.memory / "leak", "skills")


def _directory_by_topic_name(yard: Yard) -> None:
    (yard.memory / "folder.md").mkdir()


def _pipe(yard: Yard) -> None:
    os.mkfifo(yard.memory / "pipe.md")


REFUSED: list[tuple[str, Callable[[Yard], None]]] = [
    ("outside/new.md", _nothing),
    ("outside/secret.md", _nothing),
    ("project/notes.md", _nothing),
    ("agent/notes.md", _nothing),
    ("memory/../outside/new.md", _nothing),
    ("memory/a/../../outside/new.md", _nothing),
    ("memory", _nothing),
    ("memory/", _nothing),
    ("memoryx/new.md", _nothing),
    ("MEMORY/new.md", _nothing),
    ("memory/new", _nothing),
    ("memory/new.MD", _nothing),
    ("memory/new.Md", _nothing),
    ("memory/new.md.txt", _nothing),
    ("memory/.md", _nothing),
    ("memory/new.mdx", _nothing),
    ("memory/a.md/deeper.md", _nothing),
    ("memory/.git/new.md", _nothing),
    ("memory/agents/new.md", _nothing),
    ("memory/skills/new.md", _nothing),
    ("memory/node_modules/new.md", _nothing),
    ("memory/deep/.git/new.md", _nothing),
    ("memory/AGENTS/new.md", _nothing),
    ("memory/.Git/new.md", _nothing),
    ("memory/.g\u200bit/new.md", _nothing),
    ("memory/line\nbreak.md", _nothing),
    ("memory/nul\0.md", _nothing),
    ("memory/half\ud800.md", _nothing),
    (f"memory/{'n' * 253}.md", _nothing),
    ("memory/leak.md", _linked_file),
    ("memory/leak.md", _dangling),
    ("memory/leak/new.md", _linked_directory),
    ("memory/leak/secret.md", _linked_directory),
    ("memory/leak.md", _chain),
    ("memory/one/two/leak/new.md", _deep_chain),
    ("memory/leak.md", _loop),
    ("memory/MEMORY.md", _index_link),
    ("memory/leak/new.md", _into_reserved),
    ("memory/folder.md", _directory_by_topic_name),
    ("memory/pipe.md", _pipe),
    ("~/new.md", _nothing),
    ("file:///memory/new.md", _nothing),
]


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize(("path", "prepare"), REFUSED, ids=[ascii(row[0])[:40] for row in REFUSED])
async def test_nothing_else_is_written(yard: Yard, path: str, prepare: Callable[[Yard], None]):
    """Case C72: planted links, names of other kinds, and ways round a directory."""
    prepare(yard)
    shown = path if path.startswith(("~", "file:")) else f"{yard.root}/{path}"
    before, listed = contents(yard.root), names(yard.root)
    guard = GuardedFiles(yard.files())
    await guard.mkdir(Path(shown).parent)
    with pytest.raises(OperationRefusedError) as refused:
        await guard.write_file(Path(shown), NEW)
    assert contents(yard.root) == before
    assert names(yard.root) == listed
    assert yard.touched == []
    assert guard.run.failure is None
    assert str(refused.value).startswith("Refused: ")


@pytest.mark.req("SUB-2")
async def test_a_link_inside_the_memory_is_followed_and_stays(yard: Yard):
    put(yard.memory / "deep" / "real.md", "old\n")
    link(yard.memory / "by-file.md", "deep/real.md")
    link(yard.memory / "by-folder", "deep")
    files = yard.files()
    await learn(files, yard.memory / "by-file.md")
    await GuardedFiles(files).write_file(yard.memory / "by-folder" / "real.md", NEW)
    assert (yard.memory / "by-file.md").is_symlink()
    assert (yard.memory / "deep" / "real.md").read_bytes() == NEW
    assert files.changes.changes == {"deep/real.md": "updated"}
    assert yard.touched == ["deep/real.md"]


@pytest.mark.req("SUB-2")
async def test_a_memory_root_that_is_a_link_is_written_through_it(yard: Yard):
    linked = link(yard.root / "linked", yard.memory)
    files = yard.files(memory=linked)
    await GuardedFiles(files).write_file(linked / "new.md", NEW)
    await GuardedFiles(files).write_file(yard.memory / "other.md", NEW)
    assert files.changes.changes == {"new.md": "created", "other.md": "created"}


@pytest.mark.req("SUB-2")
async def test_a_name_in_another_case_or_form_is_the_file_that_the_disk_says_it_is(yard: Yard):
    composed = put(yard.memory / unicodedata.normalize("NFC", "é.md"), "old\n")
    files = yard.files()
    for name in (unicodedata.normalize("NFD", "é.md"), "A.md", "memory.md"):
        await GuardedFiles(files).write_file(yard.memory / name, NEW)
        assert (yard.memory / name).read_bytes() == NEW
    assert composed.read_text() == "old\n"
    assert (yard.memory / "a.md").read_text() == "one\ntwo\n"
    assert (yard.memory / "MEMORY.md").read_text() == "- [A](a.md)\n"


@pytest.mark.req("SUB-2")
def test_a_root_spelled_in_another_case_names_its_files_all_the_same(yard: Yard):
    """On a disk without case the resolved path keeps the spelling of the call."""
    assert yard.files().relative(Path(str(yard.memory).upper()) / "deep" / "a.md") == "deep/a.md"


@pytest.mark.req("SUB-2")
async def test_the_other_names_of_a_file_keep_its_old_content(yard: Yard):
    twin = yard.outside / "twin.md"
    twin.hardlink_to(yard.memory / "a.md")
    files = yard.files()
    await learn(files, yard.memory / "a.md")
    await GuardedFiles(files).write_file(yard.memory / "a.md", NEW)
    assert twin.read_text() == "one\ntwo\n"
    assert (yard.memory / "a.md").read_bytes() == NEW


@pytest.mark.req("SUB-2")
async def test_the_mode_of_a_file_is_kept(yard: Yard):
    (yard.memory / "a.md").chmod(0o640)
    files = yard.files()
    await learn(files, yard.memory / "a.md")
    await GuardedFiles(files).write_file(yard.memory / "a.md", NEW)
    assert stat.S_IMODE((yard.memory / "a.md").stat().st_mode) == 0o640


# A directory swapped for a link between the check and the effect.


def at(name: str, act: Callable[[], None]) -> DiskOps:
    """Return a disk on which `act` happens once, right before its first call of `name`."""
    real = getattr(REAL_DISK, name)
    waiting = [act]

    def acting(*arguments: Any) -> Any:
        if waiting:
            waiting.pop()()
        return real(*arguments)

    return replace(REAL_DISK, **{name: acting})


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize("point", ["open", "write", "fsync"])
@pytest.mark.parametrize("exists", [False, True], ids=["new", "known"])
async def test_a_directory_swapped_for_a_link_leads_no_write_outside(yard: Yard, point: str, exists: bool):  # noqa: FBT001 - a column of the table
    folder = yard.memory / "deep"
    target = put(folder / "secret.md", "old\n") if exists else folder / "new.md"
    folder.mkdir(exist_ok=True)
    files = yard.files(at(point, lambda: swap_for_link(folder, yard.outside)))
    if exists:
        await learn(files, target)
    with pytest.raises((OperationRefusedError, OSError)):
        await GuardedFiles(files).write_file(target, NEW)
    assert contents(yard.outside) == {"secret.md": OUTSIDE.encode()}
    assert names(yard.outside) == ["secret.md"], "no temporary file is left there"
    assert files.changes.changes == {}


@pytest.mark.req("SUB-2")
async def test_a_directory_swapped_while_the_run_waits_for_its_worker_leads_nowhere(yard: Yard):
    """The listener hears of the file between the two checks; what happens there is seen by the second."""
    folder = yard.memory / "deep"
    folder.mkdir()
    files = yard.files()
    files.on_touch = lambda _: swap_for_link(folder, yard.outside)
    with pytest.raises(OperationRefusedError):
        await GuardedFiles(files).write_file(folder / "new.md", NEW)
    assert names(yard.outside) == ["secret.md"]


@pytest.mark.req("SUB-3")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_directory_swapped_around_an_open_shows_nothing_of_what_lies_outside(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, when: str
):
    folder = yard.project / "docs"
    put(folder / "secret.md", "inside\n")
    real, waiting = os.open, [True]

    def opening(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
        mine = waiting and str(path).endswith("secret.md")
        if mine and when == "before":
            waiting.clear()
            swap_for_link(folder, yard.outside)
        descriptor = real(path, flags, *arguments, **named)
        if mine and when == "after":
            waiting.clear()
            swap_for_link(folder, yard.outside)
        return descriptor

    guard = GuardedFiles(yard.files())
    monkeypatch.setattr(os, "open", opening)
    with pytest.raises(OperationRefusedError):
        await guard.read_file(folder / "secret.md")
    assert guard.seen == []


# What may be read.


@pytest.mark.req("SUB-3")
@pytest.mark.parametrize(
    "path",
    ["project/src/a.py", "memory/a.md", "memory/MEMORY.md", "scratch/log.txt", "project/src/../src/a.py"],
)
async def test_what_lies_in_the_read_roots_is_read(yard: Yard, path: str):
    put(yard.scratch / "log.txt", "log\n")
    guard = GuardedFiles(yard.files())
    assert await guard.read_file(yard.root / path) == (yard.root / path).read_bytes()
    await guard.access(yard.root / path)
    assert await guard.exists(yard.root / path)
    assert not await guard.is_directory(yard.root / path)


def _leak_in_project(yard: Yard) -> None:
    link(yard.project / "leak.md", yard.outside / "secret.md")


def _leak_to_agent(yard: Yard) -> None:
    link(yard.memory / "auth.md", yard.agent / "auth.json")


UNREADABLE: list[tuple[str, Callable[[Yard], None]]] = [
    ("outside/secret.md", _nothing),
    ("agent/auth.json", _nothing),
    ("project/.sessions/s.jsonl", _nothing),
    ("project/.SESSIONS/s.jsonl", _nothing),
    ("project/../outside/secret.md", _nothing),
    ("project/leak.md", _leak_in_project),
    ("memory/leak.md", _linked_file),
    ("memory/leak/secret.md", _linked_directory),
    ("memory/auth.md", _leak_to_agent),
    ("memory/leak.md", _loop),
    ("project/nul\0.py", _nothing),
]


@pytest.mark.req("SUB-3", "DRM-4")
@pytest.mark.parametrize(("path", "prepare"), UNREADABLE, ids=[ascii(row[0])[:40] for row in UNREADABLE])
async def test_nothing_else_is_read_or_even_looked_for(
    yard: Yard, path: str, prepare: Callable[[Yard], None]
):
    prepare(yard)
    guard = GuardedFiles(yard.files())
    for look in (guard.read_file, guard.access, guard.exists, guard.is_directory):
        with pytest.raises(OperationRefusedError) as refused:
            await look(Path(f"{yard.root}/{path}"))
        assert OUTSIDE.strip() not in str(refused.value)
    assert guard.seen == []


@pytest.mark.req("SUB-3")
@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/cwd/src/a.py", "/dev/zero", "/sys/kernel"]
)
async def test_the_machine_itself_is_no_read_root(yard: Yard, path: str):
    files = yard.files()
    files.roots = replace(files.roots, allowed=(*files.roots.allowed, Path("/")))
    with pytest.raises(OperationRefusedError):
        await GuardedFiles(files).read_file(Path(path))


@pytest.mark.req("SUB-3")
async def test_a_pipe_is_refused_without_waiting_for_its_other_end(yard: Yard):
    os.mkfifo(yard.project / "pipe")
    guard = GuardedFiles(yard.files())
    with anyio.fail_after(5), pytest.raises(OperationRefusedError, match="regular file"):
        await guard.read_file(yard.project / "pipe")


@pytest.mark.req("SUB-3")
async def test_a_huge_file_is_refused_with_what_to_do(yard: Yard):
    with (yard.project / "huge.log").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(OperationRefusedError, match="head, tail or grep"):
        await GuardedFiles(yard.files()).read_file(yard.project / "huge.log")


@pytest.mark.req("SUB-3")
async def test_the_systems_own_errors_keep_their_number(yard: Yard):
    guard = GuardedFiles(yard.files())
    with pytest.raises(FileNotFoundError):
        await guard.read_file(yard.project / "missing.py")
    with pytest.raises(IsADirectoryError):
        await guard.read_file(yard.project / "src")
    with pytest.raises(FileNotFoundError):
        await guard.is_directory(yard.project / "missing")
    assert await guard.is_directory(yard.project / "src")
    assert not await guard.exists(yard.project / "missing")


# The read baseline.


@pytest.mark.req("SUB-4")
async def test_a_file_that_was_not_read_is_neither_written_nor_opened_for_it(yard: Yard):
    """Case C31: the first refusal says what to do."""
    guard = GuardedFiles(yard.files())
    for attempt in (
        guard.write_file(yard.memory / "a.md", NEW),
        guard.access(yard.memory / "a.md", write=True),
    ):
        with pytest.raises(OperationRefusedError, match="has not read it whole") as refused:
            await attempt
        assert "Read it without offset and limit first" in str(refused.value)
    assert (yard.memory / "a.md").read_text() == "one\ntwo\n"


@pytest.mark.req("SUB-4")
async def test_a_run_may_go_on_with_what_it_has_written_itself(yard: Yard):
    files = yard.files()
    for text in (b"1\n", b"2\n", b"3\n"):
        await GuardedFiles(files).write_file(yard.memory / "new.md", text)
    await GuardedFiles(files).access(yard.memory / "new.md", write=True)
    assert files.changes.changes == {"new.md": "created"}


def _append(path: Path) -> None:
    with path.open("a") as file:
        file.write("- outside\n" * 50)


def _same_size(path: Path) -> None:
    times = path.stat()
    path.write_bytes(b"ONE" + path.read_bytes()[3:])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _replaced(path: Path) -> None:
    put(path.with_name("temporary"), path.read_text()).rename(path)


OUTSIDE_CHANGES = [_append, _same_size, _replaced, lambda path: path.write_text("")]


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize("change", OUTSIDE_CHANGES, ids=["appended", "same size", "replaced", "emptied"])
@pytest.mark.parametrize("own", [False, True], ids=["read", "written"])
@pytest.mark.req("C12")
async def test_a_change_by_somebody_else_ends_the_baseline(
    yard: Yard,
    change: Callable[[Path], Any],
    own: bool,  # noqa: FBT001 - a column of the table
):
    """Case C12: not a byte of it is lost."""
    files, path = yard.files(), yard.memory / "a.md"
    await learn(files, path)
    if own:
        await GuardedFiles(files).write_file(path, b"one\nthree\n")
    change(path)
    theirs = path.read_bytes()
    with pytest.raises(OperationRefusedError, match="changed since this run read it"):
        await GuardedFiles(files).write_file(path, NEW)
    assert path.read_bytes() == theirs
    with pytest.raises(OperationRefusedError, match="has not read it whole"):
        await GuardedFiles(files).write_file(path, NEW)
    await learn(files, path)
    await GuardedFiles(files).write_file(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.req("SUB-4")
async def test_two_edits_within_one_tick_of_the_disk_are_told_apart(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    """An edit of the same length right behind the read leaves every time as it was on many disks."""

    def in_one_tick(status: os.stat_result, content: int = 0) -> Fingerprint:
        return structs.replace(fingerprint(status, content), mtime_ns=0, ctime_ns=0)

    monkeypatch.setattr(guarded_files, "fingerprint", in_one_tick)
    files, path = yard.files(), yard.memory / "a.md"
    await learn(files, path)
    with path.open("r+b") as file:
        file.write(b"O")
    with pytest.raises(OperationRefusedError, match="changed since"):
        await GuardedFiles(files).write_file(path, NEW)
    assert path.read_bytes() == b"One\ntwo\n"


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize("point", ["open", "write", "fsync"])
async def test_an_edit_while_the_new_text_is_written_down_is_not_overwritten(yard: Yard, point: str):
    path = yard.memory / "a.md"
    files = yard.files(at(point, lambda: _append(path)))
    await learn(files, path)
    with pytest.raises(OperationRefusedError, match="changed since this run read it"):
        await GuardedFiles(files).write_file(path, NEW)
    assert path.read_text().endswith("- outside\n")
    assert names(yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize("point", ["open", "write", "fsync", "link"])
async def test_a_file_that_appears_under_the_name_of_a_new_one_is_not_overwritten(yard: Yard, point: str):
    path = yard.memory / "new.md"
    files = yard.files(at(point, lambda: put(path, "theirs\n")))
    with pytest.raises(OperationRefusedError, match="Read it"):
        await GuardedFiles(files).write_file(path, NEW)
    assert path.read_text() == "theirs\n"
    assert names(yard.memory) == ["MEMORY.md", "a.md", "new.md"]


@pytest.mark.req("SUB-4")
async def test_a_file_that_somebody_deletes_can_be_made_anew(yard: Yard):
    files, path = yard.files(), yard.memory / "a.md"
    await learn(files, path)
    path.unlink()
    await GuardedFiles(files).write_file(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.req("SUB-4", "IDX-7")
async def test_a_refused_write_takes_nobodys_change_for_its_own(yard: Yard):
    """Whoever listens takes a touched file for the run's; the user's edit of it must still be told."""
    files, path = yard.files(), yard.memory / "a.md"
    with pytest.raises(OperationRefusedError):
        await GuardedFiles(files).write_file(path, NEW)
    await learn(files, path)
    _append(path)
    with pytest.raises(OperationRefusedError):
        await GuardedFiles(files).write_file(path, NEW)
    assert yard.touched == []


# A disk that fails.

FAULTS = [
    ("open", errno.ENOSPC),
    ("open", errno.EROFS),
    ("open", errno.EACCES),
    ("write", errno.ENOSPC),
    ("write", errno.EDQUOT),
    ("write", errno.EIO),
    ("fsync", errno.EIO),
    ("fsync", errno.ENOSPC),
]


def _broken(files_of: Callable[[DiskOps], RunFiles], point: str, code: int) -> RunFiles:
    return files_of(replace(REAL_DISK, **{point: failing(code)}))


@pytest.mark.req("SUB-2", "PATH-7")
@pytest.mark.parametrize(("point", "code"), [*FAULTS, ("link", errno.ENOSPC), ("link", errno.EIO)])
async def test_a_new_file_on_a_disk_that_fails_is_not_there_at_all(yard: Yard, point: str, code: int):
    files = _broken(yard.files, point, code)
    with pytest.raises(OSError, match=os.strerror(code)):
        await GuardedFiles(files).write_file(yard.memory / "new.md", NEW)
    _failed_clean(yard, files)


@pytest.mark.req("SUB-2", "PATH-7")
@pytest.mark.parametrize(("point", "code"), [*FAULTS, ("rename", errno.ENOSPC), ("rename", errno.EROFS)])
async def test_an_old_file_on_a_disk_that_fails_stays_whole(yard: Yard, point: str, code: int):
    files = _broken(yard.files, point, code)
    await learn(files, yard.memory / "a.md")
    with pytest.raises(OSError, match=os.strerror(code)):
        await GuardedFiles(files).write_file(yard.memory / "a.md", NEW)
    _failed_clean(yard, files)


def _failed_clean(yard: Yard, files: RunFiles) -> None:
    assert contents(yard.memory) == {"a.md": b"one\ntwo\n", "MEMORY.md": b"- [A](a.md)\n"}
    assert names(yard.memory) == ["MEMORY.md", "a.md"]
    assert isinstance(files.failure, StorageFailedError)
    assert str(yard.memory) in str(files.failure)
    assert files.changes.changes == {}


@pytest.mark.req("SUB-2", "PATH-7")
async def test_a_disk_that_fills_in_the_middle_of_a_text_leaves_no_half_of_it(yard: Yard):
    def half(descriptor: int, data: memoryview) -> int:
        return os.write(descriptor, data[: len(data) // 2]) or _full()

    def _full() -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files = yard.files(replace(REAL_DISK, write=half))
    with pytest.raises(OSError, match="No space"):
        await GuardedFiles(files).write_file(yard.memory / "new.md", b"x" * 100_000)
    _failed_clean(yard, files)


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("ahead", [True, False], ids=["made ahead", "made with the file"])
async def test_a_directory_that_cannot_be_made_fails_the_run_as_well(yard: Yard, code: int, ahead: bool):  # noqa: FBT001 - a column of the table
    files = _broken(yard.files, "mkdir", code)
    guard = GuardedFiles(files)
    with pytest.raises(OSError, match=os.strerror(code)):
        await (
            guard.mkdir(yard.memory / "deep")
            if ahead
            else guard.write_file(yard.memory / "deep" / "n.md", NEW)
        )
    _failed_clean(yard, files)


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENAMETOOLONG, errno.EINTR])
async def test_what_is_no_fault_of_the_disk_is_told_to_the_model_alone(yard: Yard, code: int):
    files = _broken(yard.files, "open", code)
    with pytest.raises(OSError, match=os.strerror(code)):
        await GuardedFiles(files).write_file(yard.memory / "new.md", NEW)
    assert files.failure is None
    assert names(yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("SUB-2", "PATH-7")
@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
async def test_a_disk_without_hard_links_takes_new_files_all_the_same(yard: Yard, code: int):
    files = _broken(yard.files, "link", code)
    await GuardedFiles(files).write_file(yard.memory / "new.md", NEW)
    assert (yard.memory / "new.md").read_bytes() == NEW
    assert files.failure is None
    assert names(yard.memory) == ["MEMORY.md", "a.md", "new.md"]


# Rights are looked at before each effect.


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_a_run_without_rights_touches_and_sees_nothing(yard: Yard):
    files = yard.files()
    guard, before = GuardedFiles(files), contents(yard.root)
    yard.lost = "a new generation began"
    for effect in (
        guard.write_file(yard.memory / "new.md", NEW),
        guard.mkdir(yard.memory / "deep"),
        guard.read_file(yard.memory / "a.md"),
        guard.access(yard.memory / "a.md", write=True),
        guard.exists(yard.memory / "a.md"),
        guard.is_directory(yard.memory),
    ):
        with pytest.raises(AbortedError, match="new generation"):
            await effect
    assert contents(yard.root) == before
    assert (guard.seen, yard.touched) == ([], [])


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_rights_lost_while_a_write_waits_for_its_worker_stop_it(yard: Yard):
    """The effects of a host's own tools come in beside the run: no cancellation reaches them."""
    files = yard.files()

    def lose(_: str) -> None:
        yard.lost = "a new generation began"

    files.on_touch = lose
    with pytest.raises(AbortedError):
        await GuardedFiles(files).write_file(yard.memory / "new.md", NEW)
    assert names(yard.memory) == ["MEMORY.md", "a.md"]
    assert files.changes.changes == {}


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_rights_lost_while_a_directory_waits_for_its_worker_stop_it(yard: Yard):
    files, looks = yard.files(), iter(["", "a new generation began"])

    def check() -> None:
        yard.lost = next(looks)
        yard.check()

    files.check = check
    with pytest.raises(AbortedError):
        await GuardedFiles(files).mkdir(yard.memory / "deep")
    assert names(yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("SUB-5", "PATH-7")
async def test_a_publish_that_has_begun_is_whole_although_it_is_cancelled(yard: Yard):
    """What cannot be taken back is finished: the file is there, and nothing half of it."""
    loop = asyncio.get_running_loop()
    with anyio.CancelScope() as scope:
        files = yard.files(at("fsync", lambda: loop.call_soon_threadsafe(scope.cancel) and None))
        await GuardedFiles(files).write_file(yard.memory / "new.md", NEW)
        await anyio.sleep(1)
    assert scope.cancelled_caught
    assert (yard.memory / "new.md").read_bytes() == NEW
    assert names(yard.memory) == ["MEMORY.md", "a.md", "new.md"]
