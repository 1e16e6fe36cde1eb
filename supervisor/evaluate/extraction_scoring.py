"""How well an extraction kept what matters, from the memory before and after it; pure.

A memory is its files by path, `MEMORY.md` among them. Texts are looked for as regular expressions, without
regard to upper and lower case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct, field

from pi_project_memory.actors.core.frontmatter import MemoryType, parse_header
from pi_project_memory.actors.core.lint import linked_paths, lint_index, lint_topic

INDEX = "MEMORY.md"

Memory = Mapping[str, str]

Fate = Literal["right", "misplaced", "mistyped", "missed"]
"""What became of a fact: misplaced is one outside the topic it belongs to, or in several."""


class Fact(Struct, frozen=True, forbid_unknown_fields=True):
    """Something to be saved: one topic has to match all of `says`, and be of one of `types`.

    `into` names the topic that exists for it already; without one it needs a topic of its own. `index` is
    what the line that points to the topic has to match.
    """

    what: str
    types: tuple[MemoryType, ...]
    says: tuple[str, ...]
    into: str | None = None
    index: str | None = None


class Expectation(Struct, frozen=True, forbid_unknown_fields=True):
    """What an extraction should come to; texts by a name for people.

    `allowed` texts may be saved, `never` ones may not; `gone` ones must have left the memory, `keep` ones
    must still be in it.
    """

    save: tuple[Fact, ...] = ()
    allowed: dict[str, str] = field(default_factory=dict)
    never: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    keep: dict[str, str] = field(default_factory=dict)

    @property
    def silent(self) -> bool:
        """Whether nothing is to be changed."""
        return not self.save and not self.gone


@dataclass(frozen=True, slots=True)
class ExtractionScore:
    """One extraction against what was expected.

    `fates` are those of the facts in order. `surplus` are topics that were written for nothing, `leaked`,
    `outdated` and `lost` the names of texts that should not be there, still are, or are no more; a topic
    removed for nothing is lost as well. `index` and `form` are what is wrong with the index and with the
    written topics, and `changed` says whether anything was written or removed at all.
    """

    fates: tuple[Fate, ...] = ()
    surplus: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    form: tuple[str, ...] = ()
    changed: bool = False

    @property
    def faults(self) -> tuple[str, ...]:
        """Name the sorts of faults; there are none when everything is as it should be."""
        fates = (fate for fate in ("misplaced", "mistyped", "missed") if fate in self.fates)
        others = ("surplus", "leaked", "outdated", "lost", "index", "form")
        return (*fates, *(name for name in others if getattr(self, name)))


def score(expected: Expectation, before: Memory, after: Memory) -> ExtractionScore:
    """Compare the memory after an extraction with the one before."""
    changed = [path for path in sorted(after) if path != INDEX and before.get(path) != after[path]]
    places = [_places(fact, changed, after) for fact in expected.save]
    moved = before != after
    return ExtractionScore(
        fates=tuple(_fate(fact, found, after) for fact, found in zip(expected.save, places, strict=True)),
        surplus=tuple(
            _surplus(expected, changed, {path for found in places for path in found}, before, after)
        ),
        leaked=tuple(name for name, text in expected.never.items() if _appeared(text, before, after)),
        outdated=tuple(name for name, text in expected.gone.items() if _anywhere(text, after)),
        lost=tuple(_lost(expected, before, after)),
        index=tuple(_index_findings(expected, places, after)) if moved else (),
        form=tuple(finding for path in changed for finding in lint_topic(path, after[path].encode())),
        changed=moved,
    )


def matches(text: str, content: str) -> bool:
    """Tell whether an expected text stands in a file."""
    return re.search(text, content, re.IGNORECASE) is not None


def _places(fact: Fact, changed: Sequence[str], after: Memory) -> list[str]:
    """Return the written topics that hold a fact whole."""
    return [path for path in changed if all(matches(text, after[path]) for text in fact.says)]


def _fate(fact: Fact, places: Sequence[str], after: Memory) -> Fate:
    if not places:
        return "missed"
    if len(places) > 1 or fact.into not in {None, places[0]}:
        return "misplaced"
    return "right" if parse_header(after[places[0]]).type in fact.types else "mistyped"


def _surplus(
    expected: Expectation, changed: Sequence[str], wanted: Collection[str], before: Memory, after: Memory
) -> Iterator[str]:
    for path in changed:
        allowed = any(matches(text, after[path]) for text in expected.allowed.values())
        if path not in wanted and not allowed and not _cleaned(expected, path, before, after):
            yield path


def _cleaned(expected: Expectation, path: str, before: Memory, after: Memory) -> bool:
    """Whether a text that has to go has left this file."""
    had, has = before.get(path, ""), after.get(path, "")
    return any(matches(text, had) and not matches(text, has) for text in expected.gone.values())


def _lost(expected: Expectation, before: Memory, after: Memory) -> Iterator[str]:
    yield from (name for name, text in expected.keep.items() if not _anywhere(text, after))
    for path in sorted(set(before) - set(after)):
        if not _cleaned(expected, path, before, after):
            yield path


def _anywhere(text: str, memory: Memory) -> bool:
    return any(matches(text, content) for content in memory.values())


def _appeared(text: str, before: Memory, after: Memory) -> bool:
    return any(
        matches(text, content) and not matches(text, before.get(path, "")) for path, content in after.items()
    )


def _index_findings(expected: Expectation, places: Sequence[Sequence[str]], after: Memory) -> Iterator[str]:
    index = after.get(INDEX, "")
    yield from lint_index(index, set(after))
    for fact, found in zip(expected.save, places, strict=True):
        lines = [line for line in index.splitlines() if linked_paths(line) & set(found)]
        if fact.index is not None and lines and not any(matches(fact.index, line) for line in lines):
            yield f"no line of {', '.join(found)} tells {fact.what}"
