"""Where Pi keeps its files, found as Pi finds it (HOST-10).

The variable is read as Pi 1.6 reads it: `~` and `~/` stand for the home directory, a file URL for its path,
and a relative path for one below the directory of whoever asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from pi_project_memory.actors.core.memory_directory import normalise

VARIABLE = "PI_CODING_AGENT_DIR"

_FILE_URL = "file://"
_IGNORED_IN_URLS = re.compile(r"[\t\n\r]|[\x00-\x20]+\Z")
_OBJECTIONS = {
    "a file URL holds no encoded slash": re.compile("%2f", re.IGNORECASE),
    "no path holds a null byte": re.compile("%00"),
    "a percent sign in a file URL stands before two hexadecimal digits": re.compile("%(?![0-9a-fA-F]{2})"),
}


class AgentDirError(ValueError):
    """The variable names no directory; Pi itself fails with such a value."""


def current_agent_dir() -> Path:
    """Return the agent directory of this process's environment; raises AgentDirError."""
    return agent_dir(os.environ, home_directory(os.environ))


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return what `~` stands for: `HOME` as it is, even empty, else the directory of the user's account."""
    given = environ.get("HOME")
    return Path.home() if given is None else Path(given)


def agent_dir(environ: Mapping[str, str], home: Path) -> Path:
    """Return the agent directory, absolute and without `.` and `..`; raises AgentDirError."""
    given = environ.get(VARIABLE) or f"{home}/.pi/agent"
    try:
        path = _expanded(given, home)
    except ValueError as error:
        raise AgentDirError(
            f"{VARIABLE} is set to {given!r}, which Pi cannot use: {error}. Set it to an absolute path, or unset it"
        ) from error
    return Path(normalise(f"{Path.cwd()}/{path}" if not path.startswith("/") else path))


def depends_on_cwd(environ: Mapping[str, str]) -> bool:
    """Tell whether the variable means another directory wherever Pi is started."""
    given = environ.get(VARIABLE, "")
    return given not in {"", "~"} and not given.startswith(("/", "~/", _FILE_URL))


def _expanded(given: str, home: Path) -> str:
    if given == "~":
        return str(home)
    if given.startswith("~/"):
        return f"{home}/{given[2:]}"
    return _path_of_url(given) if given.startswith(_FILE_URL) else given


def _path_of_url(url: str) -> str:
    """Return the path of a file URL as Node does, Windows drive letters aside; raises ValueError."""
    rest = _IGNORED_IN_URLS.sub("", url)[len(_FILE_URL) :]
    host, _, parts = re.split(r"[?#]", rest, maxsplit=1)[0].replace("\\", "/").partition("/")
    if unquote(host).lower() not in {"", "localhost"}:
        raise ValueError("a file URL names no host but localhost")
    path = "/" + "/".join(_without_dots(parts))
    for objection, pattern in _OBJECTIONS.items():
        if pattern.search(path):
            raise ValueError(objection)
    try:
        return unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError("what its percent signs stand for is not UTF-8") from error


def _without_dots(path: str) -> list[str]:
    # In a URL `..` takes back an empty part too, and an encoded dot is a dot.
    parts: list[str] = []
    for part in path.split("/"):
        match part.lower().replace("%2e", "."):
            case "..":
                del parts[-1:]
            case ".":
                pass
            case _:
                parts.append(part)
    return parts
