"""Which directory is a project's root (PATH-1): asked of git in a clean environment, within bounded time."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import anyio
from msgspec import Struct

from pi_project_memory.actors.ports.programs import OUTPUT_LIMIT, run_program
from pi_project_memory.actors.ports.worker import in_worker

TIME_LIMIT = 2.0
"""Seconds that git has for its answer."""

_QUESTION = ("rev-parse", "--show-toplevel", "--git-common-dir")
_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_COMPLAINTS = (
    ("not a git repository", "it is not inside a git repository"),
    ("must be run in a work tree", "it is inside a git repository but not inside a worktree"),
    ("dubious ownership", "git does not trust the repository, because it belongs to another user"),
)


class Worktree(Struct, frozen=True):
    """What git says of a directory: the top of its worktree and the common git directory, both absolute."""

    toplevel: str
    common_dir: str


class NoWorktree(Struct, frozen=True):
    """Why git names no worktree for a directory."""

    reason: str


class Git(Protocol):
    """The one question that identity asks of git."""

    async def locate(self, directory: str) -> Worktree | NoWorktree:
        """Tell which worktree holds the absolute, real path `directory`; failures are answers too."""
        ...


@dataclass(frozen=True, slots=True)
class ProjectRoot:
    """A project's root, absolute and real; `reason` tells why it is the plain directory and not git's.

    `worktree` is the top of the worktree that was asked about: a linked one lies outside the root.
    """

    path: str
    reason: str | None = None
    worktree: str = field(default="", compare=False)


async def resolve_project_root(cwd: str, git: Git) -> ProjectRoot:
    """Return the root of the project that `cwd` belongs to.

    Linked worktrees belong to the main checkout that owns their common `.git`; any other layout of git's
    goes by the top of the worktree, and without git it is `cwd` itself.
    """
    directory = await in_worker(os.path.realpath, cwd)
    match await git.locate(directory):
        case NoWorktree(reason):
            return ProjectRoot(directory, reason, worktree=directory)
        case Worktree(toplevel, common_dir):
            common = Path(common_dir)
            owner = str(common.parent) if common.name == ".git" else toplevel
            root = await in_worker(os.path.realpath, owner)
            return ProjectRoot(root, worktree=await in_worker(os.path.realpath, toplevel))


class InMemoryGit:
    """Git for tests: answers by directory, and remembers what it was asked."""

    def __init__(self, answers: Mapping[str, Worktree | NoWorktree]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def locate(self, directory: str) -> Worktree | NoWorktree:
        """Return the prepared answer."""
        self.asked.append(directory)
        return self._answers.get(directory, NoWorktree("it is not inside a git repository"))


class CommandGit:
    """The `git` program; one process for each question, in `environ` without anything that steers git."""

    def __init__(self, environ: Mapping[str, str] = os.environ, time_limit: float = TIME_LIMIT) -> None:
        self._environ = environ
        self._time_limit = time_limit

    async def locate(self, directory: str) -> Worktree | NoWorktree:
        """Run git once; it is killed with all its children when it takes longer than the limit."""
        command = ("git", "-C", directory, *_OPTIONS, *_QUESTION)
        try:
            with anyio.fail_after(self._time_limit):
                done = await run_program(command, "/", clean_environment(self._environ))
        except TimeoutError:
            return NoWorktree(f"git did not answer within {self._time_limit:g} s")
        except FileNotFoundError:
            return NoWorktree("git is not installed, or not on PATH")
        except (OSError, ValueError) as error:
            return NoWorktree(f"git could not be started: {error}")
        if done.code:
            return NoWorktree(_explain(done.code, done.complaint))
        return _parse(os.fsdecode(done.output), directory)


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a git that reads no configuration but the repository's, and asks nobody."""
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")} | _ENVIRONMENT


def _parse(answer: str, directory: str) -> Worktree | NoWorktree:
    toplevel = _toplevel(answer, directory)
    common_dir = answer[len(toplevel) + 1 :].removesuffix("\n")
    if not toplevel.startswith("/") or not common_dir or len(answer) >= OUTPUT_LIMIT:
        return NoWorktree("git's answer was not understood")
    return Worktree(toplevel, os.path.normpath(Path(directory, common_dir)))


def _toplevel(answer: str, directory: str) -> str:
    # A path may hold line breaks, but one ancestor of the directory at most starts the answer.
    ancestors = (directory, *map(str, Path(directory).parents))
    starting = (ancestor for ancestor in ancestors if answer.startswith(f"{ancestor}\n"))
    return next(starting, answer.partition("\n")[0])


def _explain(code: int, complaint: bytes) -> str:
    text = complaint.decode("utf-8", "replace")
    first_line = text.partition("\n")[0].removeprefix("fatal: ")
    known = (reason for sign, reason in _COMPLAINTS if sign in text)
    return next(known, f"git failed with status {code}: {first_line[:200]}")
