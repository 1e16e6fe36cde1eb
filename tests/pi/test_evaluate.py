"""`pi-project-memory evaluate recall` with a real Pi in between: what the model is asked, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from pi import install_pi
from pi.fake_provider import FakeProvider
from pi.inspecting import message_texts
from pi.pi_home import PiHome
from pi.processes import descendants, gone, mentioning
from pi.scripting import Answer, Request, hang, text
from pi.waiting import until, within
from pi_project_memory.supervisor.evaluate.recall_fixture import Query, load_recall_fixture

pytestmark = pytest.mark.real_time

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "recall"
QUERIES = load_recall_fixture(FIXTURE).queries

NOSY = """
import { writeFileSync } from "node:fs";
export default function () { writeFileSync(process.env.HOME + "/loaded", ""); }
"""


@asynccontextmanager
async def evaluating(home: PiHome, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the evaluation with `pi` on its PATH; it has ended when the block ends."""
    program = home.root / "bin" / "pi"
    program.write_text(f'#!/bin/sh\nexec "{install_pi.node_binary()}" "{install_pi.CLI}" "$@"\n', "utf-8")
    program.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pi_project_memory.supervisor.main"),
        *("evaluate", "recall", str(FIXTURE), *arguments),
        cwd=home.project,
        env=home.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def outcome(process: asyncio.subprocess.Process) -> tuple[int | None, str, str]:
    """Exit code, report and complaints."""
    output, errors = await within(process.communicate(), lambda: "the evaluation to end")
    return process.returncode, output.decode(), errors.decode()


async def evaluate(home: PiHome, *arguments: str) -> tuple[int | None, str, str]:
    async with evaluating(home, *arguments) as process:
        return await outcome(process)


def asked(request: Request) -> Query:
    """The query that a request puts to the model, shown behind the catalogue."""
    shown = message_texts(request)[-1]
    return next(query for query in QUERIES if shown.endswith(f"Request:\n\n{query.query}"))


def perfect(request: Request) -> Answer:
    return text(msgspec.json.encode({"selected_memories": asked(request).expected}).decode())


def traces(home: PiHome) -> list[str]:
    """What lies in a home and is neither the test's nor a file that Pi makes at every start."""
    places = (home.user_home, home.temp_dir, home.project, home.agent_dir)
    known = {"extensions", "settings.json", "models.json", ".git", "auth.json", "models-store.json"}
    return sorted(entry.name for place in places for entry in place.iterdir() if entry.name not in known)


async def test_a_named_model_answers_every_query_and_nothing_is_left(pi_home: PiHome, provider: FakeProvider):
    nosy = pi_home.agent_dir / "extensions" / "nosy.ts"
    nosy.parent.mkdir()
    nosy.write_text(NOSY, "utf-8")
    provider.respond("small", perfect)
    code, report, errors = await evaluate(pi_home, "--model", "fake/small")
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
    code, report, _ = await evaluate(pi_home, "--no-structured-output", "--parallel", "1")
    assert code == 1, "an answer in prose fails in the tool form"
    assert "Model fake/main" in report
    assert "answered    0 of 25; 25 failed, 0 not asked" in report
    assert provider.requests_for("main")[0].body["tools"][0]["function"]["name"] == "select_memories"


async def test_a_model_that_pi_does_not_know_is_refused_before_anything_is_asked(
    pi_home: PiHome, provider: FakeProvider
):
    code, report, errors = await evaluate(pi_home, "--model", "fake/nowhere")
    assert (code, report) == (1, "")
    assert "the host does not know the model fake/nowhere" in errors
    assert len(provider.log) == 0


async def test_a_pi_that_ends_at_once_is_told_with_its_own_words(pi_home: PiHome):
    code, report, errors = await evaluate(pi_home, "--extension", "builtin:no-such-thing")
    assert (code, report) == (1, "")
    assert "Pi ended with 1 before the evaluation could begin" in errors
    assert "no-such-thing" in errors


async def test_an_interrupted_run_tells_what_was_answered(pi_home: PiHome, provider: FakeProvider):
    provider.script("small", *[text('{"selected_memories":[]}')] * 3)
    provider.respond("small", lambda _: hang())
    async with evaluating(pi_home, "--model", "fake/small", "--parallel", "2") as process:
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
    async with evaluating(pi_home, "--model", "fake/small", "--parallel", "1") as process:
        await provider.request("small", 1)
        pi = next(child for child in descendants(process.pid) if child.parent == process.pid)
        os.kill(pi.pid, signal.SIGKILL)
        code, report, errors = await outcome(process)
    assert (code, errors) == (1, "")
    assert "answered    1 of 25; 24 failed, 0 not asked" in report
    assert report.count("the host has ended") == 24
