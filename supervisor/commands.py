"""`/memory` and its subcommands (CMD-1, CMD-2, CMD-4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from anyio.abc import TaskGroup

from pi_project_memory.actors.core.dream_gate import DISABLED
from pi_project_memory.actors.messages import (
    DreamDone,
    DreamWanted,
    ExtractionDone,
    ExtractionWanted,
    TopicList,
    TopicsWanted,
)
from pi_project_memory.actors.ports.clock import Clock
from pi_project_memory.supervisor.asking import ASK_ERRORS
from pi_project_memory.supervisor.facts import gather_facts
from pi_project_memory.supervisor.host.protocol import Command, CommandAnswer, Completion, Completions
from pi_project_memory.supervisor.lifecycle import Lifecycle
from pi_project_memory.supervisor.memory import Memory
from pi_project_memory.supervisor.outcomes import dream_outcome, extraction_outcome
from pi_project_memory.supervisor.reports import status_text, topic_table

ANSWER_WAIT = 5.0
"""Seconds that a command waits for one actor."""

WORK_WAIT = 60.0
"""Seconds that a command waits for the work it has ordered where nothing can be shown later."""

LONG_WAIT = 3600.0
"""Seconds after which work whose outcome was promised is called lost."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One word behind `/memory`: what completion says of it, and whether it works while memory is off."""

    name: str
    description: str
    while_off: bool = False


SUBCOMMANDS = (
    Subcommand("status", "Show whether memory is on, where it is, and how it stands", while_off=True),
    Subcommand("list", "List the topics, newest first"),
    Subcommand("extract", "Save now what is worth keeping of this conversation"),
    Subcommand("dream", "Tidy the memory up now: merge, correct, prune"),
    Subcommand("reload-config", "Read config.json again", while_off=True),
)
_KNOWN = {subcommand.name: subcommand for subcommand in SUBCOMMANDS}


class Commands:
    """Answers the commands of one session."""

    def __init__(self, life: Lifecycle, clock: Clock, group: TaskGroup) -> None:
        self._life = life
        self._clock = clock
        self._group = group

    async def answer(self, event: Command) -> CommandAnswer:
        """Return what to show for the text behind `/memory`."""
        words = event.arguments.split()
        if len(words) != 1 or words[0] not in _KNOWN:
            return CommandAnswer(_usage(event.arguments.strip()), "warning")
        name, memory = words[0], self._life.memory
        if name == "status":
            return CommandAnswer(status_text(await gather_facts(self._life, event.context.thinking_level)))
        if name == "reload-config":
            return await self._life.reload()
        if memory is None:
            return CommandAnswer(f"/memory {name} is not available: {self._why_off()}", "warning")
        handlers: Mapping[str, Callable[[Memory, Command], Awaitable[CommandAnswer]]] = {
            "list": self._list,
            "extract": self._extract,
            "dream": self._dream,
        }
        return await handlers[name](memory, event)

    @staticmethod
    def completions(prefix: str) -> Completions:
        """Return the subcommands that begin with `prefix`."""
        typed = prefix.lstrip()
        fitting = [sub for sub in SUBCOMMANDS if sub.name.startswith(typed)]
        return Completions([Completion(sub.name, sub.name, sub.description) for sub in fitting])

    def _why_off(self) -> str:
        off = self._life.off
        return off.reason if off else "memory is still starting; try again in a moment"

    async def _list(self, memory: Memory, _event: Command) -> CommandAnswer:
        number = memory.generations.current
        try:
            topics: TopicList = await memory.index.ask(lambda r: TopicsWanted(number, r), ANSWER_WAIT)
        except ASK_ERRORS as error:
            return CommandAnswer(f"The topics could not be listed: {error}", "error")
        return CommandAnswer(topic_table(topics, memory.directory, self._clock.now_ms()))

    async def _extract(self, memory: Memory, event: Command) -> CommandAnswer:
        async def work(seconds: float) -> CommandAnswer:
            number, level = memory.generations.current, event.context.thinking_level
            done: ExtractionDone = await memory.extractor.ask(
                lambda reply: ExtractionWanted(number, reply, "manual", event.context.history, level), seconds
            )
            return extraction_outcome(done, memory.directory)

        return await self._order("extraction", work, wait=event.wait)

    async def _dream(self, memory: Memory, event: Command) -> CommandAnswer:
        if not memory.config.dream.enabled:
            return CommandAnswer(DISABLED, "warning")

        async def work(seconds: float) -> CommandAnswer:
            number, level = memory.generations.current, event.context.thinking_level
            done: DreamDone = await memory.dream.ask(lambda reply: DreamWanted(number, reply, level), seconds)
            return dream_outcome(done, memory.directory)

        return await self._order("dream", work, wait=event.wait)

    async def _order(
        self, what: str, work: Callable[[float], Awaitable[CommandAnswer]], *, wait: bool
    ) -> CommandAnswer:
        """Have work done: wait where nothing could be shown later, else report when it is done (CMD-4)."""
        if wait:
            return await _outcome(what, work, WORK_WAIT)
        self._group.start_soon(self._report, what, work)
        return CommandAnswer(f"The {what} has been accepted; its outcome will be reported here.")

    async def _report(self, what: str, work: Callable[[float], Awaitable[CommandAnswer]]) -> None:
        answer = await _outcome(what, work, LONG_WAIT)
        await self._life.notifier.tell(answer.level, answer.text)


async def _outcome(
    what: str, work: Callable[[float], Awaitable[CommandAnswer]], seconds: float
) -> CommandAnswer:
    try:
        return await work(seconds)
    except ASK_ERRORS as error:
        return CommandAnswer(f"The {what} gave no outcome: {error}", "warning")


def _usage(given: str) -> str:
    known = ", ".join(_KNOWN)
    if not given:
        return f"Usage: /memory followed by one of: {known}."
    return f"/memory {given} is not a command of memory. Known are: {known}."
