"""What lies where the extension belongs: nothing, an installation of this tool, or another's files (HOST-10)."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from pi_project_memory.actors.ports.topic_files import read_regular_file

NAME = "project-memory"
LAUNCH_FILE = "launch.json"
ENTRY = "index.ts"
"""The file that makes Pi load the directory."""

MODULE = "pi_project_memory.supervisor.main"
SERVE = ("-m", MODULE, "serve")
"""What follows the interpreter and its options in the command that starts the service."""

SOURCE = Path(__file__).parent / "pi_extension"

_LARGEST = 1024 * 1024
_LOADED_BY_PI = frozenset({ENTRY, "index.js", "package.json"})
_SIGNED_FILE = "launch.ts"
_SIGNATURE = b"pi-project-memory"


class Launch(msgspec.Struct, frozen=True, rename="camel"):
    """The content of `launch.json`: what starts the service, where its logs are, what was installed."""

    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    log_file: str
    version: str
    files: list[str]


@dataclass(frozen=True, slots=True)
class Vacant:
    """Nothing that Pi would load, and no file of a name that the extension needs."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something that this tool did not put there; `problem` says what."""

    problem: str


@dataclass(frozen=True, slots=True)
class Owned:
    """An installation of this tool: the names of its files, and `launch` unless that is missing or damaged."""

    files: tuple[str, ...]
    launch: Launch | None


Survey = Vacant | Foreign | Owned


def extension_directory(agent: Path) -> Path:
    """Return where the extension lies in an agent directory."""
    return agent / "extensions" / NAME


def shipped_files() -> dict[str, bytes]:
    """Return the files of the extension in this package, by name."""
    return {path.name: path.read_bytes() for path in sorted(SOURCE.glob("*.ts"))}


def survey(target: Path) -> Survey:
    """Look at the extension's directory; raises OSError when that cannot be done."""
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return Vacant()
    if stat.S_ISLNK(mode):
        return Foreign(f"it is a symbolic link to {target.readlink()}")
    if not stat.S_ISDIR(mode):
        return Foreign("it is a file")
    launch = read_launch(target)
    if launch is not None:
        return Owned(tuple(name for name in launch.files if _is_plain(name)), launch)
    if _bears_our_name(target):
        return Owned(tuple(shipped_files()), None)
    names = {path.name for path in target.iterdir()}
    taken = ", ".join(sorted(names & {*_LOADED_BY_PI, *shipped_files(), LAUNCH_FILE}))
    return Foreign(f"it holds files that are not of this tool: {taken}") if taken else Vacant()


def read_launch(target: Path) -> Launch | None:
    """Return what `launch.json` in `target` says, or None when there is none that can be used."""
    with suppress(OSError, msgspec.DecodeError, RecursionError):
        return msgspec.json.decode(read_regular_file(target, LAUNCH_FILE, _LARGEST)[0], type=Launch)
    return None


def _is_plain(name: str) -> bool:
    return name.endswith(".ts") and "/" not in name and "\0" not in name


def _bears_our_name(target: Path) -> bool:
    with suppress(OSError):
        return _SIGNATURE in read_regular_file(target, _SIGNED_FILE, _LARGEST)[0]
    return False
