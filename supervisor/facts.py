"""Everything that `/memory status` tells, asked together from whoever knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass

import anyio

from pi_project_memory.actors.background_messages import (
    DreamStatus,
    DreamStatusWanted,
    ExtractorStatus,
    ExtractorStatusWanted,
)
from pi_project_memory.actors.core.config import Role, RoleModel, ThinkingLevel
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.messages import PrefetchStatus, PrefetchStatusWanted, Section, SectionWanted
from pi_project_memory.actors.notifier import Warned
from pi_project_memory.actors.ports.host import HostError
from pi_project_memory.actors.roles import RoleUnavailableError, resolve_role
from pi_project_memory.supervisor.asking import answer_or_none
from pi_project_memory.supervisor.lifecycle import Lifecycle
from pi_project_memory.supervisor.memory import Memory
from pi_project_memory.supervisor.setup import Off, Settings

ANSWER_WAIT = 5.0
"""Seconds that the status waits for one actor or for the host; all are asked at once."""


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """One role: its model and level as they are now, or why it has none; what it has cost."""

    role: Role
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """A memory that is on; None where an actor gave no answer. `automatic` is whether turns are extracted."""

    directory: str
    custom: bool
    project: str
    generation: int
    automatic: bool
    section: Section | None
    recall: PrefetchStatus | None
    extractor: ExtractorStatus | None
    dream: DreamStatus | None
    roles: tuple[RoleFacts, ...] = ()


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What is known when the status is asked for; `now` in seconds of the event loop's clock."""

    off: Off | None
    settings: Settings | None
    memory: MemoryFacts | None
    now: float
    last_warning: Warned | None = None
    log_file: str = ""


async def gather_facts(life: Lifecycle, level: ThinkingLevel | None) -> StatusFacts:
    """Ask everybody; whoever does not answer is left out."""
    memory = life.memory
    return StatusFacts(
        off=life.off,
        settings=life.settings,
        memory=None if memory is None else await _memory_facts(memory, level),
        now=anyio.current_time(),
        last_warning=life.notifier.last_warning,
        log_file=life.log_file or "",
    )


async def _memory_facts(memory: Memory, level: ThinkingLevel | None) -> MemoryFacts:
    number, paths = memory.generations.current, memory.prepared.paths
    section: Awaitable[Section] = memory.index.ask(lambda r: SectionWanted(number, r), ANSWER_WAIT)
    recall: Awaitable[PrefetchStatus] = memory.prefetch.ask(
        lambda r: PrefetchStatusWanted(number, r), ANSWER_WAIT
    )
    extractor: Awaitable[ExtractorStatus] = memory.extractor.ask(
        lambda r: ExtractorStatusWanted(number, r), ANSWER_WAIT
    )
    dream: Awaitable[DreamStatus] = memory.dream.ask(lambda r: DreamStatusWanted(number, r), ANSWER_WAIT)
    answers = await asyncio.gather(
        answer_or_none(section),
        answer_or_none(recall),
        answer_or_none(extractor),
        answer_or_none(dream),
        _roles(memory, level),
    )
    automatic = memory.config.extraction.enabled
    return MemoryFacts(paths.memory_dir, paths.custom, paths.project_root, number, automatic, *answers)


async def _roles(memory: Memory, level: ThinkingLevel | None) -> tuple[RoleFacts, ...]:
    models = memory.config.models
    configured: dict[Role, RoleModel] = {
        "selector": models.selector,
        "extractor": models.extractor,
        "dream": models.dream,
    }
    found = await asyncio.gather(*[_model(memory, role, configured[role], level) for role in configured])
    return tuple(
        RoleFacts(role, model, memory.usage[role]) for role, model in zip(configured, found, strict=True)
    )


async def _model(memory: Memory, role: Role, choice: RoleModel, level: ThinkingLevel | None) -> str:
    try:
        with anyio.fail_after(ANSWER_WAIT):
            model, effective = await resolve_role(memory.host, role, choice, level)
    except (RoleUnavailableError, HostError) as error:
        return f"none: {error}"
    except TimeoutError:
        return "not known, the host gives no answer"
    return f"{model.label}, thinking {effective}"
