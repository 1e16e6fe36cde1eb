"""`pi-project-memory evaluate`: what the command line asks for, run and told."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from msgspec.structs import replace

from pi_project_memory.actors.core.config import RoleModel, SelectorModel, model_from_text
from pi_project_memory.supervisor.evaluate.extraction import ExtractionEvaluation
from pi_project_memory.supervisor.evaluate.extraction_fixture import load_extraction_fixture
from pi_project_memory.supervisor.evaluate.extraction_report import extraction_report
from pi_project_memory.supervisor.evaluate.hosts import Hosts, Model, run_to_end
from pi_project_memory.supervisor.evaluate.loading import EvaluationError
from pi_project_memory.supervisor.evaluate.pi import PiProgram, open_pi
from pi_project_memory.supervisor.evaluate.recall import RecallEvaluation
from pi_project_memory.supervisor.evaluate.recall_fixture import load_recall_fixture
from pi_project_memory.supervisor.evaluate.recall_report import recall_report
from pi_project_memory.supervisor.evaluate.script import load_script, open_script

R = TypeVar("R", bound=RoleModel)


def recall(options: argparse.Namespace) -> int:
    """Evaluate a selector and print the report; return 0 when every query was answered."""
    try:
        fixture = load_recall_fixture(options.fixture)
        settings = _selector(options)
        host = _host(options, [query.id for query in fixture.queries])
    except EvaluationError as error:
        return _failed(str(error))
    evaluation = RecallEvaluation(fixture, settings, options.parallel, _progress(len(fixture.queries)))
    return _evaluate(host, evaluation, recall_report)


def extraction(options: argparse.Namespace) -> int:
    """Evaluate an extractor and print the report; return 0 when every extraction came to its end."""
    try:
        fixture = load_extraction_fixture(options.fixture)
        settings = _named(options, RoleModel(thinking_level=options.thinking, max_tokens=options.max_tokens))
        host = _host(options, fixture.cases)
    except EvaluationError as error:
        return _failed(str(error))
    evaluation = ExtractionEvaluation(fixture, settings, options.parallel, _progress(len(fixture.cases)))
    return _evaluate(host, evaluation, extraction_report)


class _Answer(Protocol):
    @property
    def failure(self) -> str: ...


class _Evaluation(Protocol):
    @property
    def model(self) -> Model | None: ...
    @property
    def answers(self) -> Mapping[str, _Answer]: ...
    async def run(self, hosts: Hosts, /) -> None: ...


E = TypeVar("E", bound=_Evaluation)


def _evaluate(host: AbstractAsyncContextManager[Hosts], evaluation: E, report: Callable[[E], str]) -> int:
    """Run an evaluation and print its report, however far it came; return the exit code."""
    cut_short = run_to_end(host, evaluation.run)
    if evaluation.model is not None:
        sys.stdout.write(report(evaluation))
    if cut_short:
        return _failed(cut_short)
    return int(any(answer.failure for answer in evaluation.answers.values()))


def _host(options: argparse.Namespace, cases: Collection[str]) -> AbstractAsyncContextManager[Hosts]:
    if options.script is not None:
        return open_script(load_script(options.script, cases))
    return open_pi(PiProgram(options.pi, options.extension))


def _selector(options: argparse.Namespace) -> SelectorModel:
    """Return the selector's default configuration with what the command line changes of it."""
    settings = replace(
        SelectorModel(), thinking_level=options.thinking, structured_output=options.structured_output
    )
    if options.max_tokens is not None:
        settings = replace(settings, max_tokens=options.max_tokens)
    return _named(options, settings)


def _named(options: argparse.Namespace, settings: R) -> R:
    """Return the settings with the model that the command line names."""
    model = model_from_text(options.model)
    if model is None:
        raise EvaluationError(f"--model {options.model} is not of the form provider/model-id")
    return replace(settings, model=model)


def _progress(total: int) -> Callable[[int], None]:
    """Return what shows on a terminal how far the run is."""

    def show(done: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {total}" + ("\r\x1b[K" if done == total else ""))
            sys.stderr.flush()

    return show


def _failed(text: str) -> int:
    sys.stderr.write(f"pi-project-memory: {text}\n")
    return 1
