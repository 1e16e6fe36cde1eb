"""From the path a model wrote to the file it meant."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pi_project_memory.supervisor.host.tools.base import ToolError

_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_TIME_OF_DAY = re.compile(r" (AM|PM)\.", re.IGNORECASE)


def resolve(written: str, cwd: Path) -> Path:
    """Return the absolute path without `.` and `..`; links are left as they are.

    A leading `@` is dropped, `~` and `~/` lead to the home directory, `file:///` URLs are decoded and exotic
    spaces become plain ones. Raises ToolError for a path that no system accepts.
    """
    path = _SPACES.sub(" ", written).removeprefix("@")
    if "\0" in path:
        raise ToolError(f"The path {path!r} holds a null byte, which no file name can.")
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser("~") + path[1:]  # noqa: PTH111 - text, not a path yet
    elif path.startswith("file://"):
        path = _from_url(path)
    # A leading double slash would survive normpath, as POSIX allows it a meaning of its own.
    return Path("/" + os.path.normpath(cwd / path).lstrip("/"))


def _from_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"}:
        raise ToolError(f"The URL {url} names the host {parts.netloc}; only local files can be used.")
    if "%2f" in parts.path.lower():
        raise ToolError(f"The URL {url} holds an encoded slash, which no file name can.")
    return unquote(parts.path)


def other_spellings(path: Path) -> Iterator[Path]:
    """Yield how macOS may have stored a name that was not found: narrow spaces, NFD, curly apostrophes."""
    written = str(path)
    decomposed = unicodedata.normalize("NFD", written)
    candidates = [
        _TIME_OF_DAY.sub("\u202f\\1.", written),
        decomposed,
        written.replace("'", "\u2019"),
        decomposed.replace("'", "\u2019"),
    ]
    yield from (Path(candidate) for candidate in dict.fromkeys(candidates) if candidate != written)
