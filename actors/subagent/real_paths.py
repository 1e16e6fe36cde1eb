"""Resolving paths as the kernel will, for a process that is not this one."""

from __future__ import annotations

from pathlib import Path

from pi_project_memory.actors.subagent.refusal import RefusalError

PER_PROCESS = Path("/proc")
"""Links below it lead every process elsewhere, so what lies behind them cannot be judged here."""

_LONGEST_PATH = 4_096
_MOST_LINKS = 40
"""Symbolic links in one path, the bound of Linux."""


def real_path(path: str | Path, shown: str | None = None) -> Path:
    """Resolve an absolute path through all its symbolic links; missing parts are taken as they are.

    Stops at `/proc` and returns the rest unresolved. Raises RefusalError, naming the path as `shown`, for too
    many links and for a path that is too long for any system.
    """
    part = shown or str(path)
    if len(str(path)) > _LONGEST_PATH:
        raise RefusalError(part, f"it is over {_LONGEST_PATH} characters long", "Shorten it.")
    waiting = str(path).split("/")[::-1]
    current, links = Path("/"), 0
    while waiting:
        name = waiting.pop()
        step = current.parent if name == ".." else current / name
        if step == PER_PROCESS:
            return step.joinpath(*reversed(waiting))
        target = None if step == current else _link_target(step)
        if target is None:
            current = step
            continue
        links += 1
        if links > _MOST_LINKS:
            raise RefusalError(part, "it goes through too many symbolic links", "Name the file itself.")
        current = Path("/") if target.startswith("/") else current
        waiting.extend(reversed(target.split("/")))
    return current


def plain_path_text(path: str) -> str:
    """Return `path`; raises RefusalError when it holds a character that no path can hold."""
    if "\0" in path or any("\ud800" <= character <= "\udfff" for character in path):
        raise RefusalError(ascii(path), "no path can hold such a character", "Leave that character out.")
    return path


def same_file(one: Path, other: Path) -> bool:
    """Tell whether both paths exist and lead to the same file or directory."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _link_target(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except OSError:
        return None
