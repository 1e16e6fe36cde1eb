"""`evaluate recall` over scripted models: runs, the report, and the command line."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pi_project_memory.actors.core.config import ModelRef, SelectorModel
from pi_project_memory.actors.ports.host import HostError, ModelQuery, ModelRequest, ResolvedModel
from pi_project_memory.supervisor.cli import main
from pi_project_memory.supervisor.evaluate.hosts import ModelsFor, concrete_model, run_to_end
from pi_project_memory.supervisor.evaluate.loading import EvaluationError
from pi_project_memory.supervisor.evaluate.pi import PiProgram, open_pi
from pi_project_memory.supervisor.evaluate.recall import RecallEvaluation
from pi_project_memory.supervisor.evaluate.recall_fixture import (
    Kind,
    Query,
    RecallFixture,
    load_recall_fixture,
)
from pi_project_memory.supervisor.evaluate.recall_report import recall_report
from pi_project_memory.supervisor.evaluate.scoring import summarize
from pi_project_memory.supervisor.evaluate.script import Script, open_script
from pi_project_memory.supervisor.host.scenario import ProviderError, Reply

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "recall"
PREPARED = load_recall_fixture(FOLDER)


def evaluation(fixture: RecallFixture = PREPARED, parallel: int = 4) -> RecallEvaluation:
    return RecallEvaluation(fixture, SelectorModel(), parallel, lambda _: None)


async def run(replies: Mapping[str, list[Reply]], fixture: RecallFixture = PREPARED) -> RecallEvaluation:
    running = evaluation(fixture)
    async with open_script(Script(replies=dict(replies))) as models_for:
        await running.run(models_for)
    return running


def small(*queries: Query) -> RecallFixture:
    return RecallFixture(PREPARED.folder, PREPARED.topics, queries)


def query(query_id: str, expected: Iterable[str], allowed: Iterable[str] = (), kind: Kind = "plain") -> Query:
    return Query(query_id, kind, f"about {query_id}", tuple(expected), tuple(allowed))


async def test_a_perfect_model_gets_perfect_numbers():
    done = await run({each.id: [Reply(choose=list(each.expected))] for each in PREPARED.queries})
    report = recall_report(done)
    assert report.startswith(
        f"Recall over {FOLDER}: 25 queries, 12 topics\nModel scripted/model, thinking off"
    )
    assert report.count("): right\n") == 25
    assert "recall@5    1.00, the mean over 17 queries that expect topics; 21 of 21 " in report
    assert "precision   1.00; 21 picks right, 0 wrong, 0 allowed" in report
    assert "none wanted 0 picks wrong, on 8 queries" in report
    assert "answered    25 of 25; 0 failed, 0 not asked" in report
    assert "tokens      2,500 in, 250 out, 0 read from the cache, 0 written to it, in 25 requests" in report
    assert "cost        $0.0075" in report


async def test_a_model_that_always_takes_the_first_five_is_found_out():
    first = [topic.path for topic in await PREPARED.store().scan()][:5]
    assert first[:2] == ["hosting-cluster.md", "database-migration.md"]
    done = await run({each.id: [Reply(choose=first)] for each in PREPARED.queries})
    numbers = summarize([asked.score for asked in done.answers.values()])
    assert numbers.wrong + numbers.found + numbers.allowed == 5 * 25
    assert numbers.silent_wrong == 39, "one of the 40 picks where nothing is wanted is allowed"
    assert numbers.found == 5 + 3 + 2 + 1 + 1, "times that the five are expected, in all"


async def test_a_mixed_run_is_told_query_by_query():
    fixture = small(
        query("good", ["hosting-cluster.md"]),
        query("half", ["test-style.md", "commit-style.md"], kind="several"),
        query("loud", [], kind="none"),
        query("lenient", ["commit-style.md"], ["test-style.md"]),
        query("broken", ["commit-style.md"]),
        query("broken-silence", [], kind="none"),
        query("odd", ["commit-style.md"]),
    )
    refused = Reply(error=ProviderError("429 slow down", 429))
    done = await run(
        {
            "good": [Reply(choose=["[project] hosting-cluster.md"])],
            "half": [Reply(choose=["test-style.md", "dashboards.md"])],
            "loud": [Reply(choose=["dashboards.md"])],
            "lenient": [
                Reply(error=ProviderError("400 json_schema is unknown", 400)),
                Reply(choose=["test-style.md", "commit-style.md"]),
            ],
            "broken": [refused],
            "broken-silence": [refused],
            "odd": [Reply(choose=["\x1b[31mred.md", "no-such.md"])],
        },
        fixture,
    )
    report = recall_report(done)
    assert "good (plain): right\n" in report
    assert (
        "half (several): missed and wrong\n"
        "  query       about half\n"
        "  expected    test-style.md, commit-style.md\n"
        "  chosen      test-style.md, dashboards.md\n"
        "  missed      commit-style.md\n"
        "  wrong       dashboards.md\n"
    ) in report
    assert "loud (none): wrong\n  query       about loud\n  expected    nothing\n" in report
    assert "lenient (plain): right\n" in report
    assert "  allowed     test-style.md\n" in report
    assert "broken (plain): failed\n" in report
    assert report.count("  failed      429 slow down\n") == 2
    assert "odd (plain): missed\n" in report
    assert "  unknown     [31mred.md, no-such.md\n" in report
    # Recall of the five that expect: 1, 1/2, 1, 0 for the failure, 0. The failed silence is in no number.
    assert "recall@5    0.50, the mean over 5 queries that expect topics; 3 of 6 " in report
    assert "precision   0.60; 3 picks right, 2 wrong, 1 allowed" in report
    assert "none wanted 1 picks wrong, on 1 queries" in report
    assert "answered    5 of 7; 2 failed, 0 not asked" in report
    assert "in 8 requests" in report
    kinds = [line.split() for line in report.splitlines() if line.startswith(("plain ", "several ", "none "))]
    assert kinds == [
        ["plain", "4", "2", "0.50", "0"],
        ["several", "1", "0", "0.50", "1"],
        ["none", "2", "0", "-", "1"],
    ]


async def test_queries_run_side_by_side_and_their_order_does_not_matter():
    slow = {each.id: [Reply(choose=list(each.expected), delay=1.0)] for each in PREPARED.queries}
    slow["plain-release"] = [Reply(choose=["release-checklist.md"], delay=20.0)]
    started = anyio.current_time()
    done = await run(slow)
    assert anyio.current_time() - started == 20.0
    assert list(done.answers)[-1] == "plain-release"
    report = recall_report(done)
    assert report.index("plain-release") < report.index("plain-database")
    assert "time        1.00 s in the median, 20.00 s at most, with 4 at a time" in report


async def test_what_was_answered_before_an_interruption_is_kept():
    replies = {each.id: [Reply(hang=True)] for each in PREPARED.queries}
    replies["plain-release"] = [Reply(choose=["release-checklist.md"])]
    running = evaluation()
    async with open_script(Script(replies=replies)) as models_for:
        with anyio.move_on_after(5):
            await running.run(models_for)
    report = recall_report(running)
    assert "answered    1 of 25; 0 failed, 24 not asked" in report
    assert "recall@5    1.00, the mean over 1 queries" in report
    assert "plain-database (plain): not asked\n" in report


async def test_a_provider_that_hangs_is_a_failure_and_not_the_end():
    done = await run({"plain-release": [Reply(hang=True)]})
    assert done.answers["plain-release"].failure == "scripted/model gave no answer within 60 s"
    assert len(done.answers) == 25


class Registry:
    """A host that answers every look-up in one way."""

    def __init__(self, answer: ResolvedModel | None) -> None:
        self._answer = answer

    async def resolve_model(self, _: ModelQuery) -> ResolvedModel:
        if self._answer is None:
            raise HostError("model/resolve: no answer")
        return self._answer

    async def stream_model(self, _: ModelRequest) -> None:
        raise AssertionError("nothing may be asked")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ResolvedModel("not_found"), "does not know the model some/model/name"),
        (ResolvedModel("no_credentials"), "no credentials for some/model/name"),
        (ResolvedModel("no_active_model"), "name one with --model"),
        (ResolvedModel("ok"), "did not say which model"),
        (None, "could not look the model up: model/resolve: no answer"),
    ],
)
async def test_a_model_that_cannot_be_used_ends_the_evaluation(answer: ResolvedModel | None, told: str):
    configured = SelectorModel(model=ModelRef("some", "model/name"))
    with pytest.raises(EvaluationError, match=told):
        await concrete_model(Registry(answer), configured)


def test_the_command_prints_the_report_and_fails_with_the_failed_queries(capsys: pytest.CaptureFixture[str]):
    code = main(["evaluate", "recall", str(FOLDER), "--script", str(FOLDER / "script.yaml")])
    told = capsys.readouterr()
    assert (code, told.err) == (1, "")
    assert "Model scripted/careless, thinking off, at most 512 output tokens\n" in told.out
    assert "recall@5    0.86, the mean over 17 queries that expect topics; 18 of 21 " in told.out
    assert "precision   0.78; 18 picks right, 5 wrong, 1 allowed" in told.out
    assert "none wanted 3 picks wrong, on 8 queries" in told.out
    assert "in 26 requests" in told.out


def test_the_options_of_the_command_reach_the_selector(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "script.yaml"
    script.write_text("otherwise: [{choose: [commit-style.md]}]", "utf-8")
    options = ["--thinking", "high", "--max-tokens", "9", "--no-structured-output", "--parallel", "1"]
    assert main(["evaluate", "recall", str(FOLDER), "--script", str(script), *options]) == 0
    told = capsys.readouterr().out
    assert "thinking high, at most 9 output tokens, no native structured output\n" in told
    assert "with 1 at a time" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--model", "nameless"], "--model nameless is not of the form provider/model-id"),
        (["--pi", "no-such-pi"], "there is no program no-such-pi; give the path of Pi with --pi"),
        (["--script", "no-such.yaml"], "no-such.yaml cannot be read"),
    ],
)
def test_the_command_says_what_it_cannot_use(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["evaluate", "recall", str(FOLDER), *options]) == 1
    complaint = capsys.readouterr()
    assert complaint.out == ""
    assert told in complaint.err


@pytest.mark.parametrize("options", [["--parallel", "0"], ["--script", "a.yaml", "--model", "a/b"]])
def test_the_command_refuses_options_without_sense(options: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as refusal:
        main(["evaluate", "recall", str(FOLDER), *options])
    assert refusal.value.code == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("#!/no/such/interpreter\n", "cannot be started: No such file or directory"),
        (
            "#!/bin/sh\necho broken >&2; exit 3\n",
            "Pi ended with 3 before the evaluation could begin. .*\nbroken",
        ),
        ("#!/bin/sh\nexit 0\n", "Pi ended with 0 before .*\nIt wrote nothing."),
    ],
)
def test_a_program_that_is_no_pi_is_told(tmp_path: Path, program: str, told: str):
    path = tmp_path / "pi"
    path.write_text(program, "utf-8")
    path.chmod(0o755)
    reason = run_to_end(open_pi(PiProgram(str(path))), evaluation().run)
    assert re.search(told, reason), reason


def test_errors_that_are_no_refusals_are_not_swallowed():
    @asynccontextmanager
    async def host() -> AsyncIterator[ModelsFor]:
        async with anyio.create_task_group():
            yield lambda _: Registry(None)

    async def broken(_: ModelsFor) -> None:
        raise ValueError("a defect")

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        run_to_end(host(), broken)
