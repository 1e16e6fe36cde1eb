"""`pi-project-memory evaluate`: what the command line asks for, run and told."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from pi_project_memory.actors.core.config import SelectorModel, model_from_text
from pi_project_memory.supervisor.evaluate.hosts import ModelsFor, run_to_end
from pi_project_memory.supervisor.evaluate.loading import EvaluationError
from pi_project_memory.supervisor.evaluate.pi import PiProgram, open_pi
from pi_project_memory.supervisor.evaluate.recall import RecallEvaluation
from pi_project_memory.supervisor.evaluate.recall_fixture import load_recall_fixture
from pi_project_memory.supervisor.evaluate.recall_report import recall_report
from pi_project_memory.supervisor.evaluate.script import load_script, open_script


def recall(options: argparse.Namespace) -> int:
    """Evaluate a selector and print the report; return 0 when every query was answered."""
    try:
        fixture = load_recall_fixture(options.fixture)
        settings = _selector(options)
        host = _host(options, [query.id for query in fixture.queries])
    except EvaluationError as error:
        return _failed(str(error))
    evaluation = RecallEvaluation(fixture, settings, options.parallel, _progress(len(fixture.queries)))
    cut_short = run_to_end(host, evaluation.run)
    if evaluation.model is not None:
        sys.stdout.write(recall_report(evaluation))
    if cut_short:
        return _failed(cut_short)
    return int(any(asked.failure for asked in evaluation.answers.values()))


def _host(options: argparse.Namespace, cases: Collection[str]) -> AbstractAsyncContextManager[ModelsFor]:
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
