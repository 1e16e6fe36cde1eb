"""The running memory of one session: its actors, their mailboxes, and how they are made."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.background_messages import DreamMessage, ExtractorMessage
from pi_project_memory.actors.core.config import Config, Role
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.index import IndexActor
from pi_project_memory.actors.mailbox import Mailbox, MailboxClosedError, MailboxFullError, Message
from pi_project_memory.actors.messages import (
    BackgroundWrites,
    IndexMessage,
    PrefetchMessage,
    Reconfigured,
    SectionOutdated,
)
from pi_project_memory.actors.metered import MeteredModels
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.activity import ActivitySink
from pi_project_memory.actors.ports.store import MemoryStore
from pi_project_memory.actors.ports.trace import fault
from pi_project_memory.actors.prefetch import PrefetchActor, PrefetchPorts
from pi_project_memory.actors.scopes import AbortScope, Generations
from pi_project_memory.actors.selector import Selector
from pi_project_memory.supervisor.host.protocol import Host, Initialize
from pi_project_memory.supervisor.setup import Environment, Prepared, Settings
from pi_project_memory.supervisor.supervisor import ChildSpec, RestartIntensity, Supervisor

RARE = RestartIntensity(restarts=3, seconds=24 * 3600.0)
"""A fault in a dream may come back with each attempt, hours apart."""


class Helpers(Struct, frozen=True):
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
        self.dream: Mailbox[DreamMessage] = Mailbox("dream")
        self.head = start.history
        self.start_event = start
        self.host = host
        self.environment = environment
        self.helpers = helpers
        self.models: Mapping[Role, MeteredModels] = {
            role: MeteredModels(host, role, environment.trace) for role in get_args(Role)
        }
        self.background = anyio.Event()
        self._index_actors = itertools.count()
        specs = [
            ChildSpec("index", self.index, self._make_index),
            ChildSpec("prefetch", self.prefetch, self._make_prefetch),
            ChildSpec("extractor", self.extractor, self._make_extractor, after=self.background),
            ChildSpec("dream", self.dream, self._make_dream, RARE, after=self.background),
        ]
        self._supervisor = Supervisor(specs, environment.trace, on_given_up)

    async def start(self, group: TaskGroup) -> None:
        """Start the actors in order; those of background work wait for `background`.

        They take longer to load than the session's first answer may.
        """
        await self._supervisor.start(group)

    async def stop(self, reason: str) -> list[str]:
        """Abort what runs and stop the actors in reverse; return the names of those that did not end."""
        self.scope.abort(reason)
        return await self._supervisor.stop()

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.settings.config

    @property
    def has_background(self) -> bool:
        """Whether anything runs in the background by itself."""
        return self.config.extraction.enabled or self.config.dream.enabled

    def reconfigure(self, settings: Settings) -> None:
        """Stop what runs under the old configuration and go on under the new one (CFG-6)."""
        self.settings = settings.with_directory_of(self.settings)
        number = self.generations.advance("the configuration was read anew")
        self.tell(self.index, SectionOutdated(number))
        self.tell(self.prefetch, Reconfigured(number, self.config))
        self.tell(self.extractor, Reconfigured(number, self.config))
        self.tell(self.dream, Reconfigured(number, self.config))

    def tell(self, mailbox: Mailbox[Any], message: Message) -> None:
        """Tell an actor something that it may miss when it is off or overwhelmed."""
        try:
            mailbox.tell(message)
        except (MailboxClosedError, MailboxFullError) as error:
            self.environment.trace.event("untold", message=type(message).__name__, **fault(error))

    @property
    def directory(self) -> str:
        """The memory directory as text."""
        return self.prepared.paths.memory_dir

    @property
    def usage(self) -> Mapping[Role, Usage]:
        """What each role's requests have cost so far."""
        return {role: models.usage for role, models in self.models.items()}

    def _make_index(self, mailbox: Mailbox[Any]) -> IndexActor:
        return IndexActor(
            mailbox,
            self.generations,
            self.environment.trace,
            host=self.host,
            store=self.store(),
            clock=self.environment.clock,
            directory=self.directory,
            prefetch=self.prefetch,
            remade=next(self._index_actors) > 0,
        )

    def _make_prefetch(self, mailbox: Mailbox[Any]) -> PrefetchActor:
        store = self.store()
        selector = Selector(
            self.models["selector"],
            store,
            self.config.models.selector,
            f"{self.start_event.session.id}-memory-selector",
        )
        clock = self.environment.clock
        ports = PrefetchPorts(
            self.host, store, selector, clock, self.directory, self.index, self.helpers.notifier
        )
        return PrefetchActor(mailbox, self.generations, self.environment.trace, ports=ports, head=self.head)

    def _make_extractor(self, mailbox: Mailbox[Any]) -> Actor[Any]:
        from pi_project_memory.supervisor.background import make_extractor

        return make_extractor(self, mailbox)

    def _make_dream(self, mailbox: Mailbox[Any]) -> Actor[Any]:
        from pi_project_memory.supervisor.background import make_dream

        return make_dream(self, mailbox)

    def tell_index(
        self, role: Role, paths: tuple[str, ...] = (), *, ended: bool = False, told: bool = True
    ) -> None:
        """Tell the index what a background run does; it hears nothing when it is off."""
        self.tell(self.index, BackgroundWrites(self.generations.current, paths, ended, role, told))

    def store(self) -> MemoryStore:
        """Return a reader of its own for each actor: nothing is shared."""
        return self.environment.store(Path(self.directory))
