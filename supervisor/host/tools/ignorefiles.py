"""Which files `.gitignore` and `.ignore` leave out of a listing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pi_project_memory.supervisor.host.tools.globs import GlobError, compile_glob

KINDS = (".ignore", ".gitignore")
"""The names, strongest first: whatever any `.ignore` says comes before every `.gitignore`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    pattern: re.Pattern[str]
    ignores: bool
    directories_only: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """The ignore files of one directory, on top of those of its ancestors.

    `is_repository` is told only in a search that starts inside a repository: elsewhere the rules around a
    repository count in it as well.
    """

    directory: str
    rules: dict[str, tuple[Rule, ...]]
    is_repository: bool
    outer: Scope | None

    def ignores(self, path: str, *, is_directory: bool) -> bool:
        """Tell whether the absolute `path` below this directory is left out."""
        verdicts = (self._verdict(kind, path, is_directory=is_directory) for kind in KINDS)
        return next((verdict for verdict in verdicts if verdict is not None), False)

    def _verdict(self, kind: str, path: str, *, is_directory: bool) -> bool | None:
        scope: Scope | None = self
        while scope is not None:
            name = path[len(scope.directory.rstrip("/")) + 1 :]
            for rule in reversed(scope.rules[kind]):
                if (is_directory or not rule.directories_only) and rule.pattern.fullmatch(name):
                    return rule.ignores
            # A nested repository does not inherit the git rules of the one around it.
            scope = None if scope.is_repository and kind == ".gitignore" else scope.outer
        return None


def scope_of(directory: Path, outer: Scope | None, *, with_repositories: bool) -> Scope:
    """Read the ignore files of `directory`; one that cannot be read counts as empty."""
    rules = {kind: tuple(parse(_lines(directory / kind))) for kind in KINDS}
    return Scope(str(directory), rules, with_repositories and (directory / ".git").exists(), outer)


def scopes_above(root: Path, *, with_repositories: bool) -> Scope | None:
    """Return the scopes of all ancestors of `root`."""
    outer: Scope | None = None
    for directory in reversed(root.parents):
        outer = scope_of(directory, outer, with_repositories=with_repositories)
    return outer


def in_repository(directory: Path) -> bool:
    """Tell whether `directory` or an ancestor of it is the top of a git repository."""
    return any((place / ".git").exists() for place in (directory, *directory.parents))


def parse(lines: Iterable[str]) -> Iterable[Rule]:
    """Yield the rules of an ignore file in their order; comments and malformed lines are passed over."""
    for line in lines:
        kept = line if line.endswith("\\ ") else line.rstrip()
        if kept and not kept.startswith("#"):
            try:
                yield _rule(kept)
            except GlobError:
                continue


def _rule(line: str) -> Rule:
    ignores = not line.startswith("!")
    directories_only = line.endswith("/")
    line = line.removeprefix("!").removesuffix("/")
    anchored = "/" in line
    line = line.removeprefix("/")
    if not anchored:
        line = f"**/{line}"
    if line.endswith("/**"):
        line = f"{line}/*"
    return Rule(compile_glob(line), ignores, directories_only)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8-sig", errors="replace").split("\n")
    except OSError:
        return []
