"""The report of a recall evaluation, as text for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.supervisor.evaluate.recall import Asked, RecallEvaluation
from pi_project_memory.supervisor.evaluate.recall_fixture import Query
from pi_project_memory.supervisor.evaluate.report import cost_lines, line, listed, ratio, time_lines
from pi_project_memory.supervisor.evaluate.scoring import Score, Summary, summarize


def recall_report(evaluation: RecallEvaluation) -> str:
    """Return what was expected and chosen for each query, the numbers by kind, and the totals."""
    parts = (_head(evaluation), _queries(evaluation), _kinds(evaluation), _totals(evaluation))
    return "\n".join(text for part in parts for text in (*part, ""))


def _head(evaluation: RecallEvaluation) -> Iterator[str]:
    fixture, settings, model = evaluation.fixture, evaluation.settings, evaluation.model
    yield f"Recall over {fixture.folder}: {len(fixture.queries)} queries, {len(fixture.topics)} topics"
    if model is not None:
        form = "" if settings.structured_output else ", no native structured output"
        bound = settings.max_tokens
        yield f"Model {model.label}, thinking {model.thinking}, at most {bound} output tokens{form}"


def _queries(evaluation: RecallEvaluation) -> Iterator[str]:
    for position, query in enumerate(evaluation.fixture.queries):
        if position:
            yield ""
        asked = evaluation.answers.get(query.id)
        yield f"{query.id} ({query.kind}): {_verdict(asked)}"
        yield line("query", query.query)
        yield line("expected", listed(query.expected))
        if asked is not None:
            yield from _answer(asked)


def _verdict(asked: Asked | None) -> str:
    if asked is None:
        return "not asked"
    if asked.failure:
        return "failed"
    if asked.score.right:
        return "right"
    return " and ".join(word for word in ("missed", "wrong") if getattr(asked.score, word))


def _answer(asked: Asked) -> Iterator[str]:
    if asked.failure:
        yield line("failed", asked.failure)
        return
    score = asked.score
    yield line("chosen", listed(asked.selection.paths))
    remarks = {
        "missed": score.missed,
        "wrong": score.wrong,
        "allowed": score.allowed,
        "unknown": asked.selection.unknown,
    }
    yield from (line(label, listed(names)) for label, names in remarks.items() if names)


def _kinds(evaluation: RecallEvaluation) -> Iterator[str]:
    yield f"{'kind':<22}{'queries':>8}{'right':>8}{'recall@5':>10}{'wrong picks':>13}"
    kinds = dict.fromkeys(query.kind for query in evaluation.fixture.queries)
    for kind in kinds:
        of_kind = [query for query in evaluation.fixture.queries if query.kind == kind]
        numbers = summarize(_scores(evaluation, of_kind))
        yield (f"{kind:<22}{len(of_kind):>8}{numbers.right:>8}{ratio(numbers.recall):>10}{numbers.wrong:>13}")


def _scores(evaluation: RecallEvaluation, queries: Sequence[Query]) -> list[Score]:
    answers = (evaluation.answers.get(query.id) for query in queries)
    return [asked.score for asked in answers if asked is not None and asked.counts]


def _totals(evaluation: RecallEvaluation) -> Iterator[str]:
    queries = evaluation.fixture.queries
    answers = list(evaluation.answers.values())
    numbers = summarize(_scores(evaluation, queries))
    failed = sum(bool(asked.failure) for asked in answers)
    yield from _quality(numbers)
    yield line(
        "answered",
        f"{len(answers) - failed} of {len(queries)}; {failed} failed, "
        f"{len(queries) - len(answers)} not asked",
    )
    yield from cost_lines(sum((asked.usage for asked in answers), Usage()))
    yield from time_lines(
        [asked.selection.select_seconds for asked in answers if not asked.failure], evaluation.parallel
    )


def _quality(numbers: Summary) -> Iterator[str]:
    yield line(
        "recall@5",
        f"{ratio(numbers.recall)}, the mean over {numbers.expecting} queries that expect topics; "
        f"{numbers.found} of {numbers.expected} expected topics were chosen",
    )
    yield line(
        "precision",
        f"{ratio(numbers.precision)}; {numbers.found} picks right, {numbers.wrong} wrong, "
        f"{numbers.allowed} allowed and not counted",
    )
    yield line(
        "none wanted",
        f"{numbers.silent_wrong} picks wrong, on {numbers.silent} queries that expect no topic",
    )
