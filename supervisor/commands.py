"""`/memory` and its subcommands (CMD-1, CMD-2, CMD-4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from anyio.abc import TaskGroup

from pi_project_memory.actors.background_messages import (
    DreamDone,
    DreamWanted,
    ExtractionDone,
    ExtractionWanted,
)
from pi_project_memory.actors.core.dream_gate import DISABLED
from pi_project_memory.actors.core.recall import shortened
from pi_project_memory.actors.mailbox import AskTimeoutError
from pi_project_memory.actors.messages import TopicList, TopicsWanted
from pi_project_memory.actors.ports.clock import Clock
from pi_project_memory.supervisor.asking import ASK_ERRORS
from pi_project_memory.supervisor.facts import gather_facts
from pi_project_memory.supervisor.host.protocol import Command, CommandAnswer, Completion, Completions
from pi_project_memory.supervisor.lifecycle import Lifecycle
from pi_project_memory.supervisor.memory import Memory
from pi_project_memory.supervisor.outcomes import dream_outcome, extraction_outcome
from pi_project_memory.supervisor.reports import status_text
from pi_project_memory.supervisor.topic_table import topic_table
from pi_project_memory.supervisor.wording import elapsed

ANSWER_WAIT = 5.0
"""Seconds that a command waits for one actor."""

WORK_WAIT = 60.0
"""Seconds that a command waits for the work it has ordered where nothing can be shown later."""

LONG_WAIT = 3600.0
"""Seconds after which work whose outcome was promised is called lost."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One word behind `/memory`, and what completion says of it."""

    name: str
    description: str


SUBCOMMANDS = (
    Subcommand("status", "Show whether memory is on, where it is, and how it stands"),
    Subcommand("list", "List the topics, newest first"),
    Subcommand("extract", "Save now what is worth keeping of this conversation"),
    Subcommand("dream", "Tidy the memory up now: merge, correct, prune"),
    Subcommand("reload-config", "Read config.json again and let it take effect"),
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
        name, *more = event.arguments.split() or [""]
        if name not in _KNOWN or more:
            return CommandAnswer(_usage(name, " ".join(more)), "warning" if name else "info")
        if name == "status":
            return CommandAnswer(status_text(await gather_facts(self._life, event.context.thinking_level)))
        if name == "reload-config":
            return await self._life.reload()
        memory = self._life.memory
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
        """Return the subcommands that begin with `prefix`; one that is complete needs no menu."""
        typed = prefix.lstrip()
        fitting = [sub for sub in SUBCOMMANDS if sub.name.startswith(typed) and sub.name != typed]
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
    except AskTimeoutError:
        text = f"The {what} is still at work after {elapsed(seconds)}, and its outcome will not be shown."
    except ASK_ERRORS as error:
        text = f"The {what} was stopped before it had an outcome: {error}."
    return CommandAnswer(text, "warning")


def _usage(name: str, more: str) -> str:
    """Return what can follow `/memory`, after what was wrong with what did."""
    lines = [f"  {subcommand.name:<14} {subcommand.description}" for subcommand in SUBCOMMANDS]
    if name in _KNOWN:
        return f"/memory {name} takes nothing more, and nothing was done; it was given {shortened(more)!r}."
    wrong = f"/memory knows no {shortened(name)!r}. " if name else ""
    return "\n".join([f"{wrong}What /memory can do:", *lines])
