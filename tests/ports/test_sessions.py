"""The look at the session directory: what counts as another session, and what it costs (DRM-3, DRM-4)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pi_project_memory.actors.ports import sessions
from pi_project_memory.actors.ports.git import (
    CommandGit,
    InMemoryGit,
    NoWorktree,
    Worktree,
    clean_environment,
)
from pi_project_memory.actors.ports.sessions import (
    FIRST_BYTES,
    HEADER_BYTES,
    MOST_QUESTIONS,
    MemorySessions,
    ProjectMembership,
    SessionFiles,
    SessionSeen,
)
from pi_project_memory.actors.ports.worker import in_worker

SINCE = 1_796_048_090_000
OWN = "own-session"


def header(session_id: str = "a", cwd: str = "/home/user/project", **fields: Any) -> bytes:
    return json.dumps({"type": "session", "version": 3, "id": session_id, "cwd": cwd, **fields}).encode()


MESSAGE = b'{"type":"message","message":{"role":"user","content":"hello"}}\n'


def put(path: Path, content: bytes | None = None, *, after_ms: float = 1) -> Path:
    """Write a session file that was changed so many milliseconds after `SINCE`."""
    path.write_bytes(header(path.stem) + b"\n" + MESSAGE if content is None else content)
    age(path, after_ms)
    return path


def age(path: Path, after_ms: float) -> None:
    os.utime(path, ns=(int((SINCE + after_ms) * 1_000_000),) * 2, follow_symlinks=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sessions").mkdir()
    return tmp_path / "sessions"


async def seen(folder: Path, since: int | None = SINCE, **options: Any) -> list[str]:
    """Return the ids that a scan finds, in its order."""
    return [session.id for session in await SessionFiles(folder, OWN, **options).updated_since(since)]


@pytest.mark.req("DRM-3")
async def test_other_sessions_are_listed_newest_first_with_the_time_of_their_change(folder: Path) -> None:
    for number, name in enumerate("bca"):
        put(folder / f"{name}.jsonl", after_ms=100 * (number + 1))
    assert await SessionFiles(folder, OWN).updated_since(SINCE) == [
        SessionSeen("a", SINCE + 300),
        SessionSeen("c", SINCE + 200),
        SessionSeen("b", SINCE + 100),
    ]


@pytest.mark.req("DRM-1", "DRM-3")
@pytest.mark.parametrize(("after_ms", "counts"), [(-1, False), (0, False), (0.5, True), (1, True)])
async def test_only_files_changed_later_than_the_last_attempt_count(
    folder: Path, after_ms: float, *, counts: bool
) -> None:
    put(folder / "a.jsonl", after_ms=after_ms)
    assert await seen(folder) == (["a"] if counts else [])
    assert await seen(folder, None) == ["a"]


@pytest.mark.req("DRM-3")
async def test_the_own_session_is_left_out_by_its_id_and_others_count_once(folder: Path) -> None:
    put(folder / "renamed.jsonl", header(OWN))
    put(folder / "old.jsonl", header("copied"), after_ms=5)
    put(folder / "new.jsonl", header("copied"), after_ms=9)
    put(folder / "other.jsonl", after_ms=7)
    assert await SessionFiles(folder, OWN).updated_since(SINCE) == [
        SessionSeen("copied", SINCE + 9),
        SessionSeen("other", SINCE + 7),
    ]


PADDING = MESSAGE * 20
FAR = b'{"type":"message","text":"%s"}\n' % (b"x" * HEADER_BYTES)


@pytest.mark.req("DRM-3", "C75")
@pytest.mark.parametrize(
    ("content", "counts"),
    [
        (b'{"type":"session_info","name":"title"}\n' + header() + b"\n", True),
        (MESSAGE, False),
        (b"", False),
        (header(), True),
        (b"\xef\xbb\xbf" + header() + b"\n", True),
        (header() + b"\r\n" + MESSAGE, True),
        (PADDING + header(), True),
        (FAR + header() + b"\n", False),
        (header("-no-id-") + b"\n" + header() + b"\n", False),
        (b"\0" * 5_000 + b"\n" + header() + b"\n", True),
        (b"\0" * 50_000, False),
        (os.urandom(40_000).replace(b"{", b""), False),
        (header().decode().encode("utf-16"), False),
        (b"\n" * 500 + header(), True),
    ],
)
async def test_the_header_is_looked_for_in_the_beginning_of_a_file(
    folder: Path, content: bytes, *, counts: bool
) -> None:
    put(folder / "x.jsonl", content)
    assert await seen(folder) == (["a"] if counts else [])


@pytest.mark.req("DRM-3")
@pytest.mark.parametrize("window", [FIRST_BYTES, HEADER_BYTES])
@pytest.mark.parametrize("length", [-1, 0, 1])
@pytest.mark.parametrize("rest", [b"", b"\n", b"\n" + MESSAGE])
async def test_a_header_counts_when_it_ends_within_the_window(
    folder: Path, window: int, length: int, rest: bytes
) -> None:
    """A header that is longer than the first read is still found; one that leaves the window is not."""
    bare = len(header(note=""))
    content = header(note="x" * (window + length - bare))
    assert len(content) == window + length
    put(folder / "x.jsonl", content + rest)
    assert await seen(folder) == (["a"] if len(content) <= HEADER_BYTES else [])


@pytest.mark.req("DRM-3")
async def test_whatever_is_no_readable_session_file_is_passed_over(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder / "good.jsonl")
    put(folder / "upper.JSONL")
    put(folder / "note.json")
    put(folder / "locked.jsonl")
    (folder / "folder.jsonl").mkdir()
    put(folder / "folder.jsonl" / "deep.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "loop.jsonl").symlink_to("loop.jsonl")
    (folder / "device.jsonl").symlink_to("/dev/zero")
    put(tmp_path / "elsewhere.jsonl")
    (folder / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    for name in ("pipe", "dangling", "loop", "device", "link", "folder"):
        age(folder / f"{name}.jsonl", 1)
    real = os.open
    opened: list[str] = []

    def guarded(path: str, *args: int) -> int:
        opened.append(Path(path).name)
        if path.endswith("locked.jsonl"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args)

    monkeypatch.setattr(sessions.os, "open", guarded)
    assert await seen(folder) == ["good"]
    assert sorted(opened) == ["good.jsonl", "locked.jsonl"]


@pytest.mark.req("DRM-3")
def test_a_file_that_became_something_else_after_the_look_is_passed_over(folder: Path) -> None:
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "folder.jsonl").mkdir()
    put(folder / "good.jsonl")
    (folder / "link.jsonl").symlink_to("good.jsonl")
    for name in ("pipe", "folder", "link", "gone"):
        assert sessions._read_header(str(folder / f"{name}.jsonl")) is None
    assert sessions._read_header(str(folder / "good.jsonl")) is not None


@pytest.mark.req("DRM-3")
async def test_names_and_paths_of_any_bytes_are_fine(folder: Path) -> None:
    odd = folder / os.fsdecode(b"\xff\xfe line\nbreak")
    odd.mkdir()
    put(odd / os.fsdecode(b"\xf0 .jsonl"), header("odd"))
    assert await seen(odd) == ["odd"]


@pytest.mark.req("DRM-3")
@pytest.mark.parametrize("where", ["missing", "a file", "a loop"])
async def test_a_directory_that_is_none_holds_no_sessions(folder: Path, where: str) -> None:
    (folder / "a file").write_text("")
    (folder / "a loop").symlink_to("a loop")
    assert await seen(folder / where) == []


@pytest.mark.req("DRM-3")
async def test_a_directory_that_vanishes_during_the_scan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        put(folder / f"s{number}.jsonl")
    real = sessions._modified_ns

    def vanishing(entry: os.DirEntry[str]) -> int | None:
        shutil.rmtree(folder, ignore_errors=True)
        return real(entry)

    monkeypatch.setattr(sessions, "_modified_ns", vanishing)
    assert await seen(folder) == []
    assert not folder.exists()


@pytest.mark.req("DRM-3")
async def test_a_directory_that_fails_half_way_gives_what_was_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder / "a.jsonl")

    def failing(entries: Any) -> Any:
        yield next(iter(entries))
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(sessions, "_session_names", failing)
    assert await seen(folder) == ["a"]


@pytest.mark.req("DRM-3")
async def test_a_session_that_is_not_kept_has_no_others() -> None:
    assert await SessionFiles(None, OWN).updated_since(None) == ()


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., Any]]:
    """Return what has been given to a worker thread."""
    functions: list[Callable[..., Any]] = []

    async def counting(function: Callable[..., Any], *args: Any) -> Any:
        functions.append(function)
        return await in_worker(function, *args)

    monkeypatch.setattr(sessions, "in_worker", counting)
    return functions


@pytest.mark.req("DRM-3", "C25")
async def test_thousands_of_files_take_one_hop_and_only_the_newer_ones_are_opened(
    folder: Path, hops: list[Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3_000):
        put(folder / f"s{number}.jsonl", after_ms=1 if number % 10 == 0 else -1)
    reads: list[int] = []
    opened: set[int] = set()
    real_pread, real_close = os.pread, os.close

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        opened.add(descriptor)
        assert len(opened) == 1
        reads.append(size)
        return real_pread(descriptor, size, offset)

    def close(descriptor: int) -> None:
        opened.discard(descriptor)
        real_close(descriptor)

    monkeypatch.setattr(sessions.os, "pread", pread)
    monkeypatch.setattr(sessions.os, "close", close)
    assert len(await seen(folder)) == 300
    assert len(hops) == 1
    assert reads == [FIRST_BYTES + 1] * 300


@pytest.mark.req("DRM-3")
async def test_of_a_huge_file_no_more_than_the_window_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder / "sparse.jsonl", b"")
    os.truncate(folder / "sparse.jsonl", 1 << 40)
    put(folder / "long.jsonl", header("long") + b"\n" + b"x" * 3_000_000)
    age(folder / "sparse.jsonl", 1)
    sizes: list[int] = []
    real = os.pread

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return real(descriptor, size, offset)

    monkeypatch.setattr(sessions.os, "pread", pread)
    assert await seen(folder) == ["long"]
    assert sorted(sizes) == [FIRST_BYTES + 1, FIRST_BYTES + 1, HEADER_BYTES + 1]


@pytest.mark.req("DRM-4")
async def test_a_scan_leaves_the_directory_as_it_was(folder: Path) -> None:
    for number in range(5):
        put(folder / f"s{number}.jsonl")

    def everything() -> dict[str, tuple[bytes, int]]:
        files = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
        return {**files, "": (b"", folder.stat().st_mtime_ns)}

    before = everything()
    assert len(await seen(folder)) == 5
    assert everything() == before


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/src").mkdir(parents=True)
    (tmp_path / "other/deep").mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    return tmp_path / "project"


def git_of(project: Path) -> InMemoryGit:
    """Return a git that knows the project, a linked worktree of it, and a submodule inside it."""
    inside = Worktree(str(project), str(project / ".git"))
    linked = project.parent / "linked"
    return InMemoryGit(
        {
            str(project): inside,
            str(project / "src"): inside,
            str(linked): Worktree(str(linked), str(project / ".git")),
            str(project / "module"): Worktree(str(project / "module"), str(project / ".git/modules/module")),
            str(project.parent / "other/deep"): NoWorktree("git did not answer within 2 s"),
        }
    )


def membership(project: Path, git: InMemoryGit | CommandGit) -> ProjectMembership:
    return ProjectMembership(str(project), str(project.parent / "linked"), git)


@pytest.mark.req("DRM-3")
@pytest.mark.parametrize(
    ("cwd", "counts"),
    [
        ("project", True),
        ("project/src", True),
        ("linked", True),
        ("project/module", False),
        ("other/deep", False),
        ("alias/src", True),
        # gone: only the place can tell
        ("project/removed", True),
        ("linked/removed", True),
        ("alias/removed", True),
        ("project-removed", False),
        ("other/removed", False),
        ("project/../other/removed", False),
    ],
)
async def test_in_a_shared_directory_only_sessions_of_the_project_count(
    folder: Path, project: Path, cwd: str, *, counts: bool
) -> None:
    (project / "module").mkdir()
    (project.parent / "alias").symlink_to(project)
    put(folder / "a.jsonl", header("a", cwd=f"{project.parent}/{cwd}"))
    shared = membership(project, git_of(project))
    assert await seen(folder, membership=shared) == (["a"] if counts else [])
    assert await seen(folder) == ["a"]


@pytest.mark.req("DRM-3")
@pytest.mark.parametrize("cwd", [None, "", "relative", "/a\0b", 7, "/" + "x" * 5_000])
async def test_in_a_shared_directory_a_session_without_a_usable_cwd_does_not_count(
    folder: Path, project: Path, cwd: object
) -> None:
    put(folder / "a.jsonl", json.dumps({"type": "session", "id": "a", "cwd": cwd}).encode())
    assert await seen(folder, membership=membership(project, git_of(project))) == []
    assert await seen(folder) == ["a"]


@pytest.mark.req("DRM-3")
async def test_a_project_without_git_is_its_directory_alone(folder: Path, project: Path) -> None:
    put(folder / "same.jsonl", header("same", cwd=str(project)))
    put(folder / "below.jsonl", header("below", cwd=f"{project}/src"))
    assert await seen(folder, membership=membership(project, InMemoryGit({}))) == ["same"]


@pytest.mark.req("DRM-3")
async def test_a_copy_held_elsewhere_does_not_hide_the_session(folder: Path, project: Path) -> None:
    put(folder / "here.jsonl", header("a", cwd=str(project)), after_ms=3)
    put(folder / "there.jsonl", header("a", cwd=str(project.parent / "other")), after_ms=9)
    files = SessionFiles(folder, OWN, membership(project, git_of(project)))
    assert await files.updated_since(SINCE) == [SessionSeen("a", SINCE + 3)]


@pytest.mark.req("DRM-3")
async def test_git_is_asked_once_for_each_directory_and_of_so_many_in_one_scan(
    folder: Path, project: Path
) -> None:
    """The newest sessions are judged first, the rest by the next scan."""
    git = git_of(project)
    for number in range(MOST_QUESTIONS + 10):
        place = project.parent / f"p{number:02}"
        place.mkdir()
        put(folder / f"s{number}.jsonl", header(f"s{number}", cwd=str(place)), after_ms=1_000 - number)
    for number in range(20):
        put(folder / f"own{number}.jsonl", header(f"own{number}", cwd=str(project)), after_ms=5)
    files = SessionFiles(folder, OWN, membership(project, git))
    assert await files.updated_since(SINCE) == []
    assert git.asked == [f"{project.parent}/p{number:02}" for number in range(MOST_QUESTIONS)]
    assert len(await files.updated_since(SINCE)) == 20
    assert len(await files.updated_since(SINCE)) == 20
    assert len(git.asked) == MOST_QUESTIONS + 11


@pytest.mark.req("DRM-3")
@pytest.mark.real_time
async def test_real_worktrees_of_one_repository_are_one_project(folder: Path, tmp_path: Path) -> None:
    main, linked, other = tmp_path / "main", tmp_path / "tree", tmp_path / "another"
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.invalid")
    for arguments in (
        ("init", "-q", str(main)),
        ("init", "-q", str(other)),
        ("-C", str(main), *identity, "commit", "-q", "--allow-empty", "-m", "first"),
        ("-C", str(main), "worktree", "add", "-q", "--detach", str(linked)),
    ):
        subprocess.run(("git", *arguments), check=True, env=clean_environment(os.environ))
    for place in (main, linked, other, tmp_path):
        put(folder / f"{place.name}.jsonl", header(place.name, cwd=str(place)))
    shared = ProjectMembership(str(main), str(main), CommandGit())
    assert sorted(await seen(folder, membership=shared)) == ["main", "tree"]


@pytest.mark.req("DRM-3")
async def test_the_prepared_form_filters_by_time_and_notes_each_scan() -> None:
    prepared = MemorySessions((SessionSeen("a", SINCE), SessionSeen("b", SINCE + 1)))
    assert await prepared.updated_since(SINCE) == [SessionSeen("b", SINCE + 1)]
    assert len(await prepared.updated_since(None)) == 2
    assert prepared.scans == [SINCE, None]
