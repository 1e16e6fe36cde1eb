"""`pi-project-memory evaluate recall` with a real Pi in between: what the model is asked, and what is left behind."""

from __future__ import annotations

import os
import signal

import msgspec
import pytest

from pi.evaluating import FIXTURES, evaluate, evaluating, outcome, traces
from pi.fake_provider import FakeProvider
from pi.inspecting import message_texts
from pi.pi_home import PiHome
from pi.processes import descendants, gone, mentioning
from pi.scripting import Answer, Request, hang, text
from pi.waiting import until
from pi_project_memory.supervisor.evaluate.recall_fixture import Query, load_recall_fixture

pytestmark = pytest.mark.real_time

QUERIES = load_recall_fixture(FIXTURES / "recall").queries

NOSY = """
import { writeFileSync } from "node:fs";
export default function () { writeFileSync(process.env.HOME + "/loaded", ""); }
"""


def asked(request: Request) -> Query:
    """The query that a request puts to the model, shown behind the catalogue."""
    shown = message_texts(request)[-1]
    return next(query for query in QUERIES if shown.endswith(f"Request:\n\n{query.query}"))


def perfect(request: Request) -> Answer:
    return text(msgspec.json.encode({"selected_memories": asked(request).expected}).decode())


async def test_a_named_model_answers_every_query_and_nothing_is_left(pi_home: PiHome, provider: FakeProvider):
    nosy = pi_home.agent_dir / "extensions" / "nosy.ts"
    nosy.parent.mkdir()
    nosy.write_text(NOSY, "utf-8")
    provider.respond("small", perfect)
    code, report, errors = await evaluate(pi_home, "recall", "--model", "fake/small")
    assert (code, errors) == (0, ""), report
    assert "Model fake/small, thinking off, at most 512 output tokens" in report
    assert "recall@5    1.00, the mean over 17 queries" in report
    assert "tokens      2,500 in, 500 out," in report
    assert "in 25 requests" in report
    assert "cost        $0.0035" in report
    requests = provider.requests_for("small")
    assert sorted(asked(request).id for request in requests) == sorted(query.id for query in QUERIES)
    assert {request.body["response_format"]["type"] for request in requests} == {"json_schema"}
    assert len(provider.log) == len(QUERIES)
    assert traces(pi_home) == []


async def test_without_a_name_the_model_of_pi_is_asked(pi_home: PiHome, provider: FakeProvider):
    provider.respond("main", lambda _: text('{"selected_memories":[]}'))
    code, report, _ = await evaluate(pi_home, "recall", "--no-structured-output", "--parallel", "1")
    assert code == 1, "an answer in prose fails in the tool form"
    assert "Model fake/main" in report
    assert "answered    0 of 25; 25 failed, 0 not asked" in report
    assert provider.requests_for("main")[0].body["tools"][0]["function"]["name"] == "select_memories"


async def test_a_model_that_pi_does_not_know_is_refused_before_anything_is_asked(
    pi_home: PiHome, provider: FakeProvider
):
    code, report, errors = await evaluate(pi_home, "recall", "--model", "fake/nowhere")
    assert (code, report) == (1, "")
    assert "the host does not know the model fake/nowhere" in errors
    assert len(provider.log) == 0


async def test_a_pi_that_ends_at_once_is_told_with_its_own_words(pi_home: PiHome):
    code, report, errors = await evaluate(pi_home, "recall", "--extension", "builtin:no-such-thing")
    assert (code, report) == (1, "")
    assert "Pi ended with 1 before the evaluation could begin" in errors
    assert "no-such-thing" in errors


async def test_an_interrupted_run_tells_what_was_answered(pi_home: PiHome, provider: FakeProvider):
    provider.script("small", *[text('{"selected_memories":[]}')] * 3)
    provider.respond("small", lambda _: hang())
    async with evaluating(pi_home, "recall", "--model", "fake/small", "--parallel", "2") as process:
        await provider.request("small", 4)
        await until(
            lambda: sum(request.finished.is_set() for request in provider.log) == 3,
            lambda: "three answers",
        )
        process.send_signal(signal.SIGINT)
        code, report, errors = await outcome(process)
    assert code == 1
    assert "answered    3 of 25; 0 failed, 22 not asked" in report
    assert "interrupted" in errors
    for request in provider.log:
        await provider.answered(request)
    await gone(lambda: mentioning(str(pi_home.root)))
    assert traces(pi_home) == []


async def test_the_queries_that_a_dying_pi_leaves_open_have_failed(pi_home: PiHome, provider: FakeProvider):
    provider.script("small", text('{"selected_memories":[]}'))
    provider.respond("small", lambda _: hang())
    async with evaluating(pi_home, "recall", "--model", "fake/small", "--parallel", "1") as process:
        await provider.request("small", 1)
        pi = next(child for child in descendants(process.pid) if child.parent == process.pid)
        os.kill(pi.pid, signal.SIGKILL)
        code, report, errors = await outcome(process)
    assert (code, errors) == (1, "")
    assert "answered    1 of 25; 24 failed, 0 not asked" in report
    assert report.count("the host has ended") == 24
