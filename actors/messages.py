"""What index and prefetch are told, and what all actors share: frozen messages, one class a fact or a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from msgspec import Struct
from msgspec.structs import replace

from pi_project_memory.actors.core.branch import Pair
from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.config import Config, Role, ThinkingLevel
from pi_project_memory.actors.core.recall import Verdict
from pi_project_memory.actors.mailbox import Message, Request
from pi_project_memory.actors.ports.host import HiddenMessage, HistoryHead


class Section(Struct, frozen=True):
    """The memory section as it stands in the system prompt, with its index measured in lines and units."""

    text: str
    lines: int
    units: int
    truncated: bool


class TopicList(Struct, frozen=True):
    """What lies in the memory directory: topics as the selector sees them, and the index text."""

    topics: tuple[Topic, ...]
    index: str


class SectionWanted(Request[Section], frozen=True):
    """The section for the run that starts now."""


class SectionOutdated(Message, frozen=True):
    """The cached section ends here: compaction, a move in the tree, a configuration reload (IDX-4)."""

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep one; it is as good as two."""
        return newer


class TopicsWanted(Request[TopicList], frozen=True):
    """The list of topics for the user."""


class VersionsSeen(Message, frozen=True):
    """The model has met these versions of topics; with `reset` they are all that it has met."""

    versions: Mapping[str, str]
    reset: bool = False


class ChangesWanted(Request[HiddenMessage | None], frozen=True):
    """What has changed outside since the model met it, before a request (IDX-7)."""


class ChangesDue(Message, frozen=True):
    """The same before a settle: a notice is sent by the actor itself."""

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep one; it is as good as two."""
        return newer


class ToolUsed(Request[str | None], frozen=True):
    """The main agent's tool has done its work; answered with what to add to its result.

    `path` is absolute, or "" for a command; `text` is the command then.
    """

    tool: str
    path: str
    text: str = ""
    offset: int | None = None
    limit: int | None = None
    complete: bool = True


class BackgroundWrites(Message, frozen=True):
    """A background run is about to change these files, or has ended and changes nothing more.

    `told` says of one that has ended that its summary tells of what it changed.
    """

    paths: tuple[str, ...] = ()
    ended: bool = False
    role: Role = "extractor"
    told: bool = True

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self | None:
        """Add up the files of one run."""
        if self.ended or self.role != newer.role:
            return None
        return replace(newer, paths=(*self.paths, *newer.paths))


IndexMessage = (
    SectionWanted
    | SectionOutdated
    | TopicsWanted
    | VersionsSeen
    | ChangesWanted
    | ChangesDue
    | ToolUsed
    | BackgroundWrites
)


class PromptSubmitted(Request[HiddenMessage | None], frozen=True):
    """A normal request with its final prompt (SEL-1)."""

    prompt: str
    session_level: ThinkingLevel | None = None


class UserMessageSeen(Message, frozen=True):
    """A user message entered the session."""

    text: str
    session_level: ThinkingLevel | None = None


class Selection(Struct, frozen=True):
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


class RecallReport(Struct, frozen=True):
    """What one prefetch came to: the selection, a verdict for each name chosen, whether it came late."""

    selection: Selection
    verdicts: tuple[Verdict, ...]
    late: bool


class SelectionReady(Message, frozen=True):
    """A selector job has ended; `branch` is the branch it was started on."""

    job: int
    branch: int
    selection: Selection

    essential: ClassVar[bool] = True


class TurnAborted(Message, frozen=True):
    """The user stopped the run: its prefetch is cancelled in silence (HOST-7)."""

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep one; it is as good as two."""
        return newer


class BranchChanged(Message, frozen=True):
    """Another branch is active, or the model sees less of this one (`moved` is false then)."""

    head: HistoryHead
    moved: bool = True

    essential: ClassVar[bool] = True
    lasting: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the newest branch alone; a move stays a move."""
        return replace(newer, moved=self.moved or newer.moved)


class FileRead(Message, frozen=True):
    """The main agent has read a topic file as a whole (RCL-4)."""

    path: str
    version: str


class Reconfigured(Message, frozen=True):
    """The configuration was read anew; whatever ran under the old one is over (CFG-6)."""

    config: Config

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the newest configuration."""
        return newer


class SeenWanted(Message, frozen=True):
    """The index actor begins a life and wants to know which versions the model has met."""

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep one; it is as good as two."""
        return newer


class PrefetchStatus(Struct, frozen=True):
    """Recall as `/memory status` shows it; budget in units."""

    used: int
    running: int
    native_refusals: int
    last: RecallReport | None


class PrefetchStatusWanted(Request[PrefetchStatus], frozen=True):
    """How recall stands."""


PrefetchMessage = (
    PromptSubmitted
    | UserMessageSeen
    | SelectionReady
    | TurnAborted
    | BranchChanged
    | FileRead
    | SeenWanted
    | Reconfigured
    | PrefetchStatusWanted
)
