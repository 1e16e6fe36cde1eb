"""Scripted actors under a supervisor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from actors_kit import Note, Question, Script, ScriptedActor, Stage
from pi_project_memory.actors.mailbox import Message
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.supervisor.supervisor import ChildSpec, Supervisor


class Cast:
    """Supervised stages, each with its own script, and what their owner was told."""

    def __init__(self, stages: Sequence[Stage], **spec: Any) -> None:
        self.stages = list(stages)
        self.trace = RecordedTrace()
        self.given_up: list[tuple[str, Exception]] = []
        specs = [
            ChildSpec(f"actor {number}", stage.mailbox, stage.actor, **spec)
            for number, stage in enumerate(self.stages)
        ]
        self.supervisor = Supervisor(
            specs, self.trace, lambda name, error: self.given_up.append((name, error))
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            await self.supervisor.start(group)
            yield
            await self.supervisor.stop()


async def act(actor: ScriptedActor, message: Message) -> None:
    """Fail on a note with a negative number, answer a question, take anything else."""
    if isinstance(message, Question):
        message.reply.send(f"life {actor.life}, message {actor.seen}")
    if isinstance(message, Note) and message.number < 0:
        raise ValueError(f"note {message.number}")


def stage() -> Stage:
    return Stage(Script(act))
