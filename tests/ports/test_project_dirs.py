"""Namespaces reserved, directories made: collisions, races, crashes, planted links and refusing disks."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pi_project_memory.actors.core.identity import (
    ProjectPaths,
    collision_namespace,
    path_hash,
    plain_namespace,
    project_key,
)
from pi_project_memory.actors.ports import reservation
from pi_project_memory.actors.ports.git import CommandGit, resolve_project_root
from pi_project_memory.actors.ports.private_dirs import InitialisationError
from pi_project_memory.actors.ports.project_dirs import initialise, make_directories
from pi_project_memory.actors.ports.publish import REAL_DISK, DiskOps

ROOTS = ["/w/a-b", "/w/a_b", "/w/a.b"]


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    return tmp_path / "agent"


def make(
    agent: Path, root: str = "/w/a-b", configured: str | None = None, ops: DiskOps = REAL_DISK
) -> ProjectPaths:
    return make_directories(str(agent), root, configured, str(agent.parent / "home"), ops)


def namespace(agent: Path, root: str, *, collision: bool = False) -> Path:
    return Path((collision_namespace if collision else plain_namespace)(str(agent), root))


def reserved(agent: Path, root: str, owner: str, *, collision: bool = False) -> Path:
    folder = namespace(agent, root, collision=collision)
    folder.mkdir(parents=True)
    (folder / ".project-root").write_text(owner)
    return folder


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def everything(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_symlink())


@pytest.mark.req("PATH-3", "PATH-4", "PATH-5")
@pytest.mark.parametrize("umask", [0o022, 0o277, 0])
async def test_the_default_layout_is_made_private(agent: Path, umask: int):
    previous = os.umask(umask)
    try:
        paths = await initialise(str(agent), "/w/a-b", None, "/nowhere")
    finally:
        os.umask(previous)
    data = agent / "project-memory"
    plain = data / "projects" / "-w-a-b"
    assert paths == ProjectPaths(
        agent_dir=str(agent),
        project_root="/w/a-b",
        namespace_dir=str(plain),
        memory_dir=str(plain / "memory"),
        memory_hash=path_hash(os.path.realpath(plain / "memory")),
        custom=False,
    )
    assert (plain / ".project-root").read_text() == "/w/a-b\n"
    roots = data / "memory-roots"
    assert {str(path) for path in everything(data)} == {
        *map(str, (data / "projects", plain, plain / "memory", plain / ".project-root", roots)),
        *(paths.memory_root_dir, paths.locks_dir),
    }
    for path in (agent, data, *everything(data)):
        assert mode_of(path) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.req("PATH-4", "PATH-5")
def test_the_custom_layout_makes_the_store_and_leaves_the_default_memory_out(agent: Path, tmp_path: Path):
    paths = make(agent, configured="~/notes/memory/")
    memory = tmp_path / "home" / "notes" / "memory"
    assert (paths.custom, paths.memory_dir) == (True, str(memory))
    assert paths.memory_hash == path_hash(os.path.realpath(memory))
    assert paths.base_dir == f"{namespace(agent, '/w/a-b')}/stores/{paths.memory_hash}"
    assert not (namespace(agent, "/w/a-b") / "memory").exists()
    for path in (memory, memory.parent, paths.base_dir, paths.stores_dir, paths.locks_dir):
        assert mode_of(path) == 0o700


@pytest.mark.req("PATH-5")
def test_what_exists_keeps_its_mode_and_its_files(agent: Path, tmp_path: Path):
    notes = tmp_path / "notes"
    for folder in (agent, notes):
        folder.mkdir()
        folder.chmod(0o755)
    (notes / "a.md").write_text("kept")
    first = make(agent, configured=str(notes))
    assert make(agent, configured=str(notes)) == first
    assert mode_of(agent) == mode_of(notes) == 0o755
    assert (notes / "a.md").read_text() == "kept"


@pytest.mark.req("PATH-3", "C60")
def test_projects_of_one_key_are_kept_apart_in_the_order_they_came(agent: Path):
    for _ in range(2):
        found = [make(agent, root).namespace_dir for root in ROOTS]
        assert found == [
            str(namespace(agent, ROOTS[0])),
            str(namespace(agent, ROOTS[1], collision=True)),
            str(namespace(agent, ROOTS[2], collision=True)),
        ]
    for root, folder in zip(ROOTS, found, strict=True):
        assert (Path(folder) / ".project-root").read_text() == f"{root}\n"
        assert mode_of(Path(folder) / ".project-root") == 0o600


def refusing(code: int) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.req("PATH-3")
@pytest.mark.parametrize(
    "ops", [REAL_DISK, replace(REAL_DISK, link=refusing(errno.EPERM))], ids=["links", "no links"]
)
@pytest.mark.req("C60")
def test_projects_that_start_at_once_get_one_namespace_each(agent: Path, ops: DiskOps):
    start = threading.Barrier(9)
    found: list[tuple[str, str]] = []

    def attempt(root: str) -> None:
        start.wait()
        found.append((root, make(agent, root, ops=ops).namespace_dir))

    threads = [threading.Thread(target=attempt, args=(root,)) for root in ROOTS * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 9
    assert len(set(found)) == len({folder for _, folder in found}) == 3
    for root, folder in found:
        assert (Path(folder) / ".project-root").read_text() == f"{root}\n"


@pytest.mark.req("PATH-3")
def test_who_links_first_owns_the_key_whoever_looked_first(agent: Path):
    late: list[ProjectPaths] = []

    def overtaken(source: str, target: str) -> None:
        if not late:
            late.append(make(agent, ROOTS[1]))
        os.link(source, target)

    paths = make(agent, ROOTS[0], ops=replace(REAL_DISK, link=overtaken))
    assert late[0].namespace_dir == str(namespace(agent, ROOTS[1]))
    assert paths.namespace_dir == str(namespace(agent, ROOTS[0], collision=True))


STARTER = """
import json, sys
from pi_project_memory.actors.ports.project_dirs import make_directories
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([sys.argv[2], make_directories(sys.argv[1], sys.argv[2], None, "/").namespace_dir]))
"""


@pytest.mark.req("PATH-3")
@pytest.mark.real_time
def test_processes_that_start_at_once_get_one_namespace_for_each_project(agent: Path):
    children = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(agent), root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for root in [*ROOTS, ROOTS[0]]
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    found = [tuple(json.loads(child.communicate(timeout=60)[0])) for child in children]
    assert len(set(found)) == len({folder for _, folder in found}) == 3


CRASHES = """
import json, os, sys
from dataclasses import fields, replace
from pi_project_memory.actors.ports.project_dirs import make_directories
from pi_project_memory.actors.ports.publish import DiskOps, REAL_DISK

STEPS = [field.name for field in fields(DiskOps) if field.name != "random_name"]

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
    return replace(REAL_DISK, **{name: wrap(getattr(REAL_DISK, name)) for name in STEPS})

for at in range(200):
    agent = f"{sys.argv[1]}/{at}"
    child = os.fork()
    if child == 0:
        make_directories(agent, "/w/a", f"{agent}/notes", "/", dying(at))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
    paths = make_directories(agent, "/w/a", f"{agent}/notes", "/")
    print(paths.namespace_dir == f"{agent}/project-memory/projects/-w-a", os.path.isdir(paths.locks_dir))
"""


@pytest.mark.req("PATH-3", "PATH-7")
@pytest.mark.real_time
def test_death_at_any_instant_blocks_no_later_start(tmp_path: Path):
    finished = subprocess.run(
        [sys.executable, "-c", CRASHES, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    lines = finished.stdout.splitlines()
    assert len(lines) > 25
    assert set(lines) == {"True True"}


@pytest.mark.req("PATH-3")
@pytest.mark.parametrize("owner", ROOTS[:2])
def test_an_empty_reservation_that_is_just_being_written_is_waited_for(
    agent: Path, monkeypatch: pytest.MonkeyPatch, owner: str
):
    plain = reserved(agent, ROOTS[0], "")
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            (plain / ".project-root").write_text(f"{owner}\n")

    monkeypatch.setattr(reservation.time, "sleep", nap)
    expected = namespace(agent, ROOTS[0], collision=owner != ROOTS[0])
    assert make(agent, ROOTS[0]).namespace_dir == str(expected)
    assert len(naps) == 3


@pytest.mark.req("PATH-3")
def test_an_empty_reservation_left_by_a_crash_is_taken_over(agent: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reservation.time, "sleep", lambda _: None)
    plain = reserved(agent, ROOTS[0], "")
    assert make(agent, ROOTS[0]).namespace_dir == str(plain)
    assert (plain / ".project-root").read_text() == f"{ROOTS[0]}\n"
    assert make(agent, ROOTS[1]).namespace_dir == str(namespace(agent, ROOTS[1], collision=True))


@pytest.mark.req("PATH-3")
def test_one_process_at_a_time_takes_an_empty_reservation_over(agent: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reservation.time, "sleep", lambda _: None)
    plain = reserved(agent, ROOTS[0], "")
    descriptor = os.open(plain, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(InitialisationError, match=r"it stays empty\. Remove this file") as caught:
            make(agent, ROOTS[0])
    finally:
        os.close(descriptor)
    assert caught.value.path == str(plain / ".project-root")
    assert (plain / ".project-root").read_text() == ""


@pytest.mark.req("PATH-3")
@pytest.mark.parametrize("written", ["/w/a-b", "/w/a-b\n"])
def test_a_reservation_is_read_with_or_without_its_line_end(agent: Path, written: str):
    plain = reserved(agent, ROOTS[0], written)
    assert make(agent, ROOTS[0]).namespace_dir == str(plain)


@pytest.mark.req("PATH-3")
@pytest.mark.parametrize("root", ["/w/line\nbreak", "/w/end\n", "/w/é", "/w/\udcff", "/w/😀"])
def test_roots_of_any_kind_are_recognised(agent: Path, root: str):
    reserved(agent, root, "/another/project\n")
    first = make(agent, root)
    assert first.namespace_dir == str(namespace(agent, root, collision=True))
    assert make(agent, root) == first


@pytest.mark.req("PATH-3")
@pytest.mark.parametrize("plain_state", ["missing", "empty"])
def test_a_directory_of_an_older_version_gets_its_plain_name(agent: Path, plain_state: str):
    legacy = reserved(agent, ROOTS[0], f"{ROOTS[0]}\n", collision=True)
    (legacy / "memory").mkdir()
    (legacy / "memory" / "MEMORY.md").write_text("kept")
    if plain_state == "empty":
        namespace(agent, ROOTS[0]).mkdir()
    paths = make(agent, ROOTS[0])
    assert paths.namespace_dir == str(namespace(agent, ROOTS[0]))
    assert (Path(paths.memory_dir) / "MEMORY.md").read_text() == "kept"
    assert not legacy.exists()
    assert make(agent, ROOTS[1]).namespace_dir == str(namespace(agent, ROOTS[1], collision=True))


@pytest.mark.req("PATH-3")
@pytest.mark.parametrize("plain_state", ["owned", "filled", "file", "link"])
def test_a_plain_name_in_use_is_left_alone(agent: Path, tmp_path: Path, plain_state: str):
    legacy = reserved(agent, ROOTS[0], f"{ROOTS[0]}\n", collision=True)
    plain = namespace(agent, ROOTS[0])
    match plain_state:
        case "owned":
            reserved(agent, ROOTS[1], f"{ROOTS[1]}\n")
        case "filled":
            (plain / "memory").mkdir(parents=True)
        case "file":
            plain.write_text("x")
        case _:
            (tmp_path / "elsewhere").mkdir()
            plain.symlink_to(tmp_path / "elsewhere")
    if plain_state == "file":
        with pytest.raises(InitialisationError, match="not a directory"):
            make(agent, ROOTS[0])
    else:
        assert make(agent, ROOTS[0]).namespace_dir == str(legacy)
    assert (legacy / ".project-root").exists()
    assert not (tmp_path / "elsewhere" / ".project-root").exists()


@pytest.mark.req("PATH-3", "PATH-5")
@pytest.mark.parametrize("plain_state", ["missing", "filled"])
def test_a_link_in_the_place_of_an_older_directory_is_told(agent: Path, tmp_path: Path, plain_state: str):
    legacy, plain = namespace(agent, ROOTS[0], collision=True), namespace(agent, ROOTS[0])
    reserved(agent, ROOTS[0], f"{ROOTS[0]}\n", collision=True).rename(tmp_path / "elsewhere")
    legacy.symlink_to(tmp_path / "elsewhere")
    if plain_state == "filled":
        (plain / "memory").mkdir(parents=True)
    with pytest.raises(InitialisationError, match="not a symbolic link") as caught:
        make(agent, ROOTS[0])
    assert caught.value.path == str(legacy if plain_state == "filled" else plain)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [".project-root"]


@pytest.mark.req("PATH-3")
def test_a_directory_that_another_process_moved_first_is_found_under_its_plain_name(agent: Path):
    legacy = reserved(agent, ROOTS[0], f"{ROOTS[0]}\n", collision=True)

    def beaten(source: str, target: str) -> None:
        if source == str(legacy):
            REAL_DISK.rename(source, target)
        REAL_DISK.rename(source, target)

    paths = make(agent, ROOTS[0], ops=replace(REAL_DISK, rename=beaten))
    assert paths.namespace_dir == str(namespace(agent, ROOTS[0]))


@pytest.mark.req("PATH-3")
def test_a_reservation_changed_by_hand_is_told(agent: Path):
    reserved(agent, ROOTS[0], f"{ROOTS[1]}\n")
    edited = reserved(agent, ROOTS[0], "/somewhere/else\n", collision=True)
    with pytest.raises(InitialisationError, match="does not name this project, /w/a-b") as caught:
        make(agent, ROOTS[0])
    assert caught.value.path == str(edited / ".project-root")


@pytest.mark.req("PATH-3", "PATH-5")
@pytest.mark.parametrize("kind", ["link", "directory", "fifo"])
def test_a_reservation_that_is_no_file_is_told(agent: Path, tmp_path: Path, kind: str):
    plain = namespace(agent, ROOTS[0])
    plain.mkdir(parents=True)
    marker = plain / ".project-root"
    match kind:
        case "link":
            (tmp_path / "target").write_text(f"{ROOTS[0]}\n")
            marker.symlink_to(tmp_path / "target")
        case "directory":
            marker.mkdir()
        case _:
            os.mkfifo(marker)
    told: list[str] = []

    def attempt() -> None:
        try:
            make(agent, ROOTS[0])
        except InitialisationError as error:
            told.append(error.path)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(30)
    assert told == [str(marker)]


@pytest.mark.req("PATH-5", "CFG-5")
@pytest.mark.parametrize("configured", [False, True])
def test_the_memory_root_may_be_a_link_to_a_directory(agent: Path, tmp_path: Path, configured: bool):  # noqa: FBT001
    (tmp_path / "real").mkdir()
    link = tmp_path / "link" if configured else namespace(agent, ROOTS[0]) / "memory"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "real")
    paths = make(agent, configured=str(link) if configured else None)
    assert paths.memory_dir == str(link)
    assert paths.memory_hash == path_hash(str(tmp_path / "real"))


@pytest.mark.req("PATH-5", "CFG-5")
@pytest.mark.parametrize("configured", [False, True])
@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("file", "is a file"),
        ("link to a file", "is a file"),
        ("dangling", "link to nothing"),
        ("circle", "link to nothing"),
    ],
)
def test_any_other_memory_root_is_an_error_that_says_what_to_do(
    agent: Path,
    tmp_path: Path,
    kind: str,
    problem: str,
    configured: bool,  # noqa: FBT001
):
    root = tmp_path / "root" if configured else namespace(agent, ROOTS[0]) / "memory"
    root.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "file").write_text("x")
    match kind:
        case "file":
            root.write_text("x")
        case "link to a file":
            root.symlink_to(tmp_path / "file")
        case "dangling":
            root.symlink_to(tmp_path / "nowhere")
        case _:
            root.symlink_to(root)
    with pytest.raises(InitialisationError, match=problem) as caught:
        make(agent, configured=str(root) if configured else None)
    assert caught.value.path == str(root)
    assert str(caught.value).startswith(f"{root}: ")
    assert "autoMemoryDirectory" in str(caught.value)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.req("CFG-5")
@pytest.mark.parametrize("configured", ["./m", "~", "~/..", "/", "C:", "/a/.GIT/b", "/a\0b", "  ", "~/"])
@pytest.mark.req("C70")
def test_a_directory_that_is_not_valid_means_the_default_one(agent: Path, tmp_path: Path, configured: str):
    paths = make(agent, configured=configured)
    assert (paths.custom, paths.memory_dir) == (False, f"{namespace(agent, ROOTS[0])}/memory")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent"]


@pytest.mark.req("PATH-5")
@pytest.mark.parametrize("target", ["directory", "nothing"])
@pytest.mark.parametrize("place", ["namespace_dir", "stores_dir", "base_dir", "memory_root_dir", "locks_dir"])
def test_state_and_lock_roots_must_be_directories_themselves(
    agent: Path, tmp_path: Path, place: str, target: str
):
    notes = str(tmp_path / "notes")
    planted = Path(getattr(make(agent, configured=notes), place))
    shutil.rmtree(planted)
    elsewhere = tmp_path / "elsewhere"
    if target == "directory":
        elsewhere.mkdir()
        (elsewhere / ".project-root").write_text(f"{ROOTS[0]}\n")
    planted.symlink_to(elsewhere)
    with pytest.raises(InitialisationError, match="not a symbolic link or a file") as caught:
        make(agent, configured=notes)
    assert caught.value.path == str(planted)
    assert [path.name for path in everything(elsewhere)] == [".project-root"] * (target == "directory")


@pytest.mark.req("PATH-5")
def test_a_file_in_the_place_of_the_locks_is_told(agent: Path):
    locks = Path(make(agent).locks_dir)
    locks.rmdir()
    locks.write_text("x")
    with pytest.raises(InitialisationError) as caught:
        make(agent)
    assert caught.value.path == str(locks)


@pytest.mark.req("PATH-4")
def test_two_projects_and_two_spellings_of_one_directory_share_one_lock_set(agent: Path, tmp_path: Path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "notes")
    spellings = [f"{tmp_path}/notes", f"{tmp_path}/alias", f"{tmp_path}//notes/./", f"{tmp_path}/x/../notes"]
    shared = [make(agent, root, configured) for root in ("/w/one", "/w/two") for configured in spellings]
    assert len({(paths.memory_hash, paths.locks_dir, paths.dream_state_file) for paths in shared}) == 1
    assert len({paths.state_file for paths in shared}) == 2
    assert make(agent, "/w/one").locks_dir != shared[0].locks_dir


@pytest.mark.req("PATH-4")
def test_a_directory_has_its_locks_before_and_after_it_exists_and_below_a_link(agent: Path, tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    before = make(agent, configured=f"{tmp_path}/alias/new/deep")
    assert before.memory_hash == path_hash(f"{tmp_path}/real/new/deep")
    assert make(agent, configured=f"{tmp_path}/real/new/deep").locks_dir == before.locks_dir
    assert make(agent, configured=f"{tmp_path}/real/new").locks_dir != before.locks_dir


@pytest.mark.req("PATH-4")
def test_the_default_directory_named_outright_has_the_same_locks_and_a_store_of_its_own(agent: Path):
    plain = make(agent)
    named = make(agent, configured=plain.memory_dir)
    assert (named.custom, named.locks_dir, named.dream_state_file) == (
        True,
        plain.locks_dir,
        plain.dream_state_file,
    )
    assert named.state_file != plain.state_file


@pytest.mark.req("PATH-1", "PATH-3", "PATH-4")
@pytest.mark.real_time
@pytest.mark.req("C62")
async def test_linked_worktrees_have_one_key_and_one_lock_set(agent: Path, tmp_path: Path):
    def git(*args: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *args], check=True, capture_output=True, timeout=60)

    git("init", "-q", "main")
    author = ("-c", "user.name=n", "-c", "user.email=n@example.invalid")
    git("-C", "main", *author, "commit", "-q", "--allow-empty", "-m", "first")
    for name in ("one", "two"):
        git("-C", "main", "worktree", "add", "-q", "--detach", f"../{name}")
    found = set()
    for name in ("main", "one", "two"):
        below = tmp_path / name / "sub"
        below.mkdir()
        root = await resolve_project_root(str(below), CommandGit())
        found.add(await initialise(str(agent), root.path, None, "/nowhere"))
    assert [paths.project_root for paths in found] == [str(tmp_path / "main")]


@pytest.mark.req("PATH-2", "PATH-3")
@pytest.mark.parametrize("length", [200, 201, 262, 4000])
@pytest.mark.req("C66")
def test_roots_of_any_length_have_a_directory(agent: Path, length: int):
    root, twin = "/" + "x" * (length - 2) + "-", "/" + "x" * (length - 2) + "_"
    first, second = make(agent, root), make(agent, twin)
    assert first.namespace_dir == f"{agent}/project-memory/projects/{project_key(root)}"
    assert second.namespace_dir != first.namespace_dir


@pytest.mark.req("PATH-2", "PATH-5", "C66")
def test_a_file_system_with_short_names_gives_an_error_that_names_the_way_out(agent: Path):
    def mkdir(path: str, mode: int) -> None:
        if len(os.fsencode(Path(path).name)) > 143:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        REAL_DISK.mkdir(path, mode)

    short_names = replace(REAL_DISK, mkdir=mkdir)
    root = "/w/" + "x" * 150
    with pytest.raises(InitialisationError, match="too long") as caught:
        make(agent, root, ops=short_names)
    assert caught.value.path == str(namespace(agent, root))
    assert "autoMemoryDirectory" in caught.value.remedy
    assert "PI_CODING_AGENT_DIR" in caught.value.remedy
    assert make(agent, "/w/" + "x" * 139, ops=short_names).namespace_dir


@pytest.mark.req("PATH-2", "PATH-5")
@pytest.mark.parametrize("below", ["y" * 256, "y/" * 2100, "é" * 128])
def test_a_memory_directory_that_is_too_long_is_told(agent: Path, tmp_path: Path, below: str):
    with pytest.raises(InitialisationError, match="too long") as caught:
        make(agent, configured=f"{tmp_path}/{below}")
    assert caught.value.path.startswith(str(tmp_path))
    assert "autoMemoryDirectory" in caught.value.remedy
    assert not (tmp_path / "y").exists()


@pytest.mark.req("PATH-5")
@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "Make room on this disk"),
        (errno.EDQUOT, "Make room in your quota"),
        (errno.EROFS, "mounted read-only"),
        (errno.EACCES, "right to read and write"),
        (errno.EPERM, "right to read and write"),
        (errno.EIO, "Check this path and the disk"),
    ],
)
@pytest.mark.parametrize("step", ["mkdir", "write", "fsync", "open"])
def test_a_refusing_disk_is_told_with_a_remedy_and_leaves_no_reservation(
    agent: Path, code: int, remedy: str, step: str
):
    def refuse(*args: object) -> None:
        raise OSError(code, os.strerror(code), *(arg for arg in args[:1] if isinstance(arg, str)))

    with pytest.raises(InitialisationError, match=remedy) as caught:
        make(agent, ops=replace(REAL_DISK, **{step: refuse}))
    assert caught.value.path.startswith(str(agent))
    assert caught.value.problem == os.strerror(code)
    assert not [path for path in everything(agent) if path.is_file()]


@pytest.mark.req("PATH-5")
def test_the_path_that_is_told_is_the_one_that_was_meant(agent: Path):
    def link(source: str, target: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), source, None, target)

    with pytest.raises(InitialisationError) as caught:
        make(agent, ops=replace(REAL_DISK, link=link))
    assert caught.value.path == str(namespace(agent, ROOTS[0]) / ".project-root")


@pytest.mark.req("PATH-5")
@pytest.mark.parametrize(("kind", "told"), [("file", "Not a directory"), ("dangling", "No such file")])
def test_a_way_that_leads_nowhere_is_told(agent: Path, tmp_path: Path, kind: str, told: str):
    way = tmp_path / "way"
    if kind == "file":
        way.write_text("x")
    else:
        way.symlink_to(tmp_path / "nowhere")
    with pytest.raises(InitialisationError, match=told):
        make(agent, configured=f"{way}/notes")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.req("PATH-3")
async def test_many_at_once_in_one_event_loop(agent: Path):
    starts = (initialise(str(agent), root, None, "/nowhere") for root in ROOTS * 4)
    found = await asyncio.gather(*starts)
    assert len({paths.namespace_dir for paths in found}) == len(set(found)) == 3
