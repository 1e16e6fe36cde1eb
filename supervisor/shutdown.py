"""What a session's end waits for (LIFE-5): selectors end at once, maintenance gets a minute."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

import anyio

from pi_project_memory.actors.background_messages import DreamDrainWanted, ExtractionDone, ExtractionWanted
from pi_project_memory.actors.core.config import ThinkingLevel
from pi_project_memory.actors.messages import TurnAborted
from pi_project_memory.supervisor.asking import answer_or_none
from pi_project_memory.supervisor.memory import Memory

MAINTENANCE_WAIT = 60.0
"""Seconds that compaction and shutdown wait for background work (EXT-4, LIFE-5)."""


async def finish_extraction(
    memory: Memory, cause: Literal["compaction", "shutdown"], level: ThinkingLevel | None
) -> ExtractionDone | None:
    """Have the rest extracted, and wait for it no longer than was promised; None when it took longer."""
    if memory.config.extraction.enabled:
        memory.background.set()
    if not memory.background.is_set():
        return None  # nobody has made the extractor yet, and nobody asks for it
    number = memory.generations.current
    done: Awaitable[ExtractionDone] = memory.extractor.ask(
        lambda reply: ExtractionWanted(number, reply, cause, memory.head, level), MAINTENANCE_WAIT
    )
    return await answer_or_none(done)


async def finish_maintenance(memory: Memory, level: ThinkingLevel | None) -> None:
    """Let background work come to its end before the session does."""
    memory.tell(memory.prefetch, TurnAborted(memory.generations.current))
    async with anyio.create_task_group() as group:
        if memory.background.is_set():
            group.start_soon(_finish_dream, memory)
        group.start_soon(finish_extraction, memory, "shutdown", level)


async def _finish_dream(memory: Memory) -> None:
    """Let a dream that is under way come to its end; none begins any more."""
    number = memory.generations.current
    drained: Awaitable[None] = memory.dream.ask(
        lambda reply: DreamDrainWanted(number, reply), MAINTENANCE_WAIT
    )
    await answer_or_none(drained)
