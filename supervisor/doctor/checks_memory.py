"""The index and the topics: loaded in full, readable, and pointing at each other (IDX-1, IDX-5, IDX-6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from pi_project_memory.actors.core.frontmatter import HEADER_BYTES, parse_header
from pi_project_memory.actors.core.lint import linked_paths, lint_index
from pi_project_memory.actors.core.windows import INDEX_LINES, INDEX_UNITS, Window, index_window
from pi_project_memory.actors.ports.store import MOST_TOPICS
from pi_project_memory.actors.ports.topic_files import (
    DEEPEST,
    INDEX_NAME,
    MOST_ENTRIES,
    Walk,
    read_regular_file,
    walk_topics,
)
from pi_project_memory.supervisor.doctor.observations import (
    Fact,
    Finding,
    Note,
    Observation,
    counted,
    named,
)

LARGEST_INDEX = 4 * 1024 * 1024
"""Bytes of an index that are examined; far more than are ever loaded."""

_FULL = 0.9
"""The share of the window from which on its headroom is worth a note."""

_DREAM = "/memory dream in Pi, or shorten it by hand"


def check_memory(root: Path) -> Iterator[Observation]:
    """Examine the index and every topic below `root`; raises OSError when it cannot be listed."""
    walk = walk_topics(root)
    yield from _index(root, walk)
    yield from _walk_problems(root, walk)
    yield from _topics(root, walk)


def _index(root: Path, walk: Walk) -> Iterator[Observation]:
    path = root / INDEX_NAME
    try:
        data, _ = read_regular_file(root, INDEX_NAME, LARGEST_INDEX)
    except FileNotFoundError:
        if path.is_symlink():
            yield Finding("the index is a link to nothing", str(path), f"rm {quote(str(path))}")
        else:
            yield Note(f"There is no {INDEX_NAME} yet")
        return
    except OSError as error:
        yield Finding(f"the index is not read: {error}", str(path), f"ls -l {quote(str(path))}")
        return
    text = data.decode("utf-8", "replace")
    window = index_window(text)
    yield _headroom(window)
    for sentence in lint_index(text, [topic.path for topic in walk.topics]):
        yield _linted(sentence, path)
    if cut := sorted(linked_paths(text) - linked_paths(window.text)):
        problem = f"{counted(len(cut), 'topic')} stand beyond what is loaded: {named(cut)}"
        yield Finding(problem, str(path), _DREAM)


def _headroom(window: Window) -> Observation:
    size = (
        f"{INDEX_NAME}: {window.lines_total:,} of {INDEX_LINES} lines, "
        f"{window.units_total:,} of {INDEX_UNITS:,} characters"
    )
    share = max(window.lines_total / INDEX_LINES, window.units_total / INDEX_UNITS)
    return Note(f"{size}; nearly full") if share >= _FULL and not window.truncated else Fact(size)


def _linted(sentence: str, path: Path) -> Finding:
    # The last part of a sentence of lint's says what to do.
    problem, _, remedy = sentence.removeprefix(f"{INDEX_NAME}: ").removesuffix(".").rpartition("; ")
    return Finding(problem, str(path), remedy)


def _walk_problems(root: Path, walk: Walk) -> Iterator[Observation]:
    for path in walk.outside:
        if path == INDEX_NAME:
            continue  # told already, as the index that is not read
        link = str(root / path)
        problem = "a link leads out of the memory directory and is not followed"
        yield Finding(problem, link, f"rm {quote(link)}, or put a copy in its place")
    if not walk.complete:
        problem = f"not everything is seen: more than {MOST_ENTRIES:,} entries, or more than {DEEPEST} levels"
        yield Finding(problem, str(root), "move what is not memory out of this directory")


@dataclass(slots=True)
class _Sorted:
    """Topics by what is to be said of them."""

    unread: list[str] = field(default_factory=list)
    headless: list[str] = field(default_factory=list)
    irregular: list[str] = field(default_factory=list)
    undescribed: list[str] = field(default_factory=list)


def _topics(root: Path, walk: Walk) -> Iterator[Observation]:
    kinds = _Sorted()
    for topic in walk.topics:
        _sort(root, topic.path, kinds)
    count = len(walk.topics)
    where = str(root)
    yield Fact(f"{counted(count, 'topic')}")
    if kinds.unread:
        problem = f"topics cannot be read: {named(kinds.unread)}"
        yield Finding(problem, where, f"chmod u+r {quote(str(root / kinds.unread[0]))}")
    if kinds.headless:
        problem = f"topics without frontmatter, which are hardly ever recalled: {named(kinds.headless)}"
        yield Finding(problem, where, "start each with name, description and metadata.type between --- lines")
    if kinds.irregular:
        problem = f"frontmatter that is not plain YAML, read line by line: {named(kinds.irregular)}"
        yield Finding(problem, where, "put values that hold a colon, quotes or other marks in quotes")
    if kinds.undescribed:
        yield Note(f"Topics without a description are found by their names alone: {named(kinds.undescribed)}")
    if count > MOST_TOPICS:
        yield Note(f"Recall chooses among the newest {MOST_TOPICS} topics; {count - MOST_TOPICS:,} are older")


def _sort(root: Path, path: str, kinds: _Sorted) -> None:
    try:
        data, _ = read_regular_file(root, path, HEADER_BYTES)
    except OSError:
        kinds.unread.append(path)
        return
    header = parse_header(data.decode("utf-8", "replace"))
    if header.syntax == "absent":
        kinds.headless.append(path)
    elif header.syntax == "lines":
        kinds.irregular.append(path)
    elif not header.description:
        kinds.undescribed.append(path)
