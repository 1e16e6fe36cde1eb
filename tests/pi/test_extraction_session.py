"""Extraction in a real Pi session: what the extractor's model is sent, what it may do, what is left."""

from __future__ import annotations

from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, messages, system_text, tool_names, tools
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, memory_directory, remember
from pi.pi_driver import run_print
from pi.pi_home import PiHome
from pi.processes import mentioning
from pi.rpc_session import rpc_session
from pi.scripting import ToolCall, call, calls, text
from pi.session_files import entries
from pi.waiting import until

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
