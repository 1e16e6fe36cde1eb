"""Putting the conversations of an extraction fixture to an extractor, over any host's models and tools.

Each runs exactly as behind a session, in directories of its own, as a request that stands alone: the
conversation is replayed, and nothing of a main agent's own request is continued.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from uuid import uuid4

import anyio

from pi_project_memory.actors.core.config import Config, Models, RoleModel
from pi_project_memory.actors.core.cursor import Begin
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.extraction import Extraction, Standing
from pi_project_memory.actors.index import make_section
from pi_project_memory.actors.metered import MeteredModels
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.locks import FileLocks
from pi_project_memory.actors.ports.store import DiskStore
from pi_project_memory.actors.scopes import AbortScope
from pi_project_memory.actors.subagent.attempt import Attempt, attempt
from pi_project_memory.supervisor.evaluate.extraction_fixture import Case, ExtractionFixture
from pi_project_memory.supervisor.evaluate.extraction_scoring import ExtractionScore, score
from pi_project_memory.supervisor.evaluate.extraction_stage import CaseHost, Stage, open_stage
from pi_project_memory.supervisor.evaluate.hosts import Hosts, Model, concrete_model

RUN_SECONDS = 600.0
"""How long one extraction may take before it counts as failed."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one case: how the run ended, the memory after it, and what it has cost."""

    case: Case
    attempt: Attempt
    after: Mapping[str, str]
    usage: Usage
    seconds: float

    @property
    def failure(self) -> str:
        """Why the extraction did not come to its end; empty when it did, the turn limit included."""
        if self.attempt.ending != "returned":
            return self.attempt.note or self.attempt.ending
        return self.attempt.problem

    @property
    def turns(self) -> int:
        """Requests that the run was given answers to."""
        return self.attempt.report.result.turns if self.attempt.report else 0

    @property
    def stopped(self) -> bool:
        """Whether the turn limit ended it."""
        return self.attempt.report is not None and self.attempt.report.result.finish == "turn limit"

    @property
    def score(self) -> ExtractionScore:
        """The memory against what was expected."""
        return score(self.case.expect, self.case.memory, self.after)

    @property
    def counts(self) -> bool:
        """Whether the numbers include it: a failure is no proof of restraint."""
        return not self.failure or not self.case.expect.silent


@dataclass(slots=True)
class ExtractionEvaluation:
    """One run over a fixture; what was tried stays here even when the run is cut short.

    `parallel` extractions run at a time, `progress` is told how many have ended.
    """

    fixture: ExtractionFixture
    settings: RoleModel
    parallel: int
    progress: Callable[[int], None]
    model: Model | None = None
    answers: dict[str, Tried] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        """The default configuration with the model that is evaluated."""
        return Config(models=Models(extractor=self.settings))

    async def run(self, hosts: Hosts) -> None:
        """Try every case; raises EvaluationError when there is no such model."""
        self.model = await concrete_model(hosts(""), self.settings)
        places = anyio.Semaphore(self.parallel)
        session_id = f"evaluate-{uuid4().hex}"
        async with anyio.create_task_group() as group:
            for name in self.fixture.cases:
                group.start_soon(self._try, name, hosts, session_id, places)

    async def _try(self, name: str, hosts: Hosts, session_id: str, places: anyio.Semaphore) -> None:
        case = self.fixture.cases[name]
        async with places, open_stage(case.memory) as stage:
            host = CaseHost(name, hosts(name, str(stage.memory)), case.entries())
            workshop = stage.workshop(host, hosts.tools, session_id)
            models = MeteredModels(host, "extractor", workshop.trace)
            extraction = Extraction(
                workshop,
                models,
                FileLocks(stage.locks),
                ManualClock(noon_ms(case.today)),
                lambda: _rules(stage),
            )
            started = anyio.current_time()
            ending = await self._extract(extraction, host)
            seconds = anyio.current_time() - started
            self.answers[name] = Tried(case, ending, await stage.contents(), models.usage, seconds)
        self.progress(len(self.answers))

    async def _extract(self, extraction: Extraction, host: CaseHost) -> Attempt:
        scope = AbortScope(host.case)
        standing = Standing(scope.check, lambda _: None, lambda _: None)

        async def work() -> Attempt:
            begin = Begin("manual", 0, host.head.length)
            result, _ = await extraction.run(begin, host.head, self.config, None, standing)
            return result

        with anyio.move_on_after(RUN_SECONDS):
            return await attempt(scope, work)
        return Attempt("raised", note=f"it did not end within {RUN_SECONDS:g} s")


async def _rules(stage: Stage) -> str:
    """Return the memory section as a session begins with it."""
    return make_section(await DiskStore(stage.memory).read_index(), str(stage.memory)).text


def noon_ms(day: date) -> int:
    """Return the middle of a day where this machine is, in milliseconds since the epoch."""
    return int(datetime.combine(day, time(12)).astimezone().timestamp() * 1000)
