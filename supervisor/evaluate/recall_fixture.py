"""The recall fixture: a small memory and queries with the topics that belong to them.

A fixture is a folder with `memory/`, a memory directory as it lies on disk, and `queries.yaml`. The order
and the dates that a selector sees come from each topic's `modified`, so a fresh copy of the files changes
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pi_project_memory.actors.core.frontmatter import HEADER_BYTES, parse_header
from pi_project_memory.actors.core.jstext import has_js_space, js_trim
from pi_project_memory.actors.ports.store import InMemoryStore, MemoryStore
from pi_project_memory.actors.ports.topic_files import walk_topics
from pi_project_memory.supervisor.evaluate.loading import EvaluationError, load_yaml, refuse
from pi_project_memory.supervisor.evaluate.scoring import MOST_COUNTED

QUERIES = "queries.yaml"
MEMORY = "memory"

Kind = Literal[
    "plain",
    "other_words",
    "several",
    "none",
    "body_only",
    "misleading_name",
    "other_language",
    "superseded",
    "injected_description",
    "injected_query",
]
"""What makes a query hard, or `plain`."""


class Query(Struct, frozen=True, forbid_unknown_fields=True):
    """One query: topics that should be chosen, topics that may be; `why` is a remark for people."""

    id: str
    kind: Kind
    query: str
    expected: tuple[str, ...]
    allowed: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class RecallFixture:
    """A checked fixture: the bytes of each topic with the time it was modified in ms, and the queries."""

    folder: Path
    topics: Mapping[str, tuple[bytes, float]]
    queries: tuple[Query, ...]

    def store(self) -> MemoryStore:
        """Return the memory as a selector reads it."""
        store = InMemoryStore()
        for path, (data, modified_ms) in self.topics.items():
            store.put(path, data, modified_ms)
        return store


def load_recall_fixture(folder: Path) -> RecallFixture:
    """Return the fixture in `folder`; raises EvaluationError with everything that is wrong with it."""
    topics = _topics(folder / MEMORY)
    path = folder / QUERIES
    queries = load_yaml(path, tuple[Query, ...])
    refuse(path, _findings(queries, topics))
    return RecallFixture(folder, topics, queries)


def _topics(root: Path) -> Mapping[str, tuple[bytes, float]]:
    try:
        files = {file.path: (root / file.path).read_bytes() for file in walk_topics(root).topics}
    except OSError as error:
        raise EvaluationError(f"{root} cannot be read as a memory: {error.strerror}") from None
    dates = {path: _modified(data) for path, data in files.items()}
    refuse(root, _root_findings(dates))
    return {path: (data, dates[path] or 0.0) for path, data in files.items()}


def _modified(data: bytes) -> float | None:
    return parse_header(data[:HEADER_BYTES].decode("utf-8", "replace")).modified_ms


def _root_findings(dates: Mapping[str, float | None]) -> Iterator[str]:
    if not dates:
        yield "it holds no topic"
    for path, date in dates.items():
        if date is None:
            yield f"{path} has no `modified` date in its frontmatter, which settles its place in the order"


def _findings(queries: Sequence[Query], topics: Collection[str]) -> Iterator[str]:
    if not queries:
        yield "it holds no query"
    for query_id, count in Counter(query.id for query in queries).items():
        if count > 1:
            yield f"{query_id}: {count} queries have this id"
    for query in queries:
        for finding in _query_findings(query, topics):
            yield f"{query.id}: {finding}"


def _query_findings(query: Query, topics: Collection[str]) -> Iterator[str]:
    named = (*query.expected, *query.allowed)
    for name in named:
        if name not in topics:
            yield f"there is no topic {name}"
    if len(set(named)) < len(named):
        yield "a topic is named twice"
    if len(query.expected) > MOST_COUNTED:
        yield f"{len(query.expected)} topics are expected, and no selection holds more than {MOST_COUNTED}"
    if not has_js_space(js_trim(query.query)):
        yield "without white space inside, a query is never put to a selector"
