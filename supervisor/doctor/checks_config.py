"""The configuration: whether it can be read, and which values are not used (CFG-2, CFG-3, CFG-5)."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from pi_project_memory.actors.core.config import Config, Fallback
from pi_project_memory.actors.core.identity import config_file
from pi_project_memory.actors.core.memory_directory import configured_memory_directory
from pi_project_memory.actors.ports.config_file import ConfigError, LoadedConfig, read_config
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Note, Observation
from pi_project_memory.supervisor.doctor.surroundings import Surroundings


def check_config(where: Surroundings) -> tuple[Config | None, list[Observation]]:
    """Return the configuration, None when it cannot be used, and what is to be said about it."""
    path = config_file(str(where.agent))
    try:
        loaded = read_config(path)
    except ConfigError as error:
        place = path if error.line is None else f"{path}:{error.line}:{error.column}"
        return None, [Finding(f"memory is off: {error.reason}", place, _edit(path))]
    return loaded.config, [*_source(loaded), *_unused(loaded, where.home), *_switches(loaded.config)]


def _source(loaded: LoadedConfig) -> Iterator[Observation]:
    if not loaded.found:
        yield Fact(f"The defaults hold: there is no {loaded.path}")
    elif not loaded.fallbacks:
        yield Fact(f"Every value is used: {loaded.path}")


def _unused(loaded: LoadedConfig, home: str) -> Iterator[Observation]:
    for fallback in loaded.fallbacks:
        yield Finding(_fallback(fallback), loaded.path, _edit(loaded.path))
    directory = configured_memory_directory(loaded.config.auto_memory_directory, home)
    if directory.reason is not None:
        problem = f"'autoMemoryDirectory' is not used, the default directory is: {directory.reason}"
        yield Finding(problem, loaded.path, _edit(loaded.path))


def _fallback(fallback: Fallback) -> str:
    field = repr(fallback.path) if fallback.path else "the file"
    return f"{field} {fallback.reason}; its default is used"


def _switches(config: Config) -> Iterator[Observation]:
    if not config.enabled:
        yield Note("Memory is switched off by `enabled`; nothing of any project is looked at")
        return
    if not config.extraction.enabled:
        yield Note("Automatic extraction is switched off by `extraction.enabled`")
    if not config.dream.enabled:
        yield Note("Consolidation is switched off by `dream.enabled`")


def _edit(path: str) -> str:
    return f"$EDITOR {quote(path)}, then /memory reload-config in Pi"
