"""Which Pi would load the extension, and whether it would (HOST-10)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pi_project_memory.actors.core.jsjson import JsonSyntaxError, JsonValue, loads
from pi_project_memory.supervisor.agent_dir import VARIABLE, depends_on_cwd
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Note, Observation
from pi_project_memory.supervisor.doctor.programs import Answer, NoAnswer, ask
from pi_project_memory.supervisor.doctor.surroundings import Surroundings
from pi_project_memory.supervisor.installed import ENTRY, extension_directory

NEEDED = (1, 6)
"""The version of Pi that the extension is made for."""

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})\.\d\S*")
_QUIET = {
    "NODE_DISABLE_COMPILE_CACHE": "1",
    "PI_OFFLINE": "1",
    "PI_SKIP_VERSION_CHECK": "1",
    "PI_TELEMETRY": "0",
}
"""Makes Pi tell its version without writing or asking anything."""


async def check_pi(where: Surroundings) -> Observation:
    """Ask the `pi` on PATH for its version."""
    program = shutil.which("pi", path=where.environ.get("PATH", os.defpath))
    if program is None:
        return Note("No `pi` is on PATH, so its version is not known; memory is made for Pi 1.6")
    answer = await ask([program, "--version"], "/", {**where.environ, **_QUIET})
    match answer:
        case NoAnswer(reason):
            return Finding(f"Pi does not tell its version: {reason}", program, "pi --version")
        case Answer(code, _, complaint) if code != 0:
            return Finding(f"Pi does not start: {complaint or f'exit code {code}'}", program, "pi --version")
        case Answer(_, output, _):
            return _judge(output.strip(), program)


def _judge(text: str, program: str) -> Observation:
    version = _VERSION.fullmatch(text)
    if version is None:
        return Note(f"The `pi` on PATH does not tell a version as the coding agent does: {program}")
    found = (int(version[1]), int(version[2]))
    if found < NEEDED:
        problem = f"Pi {text} is too old: the extension needs {NEEDED[0]}.{NEEDED[1]}"
        return Finding(problem, program, "pi update self")
    if found > NEEDED:
        return Note(f"Pi {text} is newer than {NEEDED[0]}.{NEEDED[1]}, which memory is made for: {program}")
    return Fact(f"Pi {text}: {program}")


def check_discovery(where: Surroundings) -> Iterator[Observation]:
    """Look for what keeps Pi from loading the extension although it is installed."""
    if depends_on_cwd(where.environ):
        given = where.environ[VARIABLE]
        yield Finding(
            f"{VARIABLE} is relative, so it means another directory wherever Pi is started",
            given,
            f"export {VARIABLE}={where.agent}",
        )
    target = extension_directory(where.agent)
    for path in (target.parent / ENTRY, target.parent / "index.js"):
        if path.exists():
            yield _obscured(path)
    for path in (target.parent / "package.json", target / "package.json"):
        if _declares_extensions(path):
            yield _obscured(path)
    if switch := _switched_off(where.agent):
        problem = f"the extension is switched off in Pi's settings by {switch!r}"
        yield Finding(problem, str(where.agent / "settings.json"), "pi config")


def _obscured(path: Path) -> Finding:
    problem = "because of this file Pi does not look for the extension"
    return Finding(problem, str(path), "move this file into a directory of its own below extensions/")


def _declares_extensions(manifest: Path) -> bool:
    pi = _object(_json(manifest)).get("pi")
    return bool(_object(pi).get("extensions"))


def _switched_off(agent: Path) -> str | None:
    """Return the entry of Pi's settings that excludes the extension by its path, as `pi config` writes it."""
    entries = _object(_json(agent / "settings.json")).get("extensions")
    target = extension_directory(agent) / ENTRY
    paths = (target, target.relative_to(agent), f"./{target.relative_to(agent)}")
    exclusions = {f"-{path}" for path in paths}
    given = entries if isinstance(entries, list) else []
    return next((entry for entry in given if isinstance(entry, str) and entry in exclusions), None)


def _json(path: Path) -> JsonValue:
    with suppress(OSError, JsonSyntaxError):
        return loads(path.read_bytes())
    return None


def _object(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}
