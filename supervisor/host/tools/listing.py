"""Finding paths by glob pattern below a directory, without what ignore files leave out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pi_project_memory.supervisor.host.tools.base import ToolError
from pi_project_memory.supervisor.host.tools.globs import GlobError, compile_glob
from pi_project_memory.supervisor.host.tools.ignorefiles import Scope, in_repository, scope_of, scopes_above

SKIPPED = frozenset({".git", "node_modules"})


def matching_paths(pattern: str, root: Path, limit: int, stopped: Callable[[], bool]) -> list[str]:
    """Return at most `limit` paths below `root`, sorted, relative to it; directories end in `/`.

    A pattern without `/` matches names at any depth, one with `/` the path from `root`, an absolute one the
    whole path. One in lower case ignores case. Hidden files count, links are listed and not followed. A root
    that is no readable directory has nothing. Raises ToolError for a malformed pattern; ends early once
    `stopped` says so.
    """
    try:
        matches = _matcher(re.sub(r"^(?:\./)+", "", pattern), str(root).rstrip("/"))
    except GlobError as error:
        raise ToolError(f"Nothing was searched: {error}.") from error
    inside = in_repository(root)
    walk = _Walk(inside, stopped)
    paths = walk.below(root, "", scopes_above(root, with_repositories=inside))
    return [_printable(path) for path in islice(filter(matches, paths), limit)]


def _matcher(pattern: str, place: str) -> Callable[[str], bool]:
    expression = compile_glob(pattern, ignore_case=pattern == pattern.lower())

    def matches(path: str) -> bool:
        bare = path.removesuffix("/")
        if "/" not in pattern:
            bare = bare.rpartition("/")[2]
        elif pattern.startswith("/"):
            bare = f"{place}/{bare}"
        return expression.fullmatch(bare) is not None

    return matches


def _printable(path: str) -> str:
    return os.fsencode(path).decode(errors="replace")


@dataclass(frozen=True, slots=True)
class _Walk:
    with_repositories: bool
    stopped: Callable[[], bool]

    def below(self, directory: Path, prefix: str, outer: Scope | None) -> Iterator[str]:
        entries = _entries(directory)
        if not entries:
            return
        scope = scope_of(directory, outer, with_repositories=self.with_repositories)
        place = str(directory).rstrip("/")
        for name in sorted(entries):
            if self.stopped():
                return
            is_directory, bare = name.endswith("/"), name.removesuffix("/")
            if not scope.ignores(f"{place}/{bare}", is_directory=is_directory):
                yield prefix + name
                if is_directory:
                    yield from self.below(directory / bare, prefix + name, scope)


def _entries(directory: Path) -> list[str]:
    """Return the names in a directory, those of directories with a `/`, which also sorts them as paths."""
    try:
        with os.scandir(directory) as found:
            return [
                entry.name + "/" * entry.is_dir(follow_symlinks=False)
                for entry in found
                if entry.name not in SKIPPED
            ]
    except OSError:
        return []
