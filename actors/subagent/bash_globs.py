"""Which paths a glob of the shell may match: never too few, sometimes too many (SUB-6)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from pi_project_memory.actors.subagent.refusal import RefusalError

MOST_MATCHES = 1_000
DEEPEST = 16
"""Bounds of one pattern: paths after each level, and levels after the first wildcard."""

_ELEMENT = re.compile(
    r"\\(?P<quoted>.)|(?P<wild>[*?]|\[[!^]?[A-Za-z0-9_.-]+\]|\[.*)|(?P<plain>[^\\*?\[]+)", re.DOTALL
)


def glob_base(pattern: str) -> str:
    """Return the literal directory in front of the first wildcard, "" for the working directory."""
    parts = pattern.split("/")
    fixed = next(at for at, part in enumerate(parts) if _is_wild(part))
    return "/".join([*map(_literal, parts[:fixed]), ""])


def glob_matches(pattern: str, source: str, cwd: Path) -> list[Path]:
    """Return every path, unresolved, that the shell may put in the place of the word written as `source`.

    Raises RefusalError for a pattern that leads upwards, is too deep or has too many matches.
    """
    base = glob_base(pattern)
    tail = [part for part in pattern.split("/")[base.count("/") :] if part not in {"", "."}]
    for forbidden, reason, remedy in _FORBIDDEN:
        if forbidden(tail):
            raise RefusalError(source, reason, remedy)
    found = [cwd / base]
    for part in tail:
        steps = (step for folder in found for step in _steps(folder, part))
        found = list(islice(steps, MOST_MATCHES + 1))
        if len(found) > MOST_MATCHES:
            raise RefusalError(source, f"it may match over {MOST_MATCHES} files", "Use a narrower pattern.")
    return found


_FORBIDDEN: tuple[tuple[Callable[[list[str]], bool], str, str], ...] = (
    (lambda tail: "**" in tail, "** means no more than * here", "Use find with -name."),
    (lambda tail: ".." in tail, "it goes up after a wildcard", "Write the path without .. in it."),
    (lambda tail: len(tail) > DEEPEST, "it has too many levels", "Use find with -path."),
)


def _steps(folder: Path, part: str) -> Iterator[Path]:
    if _is_wild(part):
        pieces = _pieces(part)
        yield from (folder / name for name in _names(folder) if _may_match(name, pieces))
    elif os.path.lexists(step := folder / _literal(part)):
        yield step


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _may_match(name: str, pieces: list[str]) -> bool:
    """Tell whether `name` holds the literal pieces in their order, from its start to its end."""
    if name.startswith(".") and not pieces[0].startswith("."):
        return False
    at = len(pieces[0])
    for piece in pieces[1:]:
        found = name.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return name.startswith(pieces[0]) and name.endswith(pieces[-1])


def _pieces(part: str) -> list[str]:
    """Return the literal runs around the wildcards; a bracket that is not plain takes all that follows it."""
    pieces = [""]
    for element in _ELEMENT.finditer(part):
        if element["wild"] is None:
            pieces[-1] += element["quoted"] or element["plain"]
        else:
            pieces.append("")
    return pieces


def _is_wild(part: str) -> bool:
    return len(_pieces(part)) > 1


def _literal(part: str) -> str:
    return "".join(_pieces(part))
