"""Extraction in a real Pi session: what the extractor's model is sent, what it may do, what is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, messages, system_text, tool_names, tools
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, memory_directory, remember
from pi.pi_driver import run_print
from pi.pi_home import PiHome
from pi.processes import mentioning
from pi.rpc_session import rpc_session
from pi.scripting import Error, Gate, Request, Text, ToolCall, call, calls, stream, text
from pi.session_files import entries
from pi.waiting import until, within

pytestmark = pytest.mark.real_time

TABS = """---
name: Tabs
description: The user wants tabs for indentation
metadata:
  type: feedback
---
Indent with tabs.
"""


def with_extraction(home: PiHome, **config: Any) -> PiHome:
    """Install memory with an extractor that runs on the session's own model, and a selector on `small`."""
    install(home)
    configure(home, {"models": {"selector": {"model": "fake/small"}}} | config)
    remember(home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY})
    return home


@pytest.mark.req("EXT-1", "EXT-6", "EXT-8", "SUB-1", "SUB-9", "HOST-5")
async def test_extraction_continues_the_parents_request(pi_home: PiHome, provider: FakeProvider):
    with_extraction(pi_home)
    directory = memory_directory(pi_home)
    provider.respond("small", lambda _: text(chosen()))
    provider.script(
        "main",
        text("Tabs it is."),
        calls(
            ToolCall("write", {"path": f"{directory}/tabs.md", "content": TABS}),
            ToolCall("read", {"path": f"{directory}/MEMORY.md"}),
        ),
        call(
            "edit",
            path=f"{directory}/MEMORY.md",
            edits=[{"oldText": "rolled back\n", "newText": "rolled back\n- [Tabs](tabs.md) — indentation\n"}],
        ),
        text("Saved."),
    )
    async with rpc_session(pi_home) as pi:
        await pi.run("Please always indent with tabs in this project")
        await provider.request("main", 3)
        await until(lambda: bool(_summaries(pi_home)), provider.describe)
    parent, first, second, third = provider.requests_for("main")
    assert system_text(first) == system_text(parent)
    assert tools(first) == tools(parent)
    assert messages(first)[: len(messages(parent))] == messages(parent)
    assert message_texts(first)[-1].count("## Background memory task tools") == 1
    assert str(directory) in message_texts(first)[-1]
    assert len(messages(first)) == len(messages(parent)) + 2  # the parent's answer and the task
    assert (directory / "tabs.md").read_text() == TABS
    assert (directory / "MEMORY.md").read_text() == INDEX + "- [Tabs](tabs.md) — indentation\n"
    assert "Successfully wrote" in conversation_text(second)
    stored = entries(pi_home.session_files()[0])
    kinds = [(e["type"], e.get("customType") or e.get("message", {}).get("role")) for e in stored]
    assert ("message", "toolResult") not in kinds
    assert len(_summaries(pi_home)) == 1
    assert third is not None


def _summaries(home: PiHome) -> list[dict[str, Any]]:
    found = [entry for path in home.session_files() for entry in entries(path, "custom_message")]
    return [entry for entry in found if entry["customType"] == "project-memory-update"]


def task_count(provider: FakeProvider, model: str = "main") -> int:
    """How many requests carried an extraction's task in their last message but tool results."""
    return sum(
        "## Background memory task tools" in _all_text(request) for request in provider.requests_for(model)
    )


def _all_text(request: Request) -> str:
    return f"{system_text(request)}\n{conversation_text(request)}"


@pytest.mark.req("EXT-6", "EXT-5", "PRM-3", "SUB-1")
async def test_another_model_gets_an_independent_request(pi_home: PiHome, provider: FakeProvider):
    with_extraction(
        pi_home, models={"selector": {"model": "fake/small"}, "extractor": {"model": "fakea/big"}}
    )
    provider.respond("small", lambda _: text(chosen()))
    provider.script("main", text("Tabs it is."))
    provider.script("big", text("Nothing to save."))
    async with rpc_session(pi_home) as pi:
        await pi.run("Please always indent with tabs in this project")
        request = await provider.request("big", 0)
    assert request.api == "anthropic-messages"
    assert sorted(tool_names(request)) == ["bash", "edit", "find", "grep", "read", "write"]
    assert "## Background memory task tools" in system_text(request)
    assert system_text(request).count("<auto_memory>") == 1
    assert message_texts(request)[0] == "Please always indent with tabs in this project"
    assert message_texts(request)[1] == "Tabs it is."


@pytest.mark.req("EXT-6")
async def test_an_integer_of_recent_messages_gets_an_independent_request(
    pi_home: PiHome, provider: FakeProvider
):
    with_extraction(pi_home, extraction={"recentMessages": 3})
    provider.respond("small", lambda _: text(chosen()))
    provider.script("main", text("First."), text("Nothing."), text("Second."), text("Nothing."))
    async with rpc_session(pi_home) as pi:
        await pi.run("Please always indent with tabs in this project")
        await provider.request("main", 1)
        await pi.run("Please also write British English everywhere")
        extraction = await provider.request("main", 3)
    texts = message_texts(extraction)
    assert "Please always indent with tabs in this project" not in texts
    assert texts[0] == "Please also write British English everywhere"


@pytest.mark.req("EXT-1")
async def test_every_third_turn_with_idle_flush_and_by_hand(pi_home: PiHome, provider: FakeProvider):
    with_extraction(pi_home, extraction={"everyNTurns": 3, "idleFlushSeconds": 1})
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))
    async with rpc_session(pi_home) as pi:
        await pi.run("Please always indent with tabs in this project")
        assert task_count(provider) == 0
        await until(lambda: task_count(provider) == 1, provider.describe)  # the idle flush
        for _ in range(2):
            await pi.run("Please tell me more about the deployment")
        await pi.prompt("/memory extract")
        await pi.notified("extraction is done")
        assert task_count(provider) == 2


@pytest.mark.req("EXT-1", "EXT-2", "EXT-4")
async def test_compaction_waits_and_extracts_the_rest_first(pi_home: PiHome, provider: FakeProvider):
    with_extraction(pi_home, extraction={"everyNTurns": 10, "idleFlushSeconds": 0})
    pi_home.write_settings(compaction={"enabled": False, "keepRecentTokens": 3})
    gate = Gate()
    provider.respond("small", lambda _: text(chosen()))
    provider.script(
        "main", text("One."), text("Two."), stream(gate, Text("Nothing to save.")), text("A summary.")
    )
    async with rpc_session(pi_home) as pi:
        await pi.run("Please always indent with tabs in this project")
        await pi.run("Please tell me more about the deployment")
        compacting = asyncio.ensure_future(pi.compact())
        await within(gate.reached.wait(), provider.describe)
        assert task_count(provider) == 1
        assert len(provider.requests_for("main")) == 3
        gate.open()
        await compacting
    kinds = [entry.get("customType", entry["type"]) for entry in entries(pi_home.session_files()[0])]
    assert kinds.index("project-memory-cursor") < kinds.index("compaction")


@pytest.mark.req("EXT-1", "LIFE-5", "C79")
async def test_print_mode_extracts_behind_its_answer(pi_home: PiHome, provider: FakeProvider):
    with_extraction(pi_home)
    directory = memory_directory(pi_home)
    provider.respond("small", lambda _: text(chosen()))
    provider.script(
        "main",
        text("Tabs it is."),
        call("write", path=f"{directory}/tabs.md", content=TABS),
        text("Saved."),
    )
    result = await run_print(pi_home, "Please always indent with tabs in this project")
    assert (result.exit_code, result.stdout.strip(), result.stderr) == (0, "Tabs it is.", "")
    assert (directory / "tabs.md").read_text() == TABS
    assert mentioning(str(pi_home.root)) == []
    assert not list(pi_home.temp_dir.glob("pi-project-memory-*"))


@pytest.mark.req("EXT-2", "EXT-3", "EXT-6")
async def test_skipped_turns_ask_no_model_and_the_cursor_survives_a_restart(
    pi_home: PiHome, provider: FakeProvider
):
    with_extraction(pi_home)
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))
    async with rpc_session(pi_home) as pi:
        await pi.run("yes do")
        await pi.run("ok")
        session = await pi.session_file()
    assert task_count(provider) == 0
    async with rpc_session(pi_home, "--session", str(session)) as pi:
        await pi.run("please always use tabs")
        await until(lambda: task_count(provider) == 1, provider.describe)
    cursors = [entry for entry in entries(session) if entry.get("customType") == "project-memory-cursor"]
    assert len(cursors) == 3


@pytest.mark.req("SUB-2", "SUB-3", "SUB-4", "SUB-6", "C31", "C36")
async def test_refusals_reach_the_model_and_nothing_happens_outside(pi_home: PiHome, provider: FakeProvider):
    with_extraction(pi_home)
    directory = memory_directory(pi_home)
    outside = pi_home.root / "outside.md"
    secret = pi_home.agent_dir / "models.json"
    provider.respond("small", lambda _: text(chosen()))
    provider.script(
        "main",
        text("Noted."),
        calls(
            ToolCall("write", {"path": str(outside), "content": "x"}),
            ToolCall("write", {"path": f"{directory}/deploy.md", "content": "gone"}),
            ToolCall("read", {"path": str(secret)}),
            ToolCall("bash", {"command": f"echo x > {outside}"}),
            ToolCall("bash", {"command": f"ls {directory}"}),
        ),
        text("I give up."),
    )
    async with rpc_session(pi_home) as pi:
        await pi.run("Please always indent with tabs in this project")
        answered = await provider.request("main", 2)
    results = message_texts(answered)[-5:]
    assert [result.startswith("Refused") for result in results] == [True, True, True, True, False]
    assert "deploy.md" in results[4]
    assert not outside.exists()
    assert (directory / "deploy.md").read_text() == DEPLOY
    assert "fake-key" not in conversation_text(answered)


@pytest.mark.req("EXT-2", "EXT-7")
async def test_an_api_error_is_told_once_and_status_shows_it(pi_home: PiHome, provider: FakeProvider):
    with_extraction(pi_home, models={"selector": {"model": "fake/small"}, "extractor": {"model": "fake/big"}})
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))
    provider.respond("big", lambda _: Error(401))
    async with rpc_session(pi_home) as pi:
        for number in range(2):
            await pi.run("Please always indent with tabs in this project")
            await provider.request("big", number)
        await pi.prompt("/memory status")
        status = await pi.notified("Last extraction")
        warnings = [text for kind, text in pi.notifications() if kind == "warning"]
    assert "401" in status
    assert len(warnings) == 1
    assert "extractor failed" in warnings[0]
