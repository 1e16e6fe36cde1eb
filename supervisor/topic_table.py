"""The topics of a memory as a table for a person (CMD-1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.lint import linked_paths
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.messages import TopicList
from pi_project_memory.supervisor.wording import age, counted

_HEAD = ("type", "file", "changed", "in index", "description")
_WIDTH = 110
_NARROWEST = 30
_GAP = "  "


def topic_table(listed: TopicList, directory: str, now_ms: float) -> str:
    """Return the topics as a table, in the selector's order."""
    if not listed.topics:
        return f"No topics in {directory} yet. /memory extract saves now what is worth keeping."
    linked = linked_paths(listed.index)
    rows = [_HEAD, *(_row(topic, linked, now_ms) for topic in listed.topics)]
    number = counted(len(listed.topics), "topic")
    return "\n".join([f"{number}, newest first, in {directory}", "", *_aligned(rows)])


def _row(topic: Topic, linked: frozenset[str], now_ms: float) -> tuple[str, ...]:
    return (
        topic.header.type or "-",
        sanitize_line(topic.path),
        age(topic.mtime_ms, now_ms),
        "yes" if topic.path in linked else "no",
        sanitize_line(topic.header.description) or "(none)",
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with their columns aligned; the last one is cut where the table would grow too wide."""
    *widths, _ = [max(map(_columns, column)) for column in zip(*rows, strict=True)]
    left = max(_WIDTH - sum(widths) - len(_GAP) * len(widths), _NARROWEST)
    return [_GAP.join([*map(_padded, row, widths), _cut(row[-1], left)]) for row in rows]


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - _columns(cell))


def _cut(text: str, width: int) -> str:
    if _columns(text) <= width:
        return text
    text = text[:width]
    while _columns(text) >= width:
        text = text[:-1]
    return f"{text}…"


def _columns(text: str) -> int:
    """Return how many columns a terminal takes for a text."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)
