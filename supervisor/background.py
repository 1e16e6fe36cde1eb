"""How the actors of background work are made; loaded behind the session's first answer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from pi_project_memory.actors.consolidation import Consolidation
from pi_project_memory.actors.core.config import Role
from pi_project_memory.actors.dream import DreamActor
from pi_project_memory.actors.extraction import Extraction
from pi_project_memory.actors.extractor import ExtractorActor
from pi_project_memory.actors.index import make_section
from pi_project_memory.actors.mailbox import Mailbox
from pi_project_memory.actors.ports.dream_state import DreamStateFile
from pi_project_memory.actors.ports.locks import FileLocks
from pi_project_memory.actors.ports.sessions import ProjectMembership, SessionFiles
from pi_project_memory.actors.subagent.aftermath import Aftermath
from pi_project_memory.actors.subagent.codemode import Codemode
from pi_project_memory.actors.subagent.run import Workshop
from pi_project_memory.supervisor.memory import Memory


def make_extractor(memory: Memory, mailbox: Mailbox[Any]) -> ExtractorActor:
    """Return an extractor for one life."""
    extraction = Extraction(
        _workshop(memory),
        memory.models["extractor"],
        FileLocks(Path(memory.prepared.paths.locks_dir)),
        memory.environment.clock,
        partial(_rules, memory),
    )
    return ExtractorActor(
        mailbox,
        memory.generations,
        memory.environment.trace,
        extraction=extraction,
        aftermath=_aftermath(memory, "extractor"),
        activity=memory.helpers.activity,
        config=memory.config,
        head=memory.head,
    )


def make_dream(memory: Memory, mailbox: Mailbox[Any]) -> DreamActor:
    """Return a dream actor for one life."""
    paths, event = memory.prepared.paths, memory.start_event
    locks = FileLocks(Path(paths.locks_dir))
    # A directory that the user chose for all sessions holds those of other projects too.
    shared = not event.session.uses_default_directory
    membership = ProjectMembership(paths.project_root, memory.prepared.worktree, memory.environment.git)
    workshop = _workshop(memory)
    consolidation = Consolidation(
        workshop,
        memory.models["dream"],
        locks,
        DreamStateFile(Path(paths.dream_state_file), Path(paths.state_file), locks, memory.environment.clock),
        SessionFiles(workshop.session_dir, event.session.id, membership if shared else None),
        memory.environment.clock,
        partial(_rules, memory),
    )
    return DreamActor(
        mailbox,
        memory.generations,
        memory.environment.trace,
        consolidation=consolidation,
        aftermath=_aftermath(memory, "dream"),
        activity=memory.helpers.activity,
        config=memory.config,
    )


def _workshop(memory: Memory) -> Workshop:
    paths, event = memory.prepared.paths, memory.start_event
    return Workshop(
        host=memory.host,
        trace=memory.environment.trace,
        session_id=event.session.id,
        cwd=Path(event.cwd),
        memory_dir=Path(paths.memory_dir),
        agent_dir=Path(paths.agent_dir),
        project_root=Path(paths.project_root),
        worktree=Path(memory.prepared.worktree),
        session_dir=Path(event.session.directory) if event.session.directory else None,
        native_tools=event.tools,
        codemode=Codemode(memory.host, event.codemode),
    )


async def _rules(memory: Memory) -> str:
    """Return the memory section as it is now, for a run whose parent prompt lacks it (PRM-3)."""
    return make_section(await memory.store().read_index(), memory.directory).text


def _aftermath(memory: Memory, role: Role) -> Aftermath:
    return Aftermath(
        role,
        memory.host,
        memory.helpers.notifier,
        memory.environment.trace,
        memory.directory,
        on_touch=lambda path: memory.tell_index(role, (path,)),
        on_end=lambda: memory.tell_index(role, ended=True),
        on_lost=lambda: memory.tell_index(role, ended=True, told=False),
    )
