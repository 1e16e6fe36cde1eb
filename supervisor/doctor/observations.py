"""What an examination finds: facts, notes and findings, under headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is as it should be."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth knowing that asks for nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: what it is, the path where, and what mends it, as a command where there is one."""

    problem: str
    where: str
    remedy: str


Observation = Fact | Note | Finding


@dataclass(frozen=True, slots=True)
class Section:
    """The observations under one heading."""

    title: str
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """All that was seen of one agent directory; `project` is the root of the project, if it was looked for."""

    agent: str
    project: str | None
    sections: tuple[Section, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, in the order of the sections."""
        every = (observation for section in self.sections for observation in section.observations)
        return tuple(observation for observation in every if isinstance(observation, Finding))


def counted(number: int, thing: str) -> str:
    """Return a number with the noun it counts, as in `1 topic` and `2 topics`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def named(names: Iterable[str]) -> str:
    """Return the first names of a list, and how many more there are."""
    given: Sequence[str] = list(names)
    more = len(given) - MOST_NAMED
    return ", ".join(given[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def duration(milliseconds: float) -> str:
    """Return a time span in the largest unit of which it holds two, as in `90 minutes`."""
    seconds = int(abs(milliseconds) / 1000)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * length:
            return counted(seconds // length, unit)
    return counted(seconds, "second")
