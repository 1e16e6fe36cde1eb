"""What the actors are told: frozen messages, one class a fact or a question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from pi_project_memory.actors.core.branch import Pair
from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.config import Config, ThinkingLevel
from pi_project_memory.actors.core.cursor import Cause, Ending
from pi_project_memory.actors.core.recall import Verdict
from pi_project_memory.actors.mailbox import Message, Request
from pi_project_memory.actors.ports.host import HiddenMessage, HistoryHead
from pi_project_memory.actors.subagent.attempt import Attempt


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


@dataclass(frozen=True, slots=True)
class VersionsSeen(Message):
    """The model has met these versions of topics; with `reset` they are all that it has met."""

    versions: Mapping[str, str]
    reset: bool = False


@dataclass(frozen=True, slots=True)
class ChangesWanted(Request[HiddenMessage | None]):
    """What has changed outside since the model met it, before a request (IDX-7)."""


@dataclass(frozen=True, slots=True)
class ChangesDue(Message):
    """The same before a settle: a notice is sent by the actor itself."""

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep one; it is as good as two."""
        return newer


@dataclass(frozen=True, slots=True)
class ToolUsed(Request[str | None]):
    """The main agent's tool has done its work; answered with what to add to its result.

    `path` is absolute, or "" for a command; `text` is the command then.
    """

    tool: str
    path: str
    text: str = ""
    offset: int | None = None
    limit: int | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class BackgroundWrites(Message):
    """A background run is about to change these files, or has ended and changes nothing more."""

    paths: tuple[str, ...] = ()
    ended: bool = False

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self | None:
        """Add up the files of one run."""
        if self.ended:
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


@dataclass(frozen=True, slots=True)
class PromptSubmitted(Request[HiddenMessage | None]):
    """A normal request with its final prompt (SEL-1)."""

    prompt: str
    session_level: ThinkingLevel | None = None


@dataclass(frozen=True, slots=True)
class UserMessageSeen(Message):
    """A user message entered the session."""

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
    """Another branch is active, or the model sees less of this one (`moved` is false then)."""

    head: HistoryHead
    moved: bool = True

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the newest branch alone; a move stays a move."""
        return replace(newer, moved=self.moved or newer.moved)


@dataclass(frozen=True, slots=True)
class FileRead(Message):
    """The main agent has read a topic file as a whole (RCL-4)."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Reconfigured(Message):
    """The configuration was read anew; whatever ran under the old one is over (CFG-6)."""

    config: Config

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the newest configuration."""
        return newer


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
    | Reconfigured
    | PrefetchStatusWanted
)


@dataclass(frozen=True, slots=True)
class TurnsSettled(Message):
    """Runs of the main agent have ended; `turns` counts those that were not aborted."""

    head: HistoryHead
    turns: int
    session_level: ThinkingLevel | None = None

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the newest end and every turn."""
        return replace(newer, turns=self.turns + newer.turns)


@dataclass(frozen=True, slots=True)
class Activity:
    """One piece of background work under way; `since` in seconds of the event loop's clock."""

    turn: int
    most_turns: int
    since: float


@dataclass(frozen=True, slots=True)
class ExtractionDone:
    """What an extraction that somebody waited for came to; no ending when there was nothing to do."""

    ending: Ending | None
    attempt: Attempt | None


@dataclass(frozen=True, slots=True)
class ExtractionWanted(Request[ExtractionDone]):
    """Compaction, shutdown or the user wants everything up to `head` dealt with; answered when it is."""

    cause: Literal["compaction", "shutdown", "manual"]
    head: HistoryHead
    session_level: ThinkingLevel | None = None

    essential: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class IdleTimeUp(Message):
    """The idle timer with this number has run out."""

    timer: int


@dataclass(frozen=True, slots=True)
class ExtractionTurn(Message):
    """The running extraction has begun another turn of its own, the `number`th."""

    job: int
    number: int

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the latest turn."""
        return newer


@dataclass(frozen=True, slots=True)
class ExtractionEnded(Message):
    """An extraction job has ended; `through` is the id of the last entry it covered."""

    job: int
    attempt: Attempt
    through: str

    essential: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ExtractorStatus:
    """The extractor as `/memory status` shows it; `unprocessed` counts branch entries behind the cursor."""

    activity: Activity | None
    unprocessed: int
    last_cause: Cause | None
    last: Attempt | None


@dataclass(frozen=True, slots=True)
class ExtractorStatusWanted(Request[ExtractorStatus]):
    """How extraction stands."""


ExtractorMessage = (
    TurnsSettled
    | ExtractionWanted
    | IdleTimeUp
    | ExtractionTurn
    | ExtractionEnded
    | BranchChanged
    | Reconfigured
    | ExtractorStatusWanted
)
