"""The report of an extraction evaluation, as text for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.supervisor.evaluate.extraction import ExtractionEvaluation, Tried
from pi_project_memory.supervisor.evaluate.extraction_summary import ExtractionSummary, summarize
from pi_project_memory.supervisor.evaluate.report import cost_lines, line, listed, ratio, time_lines


def extraction_report(evaluation: ExtractionEvaluation) -> str:
    """Return what was expected and written in each case, and the totals."""
    parts = (_head(evaluation), _cases(evaluation), _totals(evaluation))
    return "\n".join(text for part in parts for text in (*part, ""))


def _head(evaluation: ExtractionEvaluation) -> Iterator[str]:
    fixture, model = evaluation.fixture, evaluation.model
    yield f"Extraction over {fixture.folder}: {len(fixture.cases)} conversations"
    if model is not None:
        bound = evaluation.settings.max_tokens
        tokens = "" if bound is None else f", at most {bound} output tokens an answer"
        turns = evaluation.config.extraction.max_turns
        yield f"Model {model.label}, thinking {model.thinking}, at most {turns} turns{tokens}"


def _cases(evaluation: ExtractionEvaluation) -> Iterator[str]:
    for position, (name, case) in enumerate(evaluation.fixture.cases.items()):
        if position:
            yield ""
        tried = evaluation.answers.get(name)
        yield f"{name}: {_verdict(tried)}"
        yield line("looks at", case.looks_at)
        if tried is not None:
            yield from _outcome(tried)


def _verdict(tried: Tried | None) -> str:
    if tried is None:
        return "not tried"
    if tried.failure:
        return "failed"
    return " and ".join(tried.score.faults) or "right"


def _outcome(tried: Tried) -> Iterator[str]:
    score = tried.score
    if tried.failure:
        yield line("failed", tried.failure)
    if tried.stopped:
        yield line("turns", f"the limit of {tried.turns} turns was reached")
    for fact, fate in zip(tried.case.expect.save, score.fates, strict=True):
        yield line(fate, fact.what)
    remarks = {
        "surplus": score.surplus,
        "leaked": score.leaked,
        "outdated": score.outdated,
        "lost": score.lost,
    }
    yield from (line(label, listed(names)) for label, names in remarks.items() if names)
    yield from (line("index", finding) for finding in score.index)
    yield from (line("form", finding) for finding in score.form)
    yield from _changes(tried.case.memory, tried.after)


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield what was written and removed; of a file that was there before, only what was not in it."""
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if new is None:
            yield line("removed", path)
        elif new != old:
            yield line("created" if old is None else "updated", path)
            known = set((old or "").splitlines())
            yield from (f"      | {sanitize_line(text)}" for text in new.splitlines() if text not in known)


def _totals(evaluation: ExtractionEvaluation) -> Iterator[str]:
    tried = list(evaluation.answers.values())
    ended = [one for one in tried if not one.failure]
    yield from _quality(summarize([(one.case.expect, one.score) for one in tried if one.counts]))
    yield line(
        "ended",
        f"{len(ended)} of {len(evaluation.fixture.cases)}; {len(tried) - len(ended)} failed, "
        f"{len(evaluation.fixture.cases) - len(tried)} not tried",
    )
    yield from _turns(ended)
    yield from cost_lines(sum((one.usage for one in tried), Usage()))
    yield from time_lines([one.seconds for one in ended], evaluation.parallel)


def _quality(numbers: ExtractionSummary) -> Iterator[str]:
    facts = numbers.facts
    yield line(
        "saved",
        f"{ratio(numbers.recall)}; {numbers.saved} of {numbers.wanted} facts, {facts['right']} of them as "
        f"they should be, {facts['misplaced']} misplaced, {facts['mistyped']} mistyped; {facts['missed']} missed",
    )
    yield line("precision", f"{ratio(numbers.precision)}; {numbers.surplus} topics written for nothing")
    yield line(
        "updated", f"{numbers.updated} of {numbers.belonging} facts that belong to a topic which existed"
    )
    yield line(
        "wrong",
        f"{numbers.leaked} texts that must not be saved, {numbers.outdated} outdated ones left, "
        f"{numbers.lost} losses",
    )
    yield line("nothing due", f"{numbers.disturbed} of {numbers.silent} conversations changed the memory")
    yield line(
        "index kept",
        f"{numbers.kept} of {numbers.changed} times; {numbers.form} faults in the form of topics",
    )
    yield line("all right", f"{numbers.right} of {numbers.cases} conversations")


def _turns(ended: Sequence[Tried]) -> Iterator[str]:
    if not ended:
        return
    counts = Counter(one.turns for one in ended)
    spread = ", ".join(f"{counts[number]} with {number}" for number in sorted(counts))
    stopped = sum(one.stopped for one in ended)
    yield line(
        "turns", f"{mean(one.turns for one in ended):.1f} in the mean ({spread}); {stopped} at the limit"
    )
