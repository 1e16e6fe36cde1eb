"""Temporary files that a crash left (PATH-7)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from shlex import quote

from pi_project_memory.actors.core.identity import ProjectPaths
from pi_project_memory.actors.ports.topic_files import MOST_DIRECTORIES, MOST_ENTRIES
from pi_project_memory.supervisor.doctor.observations import (
    MOST_NAMED,
    Finding,
    Observation,
    counted,
    named,
)

OLD_MS = 60 * 60 * 1000
"""Age from which on a temporary file is nobody's any more."""

_TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{12,16}\.tmp", re.DOTALL)


def check_leftovers(paths: ProjectPaths, extension: Path, now_ms: int) -> Iterator[Observation]:
    """Look for old temporary files in the memory directory and beside every other file of ours."""
    tree = (folder for folder, _, _ in os.walk(paths.memory_dir))
    own = {paths.data_dir, paths.namespace_dir, paths.base_dir, paths.memory_root_dir, paths.locks_dir}
    for folder in (*sorted(own), str(extension), *islice(tree, MOST_DIRECTORIES)):
        names = _left_in(folder, now_ms)
        if names:
            first = " ".join(quote(f"{folder}/{name}") for name in names[:MOST_NAMED])
            problem = f"{counted(len(names), 'temporary file')} of writes that were cut short: {named(names)}"
            yield Finding(problem, folder, f"rm {first}")


def _left_in(folder: str, now_ms: int) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        temporary = (entry for entry in islice(entries, MOST_ENTRIES) if _TEMPORARY.fullmatch(entry.name))
        return sorted(entry.name for entry in temporary if _is_old_file(entry, now_ms))
    return []


def _is_old_file(entry: os.DirEntry[str], now_ms: int) -> bool:
    with suppress(OSError):
        modified_ms = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
        return entry.is_file(follow_symlinks=False) and now_ms - modified_ms > OLD_MS
    return False
