"""Putting the queries of a recall fixture to a selector, over any host's models.

Every query stands alone: the selector is shown the whole catalogue and no earlier queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

import anyio

from pi_project_memory.actors.core.config import SelectorModel
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.messages import Selection
from pi_project_memory.actors.metered import MeteredModels
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.selector import Selector
from pi_project_memory.supervisor.evaluate.hosts import Model, ModelsFor, concrete_model
from pi_project_memory.supervisor.evaluate.recall_fixture import Query, RecallFixture
from pi_project_memory.supervisor.evaluate.scoring import Score, score


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of one query: the selection, and what its requests have cost."""

    query: Query
    selection: Selection
    usage: Usage

    @property
    def failure(self) -> str:
        """Why there is no answer; empty when there is one, even if it names nothing."""
        return "" if self.selection.pair is not None else self.selection.note

    @property
    def score(self) -> Score:
        """The answer against what was expected; no answer has chosen nothing."""
        return score(self.query.expected, self.query.allowed, self.selection.paths)

    @property
    def counts(self) -> bool:
        """Whether the numbers include it: a failure is no proof of knowing that nothing belongs."""
        return not self.failure or bool(self.query.expected)


@dataclass(slots=True)
class RecallEvaluation:
    """One run over a fixture; what was answered stays here even when the run is cut short.

    `parallel` selections run at a time, `progress` is told how many have ended.
    """

    fixture: RecallFixture
    settings: SelectorModel
    parallel: int
    progress: Callable[[int], None]
    model: Model | None = None
    answers: dict[str, Asked] = field(default_factory=dict)

    async def run(self, models_for: ModelsFor) -> None:
        """Ask every query; raises EvaluationError when there is no such model."""
        self.model = await concrete_model(models_for(""), self.settings)
        places = anyio.Semaphore(self.parallel)
        cache_id = f"evaluate-{uuid4().hex}"
        async with anyio.create_task_group() as group:
            for query in self.fixture.queries:
                group.start_soon(self._ask, query, models_for, cache_id, places)

    async def _ask(self, query: Query, models_for: ModelsFor, cache_id: str, places: anyio.Semaphore) -> None:
        async with places:
            models = MeteredModels(models_for(query.id), "selector", RecordedTrace())
            selector = Selector(models, self.fixture.store(), self.settings, cache_id)
            selection = await selector.select(query.query, (), None)
        self.answers[query.id] = Asked(query, selection, models.usage)
        self.progress(len(self.answers))
