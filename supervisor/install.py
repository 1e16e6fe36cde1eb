"""`install` and `uninstall`: the extension where plain `pi` discovers it, and out again (HOST-10).

What belongs to an installation stands in its `launch.json`, which is the first file in and the last one out.
`index.ts`, by which Pi finds the directory, is the last one in and the first one out. So an interrupted
command leaves nothing that Pi would load in part, and nothing that the next command would not know.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from site import getusersitepackages

import msgspec

from pi_project_memory.actors.core.identity import data_directory
from pi_project_memory.actors.ports.private_dirs import explain, make_private
from pi_project_memory.actors.ports.publish import REAL_DISK, publish_replace
from pi_project_memory.supervisor.agent_dir import AgentDirError, current_agent_dir
from pi_project_memory.supervisor.installed import (
    ENTRY,
    LAUNCH_FILE,
    SERVE,
    SOURCE,
    Foreign,
    Launch,
    Owned,
    Vacant,
    extension_directory,
    shipped_files,
    survey,
)
from pi_project_memory.supervisor.version import __version__

__all__ = ["LAUNCH_FILE", "SOURCE", "InstallError", "Removal", "install_into", "uninstall_from"]

LOCK_TRIES = 50
LOCK_PAUSE = 0.1
"""Tries for the place while another command is at work there, and seconds between two."""

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.\d+\.[0-9a-f]{16}\.tmp")


class InstallError(Exception):
    """The extension cannot be put there; the text names the place and what to do."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Whether there was an installation to remove, and the names of others' files that stay in its place."""

    removed: bool
    left: tuple[str, ...] = ()


def install() -> int:
    """Install for the agent directory of this environment and say so; return the exit code."""
    try:
        target = install_into(current_agent_dir(), sys.executable)
    except (AgentDirError, InstallError, OSError) as error:
        return _failed(error)
    _say(f"Installed pi-project-memory {__version__} in {target}")
    _say("Start `pi`, or /reload in a running one: it has memory now. `/memory status` shows how it stands.")
    return 0


def uninstall() -> int:
    """Take the extension of this environment's agent directory away and say so; return the exit code."""
    try:
        agent = current_agent_dir()
        removal = uninstall_from(agent)
    except (AgentDirError, InstallError, OSError) as error:
        return _failed(error)
    target = extension_directory(agent)
    _say(f"Removed {target}" if removal.removed else f"Nothing to remove: {target} holds no installation")
    if removal.left:
        _say(f"It stays, since it holds files that this tool did not install: {', '.join(removal.left)}")
    _say(f"Memories and settings stay in {data_directory(str(agent))}")
    return 0


def install_into(agent: Path, interpreter: str) -> Path:
    """Put the extension into `agent`, to be run by `interpreter`; return where. Raises InstallError, OSError."""
    target = extension_directory(agent)
    sources = shipped_files()
    if ENTRY not in sources or not interpreter:
        raise InstallError(f"{SOURCE} is incomplete: install the package pi-project-memory again")
    make_private(str(target.parent), REAL_DISK)
    with _alone(target.parent):
        old = _replaceable(target, sources)
        make_private(str(target), REAL_DISK)
        _put(target, sources, old, _launch(agent, interpreter, sources))
    return target


def uninstall_from(agent: Path) -> Removal:
    """Take the extension out of `agent`, and nothing else. Raises InstallError, OSError."""
    target = extension_directory(agent)
    if not target.parent.is_dir():
        return Removal(removed=False)
    with _alone(target.parent):
        match survey(target):
            case Owned(files):
                _remove(target, _entry_first(files))
                _sweep(target, files)
                _remove(target, [LAUNCH_FILE])
                return Removal(removed=True, left=_close(target))
            case Vacant() if target.is_dir():
                _close(target)
                return Removal(removed=False)
            case _:
                return Removal(removed=False)


def _replaceable(target: Path, sources: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the names of an earlier installation; raises InstallError where another's file is in the way."""
    match survey(target):
        case Foreign(problem):
            raise InstallError(f"{target} cannot be used: {problem}. Move it away and run the command again")
        case Owned(files):
            old = files
        case _:
            old = ()
    for name in sorted(sources.keys() - set(old)):
        if os.path.lexists(target / name) and not _holds(target / name, sources[name]):
            raise InstallError(
                f"{target / name} was not installed by this tool. Move it away and run the command again"
            )
    return old


def _put(target: Path, sources: Mapping[str, bytes], old: Sequence[str], launch: Launch) -> None:
    _sweep(target, {*sources, *old})
    changed = [name for name, data in sources.items() if not _holds(target / name, data)]
    gone = [name for name in old if name not in sources]
    if changed or gone:
        _write_launch(target, msgspec.structs.replace(launch, files=sorted({*sources, *old})))
        _remove(target, [ENTRY, *gone])
    for name in reversed(_entry_first(sources)):
        _write(target / name, sources[name])
    _write_launch(target, launch)


def _launch(agent: Path, interpreter: str, files: Collection[str]) -> Launch:
    # A virtual environment's interpreter is a link, and must stay one to be found again.
    program = os.path.abspath(interpreter)  # noqa: PTH100
    # Isolated, so that nothing of the user's Python settings or folders is run; paths are UTF-8 in any locale.
    isolation = ["-E", "-P"] if SOURCE.is_relative_to(getusersitepackages()) else ["-I"]
    command = [program, *isolation, "-X", "utf8", *SERVE]
    return Launch(command, f"{data_directory(str(agent))}/logs", __version__, sorted(files))


def _write_launch(target: Path, launch: Launch) -> None:
    _write(target / LAUNCH_FILE, msgspec.json.format(msgspec.json.encode(launch)) + b"\n")


def _entry_first(names: Collection[str]) -> list[str]:
    return sorted(names, key=lambda name: (name != ENTRY, name))


def _write(path: Path, data: bytes) -> None:
    """Write a file unless it is right already."""
    if not _holds(path, data):
        publish_replace(str(path), data)


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == data


def _remove(target: Path, names: Collection[str]) -> None:
    for name in names:
        path = target / name
        if path.is_symlink() or not path.is_dir():
            path.unlink(missing_ok=True)


def _sweep(target: Path, names: Collection[str]) -> None:
    """Remove the temporary files that an interrupted command left."""
    if not target.is_dir():
        return
    known = {*names, LAUNCH_FILE}
    parts = {path.name: _TEMPORARY.fullmatch(path.name) for path in target.iterdir()}
    _remove(target, [name for name, part in parts.items() if part and part["name"] in known])


def _close(target: Path) -> tuple[str, ...]:
    """Remove the directory if it is empty, and return what it holds otherwise."""
    left = tuple(sorted(path.name for path in target.iterdir()))
    if not left:
        target.rmdir()
    return left


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep other commands out of `directory` meanwhile; raises InstallError when one stays too long."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not any(_locked(descriptor) for _ in range(LOCK_TRIES)):
            raise InstallError(
                f"another command is at work in {directory}. Run this one again when it has ended"
            )
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(LOCK_PAUSE)
        return False
    except OSError:
        return True  # a file system without such locks is no reason to refuse
    return True


def _say(text: str) -> None:
    print(text)


def _failed(error: Exception) -> int:
    told = explain(error, str(SOURCE)) if isinstance(error, OSError) else error
    print(f"pi-project-memory: {told}", file=sys.stderr)
    return 1
