"""One turn's trace from its prompt to the last published file, under one name (OBS-1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pi_project_memory.supervisor.host.scenario import Reply, Scenario, ToolUse
from pi_project_memory.supervisor.log import SessionLog
from trace_kit import play_into

WRITE = ToolUse("write", {"path": "{{memory}}/new.md", "content": "a fact"})

SESSION = Scenario(
    name="Two turns",
    memory={
        "MEMORY.md": "- [a](a.md)\n",
        "a.md": "---\nname: a\ndescription: A\nmetadata:\n  type: project\n---\nbody\n",
    },
    models={
        "sim/selector": [Reply(choose=["a.md"], delay=0.2)],
        "sim/extractor": [
            Reply(calls=[WRITE], delay=5),
            Reply(text="Done.", delay=1),
            Reply(text="Nothing."),
        ],
    },
    steps=[
        {"user": "Remember the new port please"},
        {"user": "And something else entirely", "answer": [{"wait": 1, "say": "Yes."}]},
        {"wait": 20},
    ],
)


async def records_of(scenario: Scenario, root: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    log = SessionLog()
    path = log.locate(root / "logs", "s1")
    log.open()
    async with play_into(log, scenario, root / "session", monkeypatch) as session:
        await session.play()
    log.close()
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def of_turn(records: list[dict[str, Any]], turn: str) -> list[dict[str, Any]]:
    return [record for record in records if record.get("turn") == turn]


def names(records: list[dict[str, Any]]) -> list[str]:
    return [record["event"] for record in records if record["event"] != "received"]


@pytest.mark.req("OBS-1")
async def test_one_name_leads_from_the_prompt_to_the_published_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = of_turn(await records_of(SESSION, tmp_path, monkeypatch), "t1")
    order = (
        "selection_begun",
        "model_answered",
        "topic",
        "recall",
        "run_begun",
        "run_settled",
        "extraction_begun",
        "published",
        "tool_called",
        "run_ended",
        "summary_sent",
    )
    positions = [names(first).index(name) for name in order]
    assert positions == sorted(positions)
    messages = [record["message"] for record in first if record["event"] == "received"]
    assert {"PromptSubmitted", "SelectionReady", "TurnsSettled", "ExtractionEnded"} <= set(messages)


@pytest.mark.req("OBS-1")
async def test_every_event_of_an_actor_names_it_and_work_tells_how_long_it_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    records = await records_of(SESSION, tmp_path, monkeypatch)
    actors = {record["event"]: record.get("actor") for record in of_turn(records, "t1")}
    assert actors["published"] == actors["tool_called"] == actors["run_ended"] == "extractor"
    assert all(record["generation"] == 0 for record in records if record["event"] == "received")
    times = {(r["event"], r.get("actor")): r["ms"] for r in of_turn(records, "t1") if "ms" in r}
    assert times["model_answered", "selector"] == 200
    assert times["run_begun", None] >= 200
    assert {("index_loaded", "index"), ("tool_called", "extractor")} <= set(times)


@pytest.mark.req("OBS-1", "EXT-4")
async def test_a_run_that_follows_another_belongs_to_the_turn_that_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    records = await records_of(SESSION, tmp_path, monkeypatch)
    begun = [record for record in records if record["event"] == "extraction_begun"]
    assert [(record["turn"], record["cause"]) for record in begun] == [("t1", "settled"), ("t2", "trailing")]
    assert names(of_turn(records, "t2")).count("run_ended") == 1


@pytest.mark.req("OBS-1", "LIFE-2")
async def test_a_selection_that_is_given_up_says_why_and_its_late_answer_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    models = {"sim/selector": [Reply(choose=["a.md"], delay=30)], "sim/extractor": [Reply(text="Nothing.")]}
    stopped = msgspec.structs.replace(
        SESSION, models=models, steps=[{"user": "Please stop at once", "aborted": True}, {"wait": 1}]
    )
    records = of_turn(await records_of(stopped, tmp_path, monkeypatch), "t1")
    told = {record["event"]: record for record in records}
    assert told["prefetch_stopped"]["reason"] == "the run was stopped"
    assert told["stale_dropped"]["reason"] == "it was given up before"
    assert told["prefetch_stopped"]["job"] == told["stale_dropped"]["job"] == told["selection_begun"]["job"]
    assert (told["model_unanswered"]["error"], told["model_unanswered"]["actor"]) == (
        "CancelledError",
        "selector",
    )


@pytest.mark.req("OBS-1", "LIFE-2")
async def test_what_a_reload_overtakes_says_which_generation_it_was_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    models = {"sim/selector": [Reply(choose=["a.md"], delay=30)], "sim/extractor": [Reply(text="Nothing.")]}
    steps = [{"user": "Please look at this"}, {"command": "reload-config"}, {"wait": 1}]
    reloaded = msgspec.structs.replace(SESSION, models=models, steps=steps)
    records = await records_of(reloaded, tmp_path, monkeypatch)
    dropped = [
        record for record in records if record["event"] == "stale_dropped" and record["actor"] == "prefetch"
    ]
    told = [(record["turn"], record["generation"], record["job"], record["reason"]) for record in dropped]
    begun = [record["job"] for record in records if record["event"] == "selection_begun"]
    assert told == [("t1", 0, begun[0], "the current generation is 1")]
    assert [(r["state"], r["generation"]) for r in records if r["event"] == "config_reloaded"] == [("on", 1)]


@pytest.mark.req("OBS-1", "EXT-4")
async def test_what_the_main_agents_tools_and_the_end_of_a_session_lead_to_belongs_to_the_last_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    models = {"sim/selector": [Reply(choose=[])], "sim/extractor": [Reply(text="Nothing.")]}
    call = {"call": {"tool": "read", "arguments": {"path": "../memory/a.md"}}}
    config = {"extraction": {"everyNTurns": 5}}
    session = msgspec.structs.replace(
        SESSION, models=models, config=config, steps=[{"user": "Look at this topic", "answer": [call]}]
    )
    records = await records_of(session, tmp_path, monkeypatch)
    first = of_turn(records, "t1")
    messages = [record["message"] for record in first if record["event"] == "received"]
    assert {"ToolUsed", "FileRead", "ExtractionWanted"} <= set(messages)
    assert [record["cause"] for record in first if record["event"] == "extraction_begun"] == ["shutdown"]
    assert [record["event"] for record in records if "turn" not in record] == ["session_begun", "shut_down"]


@pytest.mark.req("OBS-1")
async def test_the_log_begins_with_what_runs_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    begun = (await records_of(SESSION, tmp_path, monkeypatch))[0]
    assert begun["event"] == "session_begun"
    assert (begun["host"], begun["mode"], begun["state"]) == ("simulated 1", "embedded", "on")
    assert begun["directory"] == str(tmp_path / "session" / "memory")


@pytest.mark.req("OBS-1", "PATH-6")
async def test_a_memory_that_is_off_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    off = msgspec.structs.replace(SESSION, config={"enabled": False}, steps=[{"wait": 1}])
    begun = (await records_of(off, tmp_path, monkeypatch))[0]
    assert begun["state"] == "disabled"
    assert begun["reason"].startswith("`enabled` is false in ")
