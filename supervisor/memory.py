"""The running memory of one session: its actors, their mailboxes, and how they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from anyio.abc import TaskGroup

from pi_project_memory.actors.core.config import Config, Role
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.extraction import Extraction
from pi_project_memory.actors.extractor import ExtractorActor
from pi_project_memory.actors.index import IndexActor, make_section
from pi_project_memory.actors.mailbox import Mailbox, MailboxClosedError, MailboxFullError, Message
from pi_project_memory.actors.messages import (
    BackgroundWrites,
    ExtractorMessage,
    IndexMessage,
    PrefetchMessage,
    Reconfigured,
    SectionOutdated,
)
from pi_project_memory.actors.metered import MeteredModels
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.activity import ActivitySink
from pi_project_memory.actors.ports.locks import FileLocks
from pi_project_memory.actors.ports.store import MemoryStore
from pi_project_memory.actors.prefetch import PrefetchActor, PrefetchPorts
from pi_project_memory.actors.scopes import AbortScope, Generations
from pi_project_memory.actors.selector import Selector
from pi_project_memory.actors.subagent.aftermath import Aftermath
from pi_project_memory.actors.subagent.run import Workshop
from pi_project_memory.supervisor.host.protocol import Host, Initialize
from pi_project_memory.supervisor.setup import Environment, Prepared, Settings
from pi_project_memory.supervisor.supervisor import ChildSpec, Supervisor


@dataclass(frozen=True, slots=True)
class Helpers:
    """What the actors tell the user through."""

    notifier: Notifier
    activity: ActivitySink


class Memory:
    """Holds the mailboxes; whoever has one can talk to the actor behind it, whichever life it is in."""

    def __init__(
        self,
        start: Initialize,
        prepared: Prepared,
        host: Host,
        environment: Environment,
        helpers: Helpers,
        on_given_up: Callable[[str, Exception], None],
    ) -> None:
        self.prepared = prepared
        self.settings = prepared.settings
        self.scope = AbortScope("session")
        self.generations = Generations(self.scope)
        self.index: Mailbox[IndexMessage] = Mailbox("index")
        self.prefetch: Mailbox[PrefetchMessage] = Mailbox("prefetch")
        self.extractor: Mailbox[ExtractorMessage] = Mailbox("extractor")
        self.head = start.history
        self._start = start
        self.host = host
        self._environment = environment
        self._helpers = helpers
        self._models: Mapping[Role, MeteredModels] = {
            role: MeteredModels(host, role, environment.trace) for role in get_args(Role)
        }
        specs = [
            ChildSpec("index", self.index, self._make_index),
            ChildSpec("prefetch", self.prefetch, self._make_prefetch),
            ChildSpec("extractor", self.extractor, self._make_extractor),
        ]
        self._supervisor = Supervisor(specs, environment.trace, on_given_up)

    async def start(self, group: TaskGroup) -> None:
        """Start the actors in order."""
        await self._supervisor.start(group)

    async def stop(self, reason: str) -> list[str]:
        """Abort what runs and stop the actors in reverse; return the names of those that did not end."""
        self.scope.abort(reason)
        return await self._supervisor.stop()

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.settings.config

    def reconfigure(self, settings: Settings) -> None:
        """Stop what runs under the old configuration and go on under the new one (CFG-6)."""
        self.settings = settings.with_directory_of(self.settings)
        number = self.generations.advance("the configuration was read anew")
        self.tell(self.index, SectionOutdated(number))
        self.tell(self.prefetch, Reconfigured(number, self.config))
        self.tell(self.extractor, Reconfigured(number, self.config))

    def tell(self, mailbox: Mailbox[Any], message: Message) -> None:
        """Tell an actor something that it may miss when it is off or overwhelmed."""
        try:
            mailbox.tell(message)
        except (MailboxClosedError, MailboxFullError) as error:
            self._environment.trace.event("untold", message=type(message).__name__, error=str(error))

    @property
    def directory(self) -> str:
        """The memory directory as text."""
        return self.prepared.paths.memory_dir

    @property
    def usage(self) -> Mapping[Role, Usage]:
        """What each role's requests have cost so far."""
        return {role: models.usage for role, models in self._models.items()}

    def _make_index(self, mailbox: Mailbox[Any]) -> IndexActor:
        return IndexActor(
            mailbox,
            self.generations,
            self._environment.trace,
            host=self.host,
            store=self._store(),
            clock=self._environment.clock,
            directory=self.directory,
            prefetch=self.prefetch,
        )

    def _make_prefetch(self, mailbox: Mailbox[Any]) -> PrefetchActor:
        store = self._store()
        selector = Selector(
            self._models["selector"],
            store,
            self.config.models.selector,
            f"{self._start.session.id}-memory-selector",
        )
        clock = self._environment.clock
        ports = PrefetchPorts(
            self.host, store, selector, clock, self.directory, self.index, self._helpers.notifier
        )
        return PrefetchActor(mailbox, self.generations, self._environment.trace, ports=ports, head=self.head)

    def _make_extractor(self, mailbox: Mailbox[Any]) -> ExtractorActor:
        extraction = Extraction(
            self._workshop(),
            self._models["extractor"],
            FileLocks(Path(self.prepared.paths.locks_dir)),
            self._environment.clock,
            self._rules,
        )
        return ExtractorActor(
            mailbox,
            self.generations,
            self._environment.trace,
            extraction=extraction,
            aftermath=self._aftermath("extractor"),
            activity=self._helpers.activity,
            config=self.config,
            head=self.head,
        )

    def _workshop(self) -> Workshop:
        paths, start = self.prepared.paths, self._start
        return Workshop(
            host=self.host,
            trace=self._environment.trace,
            session_id=start.session.id,
            cwd=Path(start.cwd),
            memory_dir=Path(paths.memory_dir),
            agent_dir=Path(paths.agent_dir),
            project_root=Path(paths.project_root),
            worktree=Path(self.prepared.worktree),
            session_dir=Path(start.session.directory) if start.session.directory else None,
            native_tools=start.tools,
        )

    async def _rules(self) -> str:
        """Return the memory section as it is now, for a run whose parent prompt lacks it (PRM-3)."""
        return make_section(await self._store().read_index(), self.directory).text

    def _aftermath(self, role: Role) -> Aftermath:
        return Aftermath(
            role,
            self.host,
            self._helpers.notifier,
            self._environment.trace,
            self.directory,
            on_touch=lambda path: self._tell_index(paths=(path,)),
            on_end=lambda: self._tell_index(ended=True),
        )

    def _tell_index(self, paths: tuple[str, ...] = (), *, ended: bool = False) -> None:
        """Tell the index what a background run does; it hears nothing when it is off."""
        self.tell(self.index, BackgroundWrites(self.generations.current, paths, ended))

    def _store(self) -> MemoryStore:
        """Return a reader of its own for each actor: nothing is shared."""
        return self._environment.store(Path(self.directory))
