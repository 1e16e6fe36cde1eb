"""`/memory` and its subcommands (CMD-1, CMD-2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pi_project_memory.actors.messages import (
    PrefetchStatus,
    PrefetchStatusWanted,
    Section,
    SectionWanted,
    TopicList,
    TopicsWanted,
)
from pi_project_memory.actors.ports.clock import Clock
from pi_project_memory.supervisor.asking import ASK_ERRORS, answer_or_none
from pi_project_memory.supervisor.host.protocol import Command, CommandAnswer, Completion, Completions
from pi_project_memory.supervisor.memory import Memory
from pi_project_memory.supervisor.reports import StatusFacts, status_text, topic_table
from pi_project_memory.supervisor.setup import Off

ANSWER_WAIT = 5.0
"""Seconds that a command waits for one actor."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One word behind `/memory`: what completion says of it, and whether it works while memory is off."""

    name: str
    description: str
    while_off: bool = False


SUBCOMMANDS = (
    Subcommand("status", "Show whether memory is on, where it is, and how it stands", while_off=True),
    Subcommand("list", "List the topics, newest first"),
)


@dataclass(frozen=True, slots=True)
class Commands:
    """Answers the commands of one session; exactly one of `memory` and `off` is there."""

    memory: Memory | None
    off: Off | None
    clock: Clock

    async def answer(self, event: Command) -> CommandAnswer:
        """Return what to show for the text behind `/memory`."""
        word, _, rest = event.arguments.strip().partition(" ")
        known = {subcommand.name: subcommand for subcommand in SUBCOMMANDS}
        if word not in known or rest.strip():
            return CommandAnswer(_usage(event.arguments.strip()), "warning")
        if self.memory is None and not known[word].while_off:
            return CommandAnswer(f"/memory {word} is not available: {self._why_off()}", "warning")
        handlers: dict[str, Callable[[], Awaitable[CommandAnswer]]] = {
            "status": self._status,
            "list": self._list,
        }
        return await handlers[word]()

    @staticmethod
    def completions(prefix: str) -> Completions:
        """Return the subcommands that begin with `prefix`."""
        items = [
            Completion(sub.name, sub.name, sub.description)
            for sub in SUBCOMMANDS
            if sub.name.startswith(prefix.lstrip())
        ]
        return Completions(items)

    def _why_off(self) -> str:
        return self.off.reason if self.off else "memory is still starting; try again in a moment"

    async def _status(self) -> CommandAnswer:
        if self.memory is None:
            state = self.off.state if self.off else "starting"
            return CommandAnswer(
                f"Auto-memory: {state}\nMemory directory: not initialized\nReason: {self._why_off()}"
            )
        memory, number = self.memory, self.memory.generations.current
        section: Awaitable[Section] = memory.index.ask(lambda r: SectionWanted(number, r), ANSWER_WAIT)
        recall: Awaitable[PrefetchStatus] = memory.prefetch.ask(
            lambda r: PrefetchStatusWanted(number, r), ANSWER_WAIT
        )
        facts = StatusFacts(
            memory.prepared,
            number,
            section=await answer_or_none(section),
            recall=await answer_or_none(recall),
        )
        return CommandAnswer(status_text(facts))

    async def _list(self) -> CommandAnswer:
        assert self.memory is not None, "list is not offered while memory is off"
        memory, number = self.memory, self.memory.generations.current
        try:
            topics: TopicList = await memory.index.ask(lambda r: TopicsWanted(number, r), ANSWER_WAIT)
        except ASK_ERRORS as error:
            return CommandAnswer(f"The topics could not be listed: {error}", "error")
        return CommandAnswer(topic_table(topics, memory.directory, self.clock.now_ms()))


def _usage(given: str) -> str:
    known = ", ".join(subcommand.name for subcommand in SUBCOMMANDS)
    return (
        f"/memory {given} is not a command of memory. Known are: {known}."
        if given
        else f"Usage: /memory {known}"
    )
