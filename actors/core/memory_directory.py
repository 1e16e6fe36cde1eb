"""Whether a configured memory directory can be used, and where it lies (CFG-5).

A directory that does not pass is not an error: the project's default directory is used, and the reason is
kept for those who ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from pi_project_memory.actors.core.jstext import utf16_len

VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", ".sl"})
SHORTEST = 3
"""Units that a path has at least, its trailing slash not counted."""


class MemoryDirectory(Struct, frozen=True):
    """The directory to use, absolute and normalised; None means the default, for `reason` if there is one."""

    path: str | None
    reason: str | None = None


def configured_memory_directory(configured: str | None, home: str) -> MemoryDirectory:
    """Return where `configured` points; `home` is the absolute path that a leading `~/` stands for."""
    if configured is None:
        return MemoryDirectory(None)
    reason = _objection(_TO_THE_TEXT, configured)
    if reason is not None:
        return MemoryDirectory(None, reason)
    path = normalise(_expand(configured, home))
    reason = _objection(_TO_THE_PATH, path)
    return MemoryDirectory(path if reason is None else None, reason)


def normalise(path: str) -> str:
    """Return `path` with `.`, `..` and doubled or trailing slashes resolved by their text alone."""
    absolute = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in {"", "."} and not (part == ".." and absolute):
            parts.append(part)
    return "/" * absolute + "/".join(parts) or "."


def _below_home(text: str) -> bool:
    return text.startswith(("~/", "~\\"))


def _expand(text: str, home: str) -> str:
    if not _below_home(text):
        return text
    return f"{home}/{text[2:]}" if home.startswith("/") else "."


def _leaves_home(text: str) -> bool:
    rest = normalise(text[2:])
    return _below_home(text) and (rest in {".", ".."} or rest.startswith(("../", "..\\")))


def _is_relative(path: str) -> bool:
    return not path.startswith("/") and not _below_home(path)


def _names_version_control(path: str) -> bool:
    return any(name.lower() in VERSION_CONTROL for name in re.split(r"[/\\]", path))


_Objections: TypeAlias = tuple[tuple[Callable[[str], object], str], ...]

_TO_THE_TEXT: _Objections = (
    (lambda text: "\0" in text, "it contains a null byte"),
    (re.compile("[\ud800-\udfff]").search, "it contains a character that no file name can hold"),
    (re.compile(r"[A-Za-z]:[\\/]?").fullmatch, "it is the root of a drive"),
    (_is_relative, "it is neither an absolute path nor one that starts with ~/"),
    (_leaves_home, "what follows ~/ must name a directory below the home directory"),
)

_TO_THE_PATH: _Objections = (
    (lambda path: not path.startswith("/"), "the home directory is not known"),
    (lambda path: utf16_len(path) < SHORTEST, "it is the root directory or shorter than three characters"),
    (_names_version_control, "a directory in it holds version control data"),
)


def _objection(objections: _Objections, text: str) -> str | None:
    return next((reason for applies, reason in objections if applies(text)), None)
