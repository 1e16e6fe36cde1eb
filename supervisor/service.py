"""MemoryService: what a host embeds (HOST-1).

A host opens one service for each session, calls `initialize`, and then one method for each event. Every
method keeps its own bound and none raises into the host but `initialize`: a memory that is off, late or
broken answers with nothing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from pi_project_memory.actors.background_messages import TurnsSettled
from pi_project_memory.actors.core.config import ThinkingLevel
from pi_project_memory.actors.core.sanitize import sanitize
from pi_project_memory.actors.mailbox import Reply
from pi_project_memory.actors.messages import (
    BranchChanged,
    ChangesDue,
    ChangesWanted,
    PromptSubmitted,
    Section,
    SectionOutdated,
    SectionWanted,
    TurnAborted,
    UserMessageSeen,
)
from pi_project_memory.actors.ports.host import HiddenMessage
from pi_project_memory.actors.ports.trace import in_turn
from pi_project_memory.supervisor.asking import answer_or_none
from pi_project_memory.supervisor.host.handshake import answer_handshake
from pi_project_memory.supervisor.host.protocol import (
    SECTION_NAME,
    AgentSettled,
    AgentStartAnswer,
    BeforeAgentStart,
    BeforeCompact,
    Command,
    CommandAnswer,
    Complete,
    Completions,
    Empty,
    HistoryChanged,
    Host,
    Initialize,
    Initialized,
    PromptSection,
    RunContext,
    Shutdown,
    ToolResult,
    ToolResultAnswer,
    UserMessage,
)
from pi_project_memory.supervisor.lifecycle import Lifecycle
from pi_project_memory.supervisor.memory import Memory
from pi_project_memory.supervisor.setup import Environment
from pi_project_memory.supervisor.shutdown import finish_extraction, finish_maintenance

RECALL_WAIT = 2.0
"""Seconds that a normal request waits for its recall at most (RCL-2)."""

COMMAND_WAIT = 5.0
"""Seconds that a command waits for the start-up and for an actor's answer."""

BACKGROUND_DELAY = 0.3
"""Seconds behind an answer after which the actors of background work are made."""

NOTICE_WAIT = 0.1
"""Seconds beyond the recall that a request waits for a notice of outside changes."""

TOOL_RESULT_WAIT = 0.8
"""Seconds that a tool's result of the main agent is held back."""

_ANSWER_MARGIN = 0.3
"""Seconds left for an answer to reach a host that has named its own bound."""


class MemoryService:
    """One session's memory, from the handshake to the shutdown."""

    def __init__(self, host: Host, environment: Environment, group: TaskGroup) -> None:
        self._host = host
        self._environment = environment
        self._group = group
        self._turns = itertools.count(1)
        self._turn = ""
        self._life = Lifecycle(host, environment, group)
        self._level: ThinkingLevel | None = None
        self._cwd = "/"
        self._unheard_turns: int | None = None

    async def initialize(self, start: Initialize, log_file: str | None = None) -> Initialized:
        """Answer the handshake; the set-up goes on behind it. Raises VersionMismatchError."""
        answer = answer_handshake(start, log_file)
        self._level = start.thinking_level
        self._cwd = start.cwd
        self._life.log_file = log_file
        self._life.greet(start)
        self._group.start_soon(self._begin, start)
        return answer

    async def _begin(self, start: Initialize) -> None:
        await self._life.begin(start)
        memory = self._life.memory
        if memory is not None and self._unheard_turns is not None:
            with in_turn(self._turn):
                self._settle(memory, self._unheard_turns)

    async def before_agent_start(self, event: BeforeAgentStart) -> AgentStartAnswer:
        """Return the section for this run, and what else the model should see if it comes in two seconds."""
        self._heed(event.context)
        self._turn = f"t{next(self._turns)}"
        with in_turn(self._turn):
            try:
                return await self._begin_run(event)
            finally:
                # Well behind the answer: loading the rest would hold up what follows it.
                asyncio.get_running_loop().call_later(BACKGROUND_DELAY, self._begin_background)

    def _begin_background(self) -> None:
        if self._life.memory is not None:
            self._life.memory.background.set()

    async def _begin_run(self, event: BeforeAgentStart) -> AgentStartAnswer:
        started = anyio.current_time()
        until = started + min(RECALL_WAIT, event.within_ms / 1000 - _ANSWER_MARGIN)
        memory = await self._life.ready(until - anyio.current_time())
        if memory is None:
            return AgentStartAnswer(pending=self._life.off is None)
        recall: Reply[HiddenMessage | None] = Reply()
        if event.message_type == "user" and event.prompt is not None:
            memory.tell(memory.prefetch, self._submitted(memory, event.prompt, recall))
        else:
            recall.send(None)
        try:
            answer = await self._start_answer(memory, recall, until)
        finally:
            recall.abandon()
        self._environment.trace.event(
            "run_begun",
            message_type=event.message_type,
            section=answer.section is not None,
            message=answer.message.custom_type if answer.message else "",
            ms=round((anyio.current_time() - started) * 1000, 1),
        )
        return answer

    async def _start_answer(
        self, memory: Memory, recall: Reply[HiddenMessage | None], until: float
    ) -> AgentStartAnswer:
        """Collect what the run begins with until the time `until` of the event loop's clock."""
        number = memory.generations.current
        loaded: Awaitable[Section] = memory.index.ask(
            lambda reply: SectionWanted(number, reply), until - anyio.current_time()
        )
        section = await answer_or_none(loaded)
        message = await answer_or_none(recall.wait(until - anyio.current_time()))
        # Asked last and from memory that is at hand: a notice that was taken is told, or lost for good.
        changes: Awaitable[HiddenMessage | None] = memory.index.ask(
            lambda reply: ChangesWanted(number, reply), NOTICE_WAIT
        )
        notice = await answer_or_none(changes)
        return AgentStartAnswer(
            section=PromptSection(SECTION_NAME, section.text) if section else None,
            message=joined(notice, message),
            pending=section is None,
        )

    def user_message(self, event: UserMessage) -> None:
        """Note that a user message has entered the session."""
        self._life.follow(event.history)
        if self._life.memory is not None:
            with in_turn(self._turn):
                number = self._life.memory.generations.current
                self._life.memory.tell(
                    self._life.memory.prefetch, UserMessageSeen(number, event.text, self._level)
                )

    async def tool_result(self, event: ToolResult) -> ToolResultAnswer:
        """Return what the main agent should read behind a tool's result: a reminder or a finding."""
        memory = self._life.memory
        from pi_project_memory.supervisor.tool_events import tool_used

        used = None if memory is None else tool_used(event, self._cwd)
        if memory is None or used is None:
            return ToolResultAnswer()
        number = memory.generations.current
        answer: Awaitable[str | None] = memory.index.ask(
            lambda reply: replace(used, generation=number, turn=self._turn, reply=reply), TOOL_RESULT_WAIT
        )
        return ToolResultAnswer(await answer_or_none(answer))

    def agent_settled(self, event: AgentSettled) -> None:
        """Note that a run has ended for good."""
        self._heed(event.context)
        memory, turns = self._life.memory, int(not event.aborted)
        if memory is None:
            self._unheard_turns = (self._unheard_turns or 0) + turns
            return
        with in_turn(self._turn):
            self._environment.trace.event("run_settled", aborted=event.aborted)
            if event.aborted:
                memory.tell(memory.prefetch, TurnAborted(memory.generations.current))
            self._settle(memory, turns)

    def _settle(self, memory: Memory, turns: int) -> None:
        if memory.has_background:
            memory.background.set()
        number = memory.generations.current
        memory.tell(memory.index, ChangesDue(number))
        memory.tell(memory.extractor, TurnsSettled(number, memory.head, turns, self._level))
        memory.tell(memory.dream, TurnsSettled(number, memory.head, turns, self._level))

    def history_changed(self, event: HistoryChanged) -> None:
        """Follow the session to another branch, or to what is left of this one."""
        self._life.follow(event.history)
        memory = self._life.memory
        if memory is None:
            return
        number, moved = memory.generations.current, event.reason == "tree"
        memory.tell(memory.index, SectionOutdated(number))
        memory.tell(memory.prefetch, BranchChanged(number, event.history, moved))
        memory.tell(memory.extractor, BranchChanged(number, event.history, moved))

    async def before_compact(self, event: BeforeCompact) -> Empty:
        """Answer when everything said so far has been extracted, after a minute at the latest (EXT-4)."""
        self._heed(event.context)
        if self._life.memory is not None:
            with in_turn(self._turn):
                await finish_extraction(self._life.memory, "compaction", self._level)
        return Empty()

    async def command(self, event: Command) -> CommandAnswer:
        """Answer `/memory`."""
        self._heed(event.context)
        await self._life.ready(COMMAND_WAIT)
        self._begin_background()
        from pi_project_memory.supervisor.commands import Commands

        answer = await Commands(self._life, self._environment.clock, self._group).answer(event)
        return replace(answer, text=sanitize(answer.text))

    def complete(self, event: Complete) -> Completions:
        """Return what the typed argument can become."""
        from pi_project_memory.supervisor.commands import Commands

        return Commands.completions(event.prefix)

    async def shutdown(self, event: Shutdown) -> Empty:
        """End the session's memory: no new work, what is left within a minute, then abort and release."""
        reason = f"the session ends ({event.reason})"
        memory = self._life.retire(reason)
        if memory is not None:
            with in_turn(self._turn):
                await finish_maintenance(memory, self._level)
        await self._life.close(reason)
        return Empty()

    async def host_gone(self) -> None:
        """End the memory because the host has vanished and can answer nothing more (HOST-11)."""
        await self._life.close("the host is gone")

    def log_lost(self, problem: str) -> None:
        """Tell the user that the session's log cannot be written; nothing else depends on it."""
        self._life.log_file = None
        text = f"Project memory: its log cannot be written ({problem}). The session goes on without one."
        self._group.start_soon(self._life.notifier.tell, "warning", text)

    def _heed(self, context: RunContext) -> None:
        self._level = context.thinking_level
        self._life.heed(context)

    def _submitted(self, memory: Memory, prompt: str, reply: Reply[HiddenMessage | None]) -> PromptSubmitted:
        return PromptSubmitted(memory.generations.current, reply, prompt, self._level)


@asynccontextmanager
async def open_service(host: Host, environment: Environment) -> AsyncIterator[MemoryService]:
    """Run a service inside the block; leaving it ends the memory."""
    async with anyio.create_task_group() as group:
        service = MemoryService(host, environment, group)
        try:
            yield service
        finally:
            with anyio.CancelScope(shield=True):
                await service.host_gone()
            group.cancel_scope.cancel()


def joined(notice: HiddenMessage | None, recall: HiddenMessage | None) -> HiddenMessage | None:
    """Return one message for a notice and a recall, since a run can begin with one alone."""
    if notice is None or recall is None:
        return recall or notice
    details = {**(recall.details or {}), **(notice.details or {})}
    return HiddenMessage(recall.custom_type, f"{notice.content}\n\n{recall.content}", details)
