"""What the actors are told: frozen messages, one class a fact or a question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from pi_project_memory.actors.core.branch import Pair, Version
from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.recall import Verdict
from pi_project_memory.actors.mailbox import Message, Request
from pi_project_memory.actors.ports.host import HiddenMessage, HistoryHead, ThinkingLevel


@dataclass(frozen=True, slots=True)
class Section:
    """The memory section as it stands in the system prompt, with its index measured in lines and units."""

    text: str
    lines: int
    units: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class TopicList:
    """What lies in the memory directory: topics as the selector sees them, and the index text."""

    topics: tuple[Topic, ...]
    index: str


@dataclass(frozen=True, slots=True)
class SectionWanted(Request[Section]):
    """The section for the run that starts now."""


@dataclass(frozen=True, slots=True)
class SectionOutdated(Message):
    """The cached section ends here: compaction, a move in the tree, a configuration reload (IDX-4)."""

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep one; it is as good as two."""
        return newer


@dataclass(frozen=True, slots=True)
class TopicsWanted(Request[TopicList]):
    """The list of topics for the user."""


IndexMessage = SectionWanted | SectionOutdated | TopicsWanted


@dataclass(frozen=True, slots=True)
class PromptSubmitted(Request[HiddenMessage | None]):
    """A normal request with its final prompt (SEL-1); `turn` names it in traces."""

    turn: str
    prompt: str
    session_level: ThinkingLevel | None = None


@dataclass(frozen=True, slots=True)
class UserMessageSeen(Message):
    """A user message entered the session."""

    turn: str
    text: str
    session_level: ThinkingLevel | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """What a selector came back with: the paths it chose and what to remember and to warn of.

    `unknown` are names that the catalogue does not hold.
    """

    offered: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    pair: Pair | None = None
    warnings: tuple[str, ...] = ()
    native_refused: bool = False
    scan_seconds: float = 0.0
    select_seconds: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class RecallReport:
    """What one prefetch came to: the selection, a verdict for each name chosen, whether it came late."""

    turn: str
    selection: Selection
    verdicts: tuple[Verdict, ...]
    late: bool


@dataclass(frozen=True, slots=True)
class SelectionReady(Message):
    """A selector job has ended; `branch` is the branch it was started on."""

    job: int
    branch: int
    selection: Selection

    essential: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class TurnAborted(Message):
    """The user stopped the run: its prefetch is cancelled in silence (HOST-7)."""

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep one; it is as good as two."""
        return newer


@dataclass(frozen=True, slots=True)
class BranchChanged(Message):
    """Another branch is active, or the model sees less of this one; the state is rebuilt from it."""

    head: HistoryHead

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the newest branch alone."""
        return newer


@dataclass(frozen=True, slots=True)
class FileRead(Message):
    """The main agent has read a topic file as a whole (RCL-4)."""

    path: str
    version: Version


@dataclass(frozen=True, slots=True)
class PrefetchStatus:
    """Recall as `/memory status` shows it; budget in units."""

    used: int
    running: int
    native_refusals: int
    last: RecallReport | None


@dataclass(frozen=True, slots=True)
class PrefetchStatusWanted(Request[PrefetchStatus]):
    """How recall stands."""


PrefetchMessage = (
    PromptSubmitted
    | UserMessageSeen
    | SelectionReady
    | TurnAborted
    | BranchChanged
    | FileRead
    | PrefetchStatusWanted
)
