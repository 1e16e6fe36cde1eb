"""The running memory of one session: its actors, their mailboxes, and how they are made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyio.abc import TaskGroup

from pi_project_memory.actors.index import IndexActor
from pi_project_memory.actors.mailbox import Mailbox
from pi_project_memory.actors.messages import IndexMessage, PrefetchMessage
from pi_project_memory.actors.ports.store import MemoryStore
from pi_project_memory.actors.prefetch import PrefetchActor, PrefetchPorts
from pi_project_memory.actors.scopes import AbortScope, Generations
from pi_project_memory.actors.selector import Selector
from pi_project_memory.supervisor.host.protocol import Host, Initialize
from pi_project_memory.supervisor.setup import Environment, Prepared
from pi_project_memory.supervisor.supervisor import ChildSpec, Supervisor


class Memory:
    """Holds the mailboxes; whoever has one can talk to the actor behind it, whichever life it is in."""

    def __init__(
        self,
        start: Initialize,
        prepared: Prepared,
        host: Host,
        environment: Environment,
        on_given_up: Callable[[str, Exception], None],
    ) -> None:
        self.prepared = prepared
        self.scope = AbortScope("session")
        self.generations = Generations(self.scope)
        self.index: Mailbox[IndexMessage] = Mailbox("index")
        self.prefetch: Mailbox[PrefetchMessage] = Mailbox("prefetch")
        self.head = start.history
        self._start = start
        self._host = host
        self._environment = environment
        specs = [
            ChildSpec("index", self.index, self._make_index),
            ChildSpec("prefetch", self.prefetch, self._make_prefetch),
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
    def directory(self) -> str:
        """The memory directory as text."""
        return str(self.prepared.paths.memory_dir)

    def _make_index(self, mailbox: Mailbox[Any]) -> IndexActor:
        return IndexActor(
            mailbox,
            self.generations,
            self._environment.trace,
            store=self._store(),
            directory=self.directory,
        )

    def _make_prefetch(self, mailbox: Mailbox[Any]) -> PrefetchActor:
        store = self._store()
        selector = Selector(
            self._host,
            store,
            self.prepared.config.models.selector,
            f"{self._start.session.id}-memory-selector",
        )
        ports = PrefetchPorts(self._host, store, selector, self._environment.clock, self.directory)
        return PrefetchActor(mailbox, self.generations, self._environment.trace, ports=ports, head=self.head)

    def _store(self) -> MemoryStore:
        """Return a reader of its own for each actor: nothing is shared."""
        return self._environment.store(Path(self.directory))
