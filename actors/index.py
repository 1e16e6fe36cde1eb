"""IndexActor: the memory section of the system prompt and the list of topics."""

from __future__ import annotations

from typing import assert_never

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.core.sanitize import sanitize
from pi_project_memory.actors.core.windows import index_window
from pi_project_memory.actors.mailbox import Mailbox
from pi_project_memory.actors.messages import (
    IndexMessage,
    Section,
    SectionOutdated,
    SectionWanted,
    TopicList,
    TopicsWanted,
)
from pi_project_memory.actors.ports.store import MemoryStore
from pi_project_memory.actors.ports.trace import Trace
from pi_project_memory.actors.prompts import fill, prompt
from pi_project_memory.actors.scopes import Generations

EMPTY_INDEX = "(MEMORY.md is empty or does not exist yet.)"


class IndexActor(Actor[IndexMessage]):
    """Owns the cached section; its bytes stay the same until the cache is outdated (IDX-4)."""

    name = "index"

    def __init__(
        self,
        mailbox: Mailbox[IndexMessage],
        generations: Generations,
        trace: Trace,
        *,
        store: MemoryStore,
        directory: str,
    ) -> None:
        super().__init__(mailbox, generations, trace)
        self._store = store
        self._directory = directory
        self._section: Section | None = None

    async def handle(self, message: IndexMessage) -> None:
        """Act on one message."""
        match message:
            case SectionWanted():
                message.reply.send(await self._cached_section())
            case SectionOutdated():
                self._section = None
            case TopicsWanted():
                topics = await self._store.scan()
                message.reply.send(TopicList(topics, await self._store.read_index()))
            case _:
                assert_never(message)

    async def _cached_section(self) -> Section:
        if self._section is None:
            self._section = make_section(await self._store.read_index(), self._directory)
            self.trace.event(
                "index_loaded", actor=self.name, lines=self._section.lines, units=self._section.units
            )
        return self._section


def make_section(index: str, directory: str) -> Section:
    """Return the section for an index text: the standing rules, the directory, the window of the index."""
    window = index_window(index)
    shown = sanitize(window.text).strip("\n") or EMPTY_INDEX
    text = fill(prompt("main_section"), memory_directory=sanitize(directory), index=shown)
    return Section(text, window.lines_total, window.units_total, window.truncated)
