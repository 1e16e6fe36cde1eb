"""The order of an examination; a check that fails becomes a finding, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from pi_project_memory.actors.core.identity import data_directory
from pi_project_memory.actors.ports.private_dirs import explain
from pi_project_memory.supervisor.doctor.checks_config import check_config
from pi_project_memory.supervisor.doctor.checks_directories import check_directories
from pi_project_memory.supervisor.doctor.checks_dream import check_dream
from pi_project_memory.supervisor.doctor.checks_extension import check_extension, check_interpreter
from pi_project_memory.supervisor.doctor.checks_leftovers import check_leftovers
from pi_project_memory.supervisor.doctor.checks_locks import check_locks
from pi_project_memory.supervisor.doctor.checks_log import check_log
from pi_project_memory.supervisor.doctor.checks_memory import check_memory
from pi_project_memory.supervisor.doctor.checks_pi import check_discovery, check_pi
from pi_project_memory.supervisor.doctor.observations import Examination, Finding, Observation, Section
from pi_project_memory.supervisor.doctor.project import Project, check_identity, locate
from pi_project_memory.supervisor.doctor.surroundings import Surroundings
from pi_project_memory.supervisor.installed import extension_directory


async def examine(where: Surroundings) -> Examination:
    """Look at everything once, and change nothing."""
    agent = str(where.agent)
    config, about_config = check_config(where)
    sections = [
        Section("Installation", await _installation(where)),
        Section("Configuration", tuple(about_config)),
    ]
    project: Project | None = None
    if config is not None and config.enabled:
        try:
            project = await locate(where, config)
        except OSError as error:
            sections.append(Section(f"Memory of {where.cwd}", (_failed(error, agent),)))
    if project is not None:
        sections.append(Section(f"Memory of {project.root.path}", _project(where, project)))
    log = _guarded(lambda: check_log(Path(data_directory(agent), "logs"), where.clock.now_ms()), agent)
    sections.append(Section("Last warnings", log))
    return Examination(agent, project.root.path if project else None, tuple(sections))


async def _installation(where: Surroundings) -> tuple[Observation, ...]:
    agent = str(where.agent)
    return (
        await check_pi(where),
        *_guarded(lambda: check_discovery(where), agent),
        *_guarded(lambda: check_extension(where), agent),
        *await check_interpreter(where),
    )


def _project(where: Surroundings, project: Project) -> tuple[Observation, ...]:
    paths, now_ms = project.paths, where.clock.now_ms()
    checks: list[Callable[[], Iterable[Observation]]] = [lambda: check_identity(project)]
    if project.used:
        extension = extension_directory(where.agent)
        checks += [
            lambda: check_directories(paths),
            lambda: check_memory(Path(paths.memory_dir)),
            lambda: [check_dream(paths, now_ms)],
            lambda: check_locks(Path(paths.locks_dir), where.processes, now_ms),
            lambda: check_leftovers(paths, extension, now_ms),
        ]
    return tuple(seen for check in checks for seen in _guarded(check, paths.memory_dir))


def _guarded(check: Callable[[], Iterable[Observation]], place: str) -> tuple[Observation, ...]:
    seen: list[Observation] = []
    try:
        seen.extend(check())
    except OSError as error:
        seen.append(_failed(error, place))
    return tuple(seen)


def _failed(error: OSError, place: str) -> Finding:
    told = explain(error, place)
    return Finding(f"this could not be examined: {told.problem}", told.path, told.remedy)
