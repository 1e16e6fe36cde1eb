"""What `/memory` shows, as text for a person (CMD-1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pi_project_memory.actors.background_messages import Activity, DreamStatus, ExtractorStatus
from pi_project_memory.actors.core.branch import RECALL_BUDGET
from pi_project_memory.actors.core.jstext import iso_from_ms
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.core.windows import INDEX_LINES, INDEX_UNITS
from pi_project_memory.actors.messages import PrefetchStatus, RecallReport, Section
from pi_project_memory.actors.subagent.attempt import Attempt
from pi_project_memory.supervisor.facts import MemoryFacts, RoleFacts, StatusFacts
from pi_project_memory.supervisor.setup import Off, Settings
from pi_project_memory.supervisor.wording import counted, elapsed

_SILENT = "no answer; this part is busy, or off after failures"


def status_text(facts: StatusFacts) -> str:
    """Return the status, a line for each fact."""
    lines = _off_lines(facts.off) if facts.memory is None else _on_lines(facts.memory, facts.now)
    return "\n".join([*lines, *_common_lines(facts)])


def _off_lines(off: Off | None) -> Iterator[str]:
    yield f"Auto-memory: {off.state if off else 'starting'}"
    yield "Memory directory: not initialized"
    if off is not None:
        yield f"Reason: {off.reason}"


def _on_lines(memory: MemoryFacts, now: float) -> Iterator[str]:
    choice = "chosen by autoMemoryDirectory" if memory.custom else "the default of this project"
    yield "Auto-memory: on"
    yield f"Memory directory: {memory.directory} ({choice})"
    yield f"Project: {memory.project}"
    yield _index_line(memory.section)
    yield from _recall_lines(memory.recall)
    yield from _extraction_lines(memory.extractor, now, automatic=memory.automatic)
    yield from _dream_lines(memory.dream, now)
    yield from _role_lines(memory.roles)
    yield f"Generation: {memory.generation}"


def _common_lines(facts: StatusFacts) -> Iterator[str]:
    if facts.settings is not None:
        yield f"Configuration: {_source(facts.settings)}"
        yield from facts.settings.unused
    if facts.last_warning is not None:
        yield f"Last warning, {elapsed(facts.now - facts.last_warning.at)} ago: {facts.last_warning.text}"
    if facts.log_file:
        yield f"Log: {facts.log_file}"


def _source(settings: Settings) -> str:
    return settings.path if settings.found else f"the defaults (there is no {settings.path})"


def _index_line(section: Section | None) -> str:
    if section is None:
        return f"Index: {_SILENT}"
    cut = "; what lies beyond is not shown to the model, shorten MEMORY.md" if section.truncated else ""
    lines = f"{section.lines:,} of {INDEX_LINES} lines"
    return f"Index: {lines}, {section.units:,} of {INDEX_UNITS:,} characters{cut}"


def _recall_lines(recall: PrefetchStatus | None) -> Iterator[str]:
    if recall is None:
        yield f"Recall: {_SILENT}"
        return
    busy = f", {recall.running} selecting now" if recall.running else ""
    yield f"Recall: {recall.used:,} of {RECALL_BUDGET:,} units used on this branch{busy}"
    if recall.last is not None:
        yield f"Last recall: {_recall_summary(recall.last)}"
    if recall.native_refusals > 1:
        yield (
            f"Hint: the selector's model refused structured output {recall.native_refusals} times in a row; "
            "set models.selector.structuredOutput to false to save that request"
        )


def _recall_summary(report: RecallReport) -> str:
    selection = report.selection
    recalled = sum(verdict.reason == "recalled" for verdict in report.verdicts)
    took = selection.scan_seconds + selection.select_seconds
    late = ", late" if report.late else ""
    note = f", {selection.note}" if selection.note else ""
    chosen = f"{len(selection.paths)} of {counted(len(selection.offered), 'topic')} chosen"
    return f"{chosen}, {recalled} recalled in {took:.2f} s{late}{note}"


def _extraction_lines(extractor: ExtractorStatus | None, now: float, *, automatic: bool) -> Iterator[str]:
    if extractor is None:
        yield f"Extraction: {_SILENT}"
        return
    if extractor.activity is not None:
        yield f"Extraction: running, {activity_text(extractor.activity, now)}"
    elif not automatic:
        yield "Extraction: by /memory extract alone, extraction.enabled is false"
    if extractor.last is not None:
        yield f"Last extraction: {attempt_text(extractor.last)}"
    elif extractor.activity is None and automatic:
        yield "Extraction: none yet in this session"


def _dream_lines(dream: DreamStatus | None, now: float) -> Iterator[str]:
    if dream is None:
        yield f"Dream: {_SILENT}"
        return
    if dream.activity is not None:
        yield f"Dream: running, {activity_text(dream.activity, now)}"
    if dream.problem:
        yield f"Dream: stopped: {dream.problem}"
    elif dream.closed is not None:
        yield f"Next dream: not yet; {dream.closed.reason}"
    yield f"Last dream: {_last_dream(dream)}"


def _last_dream(dream: DreamStatus) -> str:
    if dream.ahead_of_clock:
        return "its recorded time lies in the future, so it counts as never"
    when = "never" if dream.last_dream_at is None else iso_from_ms(dream.last_dream_at)
    return f"{when}; {attempt_text(dream.last)}" if dream.last is not None else when


def activity_text(activity: Activity, now: float) -> str:
    """Return how far a run is: its turn and how long it has been at work."""
    since = f"for {elapsed(now - activity.since)}"
    return (
        f"turn {activity.turn} of {activity.most_turns}, {since}" if activity.turn else f"starting, {since}"
    )


def attempt_text(attempt: Attempt) -> str:
    """Return how an attempt ended in a few words."""
    report = attempt.report
    if report is None:
        return f"{attempt.ending}{f' ({attempt.note})' if attempt.note else ''}"
    finish = report.result.error or report.result.finish
    turns, files = counted(report.result.turns, "turn"), counted(len(report.changes), "file")
    return f"{finish}, {turns}, {files} changed"


def _role_lines(roles: Sequence[RoleFacts]) -> Iterator[str]:
    for facts in roles:
        yield f"{facts.role.capitalize()} model: {facts.model}; {_usage(facts.usage)}"
    total = sum((facts.usage for facts in roles), Usage())
    if total.requests:
        yield f"Spent in this session: {_usage(total)}"


def _usage(usage: Usage) -> str:
    if not usage.requests:
        return "not used yet"
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    return f"{counted(usage.requests, 'request')}, {usage.input:,} tokens in{cached}, {usage.output:,} out, ${usage.cost:.4f}"
