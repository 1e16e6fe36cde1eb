"""What `/memory` shows, as text for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pi_project_memory.actors.core.branch import RECALL_BUDGET
from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.config import Inherit, RoleModel
from pi_project_memory.actors.core.lint import linked_paths, staleness_days
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.core.windows import INDEX_LINES, INDEX_UNITS
from pi_project_memory.actors.messages import PrefetchStatus, RecallReport, Section, TopicList
from pi_project_memory.supervisor.setup import Prepared

_DESCRIPTION_WIDTH = 80


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """What is known when the status is asked for; None where an actor gave no answer."""

    prepared: Prepared
    generation: int
    section: Section | None
    recall: PrefetchStatus | None


def status_text(facts: StatusFacts) -> str:
    """Return the status, a line for each fact."""
    paths, models = facts.prepared.paths, facts.prepared.config.models
    choice = "chosen by autoMemoryDirectory" if paths.custom else "the default of this project"
    lines = [
        "Auto-memory: on",
        f"Memory directory: {paths.memory_dir} ({choice})",
        f"Project: {paths.project_root}",
        f"Selector model: {_model(models.selector)}",
        _index_line(facts.section),
        *_recall_lines(facts.recall),
        f"Generation: {facts.generation}",
    ]
    return "\n".join(lines)


def topic_table(listed: TopicList, directory: str, now_ms: float) -> str:
    """Return the topics as a table, in the selector's order."""
    if not listed.topics:
        return f"No topics in {directory} yet."
    linked = linked_paths(listed.index)
    head = ("type", "file", "age", "indexed", "description")
    rows = [_row(topic, linked, now_ms) for topic in listed.topics]
    return "\n".join([f"{len(rows)} topics in {directory}, newest first:", "", *_aligned([head, *rows])])


def _model(role: RoleModel) -> str:
    named = role.model
    name = "the session's own" if isinstance(named, Inherit) else f"{named.provider}/{named.model_id}"
    return f"{name}, thinking {role.thinking_level}"


def _index_line(section: Section | None) -> str:
    if section is None:
        return "Index: not read"
    cut = "; longer than the window, the end is cut off" if section.truncated else ""
    return f"Index: {section.lines} of {INDEX_LINES} lines, {section.units:,} of {INDEX_UNITS:,} units{cut}"


def _recall_lines(recall: PrefetchStatus | None) -> Iterable[str]:
    if recall is None:
        yield "Recall: off, its part has failed"
        return
    yield f"Recall: {recall.used:,} of {RECALL_BUDGET:,} units used on this branch"
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
    chosen = f"{len(selection.paths)} of {len(selection.offered)} topics chosen"
    return f"{chosen}, {recalled} recalled in {took:.2f} s{late}{note}"


def _row(topic: Topic, linked: frozenset[str], now_ms: float) -> tuple[str, ...]:
    days = max(staleness_days(topic.mtime_ms, now_ms), 0)
    description = sanitize_line(topic.header.description)
    if len(description) > _DESCRIPTION_WIDTH:
        description = f"{description[: _DESCRIPTION_WIDTH - 1]}…"
    indexed = "yes" if topic.path in linked else "no"
    return (topic.header.type or "-", sanitize_line(topic.path), f"{days} d", indexed, description)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
