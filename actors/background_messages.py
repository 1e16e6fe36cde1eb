"""What extractor and dream are told; the messages that they share with the readers are in `messages`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from pi_project_memory.actors.core.config import ThinkingLevel
from pi_project_memory.actors.mailbox import Message, Request
from pi_project_memory.actors.messages import BranchChanged, Reconfigured
from pi_project_memory.actors.ports.host import HistoryHead

if TYPE_CHECKING:
    # What runs in the background is loaded after the first answer, and the messages before it.
    from pi_project_memory.actors.core.cursor import Cause, Ending
    from pi_project_memory.actors.core.dream_gate import Closed
    from pi_project_memory.actors.subagent.attempt import Attempt


class TurnsSettled(Message, frozen=True):
    """Runs of the main agent have ended; `turns` counts those that were not aborted."""

    head: HistoryHead
    turns: int
    session_level: ThinkingLevel | None = None

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the newest end and every turn."""
        return replace(newer, turns=self.turns + newer.turns)


class Activity(Struct, frozen=True):
    """One piece of background work under way; `since` in seconds of the event loop's clock."""

    turn: int
    most_turns: int
    since: float


class ExtractionDone(Struct, frozen=True):
    """What an extraction that somebody waited for came to; no ending when there was nothing to do."""

    ending: Ending | None
    attempt: Attempt | None


class ExtractionWanted(Request[ExtractionDone], frozen=True):
    """Compaction, shutdown or the user wants everything up to `head` dealt with; answered when it is."""

    cause: Literal["compaction", "shutdown", "manual"]
    head: HistoryHead
    session_level: ThinkingLevel | None = None

    essential: ClassVar[bool] = True


class IdleTimeUp(Message, frozen=True):
    """The idle timer with this number has run out."""

    timer: int

    essential: ClassVar[bool] = True


class ExtractionTurn(Message, frozen=True):
    """The running extraction has begun another turn of its own, the `number`th."""

    job: int
    number: int

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the latest turn."""
        return newer


class ExtractionEnded(Message, frozen=True):
    """An extraction job has ended; `through` is the id of the last entry it covered."""

    job: int
    attempt: Attempt
    through: str

    essential: ClassVar[bool] = True


class ExtractorStatus(Struct, frozen=True):
    """The extractor as `/memory status` shows it; `unprocessed` counts branch entries behind the cursor."""

    activity: Activity | None
    unprocessed: int
    last_cause: Cause | None
    last: Attempt | None


class ExtractorStatusWanted(Request[ExtractorStatus], frozen=True):
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


class DreamDone(Struct, frozen=True):
    """What a dream that somebody waited for came to; without an attempt, `refused` says why none began."""

    attempt: Attempt | None
    refused: str = ""


class DreamWanted(Request[DreamDone], frozen=True):
    """The user wants the memory tidied up now; answered when it is, or when that is refused."""

    session_level: ThinkingLevel | None = None


class DreamTurn(Message, frozen=True):
    """The running dream has begun another turn."""

    job: int
    number: int

    essential: ClassVar[bool] = True

    def merged_with(self, newer: Self) -> Self:
        """Keep the latest turn."""
        return newer


class DreamEnded(Message, frozen=True):
    """A dream job has ended, at a gate or after a run; `others` counts the sessions that it found."""

    job: int
    attempt: Attempt
    others: int

    essential: ClassVar[bool] = True


class DreamDrainWanted(Request[None], frozen=True):
    """The session ends: no dream begins any more; answered when none is under way."""

    essential: ClassVar[bool] = True


class DreamStatus(Struct, frozen=True):
    """Dream as `/memory status` shows it; `last` is this session's last run.

    `last_dream_at` is what the state file says, in milliseconds since the epoch, None for never, and
    `ahead_of_clock` tells that it lies in the future; `problem` is why the file is of no use. `closed` is
    the gate that holds off the next automatic dream, None when only the sessions are left to be counted.
    """

    activity: Activity | None
    last: Attempt | None
    last_dream_at: int | None
    ahead_of_clock: bool
    problem: str
    closed: Closed | None


class DreamStatusWanted(Request[DreamStatus], frozen=True):
    """How dream stands."""


DreamMessage = (
    TurnsSettled | DreamWanted | DreamTurn | DreamEnded | DreamDrainWanted | Reconfigured | DreamStatusWanted
)
