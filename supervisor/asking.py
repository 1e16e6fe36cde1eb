"""What may go wrong when an actor is asked something, in one place."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from pi_project_memory.actors.actor import ActorFailedError, StaleGenerationError
from pi_project_memory.actors.mailbox import AskTimeoutError, MailboxClosedError, MailboxFullError

T = TypeVar("T")

ASK_ERRORS = (AskTimeoutError, MailboxClosedError, MailboxFullError, ActorFailedError, StaleGenerationError)
"""Every way in which a question to an actor ends without an answer."""


async def answer_or_none(answer: Awaitable[T]) -> T | None:
    """Return the answer, or None when none came: whoever asks goes on without it."""
    try:
        return await answer
    except ASK_ERRORS:
        return None
