"""Which project a directory belongs to and where its memory lies, found without making anything (PATH-3, PATH-6)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from pi_project_memory.actors.core.config import Config
from pi_project_memory.actors.core.identity import (
    ProjectPaths,
    as_utf8,
    collision_namespace,
    path_hash,
    plain_namespace,
)
from pi_project_memory.actors.core.memory_directory import configured_memory_directory
from pi_project_memory.actors.ports.git import ProjectRoot, resolve_project_root
from pi_project_memory.actors.ports.reservation import MARKER
from pi_project_memory.actors.ports.topic_files import read_regular_file
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Note, Observation
from pi_project_memory.supervisor.doctor.surroundings import Surroundings

_LONGEST_MARKER = 64 * 1024


@dataclass(frozen=True, slots=True)
class Project:
    """A project, the paths it has or would get, and the owner of the plain namespace, if it has one."""

    root: ProjectRoot
    paths: ProjectPaths
    plain_owner: bytes | None

    @property
    def used(self) -> bool:
        """Whether the memory directory is there, so that there is something to examine."""
        return os.path.lexists(self.paths.memory_dir)

    @property
    def collides(self) -> bool:
        """Whether another project holds the plain namespace."""
        return self.plain_owner not in {None, b"", as_utf8(self.root.path)}


async def locate(where: Surroundings, config: Config) -> Project:
    """Find the project of the current directory; raises OSError where a marker cannot be read."""
    return _project(where, config, await resolve_project_root(where.cwd, where.git))


def _project(where: Surroundings, config: Config, root: ProjectRoot) -> Project:
    agent, owner = str(where.agent), as_utf8(root.path)
    plain, collision = plain_namespace(agent, root.path), collision_namespace(agent, root.path)
    plain_owner = _owner(plain)
    has_plain = plain_owner == owner or (not plain_owner and _owner(collision) != owner)
    namespace = plain if has_plain else collision
    custom = configured_memory_directory(config.auto_memory_directory, where.home).path
    memory_dir = custom or f"{namespace}/memory"
    memory_hash = path_hash(os.path.realpath(memory_dir))
    paths = ProjectPaths(agent, root.path, namespace, memory_dir, memory_hash, custom is not None)
    return Project(root, paths, plain_owner)


def check_identity(project: Project) -> Iterator[Observation]:
    """Tell where the memory of the project lies, and who has its name if that is another."""
    paths = project.paths
    if project.root.reason is not None:
        yield Note(f"The project is the directory itself: {project.root.reason}")
    if project.collides:
        other = os.fsdecode(project.plain_owner or b"")
        yield Note(f"{other} has the same key and came first; the namespace here is {paths.namespace_dir}")
    owner = _owner(paths.namespace_dir)
    if owner not in {None, b"", as_utf8(paths.project_root)}:
        marker = f"{paths.namespace_dir}/{MARKER}"
        problem = f"memory is off: the namespace names another project, {os.fsdecode(owner or b'')}"
        yield Finding(problem, marker, _move_away(paths.namespace_dir))
    if project.used:
        chosen = "chosen by autoMemoryDirectory" if paths.custom else "the default"
        yield Fact(f"Memory directory ({chosen}): {paths.memory_dir}")
    else:
        yield Note(f"Memory was never used here; the first session makes {paths.memory_dir}")


def _move_away(path: str) -> str:
    return f"mv {quote(path)} {quote(path + '.moved')}"


def _owner(namespace: str) -> bytes | None:
    """Return the root that the marker names, empty for an empty marker, None without one."""
    try:
        data, _ = read_regular_file(Path(namespace), MARKER, _LONGEST_MARKER)
    except FileNotFoundError:
        return None
    return data.removesuffix(b"\n")
