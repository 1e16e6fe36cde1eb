"""DreamActor: tidies up the memory from time to time, beside the session (DRM-1 to DRM-5).

`core/dream_gate.py` decides whether a run begins. The cheap gates are judged here after each turn; a job of
its own counts the sessions and does the run. What an older job says is not heard.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

import anyio

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.background_messages import (
    Activity,
    DreamDone,
    DreamDrainWanted,
    DreamEnded,
    DreamMessage,
    DreamStatus,
    DreamStatusWanted,
    DreamTurn,
    DreamWanted,
    TurnsSettled,
)
from pi_project_memory.actors.consolidation import Consolidation
from pi_project_memory.actors.core.config import Config, ThinkingLevel
from pi_project_memory.actors.core.dream_gate import Cause, Closed, Decision, Facts, Find, Past, decide
from pi_project_memory.actors.core.dream_state import DreamState
from pi_project_memory.actors.extraction import Standing
from pi_project_memory.actors.mailbox import Mailbox, Reply
from pi_project_memory.actors.messages import Reconfigured
from pi_project_memory.actors.ports.activity import ActivitySink
from pi_project_memory.actors.ports.dream_state import Damaged
from pi_project_memory.actors.ports.sessions import SessionSeen
from pi_project_memory.actors.ports.trace import Trace
from pi_project_memory.actors.scopes import AbortScope, Generations
from pi_project_memory.actors.subagent.aftermath import Aftermath
from pi_project_memory.actors.subagent.attempt import Attempt, attempt

ENDING = "the session is ending"

_NOT_BEGUN = frozenset({"skipped", "busy"})
_NUMBERS = itertools.count(1)
"""Counts jobs over all lives: what one of an earlier life says late is taken for nobody else's."""


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    cause: Cause
    scope: AbortScope
    since: float


class DreamActor(Actor[DreamMessage]):
    """Owns what this process remembers of its scans, and the one dream that may be under way."""

    name = "dream"

    def __init__(
        self,
        mailbox: Mailbox[DreamMessage],
        generations: Generations,
        trace: Trace,
        *,
        consolidation: Consolidation,
        aftermath: Aftermath,
        activity: ActivitySink,
        config: Config,
    ) -> None:
        super().__init__(mailbox, generations, trace)
        self._consolidation = consolidation
        self._aftermath = aftermath
        self._activity = activity
        self._config = config
        self._level: ThinkingLevel | None = None
        self._past = Past()
        self._job: _Job | None = None
        self._turn = 0
        self._last: Attempt | None = None
        self._waiters: list[Reply[DreamDone]] = []
        self._drained: list[Reply[None]] = []

    async def handle(self, message: DreamMessage) -> None:
        """Act on one message."""
        match message:
            case TurnsSettled():
                self._level = message.session_level
                if message.turns:
                    await self._consider("settled")
            case DreamWanted():
                self._level = message.session_level
                self._waiters.append(message.reply)
                await self._consider("manual")
            case DreamTurn():
                self._note_turn(message)
            case DreamEnded():
                await self._finish(message)
            case DreamDrainWanted():
                self._drained.append(message.reply)
                if self._job is None:
                    self._rest(DreamDone(None, ENDING))
            case Reconfigured():
                self._reconfigure(message.config)
            case DreamStatusWanted():
                message.reply.send(await self._status())
            case _:
                assert_never(message)

    def dropped(self, message: DreamMessage) -> None:
        """Forget a job of an older generation."""
        if not isinstance(message, DreamEnded):
            return
        self._aftermath.on_lost()
        if self._job and self._job.number == message.job:
            self._rest(DreamDone(message.attempt))

    def abandon(self, error: Exception) -> None:
        """Tell whoever waits for a dream that none will end."""
        self._activity.end("dream")
        for waiter in self._waiters:
            waiter.fail(error)
        for asker in self._drained:
            asker.fail(error)
        self._waiters.clear()

    async def _consider(self, cause: Cause) -> None:
        """Judge what is cheap to judge, and begin a job when only the sessions are left to be counted."""
        if self._job is not None:
            return
        if self._drained:
            self._rest(DreamDone(None, ENDING))
            return
        facts, decision = await self._judge(cause)
        if isinstance(decision, Closed):
            self.trace.event("gate_closed", actor=self.name, gate=decision.gate, cause=cause)
            self._rest(DreamDone(None, decision.reason))
        else:
            self._begin(cause, facts)

    async def _judge(self, cause: Cause) -> tuple[Facts, Decision]:
        facts = Facts(self._consolidation.clock.now_ms(), anyio.current_time(), self._past)
        decision = decide(facts, self._config.dream, cause)
        if decision != Find("state"):
            return facts, decision
        state = await self._consolidation.states.read()
        if isinstance(state, Damaged):
            await self._stop(state)
            return facts, Closed("state", str(state))
        self._past = replace(self._past, problem="")
        facts = replace(facts, past=self._past, state=state)
        return facts, decide(facts, self._config.dream, cause)

    async def _stop(self, damaged: Damaged) -> None:
        """Begin no automatic dream any more, and tell the reason once (DRM-5)."""
        told, self._past = self._past.problem, replace(self._past, problem=str(damaged))
        if told != self._past.problem:
            await self._aftermath.notifier.tell("error", f"Project memory: {self._past.problem}")

    def _begin(self, cause: Cause, facts: Facts) -> None:
        number = next(_NUMBERS)
        scope = self.generations.scope.child(f"dream {number}")
        self._job, self._turn = _Job(number, cause, scope, facts.now), 0
        self._past = replace(self._past, scanned_at=facts.now)
        self.trace.event("dream_considered", actor=self.name, job=number, cause=cause)
        self.start_job(partial(self._run, self._job, facts, self.generations.current))

    async def _run(self, job: _Job, facts: Facts, generation: int) -> None:
        others: Sequence[SessionSeen] = ()

        async def work() -> Attempt:
            nonlocal others
            since = facts.state.last_dream_at if facts.state is not None else None
            others = await self._consolidation.sessions.updated_since(since)
            standing = Standing(
                job.scope.check,
                lambda turn: self.tell_itself(DreamTurn(generation, job.number, turn)),
                self._aftermath.on_touch,
            )
            return await self._consolidation.run(
                job.cause, facts, others, self._config, self._level, standing
            )

        outcome = await attempt(job.scope, work)
        self.tell_itself(DreamEnded(generation, job.number, outcome, len(others)))

    def _note_turn(self, turn: DreamTurn) -> None:
        if self._job is None or self._job.number != turn.job:
            return
        if not self._turn:
            self._activity.begin("dream", self._config.dream.max_turns)
        self._turn = turn.number
        self._activity.turn("dream", turn.number)

    async def _finish(self, ended: DreamEnded) -> None:
        job = self._job
        if job is None or job.number != ended.job:
            self.trace_stale(ended, "it was stopped before")
            self._aftermath.on_lost()
            return
        self._past = self._past.after(ended.attempt.ending, ended.others, anyio.current_time())
        if ended.attempt.ending in _NOT_BEGUN:
            self.trace.event("dream_not_begun", actor=self.name, job=job.number, why=ended.attempt.ending)
        else:
            self._last = ended.attempt
            await self._aftermath.follow(ended.attempt)
        if ended.attempt.ending == "skipped" and self._waiters:
            # The user asked while an automatic look was under way; the gate that ended it is not theirs.
            self._job = None
            await self._consider("manual")
        else:
            self._rest(DreamDone(ended.attempt))

    def _reconfigure(self, config: Config) -> None:
        self._config = config
        self._past = replace(self._past, failures=0, problem="")
        if self._job is not None:
            reason = "trust or configuration has changed"
            self._job.scope.abort(reason)
            self._rest(DreamDone(Attempt("aborted", note=reason)))

    def _rest(self, done: DreamDone) -> None:
        """Have no job any more, and tell whoever waited for that."""
        self._job = None
        self._activity.end("dream")
        for waiter in self._waiters:
            waiter.send(done)
        self._waiters.clear()
        for asker in self._drained:  # kept: as long as somebody has asked, nothing begins any more
            asker.send(None)

    async def _status(self) -> DreamStatus:
        state = await self._consolidation.states.read()
        problem = str(state) if isinstance(state, Damaged) else self._past.problem
        known = DreamState() if isinstance(state, Damaged) else state
        past = replace(self._past, problem=problem)
        facts = Facts(self._consolidation.clock.now_ms(), anyio.current_time(), past, known)
        decision = decide(facts, self._config.dream, "settled")
        return DreamStatus(
            activity=self._under_way(),
            last=self._last,
            last_dream_at=known.recorded_at,
            ahead_of_clock=known.ahead_of_clock,
            problem=problem,
            closed=decision if isinstance(decision, Closed) else None,
        )

    def _under_way(self) -> Activity | None:
        """Return the run under way; a job that only looks at the gates is none."""
        if self._job is None or not self._turn:
            return None
        return Activity(self._turn, self._config.dream.max_turns, self._job.since)
