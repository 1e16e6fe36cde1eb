"""A project's directories on disk: its namespace reserved, its memory and its locks in place (PATH-3 to PATH-5)."""

from __future__ import annotations

import os
from pathlib import Path

from pi_project_memory.actors.core.identity import ProjectPaths, data_directory, path_hash
from pi_project_memory.actors.core.memory_directory import configured_memory_directory
from pi_project_memory.actors.ports.private_dirs import InitialisationError, explain, make_private, make_real
from pi_project_memory.actors.ports.publish import REAL_DISK, DiskOps
from pi_project_memory.actors.ports.reservation import reserve_namespace
from pi_project_memory.actors.ports.worker import in_worker


async def initialise(
    agent_dir: str, project_root: str, configured_directory: str | None, home: str
) -> ProjectPaths:
    """Reserve and make the directories of the project at `project_root`, and return where they are.

    `configured_directory` is `autoMemoryDirectory` as configured, `home` what a leading `~/` stands for.
    Raises InitialisationError.
    """
    return await in_worker(make_directories, agent_dir, project_root, configured_directory, home)


def make_directories(
    agent_dir: str, project_root: str, configured_directory: str | None, home: str, ops: DiskOps = REAL_DISK
) -> ProjectPaths:
    """Do what `initialise` does, in this thread."""
    custom = configured_memory_directory(configured_directory, home).path
    try:
        return _make_all(agent_dir, project_root, custom, ops)
    except OSError as error:
        raise explain(error, data_directory(agent_dir)) from error


def _make_all(agent_dir: str, project_root: str, custom: str | None, ops: DiskOps) -> ProjectPaths:
    namespace = reserve_namespace(agent_dir, project_root, ops)
    memory_dir = custom or f"{namespace}/memory"
    _make_memory_root(memory_dir, ops)
    memory_hash = path_hash(os.path.realpath(memory_dir))
    paths = ProjectPaths(agent_dir, project_root, namespace, memory_dir, memory_hash, custom is not None)
    own = [paths.stores_dir, paths.base_dir] if paths.custom else []
    for directory in (*own, paths.memory_root_dir, paths.locks_dir):
        make_real(directory, ops)
    return paths


def _make_memory_root(path: str, ops: DiskOps) -> None:
    make_private(path, ops)
    if Path(path).is_dir():
        return
    dangling = not Path(path).exists()
    raise InitialisationError(
        path,
        "it is a symbolic link to nothing" if dangling else "it is a file and not a directory",
        "Put a directory there, let the link lead to one, or change autoMemoryDirectory in config.json",
    )
