"""What happens once at the start of a session: configuration, trust, identity, directories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pi_project_memory.actors.core.config import Config
from pi_project_memory.actors.core.identity import ProjectPaths, config_file
from pi_project_memory.actors.ports.clock import Clock, SystemClock
from pi_project_memory.actors.ports.config_file import ConfigError, load_config
from pi_project_memory.actors.ports.git import CommandGit, Git, resolve_project_root
from pi_project_memory.actors.ports.private_dirs import InitialisationError
from pi_project_memory.actors.ports.project_dirs import initialise
from pi_project_memory.actors.ports.store import DiskStore, MemoryStore
from pi_project_memory.actors.ports.trace import Trace
from pi_project_memory.supervisor.host.protocol import Initialize


@dataclass(frozen=True, slots=True)
class Environment:
    """What a service takes from the world around it, so that tests can give it another."""

    trace: Trace
    clock: Clock
    git: Git
    store: Callable[[Path], MemoryStore]
    home: str

    @classmethod
    def real(cls, trace: Trace) -> Environment:
        """Return the machine's own clock, git, disk and home directory."""
        return cls(trace, SystemClock(), CommandGit(), DiskStore, str(Path.home()))


@dataclass(frozen=True, slots=True)
class Prepared:
    """Memory is on: with this configuration, in these directories.

    `worktree` is the top of the worktree that holds the session's directory, or that directory itself.
    """

    config: Config
    paths: ProjectPaths
    worktree: str


@dataclass(frozen=True, slots=True)
class Off:
    """Memory is off for this session, and why."""

    state: Literal["disabled", "untrusted", "failed"]
    reason: str


async def prepare(start: Initialize, environment: Environment) -> Prepared | Off:
    """Read the configuration and make the directories; touch neither when memory is off (PATH-6)."""
    try:
        return await _prepare(start, environment)
    except (ConfigError, InitialisationError) as error:
        return Off("failed", str(error))


async def _prepare(start: Initialize, environment: Environment) -> Prepared | Off:
    path = config_file(start.agent_dir)
    loaded = await load_config(path)
    if not loaded.config.enabled:
        return Off("disabled", f"`enabled` is false in {path}")
    if not start.trusted:
        return Off(
            "untrusted", "the project is not trusted; memory neither reads nor creates anything for it"
        )
    root = await resolve_project_root(start.cwd, environment.git)
    paths = await initialise(
        start.agent_dir, root.path, loaded.config.auto_memory_directory, environment.home
    )
    return Prepared(loaded.config, paths, root.worktree)
