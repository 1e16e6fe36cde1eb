"""`install` and `uninstall`: the extension where plain `pi` discovers it, and out again (HOST-10).

What was installed is written down in `launch.json` beside it, so that another version, or an uninstall,
takes away exactly that and nothing else.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from pi_project_memory.actors.core.identity import data_directory
from pi_project_memory.actors.ports.publish import publish_new, publish_replace
from pi_project_memory.supervisor.agent_dir import agent_dir
from pi_project_memory.supervisor.version import __version__

NAME = "project-memory"
LAUNCH_FILE = "launch.json"
MODULE = "pi_project_memory.supervisor.main"
SOURCE = Path(__file__).parent / "pi_extension"


class InstallError(Exception):
    """The extension cannot be put there; the text names the place and what to do."""


def install() -> int:
    """Install for the agent directory of this environment and say so; return the exit code."""
    try:
        target = install_into(_agent_dir(), sys.executable)
    except (InstallError, OSError) as error:
        return _failed(error)
    _say(
        f"Installed pi-project-memory {__version__} in {target}\nStart `pi`: it has memory now. `/memory status` shows how it stands."
    )
    return 0


def uninstall() -> int:
    """Take the extension of this environment's agent directory away and say so; return the exit code."""
    directory = _agent_dir()
    try:
        removed = uninstall_from(directory)
    except (InstallError, OSError) as error:
        return _failed(error)
    place = extension_directory(directory)
    _say(f"Removed {place}" if removed else f"Nothing to remove: {place} holds no installation")
    _say(f"Memories and settings stay in {data_directory(str(directory))}")
    return 0


def extension_directory(agent: Path) -> Path:
    """Return where the extension lies in an agent directory."""
    return agent / "extensions" / NAME


def install_into(agent: Path, interpreter: str) -> Path:
    """Put the extension into `agent`, to be run by `interpreter`; return where. Raises InstallError, OSError."""
    target = extension_directory(agent)
    old = _installed_files(target)
    target.mkdir(parents=True, exist_ok=True)
    sources = sorted(SOURCE.glob("*.ts"))
    for source in sources:
        _write(target / source.name, source.read_bytes())
    names = [source.name for source in sources]
    _remove(target, [name for name in old if name not in names])
    _write(target / LAUNCH_FILE, launch_description(agent, interpreter, names))
    return target


def launch_description(agent: Path, interpreter: str, files: Sequence[str]) -> bytes:
    """Return what `launch.json` says: the command to start, where its log is, what belongs to it."""
    # A virtual environment's interpreter is a link, and must stay one to be found again.
    program = os.path.abspath(interpreter)  # noqa: PTH100
    description = {
        # Paths are UTF-8 whatever the locale says.
        "command": [program, "-X", "utf8", "-m", MODULE, "serve"],
        "logFile": f"{data_directory(str(agent))}/logs",
        "version": __version__,
        "files": list(files),
    }
    return orjson.dumps(description, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def uninstall_from(agent: Path) -> bool:
    """Take the extension out of `agent`; return whether there was one. Raises InstallError, OSError."""
    target = extension_directory(agent)
    files = _installed_files(target)
    if not (target / LAUNCH_FILE).exists():
        return False
    _remove(target, [*files, LAUNCH_FILE])
    try:
        target.rmdir()
    except OSError:
        left = ", ".join(sorted(path.name for path in target.iterdir()))
        _say(f"{target} stays, since it holds files of others: {left}")
    return True


def read_launch(target: Path) -> dict[str, Any] | None:
    """Return what `launch.json` in `target` says, or None when there is none that can be read."""
    try:
        value = orjson.loads((target / LAUNCH_FILE).read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _installed_files(target: Path) -> list[str]:
    """Return the names an earlier installation wrote; raises InstallError when the place is not ours."""
    try:
        kind = os.lstat(target)
    except FileNotFoundError:
        return []
    if not stat.S_ISDIR(kind.st_mode):
        raise InstallError(f"{target} is not a directory; move it away and run the command again")
    launch = read_launch(target)
    if launch is None and any(target.iterdir()):
        raise InstallError(
            f"{target} holds files but no readable {LAUNCH_FILE}, so they are not this tool's; "
            "move them away and run the command again"
        )
    files = (launch or {}).get("files")
    names = files if isinstance(files, list) else []
    return [name for name in names if isinstance(name, str) and "/" not in name and name.endswith(".ts")]


def _write(path: Path, data: bytes) -> None:
    """Write a file unless it is right already."""
    try:
        if path.read_bytes() == data:
            return
    except FileNotFoundError:
        publish_new(str(path), data)
    else:
        publish_replace(str(path), data)


def _remove(target: Path, names: Sequence[str]) -> None:
    for name in names:
        (target / name).unlink(missing_ok=True)


def _agent_dir() -> Path:
    return agent_dir(os.environ, Path.home())


def _say(text: str) -> None:
    print(text)


def _failed(error: Exception) -> int:
    print(f"pi-project-memory: {error}", file=sys.stderr)
    return 1
