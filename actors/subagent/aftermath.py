"""What follows a run, whichever role it was: the summary, the warnings, the note to the index (EXT-8, EXT-2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pi_project_memory.actors.core.config import Role
from pi_project_memory.actors.core.summary import SUMMARY_TYPE, summary_details, summary_text
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.host import HiddenMessage, HostError, HostPorts
from pi_project_memory.actors.ports.trace import Private, Trace, fault
from pi_project_memory.actors.subagent.attempt import Attempt


@dataclass(slots=True)
class Aftermath:
    """Tells the main agent what changed and the user what went wrong, each thing once.

    `on_touch` hears of each file that a run is about to change, `on_end` that it changes no more, so that
    nobody takes these changes for somebody else's. `on_lost` hears it instead of a run that had no report:
    no summary tells of what it had changed.
    """

    role: Role
    host: HostPorts
    notifier: Notifier
    trace: Trace
    directory: str
    on_touch: Callable[[str], None]
    on_end: Callable[[], None]
    on_lost: Callable[[], None]
    _told: set[str] = field(default_factory=set)

    async def follow(self, attempt: Attempt) -> None:
        """Do what an attempt that has ended calls for."""
        report = attempt.report
        self.trace.event(
            "run_ended",
            actor=self.role,
            ending=attempt.ending,
            note=Private(attempt.note) if attempt.ending == "raised" else attempt.note,
            error=attempt.error,
            turns=report.result.turns if report else 0,
            finish=report.result.finish if report else "",
            independent=report.independent if report else "",
            changed=len(report.changes) if report else 0,
        )
        (self.on_lost if report is None else self.on_end)()
        if report is not None and report.changes:
            await self._send_summary(report.changes)
        if attempt.problem:
            await self.warn_once(attempt.problem)

    async def warn_once(self, problem: str) -> None:
        """Warn of a cause the first time it is met."""
        if problem in self._told:
            return
        self._told.add(problem)
        await self.notifier.tell("warning", f"Project memory: the {self.role} failed: {problem}")

    async def _send_summary(self, changes: Mapping[str, str]) -> None:
        text = summary_text(self.role, changes, self.directory)
        try:
            await self.host.send_message(
                HiddenMessage(SUMMARY_TYPE, text, summary_details(self.role, changes))
            )
            self.trace.event("summary_sent", actor=self.role, files=len(changes))
        except HostError as error:
            self.trace.event("host_refused", actor=self.role, **fault(error))
