"""What one branch of the session has seen of the memory (RCL-3, RCL-4, SEL-6).

The state is kept on the branch itself: recalls as hidden messages with details, selections and full
reads as entries that the model never sees. Folding the active entries gives the state back after a
resume, a fork, a compaction or a move in the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

RECALL_TYPE = "project-memory-recall"
SELECTION_TYPE = "project-memory-selection"
READ_TYPE = "project-memory-read"
NOTICE_TYPE = "project-memory-notice"
SEEN_TYPE = "project-memory-seen"

ENTRY_TYPES = ("custom", "custom_message", "compaction")
"""The types of the entries that a branch's state is folded from; of all others the id will do."""

_TOLD = frozenset({RECALL_TYPE, NOTICE_TYPE})

RECALL_BUDGET = 61_440
"""UTF-16 units of topic text that one branch may recall."""

_PAIRS_KEPT = 20


class RecalledTopic(Struct, frozen=True):
    """One topic inside a recall: path, digest of the text shown, cost in units, version of the file."""

    path: str
    digest: str
    units: int
    version: str


class Pair(Struct, frozen=True):
    """One query with the names that the selector answered."""

    query: str
    names: tuple[str, ...]


class BranchState(Struct, frozen=True):
    """Budget used in units, what was shown, what was read in full, and the selector's history.

    `shown` maps paths to digests of the text, `read` to versions read whole, `seen` to the version that
    the model has met last, in whichever way.
    """

    used: int = 0
    shown: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    recall_ids: frozenset[str] = frozenset()
    guided: bool = False

    @property
    def spent(self) -> bool:
        """Whether the recall budget is used up."""
        return self.used >= RECALL_BUDGET

    def fits(self, units: int) -> bool:
        """Whether a topic of `units` still goes into the budget."""
        return self.used + units <= RECALL_BUDGET

    def with_recall(self, recall_id: str, topics: Sequence[RecalledTopic]) -> BranchState:
        """Charge a recall; one id counts once however often it is met."""
        if recall_id in self.recall_ids:
            return self
        return replace(
            self,
            used=self.used + sum(topic.units for topic in topics),
            shown={**self.shown, **{topic.path: topic.digest for topic in topics}},
            seen={**self.seen, **{topic.path: topic.version for topic in topics}},
            recall_ids=self.recall_ids | {recall_id},
            guided=True,
        )

    def with_pair(self, pair: Pair) -> BranchState:
        """Remember a query with its answer."""
        return replace(self, pairs=(*self.pairs, pair))

    def with_read(self, path: str, version: str) -> BranchState:
        """Remember that the main agent has read the whole file."""
        return replace(self, read={**self.read, path: version}, seen={**self.seen, path: version})

    def with_seen(self, versions: Mapping[str, str]) -> BranchState:
        """Remember that the model was told of these versions."""
        return replace(self, seen={**self.seen, **versions})

    def has_read(self, path: str, version: str) -> bool:
        """Whether the file was read in full and is still the same."""
        return self.read.get(path) == version

    def history(self) -> tuple[Pair, ...]:
        """Return the pairs to replay: all of the first forty, then windows that move in steps.

        A window that moved with every query would make each request a new prefix for the cache.
        """
        count = len(self.pairs)
        if count <= 2 * _PAIRS_KEPT:
            return self.pairs
        return self.pairs[-(_PAIRS_KEPT + count % _PAIRS_KEPT) :]


def active_entries(entries: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the entries that the model still sees: from the newest compaction's first kept one on."""
    for position in range(len(entries) - 1, -1, -1):
        if entries[position].get("type") == "compaction":
            kept = entries[position].get("firstKeptEntryId")
            start = next((i for i in range(position) if entries[i].get("id") == kept), position)
            return entries[start:]
    return entries


def rebuild(entries: Sequence[Mapping[str, Any]]) -> BranchState:
    """Fold a branch, from its root to its end, into its state; foreign or damaged entries are passed over."""
    state = BranchState()
    for entry in active_entries(entries):
        state = _fold(state, entry)
    return state


def recall_details(recall_id: str, topics: Iterable[RecalledTopic]) -> dict[str, Any]:
    """Return what a recall message carries for `rebuild`."""
    return {"id": recall_id, "topics": [asdict(topic) for topic in topics]}


def seen_details(versions: Mapping[str, str]) -> dict[str, Any]:
    """Return what keeps the versions that the model knows without having read them, "" for a deleted file.

    A notice of changes carries it, and an entry does for changes that the model has made by itself.
    """
    return {"seen": dict(versions)}


def selection_data(pair: Pair) -> dict[str, Any]:
    """Return the entry that keeps a query with its answer."""
    return {"query": pair.query, "names": list(pair.names)}


def read_data(path: str, version: str) -> dict[str, Any]:
    """Return the entry that keeps a full read."""
    return {"path": path, "version": version}


def _fold(state: BranchState, entry: Mapping[str, Any]) -> BranchState:
    match entry:
        case {"type": "custom_message", "customType": str(kind), "details": dict(details)} if kind in _TOLD:
            return _fold_seen(_fold_recall(state, details), details)
        case {
            "type": "custom",
            "customType": "project-memory-selection",
            "data": {"query": str(query), "names": [*names]},
        }:
            return state.with_pair(Pair(query, tuple(name for name in names if isinstance(name, str))))
        case {
            "type": "custom",
            "customType": "project-memory-read",
            "data": {"path": str(path), "version": str(version)},
        }:
            return state.with_read(path, version)
        case {"type": "custom", "customType": "project-memory-seen", "data": dict(data)}:
            return _fold_seen(state, data)
    return state


def _fold_recall(state: BranchState, details: Mapping[str, Any]) -> BranchState:
    match details:
        case {"id": str(recall_id), "topics": [*topics]}:
            return state.with_recall(recall_id, [topic for topic in map(_topic, topics) if topic])
    return state


def _fold_seen(state: BranchState, details: Mapping[str, Any]) -> BranchState:
    seen = details.get("seen")
    if not isinstance(seen, dict):
        return state
    return state.with_seen({path: tag for path, tag in seen.items() if isinstance(tag, str)})


def _topic(value: object) -> RecalledTopic | None:
    match value:
        case {"path": str(path), "digest": str(digest), "units": int(units), "version": str(version)}:
            return RecalledTopic(path, digest, max(units, 0), version)
    return None
