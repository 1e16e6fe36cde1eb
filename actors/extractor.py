"""ExtractorActor: reads what was said and keeps what is worth keeping, beside the session (EXT-1 to EXT-8).

`core/cursor.py` decides when a run begins and where the cursor goes; this actor performs its effects. A run
is a job with a number; what an older job says is not heard.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import anyio

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.background_messages import (
    Activity,
    ExtractionDone,
    ExtractionEnded,
    ExtractionTurn,
    ExtractionWanted,
    ExtractorMessage,
    ExtractorStatus,
    ExtractorStatusWanted,
    IdleTimeUp,
    TurnsSettled,
)
from pi_project_memory.actors.core.config import Config, ThinkingLevel
from pi_project_memory.actors.core.cursor import (
    Abort,
    AnswerWaiters,
    ArmIdle,
    Asked,
    Begin,
    BranchMoved,
    Cause,
    CursorState,
    DisarmIdle,
    Effect,
    Ended,
    Event,
    IdleElapsed,
    Invalidated,
    KeepCursor,
    Policy,
    Settled,
    decide,
)
from pi_project_memory.actors.extraction import Extraction, Standing
from pi_project_memory.actors.mailbox import Mailbox, Reply
from pi_project_memory.actors.messages import BranchChanged, Reconfigured
from pi_project_memory.actors.ports.activity import ActivitySink
from pi_project_memory.actors.ports.host import HistoryHead, HostError, JsonObject
from pi_project_memory.actors.ports.trace import TURN, Trace, fault, in_turn
from pi_project_memory.actors.scopes import AbortedError, AbortScope, Generations
from pi_project_memory.actors.subagent.aftermath import Aftermath
from pi_project_memory.actors.subagent.attempt import Attempt, attempt

CURSOR_TYPE = "project-memory-cursor"

_NUMBERS = itertools.count(1)
"""Counts jobs and timers over all lives: what one of an earlier life says late is taken for nobody else's."""


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    cause: Cause
    scope: AbortScope
    since: float


class ExtractorActor(Actor[ExtractorMessage]):
    """Owns the cursor and the one extraction that may be under way."""

    name = "extractor"

    def __init__(
        self,
        mailbox: Mailbox[ExtractorMessage],
        generations: Generations,
        trace: Trace,
        *,
        extraction: Extraction,
        aftermath: Aftermath,
        activity: ActivitySink,
        config: Config,
        head: HistoryHead,
    ) -> None:
        super().__init__(mailbox, generations, trace)
        self._extraction = extraction
        self._aftermath = aftermath
        self._activity = activity
        self._config = config
        self._head = head
        self._level: ThinkingLevel | None = None
        self._settled_turn = ""
        self._state = CursorState()
        self._job: _Job | None = None
        self._turn = 0
        self._timer: AbortScope | None = None
        self._timer_number = 0
        self._waiters: list[Reply[ExtractionDone]] = []
        self._last: Attempt | None = None
        self._last_cause: Cause | None = None
        self._through = ""

    async def rebuild(self) -> None:
        """Find the branch's cursor; a branch that cannot be read counts as unprocessed."""
        self._state = CursorState(cursor=await self._kept_cursor(), end=self._head.length)

    async def handle(self, message: ExtractorMessage) -> None:
        """Act on one message."""
        match message:
            case TurnsSettled():
                await self._follow(message.head, message.session_level)
                await self._step(Settled(message.head.length, message.turns))
            case ExtractionWanted():
                await self._follow(message.head, message.session_level)
                self._waiters.append(message.reply)
                await self._step(Asked(message.cause, message.head.length))
            case IdleTimeUp():
                if message.timer == self._timer_number and self._timer is not None:
                    await self._step(IdleElapsed())
            case ExtractionTurn():
                self._note_turn(message)
            case ExtractionEnded():
                await self._finish(message)
            case BranchChanged(head=head, moved=True):
                await self._turn_to(head)
            case BranchChanged(head=head):
                self._head = head  # the same entries, of which the model sees less
            case Reconfigured():
                self._config = message.config
                await self._step(Invalidated())
            case ExtractorStatusWanted():
                message.reply.send(self._status())
            case _:
                assert_never(message)

    def dropped(self, message: ExtractorMessage) -> None:
        """Forget a job of an older generation."""
        if not isinstance(message, ExtractionEnded):
            return
        self._aftermath.on_lost()
        if self._job and self._job.number == message.job:
            self._job = None
            self._activity.end("extractor")

    def abandon(self, error: Exception) -> None:
        """Tell whoever waits for an extraction that none will end."""
        self._activity.end("extractor")
        for waiter in self._waiters:
            waiter.fail(error)
        self._waiters.clear()

    @property
    def _policy(self) -> Policy:
        extraction = self._config.extraction
        return Policy(extraction.enabled, extraction.every_n_turns, extraction.idle_flush_seconds)

    async def _follow(self, head: HistoryHead, level: ThinkingLevel | None) -> None:
        await self._turn_to(head)
        self._level = level
        # A run that follows another belongs to the turn that made it necessary, not to the first one's.
        self._settled_turn = TURN.get() or self._settled_turn

    async def _step(self, event: Event) -> None:
        """Let the machine decide, and perform its effects in order."""
        self._state, effects = decide(self._state, event, self._policy)
        for effect in effects:
            await self._perform(effect)

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Begin():
                with in_turn(self._settled_turn):
                    self._begin(effect)
            case Abort(reason):
                self._abort(reason)
                self._last = Attempt("aborted", note=reason)
            case KeepCursor():
                await self._keep_cursor()
            case ArmIdle(seconds):
                self._arm(seconds)
            case DisarmIdle():
                self._disarm()
            case AnswerWaiters(how):
                self._answer_waiters(ExtractionDone(how, self._last if how else None))
            case _:
                assert_never(effect)

    def _begin(self, begin: Begin) -> None:
        number = next(_NUMBERS)
        scope = self.generations.scope.child(f"extraction {number}")
        self._job = _Job(number, begin.cause, scope, anyio.current_time())
        self._turn, self._last_cause = 0, begin.cause
        self.trace.event(
            "extraction_begun",
            actor=self.name,
            job=number,
            cause=begin.cause,
            entries=begin.stop - begin.start,
        )
        self.start_job(partial(self._run, self._job, begin, self.generations.current))

    async def _run(self, job: _Job, begin: Begin, generation: int) -> None:
        through = ""

        def check() -> None:
            job.scope.check()
            if not self.generations.is_current(generation):
                raise AbortedError("a new generation began")

        async def work() -> Attempt:
            nonlocal through
            standing = Standing(
                check,
                lambda number: self.tell_itself(ExtractionTurn(generation, job.number, number)),
                self._aftermath.on_touch,
            )
            result, through = await self._extraction.run(
                begin, self._head, self._config, self._level, standing
            )
            return result

        outcome = await attempt(job.scope, work)
        self.tell_itself(ExtractionEnded(generation, job.number, outcome, through))

    def _note_turn(self, turn: ExtractionTurn) -> None:
        """Show a run from its first turn on: most of those that the gate ends would only flicker."""
        if self._job is None or self._job.number != turn.job:
            return
        if not self._turn:
            self._activity.begin("extractor", self._config.extraction.max_turns)
        self._turn = turn.number
        self._activity.turn("extractor", turn.number)

    async def _finish(self, ended: ExtractionEnded) -> None:
        if self._job is None or self._job.number != ended.job:
            self.trace_stale(ended, "it was stopped before")
            self._aftermath.on_lost()
            return
        self._job, self._last, self._through = None, ended.attempt, ended.through
        self._activity.end("extractor")
        await self._aftermath.follow(ended.attempt)
        # The host may have taken its time: a generation that is over by now moves no cursor.
        if self.generations.is_current(ended.generation):
            await self._step(Ended(ended.attempt.ending))

    async def _turn_to(self, head: HistoryHead) -> None:
        """Follow the session; under another handle the entries are others, and are counted anew."""
        moved = head.handle != self._head.handle
        self._head = head
        if moved:
            self._abort("another branch is active")  # before the host is asked for the new one
            await self._step(BranchMoved(await self._kept_cursor(), head.length))

    async def _kept_cursor(self) -> int:
        """Return how many entries of the branch lie before its newest cursor."""
        if not self._head.length:
            return 0
        try:
            entries = await self._extraction.workshop.host.read_history(
                self._head.handle, 0, self._head.length, ["custom"]
            )
        except HostError as error:
            self.trace.event("branch_unread", actor=self.name, **fault(error))
            return 0
        return find_cursor(entries)

    async def _keep_cursor(self) -> None:
        try:
            await self._extraction.workshop.host.append_entry(CURSOR_TYPE, {"through": self._through})
        except HostError as error:
            self.trace.event("host_refused", actor=self.name, **fault(error))

    def _abort(self, reason: str) -> None:
        if self._job is not None:
            self._job.scope.abort(reason)
            self.trace.event("extraction_stopped", actor=self.name, job=self._job.number, reason=reason)
            self._job = None
            self._activity.end("extractor")

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer_number = next(_NUMBERS)
        self._timer = self.generations.scope.child(f"idle timer {self._timer_number}")
        self.start_job(partial(self._wait_idle, self._timer, self._timer_number, seconds))

    async def _wait_idle(self, scope: AbortScope, number: int, seconds: float) -> None:
        generation = self.generations.current
        with suppress(AbortedError), scope.guard():
            await anyio.sleep(seconds)
            self.tell_itself(IdleTimeUp(generation, number))
        scope.close()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.abort("the idle timer is stopped")
            self._timer = None

    def _answer_waiters(self, done: ExtractionDone) -> None:
        for waiter in self._waiters:
            waiter.send(done)
        self._waiters.clear()

    def _status(self) -> ExtractorStatus:
        job = self._job
        activity = Activity(self._turn, self._config.extraction.max_turns, job.since) if job else None
        return ExtractorStatus(activity, self._state.end - self._state.cursor, self._last_cause, self._last)


def find_cursor(entries: Sequence[JsonObject]) -> int:
    """Return how many entries the newest cursor on a branch has dealt with; 0 without one (EXT-2).

    A cursor that names no entry of this branch was written while the branch moved, and is passed over.
    """
    ends = {str(entry.get("id")): number for number, entry in enumerate(entries, start=1)}
    for entry in reversed(entries):
        match entry:
            case {
                "type": "custom",
                "customType": "project-memory-cursor",
                "data": {"through": str(through)},
            } if through in ends:
                return ends[through]
    return 0
