"""The numbers of an extraction evaluation; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from pi_project_memory.supervisor.evaluate.extraction_scoring import Expectation, ExtractionScore, Fate


@dataclass(frozen=True, slots=True)
class ExtractionSummary:
    """The numbers over several cases.

    `facts` count what should be saved, by fate; `belonging` those of them that belong into a topic which
    exists, `updated` how many of these went there alone. `silent` cases should change nothing, `kept` counts
    those of the `changed` cases whose index is sound afterwards. The rest are sums of findings.
    """

    cases: int
    right: int
    facts: Mapping[Fate, int]
    belonging: int
    updated: int
    surplus: int
    leaked: int
    outdated: int
    lost: int
    form: int
    silent: int
    disturbed: int
    changed: int
    kept: int

    @property
    def wanted(self) -> int:
        """Facts that should be saved."""
        return sum(self.facts.values())

    @property
    def saved(self) -> int:
        """Facts that were saved, wherever."""
        return self.wanted - self.facts["missed"]

    @property
    def recall(self) -> float | None:
        """The share of facts saved."""
        return _share(self.saved, self.wanted)

    @property
    def precision(self) -> float | None:
        """The share of what was saved that should be: facts against topics written for nothing."""
        return _share(self.saved, self.saved + self.surplus)


def summarize(scored: Sequence[tuple[Expectation, ExtractionScore]]) -> ExtractionSummary:
    """Return the numbers over cases, each with what was expected of it."""
    scores = [one for _, one in scored]
    fates = [
        (fact, fate) for wanted, one in scored for fact, fate in zip(wanted.save, one.fates, strict=True)
    ]
    silent = [one for wanted, one in scored if wanted.silent]
    changed = [one for one in scores if one.changed]
    return ExtractionSummary(
        cases=len(scores),
        right=sum(not one.faults for one in scores),
        facts={kind: sum(fate == kind for _, fate in fates) for kind in get_args(Fate)},
        belonging=sum(fact.into is not None for fact, _ in fates),
        updated=sum(fact.into is not None and fate in {"right", "mistyped"} for fact, fate in fates),
        surplus=sum(len(one.surplus) for one in scores),
        leaked=sum(len(one.leaked) for one in scores),
        outdated=sum(len(one.outdated) for one in scores),
        lost=sum(len(one.lost) for one in scores),
        form=sum(len(one.form) for one in scores),
        silent=len(silent),
        disturbed=sum(one.changed for one in silent),
        changed=len(changed),
        kept=sum(not one.index for one in changed),
    )


def _share(part: float, whole: int) -> float | None:
    return part / whole if whole else None
