"""One consolidation: the last gate, the model, the lock, the attempt time and the run (DRM-1, DRM-2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from pi_project_memory.actors.core.config import Config, ThinkingLevel
from pi_project_memory.actors.core.dream_gate import Cause, Closed, Facts, decide
from pi_project_memory.actors.core.dream_state import DreamState
from pi_project_memory.actors.core.jstext import iso_from_ms
from pi_project_memory.actors.core.lock_rules import DREAM_LOCK, Busy
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.extraction import Standing, local_date
from pi_project_memory.actors.ports.clock import Clock
from pi_project_memory.actors.ports.dream_state import Damaged, DreamStates, Mismatch, Swapped
from pi_project_memory.actors.ports.host import Models
from pi_project_memory.actors.ports.locks import LockHandle, Locks
from pi_project_memory.actors.ports.sessions import Sessions, SessionSeen
from pi_project_memory.actors.ports.trace import fault
from pi_project_memory.actors.prompts import fill, prompt
from pi_project_memory.actors.roles import resolve_role
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent.attempt import Attempt
from pi_project_memory.actors.subagent.run import Plan, Report, Workshop, execute

MOST_LISTED = 100
"""Sessions that a run is told of by id; of more, only the number."""

ELSEWHERE = "another session is tidying up this memory, or has just done so"


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Runs consolidations; keeps nothing between them. `rules` gives the memory section's text."""

    workshop: Workshop
    models: Models
    locks: Locks
    states: DreamStates
    sessions: Sessions
    clock: Clock
    rules: Callable[[], Awaitable[str]]

    async def run(
        self,
        cause: Cause,
        facts: Facts,
        others: Sequence[SessionSeen],
        config: Config,
        level: ThinkingLevel | None,
        standing: Standing,
    ) -> Attempt:
        """Return how it ended; `facts` hold the state, `others` are the sessions changed since.

        Raises what `attempt.FAILURES` lists, and AbortedError.
        """
        decision = decide(replace(facts, others=len(others)), config.dream, cause)
        if isinstance(decision, Closed):
            return Attempt("skipped", note=decision.reason)
        model, effective = await resolve_role(self.workshop.host, "dream", config.models.dream, level)
        held = await self.locks.acquire(DREAM_LOCK)
        if isinstance(held, Busy):
            return Attempt("busy", note=ELSEWHERE)
        async with held:
            standing.check()
            plan = Plan(
                role="dream",
                model=model,
                level=effective,
                max_tokens=config.models.dream.max_tokens,
                max_turns=config.dream.max_turns,
                task=self._task(others, config),
                rules=await self.rules(),
                conversation=lambda _key: (),
                check=standing.check,
                on_turn=standing.on_turn,
                on_touch=standing.on_touch,
                reads_sessions=True,
            )
            return await self._attempt(plan, held, facts.state or DreamState())

    async def _attempt(self, plan: Plan, held: LockHandle, before: DreamState) -> Attempt:
        """Record the attempt, then run; another process that recorded one meanwhile was first."""
        now = self.clock.now_ms()
        match await self.states.compare_and_swap(before.recorded_at, now):
            case Swapped():
                return Attempt("returned", await self._fork(plan, held, now, before))
            case Damaged() as damaged:
                return Attempt("busy", note=str(damaged))
            case Mismatch() | Busy():
                return Attempt("busy", note=ELSEWHERE)

    async def _fork(self, plan: Plan, held: LockHandle, now: int, before: DreamState) -> Report:
        """Run to the end; a run that throws without having been aborted counts as no attempt."""
        try:
            return await execute(self.workshop, plan, self.models, held)
        except AbortedError:
            raise
        except Exception as error:
            outcome = await self._roll_back(plan, now, before)
            self.workshop.trace.event("dream_threw", actor="dream", rollback=outcome, **fault(error))
            raise

    async def _roll_back(self, plan: Plan, now: int, before: DreamState) -> str:
        """Put the time before the attempt back, unless somebody else's stands there; say what came of it."""
        try:
            plan.check()
            return type(await self.states.compare_and_swap(now, before.recorded_at)).__name__
        except (AbortedError, OSError) as error:
            return type(error).__name__

    def _task(self, others: Sequence[SessionSeen], config: Config) -> str:
        directory = self.workshop.session_dir
        return fill(
            prompt("dream"),
            session_directory=sanitize_line(str(directory)) if directory else "none",
            sessions=listed(others),
            max_turns=str(config.dream.max_turns),
            today=local_date(self.clock),
        )


def listed(others: Sequence[SessionSeen]) -> str:
    """Return the sessions as a list for the prompt, a line for each with the day of its last change."""
    if not others:
        return "none"
    lines = [f"- {seen.id} ({_day(seen.modified_ms)})" for seen in others[:MOST_LISTED]]
    more = len(others) - MOST_LISTED
    return "\n".join([*lines, f"- and {more} older ones"] if more > 0 else lines)


def _day(milliseconds: int) -> str:
    return iso_from_ms(milliseconds)[:10]
