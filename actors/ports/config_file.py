"""The one configuration file, read in one hop (CFG-1, CFG-2)."""

from __future__ import annotations

import os
import stat

from msgspec import Struct

from pi_project_memory.actors.core.config import DEFAULT_CONFIG, Config, Fallback, parse_config
from pi_project_memory.actors.core.jsjson import JsonSyntaxError, loads
from pi_project_memory.actors.ports.worker import in_worker

LARGEST = 4 * 1024 * 1024
"""Bytes that a configuration file has at most."""

_REMEDY = "Correct the file, or remove it to use the defaults; then run /memory reload-config."


class ConfigError(Exception):
    """config.json is there and cannot be used; `line` and `column` count from 1 where JSON is at fault."""

    def __init__(self, path: str, reason: str, line: int | None = None, column: int | None = None) -> None:
        self.path = path
        self.reason = reason
        self.line = line
        self.column = column
        place = path if line is None else f"{path}:{line}:{column}"
        super().__init__(f"{place}: {reason}. {_REMEDY}")


class LoadedConfig(Struct, frozen=True):
    """What the file says; `found` is False when there is none, `fallbacks` are fields it could not set."""

    path: str
    config: Config
    found: bool
    fallbacks: tuple[Fallback, ...] = ()


async def load_config(path: str) -> LoadedConfig:
    """Return the configuration in the file at `path`, or the defaults when there is no such file.

    Raises ConfigError when it cannot be read or is not JSON. Nothing is created.
    """
    return await in_worker(read_config, path)


def read_config(path: str) -> LoadedConfig:
    """Do what `load_config` does, in this thread."""
    try:
        parsed = parse_config(loads(_read_file(path)))
    except FileNotFoundError:
        return LoadedConfig(path, DEFAULT_CONFIG, found=False)
    except JsonSyntaxError as error:
        raise ConfigError(path, f"it is not valid JSON: {error.reason}", error.line, error.column) from error
    except OSError as error:
        raise ConfigError(path, f"it cannot be read: {error.strerror or error}") from error
    return LoadedConfig(path, parsed.config, found=True, fallbacks=parsed.fallbacks)


def _read_file(path: str) -> bytes:
    # Without O_NONBLOCK a named pipe in this place would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(path, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise ConfigError(path, f"it is larger than {LARGEST} bytes")
    return data
