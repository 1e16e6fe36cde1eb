"""What manual runs came to, as a person wants to read it (CMD-1)."""

from __future__ import annotations

from pi_project_memory.actors.background_messages import DreamDone, ExtractionDone
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.subagent.attempt import Attempt
from pi_project_memory.actors.subagent.run import Report
from pi_project_memory.supervisor.host.protocol import CommandAnswer
from pi_project_memory.supervisor.wording import counted

_SKIPPED = {
    "no message": "there was nothing new to read",
    "main agent wrote": "the main agent has saved to memory itself since the last time",
    "too few words": "no message of yours since the last time has three words",
}


def extraction_outcome(done: ExtractionDone, directory: str) -> CommandAnswer:
    """Return what to show for an extraction that somebody waited for."""
    attempt = done.attempt
    if attempt is None:
        return CommandAnswer("Nothing to extract: everything said so far has been dealt with.")
    return attempt_outcome("extraction", attempt, directory)


def dream_outcome(done: DreamDone, directory: str) -> CommandAnswer:
    """Return what to show for a dream that somebody waited for."""
    if done.attempt is None:
        return CommandAnswer(f"No dream: {done.refused}.", "warning")
    return attempt_outcome("dream", done.attempt, directory)


def attempt_outcome(what: str, attempt: Attempt, directory: str) -> CommandAnswer:
    """Return what to show for one attempt."""
    match attempt.ending:
        case "empty" | "skipped":
            return CommandAnswer(f"No {what}: {_SKIPPED.get(attempt.note, attempt.note)}.")
        case "busy":
            return CommandAnswer(f"No {what} now: {attempt.note}. It will be tried again.", "warning")
        case "aborted":
            return CommandAnswer(f"The {what} was stopped: {attempt.note}.", "warning")
        case "raised":
            return CommandAnswer(
                f"The {what} failed: {attempt.note}. Nothing was lost; it will be tried again.", "error"
            )
        case "returned":
            assert attempt.report is not None, "a run that returned has a report"
            return _returned(what, attempt.report, directory)


def _returned(what: str, report: Report, directory: str) -> CommandAnswer:
    turns = counted(report.result.turns, "turn")
    changes = [f"  {change} {sanitize_line(path)}" for path, change in sorted(report.changes.items())]
    if report.result.finish == "api error":
        head = f"The {what} ended early, after {turns}: {report.result.error}"
        return CommandAnswer("\n".join([head, *changes]), "warning")
    if not changes:
        return CommandAnswer(f"The {what} is done ({turns}): nothing was worth changing.")
    return CommandAnswer("\n".join([f"The {what} is done ({turns}). In {directory}:", *changes]))
