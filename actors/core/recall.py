"""The recall message, and which of the selected topics go into it (RCL-1 to RCL-5)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from pi_project_memory.actors.core.branch import BranchState, RecalledTopic
from pi_project_memory.actors.core.jstext import utf16_len, utf16_prefix
from pi_project_memory.actors.core.lint import staleness_note
from pi_project_memory.actors.core.sanitize import sanitize, sanitize_line
from pi_project_memory.actors.core.windows import TOPIC_CUT_NOTE, topic_window

Reason = Literal[
    "recalled", "already shown", "already read", "over budget", "unreadable", "empty", "unknown name"
]

_LONGEST_NAME = 120


class Loaded(Struct, frozen=True):
    """A selected topic as it was read: the first bytes of the file, or None if it could not be read."""

    path: str
    data: bytes | None
    version: str
    mtime_ms: float


class Verdict(Struct, frozen=True):
    """What became of one selected topic."""

    path: str
    reason: Reason


class Recall(Struct, frozen=True):
    """A recall ready to be sent: the message's text, the topics to charge, and a verdict for each name."""

    text: str
    topics: tuple[RecalledTopic, ...]
    verdicts: tuple[Verdict, ...]


def compose(
    state: BranchState, loaded: Sequence[Loaded], *, directory: str, guidance: str, now_ms: float
) -> Recall:
    """Choose from `loaded`, in order, what is new on this branch and fits, and write the message.

    `guidance` goes in front the first time. The text is empty when nothing is left to recall.
    """
    parts: list[str] = []
    topics: list[RecalledTopic] = []
    verdicts: list[Verdict] = []
    used = 0
    for topic in loaded:
        body = _body(topic)
        reason = _verdict(state, topic, body, used)
        verdicts.append(Verdict(topic.path, reason))
        if reason == "recalled":
            units = utf16_len(body)
            used += units
            topics.append(RecalledTopic(topic.path, digest(body), units, topic.version))
            parts.append(_section(topic, body, directory, now_ms))
    if not parts:
        return Recall("", (), tuple(verdicts))
    head = [] if state.guided else [guidance]
    text = "\n\n".join(["<memory-recall>", *head, *parts, "</memory-recall>"])
    return Recall(text, tuple(topics), tuple(verdicts))


def digest(body: str) -> str:
    """Return a short digest of a text as it was shown."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def shortened(name: str) -> str:
    """Return a name that a model made up, fit for a report."""
    return sanitize_line(utf16_prefix(name, _LONGEST_NAME))


def _body(topic: Loaded) -> str:
    """Return the text that is shown and charged: the window, sanitised, with its cut note."""
    if topic.data is None:
        return ""
    window = topic_window(topic.data)
    body = sanitize(window.text).rstrip("\n")
    return f"{body}\n{TOPIC_CUT_NOTE}" if window.truncated else body


def _verdict(state: BranchState, topic: Loaded, body: str, used: int) -> Reason:
    if topic.data is None:
        return "unreadable"
    if not body:
        return "empty"
    if state.has_read(topic.path, topic.version):
        return "already read"
    if state.shown.get(topic.path) == digest(body):
        return "already shown"
    return "recalled" if state.fits(used + utf16_len(body)) else "over budget"


def _section(topic: Loaded, body: str, directory: str, now_ms: float) -> str:
    heading = f"## {sanitize_line(directory)}/{sanitize_line(topic.path)}"
    note = staleness_note(topic.mtime_ms, now_ms)
    return "\n".join([heading, *([note] if note else []), "", body])
