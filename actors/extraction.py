"""One extraction: the gate, the model, the lock and the run over a part of the branch (EXT-2 to EXT-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pi_project_memory.actors.core.config import Config, ThinkingLevel
from pi_project_memory.actors.core.cursor import Begin
from pi_project_memory.actors.core.extraction_gate import judge, written_paths
from pi_project_memory.actors.core.lock_rules import EXTRACT_LOCK, Busy
from pi_project_memory.actors.core.replay import ModelKey, compacted_away, conversation, count_spoken, recent
from pi_project_memory.actors.ports.clock import Clock
from pi_project_memory.actors.ports.host import HistoryHead, JsonObject, Models
from pi_project_memory.actors.ports.locks import Locks
from pi_project_memory.actors.ports.worker import in_worker
from pi_project_memory.actors.prompts import fill, prompt
from pi_project_memory.actors.roles import resolve_role
from pi_project_memory.actors.subagent.attempt import Attempt
from pi_project_memory.actors.subagent.path_policy import resolve_write
from pi_project_memory.actors.subagent.refusal import Refusal
from pi_project_memory.actors.subagent.run import Plan, Workshop, execute


@dataclass(frozen=True, slots=True)
class Standing:
    """What a run may rely on: its rights, which `check` looks at again, and who hears of what it does."""

    check: Callable[[], None]
    on_turn: Callable[[int], None]
    on_touch: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extraction:
    """Runs extractions; keeps nothing between them. `rules` gives the memory section's text."""

    workshop: Workshop
    models: Models
    locks: Locks
    clock: Clock
    rules: Callable[[], Awaitable[str]]

    async def run(
        self,
        begin: Begin,
        head: HistoryHead,
        config: Config,
        level: ThinkingLevel | None,
        standing: Standing,
    ) -> tuple[Attempt, str]:
        """Return how it ended, and the id of the last entry it covered.

        Raises what `attempt.FAILURES` lists, and AbortedError.
        """
        entries = await self.workshop.host.read_history(head.handle, begin.start, begin.stop)
        through = str(entries[-1].get("id", "")) if entries else ""
        # What the main agent wrote spares an automatic run; who asks by hand knows what is missing.
        written = () if begin.cause == "manual" else written_paths(entries)
        verdict = judge(entries, await self._in_memory(written))
        if verdict != "run":
            return Attempt("empty" if verdict == "no message" else "skipped", note=verdict), through
        model, effective = await resolve_role(self.workshop.host, "extractor", config.models.extractor, level)
        held = await self.locks.acquire(EXTRACT_LOCK)
        if isinstance(held, Busy):
            return Attempt("busy", note="another session is extracting into this memory"), through
        async with held:
            standing.check()
            limit = config.extraction.recent_messages
            plan = Plan(
                role="extractor",
                model=model,
                level=effective,
                max_tokens=config.models.extractor.max_tokens,
                max_turns=config.extraction.max_turns,
                task=self._task(entries, config),
                rules=await self.rules(),
                conversation=lambda key: recent(conversation(entries, key), limit),
                check=standing.check,
                on_turn=standing.on_turn,
                on_touch=standing.on_touch,
                recent_messages=limit,
                compacted=compacted_away(entries),
            )
            return Attempt("returned", await execute(self.workshop, plan, self.models, held)), through

    def _task(self, entries: Sequence[JsonObject], config: Config) -> str:
        anything: ModelKey = ("", "", "")
        spoken = count_spoken(recent(conversation(entries, anything), config.extraction.recent_messages))
        return fill(
            prompt("extractor"),
            scope="above, in its last message" if spoken == 1 else f"above, in its last {spoken} messages",
            max_turns=str(config.extraction.max_turns),
            today=local_date(self.clock),
        )

    async def _in_memory(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of the main agent's paths that lie in the memory directory."""
        shop = self.workshop

        def inside() -> frozenset[str]:
            found = ((path, resolve_write(path, shop.cwd, shop.memory_dir)) for path in paths)
            return frozenset(path for path, target in found if not isinstance(target, Refusal))

        return await in_worker(inside) if paths else frozenset()


def local_date(clock: Clock) -> str:
    """Return the day and date where the user is, in ISO form with the weekday."""
    return datetime.fromtimestamp(clock.now_ms() / 1000).astimezone().strftime("%A, %Y-%m-%d")
