"""How good a set of chosen names is, as numbers; pure, and ignorant of models and files.

An expected name should be chosen. An allowed one may be chosen or not: it counts in no number. Any other
name that was chosen is a wrong pick.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

MOST_COUNTED = 5
"""Names of one answer that count, which is what a selection may hold."""


@dataclass(frozen=True, slots=True)
class Score:
    """One answer against what was expected, name by name, in the order given."""

    found: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    @property
    def expects(self) -> int:
        """How many names were expected."""
        return len(self.found) + len(self.missed)

    @property
    def right(self) -> bool:
        """Whether everything expected was chosen and nothing wrong."""
        return not self.missed and not self.wrong


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers over several answers; `silent` are those to which no name belongs.

    `recall` is the mean, over the answers that expect anything, of the share of expected names chosen.
    `precision` is the share of the picks, allowed ones left out, that were expected. None: nothing to
    divide by.
    """

    answers: int
    right: int
    expecting: int
    recall: float | None
    expected: int
    found: int
    wrong: int
    allowed: int
    precision: float | None
    silent: int
    silent_wrong: int


def score(expected: Collection[str], allowed: Collection[str], chosen: Sequence[str]) -> Score:
    """Compare one answer; repeated names count once, and names beyond the fifth not at all."""
    picks = tuple(dict.fromkeys(chosen))[:MOST_COUNTED]
    return Score(
        found=tuple(name for name in expected if name in picks),
        missed=tuple(name for name in expected if name not in picks),
        wrong=tuple(name for name in picks if name not in expected and name not in allowed),
        allowed=tuple(name for name in picks if name in allowed and name not in expected),
    )


def summarize(scores: Sequence[Score]) -> Summary:
    """Return the numbers over `scores`."""
    expecting = [one for one in scores if one.expects]
    silent = [one for one in scores if not one.expects]
    found = sum(len(one.found) for one in scores)
    wrong = sum(len(one.wrong) for one in scores)
    return Summary(
        answers=len(scores),
        right=sum(one.right for one in scores),
        expecting=len(expecting),
        recall=_share(sum(len(one.found) / one.expects for one in expecting), len(expecting)),
        expected=sum(one.expects for one in scores),
        found=found,
        wrong=wrong,
        allowed=sum(len(one.allowed) for one in scores),
        precision=_share(found, found + wrong),
        silent=len(silent),
        silent_wrong=sum(len(one.wrong) for one in silent),
    )


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None
