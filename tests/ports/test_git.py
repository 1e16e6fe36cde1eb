"""Project roots, asked of the real git: worktrees, odd layouts, a hostile environment and a git that fails."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from pi_project_memory.actors.ports import programs
from pi_project_memory.actors.ports.git import (
    CommandGit,
    InMemoryGit,
    NoWorktree,
    ProjectRoot,
    Worktree,
    clean_environment,
    resolve_project_root,
)
from pi_project_memory.actors.ports.programs import OUTPUT_LIMIT

GIT = shutil.which("git") or "git"
OUTSIDE = "it is not inside a git repository"


def run_git(folder: Path, *args: str) -> None:
    environ = clean_environment(os.environ) | {
        "GIT_AUTHOR_NAME": "n",
        "GIT_AUTHOR_EMAIL": "n@example.invalid",
        "GIT_COMMITTER_NAME": "n",
        "GIT_COMMITTER_EMAIL": "n@example.invalid",
    }
    subprocess.run([GIT, "-C", str(folder), *args], check=True, capture_output=True, env=environ, timeout=60)


def repository(folder: Path, *options: str) -> Path:
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q", *options)
    run_git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def subfolder(folder: Path) -> Path:
    below = folder / "src" / "deep"
    below.mkdir(parents=True)
    return below


def program(folder: Path, body: str) -> dict[str, str]:
    """Put an executable named git into `folder`, and return an environment that finds it first."""
    folder.mkdir()
    script = folder / "git"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def gone(pid_file: Path) -> bool:
    with anyio.move_on_after(10):
        while is_running(int(pid_file.read_text())):
            await anyio.sleep(0.01)
        return True
    return False


async def root_of(cwd: Path, git: CommandGit | None = None) -> ProjectRoot:
    return await resolve_project_root(str(cwd), git or CommandGit())


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
@pytest.mark.req("C62")
async def test_linked_worktrees_belong_to_the_main_checkout(tmp_path: Path):
    main = repository(tmp_path / "main")
    for name in ("one", "two"):
        run_git(main, "worktree", "add", "-q", "--detach", str(tmp_path / name))
    for cwd in (main, tmp_path / "one", tmp_path / "two"):
        assert await root_of(cwd) == ProjectRoot(str(main))
        assert await root_of(subfolder(cwd)) == ProjectRoot(str(main))


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_links_to_a_directory_lead_to_one_root(tmp_path: Path):
    main = repository(tmp_path / "main")
    below = subfolder(main)
    (tmp_path / "alias").symlink_to(main)
    (tmp_path / "deep").symlink_to(below)
    assert (
        await root_of(tmp_path / "alias" / "src")
        == await root_of(tmp_path / "deep")
        == ProjectRoot(str(main))
    )
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain-alias").symlink_to(tmp_path / "plain")
    assert await root_of(tmp_path / "plain-alias") == ProjectRoot(str(tmp_path / "plain"), OUTSIDE)


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_unusual_layouts_go_by_the_top_of_the_worktree(tmp_path: Path):
    bare = repository(tmp_path / "source")
    run_git(tmp_path, "clone", "-q", "--bare", str(bare), "store.git")
    run_git(tmp_path / "store.git", "worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    assert await root_of(subfolder(tmp_path / "linked")) == ProjectRoot(str(tmp_path / "linked"))

    apart = repository(tmp_path / "apart", "--separate-git-dir", str(tmp_path / "apart-data"))
    assert await root_of(subfolder(apart)) == ProjectRoot(str(apart))

    outer = repository(tmp_path / "outer")
    run_git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(bare), "inner")
    assert await root_of(subfolder(outer / "inner")) == ProjectRoot(str(outer / "inner"))


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_without_a_worktree_it_is_the_directory_itself(tmp_path: Path):
    main = repository(tmp_path / "main")
    run_git(tmp_path, "init", "-q", "--bare", "bare.git")
    inside = "it is inside a git repository but not inside a worktree"
    assert await root_of(main / ".git") == ProjectRoot(str(main / ".git"), inside)
    assert await root_of(tmp_path / "bare.git") == ProjectRoot(str(tmp_path / "bare.git"), inside)
    (tmp_path / "plain").mkdir()
    assert await root_of(tmp_path / "plain") == ProjectRoot(str(tmp_path / "plain"), OUTSIDE)
    missing = await root_of(tmp_path / "missing")
    assert missing.path == str(tmp_path / "missing")
    assert "git failed with status 128" in (missing.reason or "")


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "é日本😀",
        "-C",
        "line\nbreak",
        "\n",
        "two\n\nlines\n",
        "tab\t\"quote'",
        "bytes\udcff",
        "a\n.git",
    ],
)
async def test_names_of_any_kind(tmp_path: Path, name: str):
    main = repository(tmp_path / name / "main")
    run_git(main, "worktree", "add", "-q", "--detach", str(tmp_path / name / "linked"))
    for cwd in (main, subfolder(main), tmp_path / name / "linked"):
        assert await root_of(cwd) == ProjectRoot(str(main))
    inner = repository(tmp_path / name / "main" / name)
    assert await root_of(inner) == ProjectRoot(str(inner))


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
@pytest.mark.req("C64")
async def test_variables_of_git_do_not_lead_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    main, other = repository(tmp_path / "main"), repository(tmp_path / "other")
    for name, value in {
        "GIT_DIR": f"{other}/.git",
        "GIT_WORK_TREE": str(other),
        "GIT_COMMON_DIR": f"{other}/.git",
        "GIT_INDEX_FILE": f"{other}/index",
        "GIT_CEILING_DIRECTORIES": str(tmp_path / "main"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.worktree",
        "GIT_CONFIG_VALUE_0": str(other),
        "GIT_TRACE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert await root_of(subfolder(main)) == ProjectRoot(str(main))


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
@pytest.mark.parametrize("where", ["environment", "home", "repository"])
@pytest.mark.req("C64")
async def test_no_configured_program_runs(tmp_path: Path, where: str):
    main, marker = repository(tmp_path / "main"), tmp_path / "marker"
    (main / "file").write_text("x")
    run_git(main, "add", "file")
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {marker}\n")
    monitor.chmod(0o755)
    (tmp_path / "home").mkdir()
    configuration = {
        "environment": tmp_path / "global",
        "home": tmp_path / "home" / ".gitconfig",
        "repository": main / ".git" / "config",
    }[where]
    with configuration.open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {monitor}\n")
    before_answering = f'\'{GIT}\' "$1" "$2" "$3" "$4" "$5" "$6" status >/dev/null 2>&1\nexec \'{GIT}\' "$@"'
    environ = program(tmp_path / "bin", before_answering) | {"HOME": str(tmp_path / "home")}
    if where == "environment":
        environ["GIT_CONFIG_GLOBAL"] = str(configuration)

    assert await root_of(main, CommandGit(environ)) == ProjectRoot(str(main))
    assert not marker.exists()
    subprocess.run([GIT, "-C", str(main), "status"], env=environ, check=True, capture_output=True, timeout=60)
    assert marker.exists()


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_one_process_in_a_clean_environment_with_nothing_to_read(tmp_path: Path):
    main, told = repository(tmp_path / "main"), tmp_path / "told"
    body = f'(echo "run $*"; env; echo "input $(cat | wc -c)") >> \'{told}\'\nexec \'{GIT}\' "$@"'
    environ = program(tmp_path / "bin", body) | {"GIT_ASKPASS": "x", "GIT_SSH": "x", "LC_ALL": "de_DE.UTF-8"}
    assert await root_of(main, CommandGit(environ)) == ProjectRoot(str(main))
    lines = told.read_text().splitlines()
    options = "-c core.fsmonitor=false -c core.hooksPath=/dev/null"
    assert [line for line in lines if line.startswith("run ")] == [
        f"run -C {main} {options} rev-parse --show-toplevel --git-common-dir"
    ]
    assert sorted(line for line in lines if line.startswith(("GIT_", "LC_ALL", "input"))) == [
        "GIT_CONFIG_GLOBAL=/dev/null",
        "GIT_CONFIG_NOSYSTEM=1",
        "GIT_CONFIG_SYSTEM=/dev/null",
        "GIT_OPTIONAL_LOCKS=0",
        "GIT_TERMINAL_PROMPT=0",
        "LC_ALL=C",
        "input 0",
    ]


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_a_missing_git_leaves_the_directory_itself(tmp_path: Path):
    main = repository(tmp_path / "main")
    answer = await root_of(subfolder(main), CommandGit({"PATH": str(tmp_path)}))
    assert answer == ProjectRoot(str(main / "src" / "deep"), "git is not installed, or not on PATH")


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_a_git_that_cannot_be_started_leaves_the_directory_itself(tmp_path: Path):
    environ = program(tmp_path / "bin", "")
    (tmp_path / "bin" / "git").chmod(0o644)
    answer = await root_of(tmp_path, CommandGit({**environ, "PATH": str(tmp_path / "bin")}))
    assert answer.path == str(tmp_path)
    assert (answer.reason or "").startswith("git could not be started: ")


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_a_repository_of_another_user_is_not_trusted(tmp_path: Path):
    main = repository(tmp_path / "main")
    environ = program(tmp_path / "bin", f"GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec '{GIT}' \"$@\"")
    assert await root_of(subfolder(main), CommandGit(environ)) == ProjectRoot(
        str(main / "src" / "deep"), "git does not trust the repository, because it belongs to another user"
    )


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo 'fatal: the moon is full' >&2; exit 3", "git failed with status 3: the moon is full"),
        ("exit 1", "git failed with status 1: "),
        ("kill -9 $$", "git failed with status -9: "),
        ("exit 0", "git's answer was not understood"),
        ("echo /only/one", "git's answer was not understood"),
        ("echo relative; echo .git", "git's answer was not understood"),
        (f"echo /x; head -c {OUTPUT_LIMIT} /dev/zero | tr '\\0' '/'", "git's answer was not understood"),
        ("printf '/x\\n\\377' >&2; exit 2", "git failed with status 2: /x"),
    ],
)
async def test_a_git_that_fails_or_babbles_leaves_the_directory_itself(
    tmp_path: Path, body: str, reason: str
):
    git = CommandGit(program(tmp_path / "bin", body), time_limit=60)
    assert await root_of(tmp_path, git) == ProjectRoot(str(tmp_path), reason)


@pytest.mark.req("PATH-1")
def test_what_is_kept_of_an_output_is_bounded():
    output = programs._Output()
    for _ in range(3):
        output.pipe_data_received(1, b"x" * (OUTPUT_LIMIT - 1))
        output.pipe_data_received(2, b"y" * OUTPUT_LIMIT + b"z")
    assert output.printed == b"x" * OUTPUT_LIMIT
    assert output.complained == b"y" * (OUTPUT_LIMIT - 1) + b"z"


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
@pytest.mark.parametrize("leader", ["wait", "exit 0", "exec cat /dev/zero"])
async def test_a_git_that_hangs_is_killed_with_its_children(tmp_path: Path, leader: str):
    body = f"echo $$ > '{tmp_path}/leader'\nsleep 1000 &\necho $! > '{tmp_path}/child'\n{leader}"
    git = CommandGit(program(tmp_path / "bin", body), time_limit=0.5)
    assert await root_of(tmp_path, git) == ProjectRoot(str(tmp_path), "git did not answer within 0.5 s")
    assert await gone(tmp_path / "leader")
    assert await gone(tmp_path / "child")


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_a_child_that_escaped_does_not_hold_the_answer(tmp_path: Path):
    escape = (
        "import os, sys, time; os.setsid(); print(os.getpid(), file=open(sys.argv[1], 'w')); time.sleep(1000)"
    )
    body = f"'{sys.executable}' -c \"{escape}\" '{tmp_path}/escaped' &\nwhile ! [ -s '{tmp_path}/escaped' ]; do sleep 0.02; done"
    git = CommandGit(program(tmp_path / "bin", body), time_limit=3)
    try:
        answer = await root_of(tmp_path, git)
    finally:
        with suppress(FileNotFoundError, ValueError):
            os.kill(int((tmp_path / "escaped").read_text()), signal.SIGKILL)
    assert answer == ProjectRoot(str(tmp_path), "git did not answer within 3 s")


@pytest.mark.req("PATH-1")
@pytest.mark.real_time
async def test_a_cancelled_question_leaves_no_process(tmp_path: Path):
    body = f"echo $$ > '{tmp_path}/leader.new'; mv '{tmp_path}/leader.new' '{tmp_path}/leader'\nsleep 1000"
    environ = program(tmp_path / "bin", body)
    question = asyncio.create_task(root_of(tmp_path, CommandGit(environ, time_limit=60)))
    while not (tmp_path / "leader").exists():
        await anyio.sleep(0.01)
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    assert await gone(tmp_path / "leader")


@pytest.mark.req("PATH-1")
async def test_the_decision_itself_needs_no_git(tmp_path: Path):
    folder = str(tmp_path)
    answers = {
        "main": Worktree(f"{folder}/linked", f"{folder}/main/.git"),
        "store": Worktree(f"{folder}/linked", f"{folder}/store.git"),
        "refused": NoWorktree("not today"),
    }
    git = InMemoryGit({f"{folder}/{name}": answer for name, answer in answers.items()})
    assert await resolve_project_root(f"{folder}/main", git) == ProjectRoot(f"{folder}/main")
    assert await resolve_project_root(f"{folder}/store", git) == ProjectRoot(f"{folder}/linked")
    assert await resolve_project_root(f"{folder}/refused", git) == ProjectRoot(
        f"{folder}/refused", "not today"
    )
    assert await resolve_project_root(f"{folder}/x/../other", git) == ProjectRoot(f"{folder}/other", OUTSIDE)
    assert git.asked == [f"{folder}/{name}" for name in ("main", "store", "refused", "other")]
