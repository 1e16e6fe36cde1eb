"""The installed extension and the interpreter that it will start (HOST-10)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from pi_project_memory.actors.core.identity import data_directory
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Observation, named
from pi_project_memory.supervisor.doctor.programs import Answer, NoAnswer, ask
from pi_project_memory.supervisor.doctor.surroundings import Surroundings
from pi_project_memory.supervisor.installed import (
    LAUNCH_FILE,
    SERVE,
    Foreign,
    Launch,
    Owned,
    Vacant,
    extension_directory,
    read_launch,
    shipped_files,
    survey,
)
from pi_project_memory.supervisor.version import __version__

INSTALL = "pi-project-memory install"

_PROBE = (
    "import pi_project_memory.supervisor.host.stdio, pi_project_memory.supervisor.service, "
    "pi_project_memory.actors.core.plainyaml, structlog, tree_sitter, tree_sitter_bash\n"
    "from pi_project_memory.supervisor.version import __version__\n"
    "print(__version__)"
)
"""Imports what the service does, and tells its version."""


def check_extension(where: Surroundings) -> Iterator[Observation]:
    """Compare what is installed with what this package would install."""
    target = extension_directory(where.agent)
    match survey(target):
        case Vacant():
            yield Finding("the extension is not installed", str(target), INSTALL)
        case Foreign(problem):
            remedy = f"mv {quote(str(target))} {quote(str(where.agent))}/project-memory.moved && {INSTALL}"
            yield Finding(f"the extension cannot be installed: {problem}", str(target), remedy)
        case Owned(launch=Launch() as launch):
            installed = Fact(f"Extension {launch.version}, {len(launch.files)} files: {target}")
            yield from list(_problems(where, target, launch)) or [installed]
        case Owned():
            problem = "the file that says how to start the service is missing or damaged"
            yield Finding(problem, str(target / LAUNCH_FILE), INSTALL)


def _problems(where: Surroundings, target: Path, launch: Launch) -> Iterator[Observation]:
    if launch.version != __version__:
        problem = f"the extension is of version {launch.version}, and this is {__version__}"
        yield Finding(problem, str(target), INSTALL)
        return
    missing, edited = _deviations(target)
    if missing:
        yield Finding(f"files of the extension are missing: {named(missing)}", str(target), INSTALL)
    if edited:
        problem = f"files of the extension are not as they were installed: {named(edited)}"
        yield Finding(problem, str(target), INSTALL)
    logs = f"{data_directory(str(where.agent))}/logs"
    if launch.log_file != logs:
        problem = f"the extension names another place for its log, {launch.log_file}, and not {logs}"
        yield Finding(problem, str(target / LAUNCH_FILE), INSTALL)


def _deviations(target: Path) -> tuple[list[str], list[str]]:
    """Return which files are missing and which are edited."""
    missing, edited = [], []
    for name, data in shipped_files().items():
        if not (target / name).is_file():
            missing.append(name)
        elif (target / name).read_bytes() != data:
            edited.append(name)
    return missing, edited


async def check_interpreter(where: Surroundings) -> list[Observation]:
    """Start the interpreter that the extension names and let it import the service."""
    target = extension_directory(where.agent)
    launch = read_launch(target)
    if launch is None:
        return []  # told by check_extension
    program, *rest = launch.command
    file = str(target / LAUNCH_FILE)
    if tuple(rest[-len(SERVE) :]) != SERVE:
        return [Finding(f"it starts something else than the service: {launch.command}", file, INSTALL)]
    if problem := _unusable(program):
        return [Finding(f"the Python of the service {problem}", program, INSTALL)]
    probe = [program, *rest[: -len(SERVE)], "-B", "-c", _PROBE]
    return [_judge(await ask(probe, str(target), where.environ), program)]


def _unusable(program: str) -> str | None:
    path = Path(program)
    if not path.is_absolute():
        return "is not named by an absolute path"
    if not path.exists():
        return "does not exist"
    return None if path.is_file() and os.access(path, os.X_OK) else "is not executable"


def _judge(answer: Answer | NoAnswer, program: str) -> Observation:
    match answer:
        case NoAnswer(reason):
            return Finding(f"the Python of the service does not work: {reason}", program, INSTALL)
        case Answer(0, output, _) if output.strip() == __version__:
            return Fact(f"Service {__version__}, started by {program}")
        case Answer(0, output, _):
            problem = (
                f"the Python of the service has version {output.strip()[:40]!r}, and this is {__version__}"
            )
            return Finding(problem, program, f"{quote(sys.executable)} -m {SERVE[1]} install")
        case Answer(code, _, complaint):
            problem = f"the service cannot start: {complaint or f'exit code {code}'}"
            return Finding(problem, program, INSTALL)
