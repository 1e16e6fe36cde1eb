"""Directories and files: there, real where they must be, private, and ours (PATH-5)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TypeVar

from pi_project_memory.actors.core.identity import ProjectPaths
from pi_project_memory.actors.ports.reservation import MARKER
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Note, Observation

_OTHERS = 0o077

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Place:
    """A directory: whether a link to one will do, and whether nobody else may look into it."""

    path: str
    may_be_link: bool = False
    private: bool = True


def check_directories(paths: ProjectPaths) -> Iterator[Observation]:
    """Look at every directory and file that the memory of a project keeps; what is missing is made when needed."""
    places, files = _places(paths), _files(paths)
    problems = [*_each(places, _directory_problem), *_each(files, _file_problem)]
    yield from problems
    if not problems:
        yield Fact("The directories are private and can be written")
    if paths.custom and _mode(paths.memory_dir) & _OTHERS:
        yield Note(f"Others on this machine may look into {paths.memory_dir}, as its mode allows")


def _places(paths: ProjectPaths) -> list[_Place]:
    data = paths.data_dir
    own = [paths.stores_dir, paths.base_dir] if paths.custom else []
    return [
        # The user may have made this one for config.json; what is private lies below.
        _Place(data, may_be_link=True, private=False),
        _Place(f"{data}/projects", may_be_link=True),
        *(_Place(path) for path in (paths.namespace_dir, *own)),
        _Place(paths.memory_dir, may_be_link=True, private=not paths.custom),
        _Place(f"{data}/memory-roots", may_be_link=True),
        _Place(paths.memory_root_dir),
        _Place(paths.locks_dir),
        _Place(f"{data}/logs", may_be_link=True),
    ]


def _files(paths: ProjectPaths) -> list[str]:
    return [f"{paths.namespace_dir}/{MARKER}", paths.state_file, paths.dream_state_file]


def _each(items: list[Item], judge: Callable[[Item], Finding | None]) -> Iterator[Finding]:
    for item in items:
        finding = judge(item)
        if finding is not None:
            yield finding


def _directory_problem(place: _Place) -> Finding | None:
    path = place.path
    if not os.path.lexists(path):
        return None
    if not Path(path).is_dir() or (Path(path).is_symlink() and not place.may_be_link):
        kind = "link" if Path(path).is_symlink() else "file"
        problem = f"memory is off: a {kind} stands where a directory must be"
        return Finding(problem, path, f"mv {quote(path)} {quote(path + '.moved')}")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Finding("the directory cannot be read and written", path, f"chmod u+rwx {quote(path)}")
    if place.private and _mode(path) & _OTHERS:
        problem = f"others on this machine may look into the directory: its mode is {_mode(path):04o}"
        return Finding(problem, path, f"chmod 700 {quote(path)}")
    return _stranger(path)


def _file_problem(path: str) -> Finding | None:
    if not os.path.lexists(path):
        return None
    if not stat.S_ISREG(os.lstat(path).st_mode):
        problem = "something else stands where a file must be"
        return Finding(problem, path, f"mv {quote(path)} {quote(path + '.moved')}")
    if _mode(path) & _OTHERS:
        problem = f"others on this machine may read the file: its mode is {_mode(path):04o}"
        return Finding(problem, path, f"chmod 600 {quote(path)}")
    return _stranger(path)


def _stranger(path: str) -> Finding | None:
    owner = Path(path).stat().st_uid
    if owner == os.geteuid():
        return None
    return Finding(
        f"it belongs to another user, number {owner}", path, f"sudo chown -R $(id -u) {quote(path)}"
    )


def _mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)
