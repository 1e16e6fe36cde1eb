"""One attempt at a background run: the model, the lock, the run, and how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pi_project_memory.actors.core.cursor import Ending
from pi_project_memory.actors.ports.host import HostError, StaleHistoryError
from pi_project_memory.actors.roles import RoleUnavailableError
from pi_project_memory.actors.scopes import AbortedError, AbortScope
from pi_project_memory.actors.subagent.guarded_files import StorageFailedError
from pi_project_memory.actors.subagent.run import LockLostError, Report

FAILURES = (RoleUnavailableError, HostError, StorageFailedError, LockLostError, OSError)
"""What ends a run as an exception; anything else is a fault of ours and fails the actor."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How an attempt ended, what it reported, and a note that says why; `error` is the kind of what it raised."""

    ending: Ending
    report: Report | None = None
    note: str = ""
    error: str = ""

    @property
    def problem(self) -> str:
        """What the user should hear of, or ""."""
        if self.ending == "raised":
            return self.note
        return self.report.result.error if self.report is not None else ""


async def attempt(scope: AbortScope, work: Callable[[], Awaitable[Attempt]]) -> Attempt:
    """Do `work` inside `scope`, and turn whatever ends it early into an attempt that says so."""
    try:
        with scope.guard():
            return await work()
    except (AbortedError, StaleHistoryError) as error:
        # A branch that has moved is told of in a moment; until then the old one is nobody's failure.
        return Attempt("aborted", note=str(error))
    except FAILURES as error:
        kind = type(error).__name__
        return Attempt("raised", note=str(error) or kind, error=kind)
    finally:
        scope.close()
