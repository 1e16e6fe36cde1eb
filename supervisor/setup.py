"""What happens once at the start of a session: configuration, trust, identity, directories."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pi_project_memory.actors.core.config import Config, Fallback
from pi_project_memory.actors.core.identity import ProjectPaths, config_file
from pi_project_memory.actors.ports.clock import Clock, SystemClock
from pi_project_memory.actors.ports.config_file import load_config
from pi_project_memory.actors.ports.git import CommandGit, Git, resolve_project_root
from pi_project_memory.actors.ports.private_dirs import InitialisationError
from pi_project_memory.actors.ports.project_dirs import initialise
from pi_project_memory.actors.ports.store import DiskStore, MemoryStore
from pi_project_memory.actors.ports.trace import Trace
from pi_project_memory.supervisor.host.protocol import Initialize


class Environment(Struct, frozen=True):
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


class Settings(Struct, frozen=True):
    """A configuration as it was read from `path`, and the memory directory that the session goes by.

    `directory` is `autoMemoryDirectory` as it was when the session began; `found` is false when there is
    no file and the defaults hold; `fallbacks` are fields that keep their default in spite of a value.
    """

    config: Config
    path: str
    found: bool
    directory: str | None
    fallbacks: tuple[Fallback, ...] = ()

    @property
    def unused(self) -> list[str]:
        """A line for each value in the file that is not used, and why (CFG-3)."""
        return [
            f"Not used: {fallback.path or 'the file'} {fallback.reason}; the default holds"
            for fallback in self.fallbacks
        ]

    def with_directory_of(self, older: Settings | None) -> Settings:
        """Return these settings with the directory that the session has gone by so far."""
        return self if older is None else replace(self, directory=older.directory)


class Prepared(Struct, frozen=True):
    """Memory is on: with these settings, in these directories.

    `worktree` is the top of the worktree that holds the session's directory, or that directory itself.
    """

    settings: Settings
    paths: ProjectPaths
    worktree: str


class Off(Struct, frozen=True):
    """Memory is off for this session, and why."""

    state: Literal["disabled", "untrusted", "failed", "ended"]
    reason: str


async def read_settings(agent_dir: str) -> Settings:
    """Read the configuration; raises ConfigError."""
    loaded = await load_config(config_file(agent_dir))
    config = loaded.config
    return Settings(config, loaded.path, loaded.found, config.auto_memory_directory, loaded.fallbacks)


def why_off(start: Initialize, settings: Settings) -> Off | None:
    """Return why memory has to be off with these settings in a session that began so, or None."""
    if not settings.config.enabled:
        remedy = "set it to true and run /memory reload-config to turn memory on"
        return Off("disabled", f"`enabled` is false in {settings.path}; {remedy}")
    if not start.trusted:
        return Off(
            "untrusted", "the project is not trusted; memory neither reads nor creates anything for it"
        )
    return None


async def prepare(start: Initialize, settings: Settings, environment: Environment) -> Prepared | Off:
    """Make the directories; touch none when memory is off (PATH-6)."""
    if (off := why_off(start, settings)) is not None:
        return off
    try:
        root = await resolve_project_root(start.cwd, environment.git)
        paths = await initialise(start.agent_dir, root.path, settings.directory, environment.home)
    except InitialisationError as error:
        return Off("failed", str(error))
    return Prepared(settings, paths, root.worktree)
