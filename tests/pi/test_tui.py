"""`/memory` in Pi's terminal interface: what a person sees while typing, waiting, reading and leaving."""

from __future__ import annotations

import re
import signal
from functools import partial
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, memory_directory, remember
from pi.pi_home import PiHome
from pi.processes import gone, mentioning
from pi.pty_driver import CONTROL_C, ENTER, TAB, PtySession, pty_session
from pi.scripting import Error, Gate, Text, ToolCall, hang, stream, text
from pi.session_files import entries
from pi.waiting import within

pytestmark = pytest.mark.real_time

SAID = "Please always indent with tabs here"
COUNTING = r"memory: extracting \(turn 1 of 5, [1-9]\d* s\)"


def prepared(home: PiHome, provider: FakeProvider, **config: Any) -> PiHome:
    """Install memory with an extractor on a model of its own; the selector chooses nothing."""
    install(home)
    models = {"selector": {"model": "fake/small"}, "extractor": {"model": "fake/big"}}
    configure(home, {"models": models, "dream": {"enabled": False}} | config)
    remember(home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY})
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))
    return home


def footer(tui: PtySession) -> str:
    """Return the row below Pi's own footer, where extensions show their status."""
    rows = [row for row in tui.lines() if row]
    return rows[-1] if rows[-1].startswith("memory: ") else ""


@pytest.mark.req("CMD-1", "HOST-9")
async def test_commands_are_completed_and_answered_below_the_prompt(pi_home: PiHome, provider: FakeProvider):
    prepared(pi_home, provider)
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        tui.send("/memory ")
        for name in ("status", "list", "extract", "dream", "reload-config"):
            await tui.shows(f"{name} ")
        tui.send("rel")
        await tui.hides("Show whether memory is on")
        assert "Read config.json again" in await tui.shows("reload-config")
        tui.send(TAB)
        await tui.hides("Read config.json again")
        tui.send(ENTER)
        await tui.shows("Configuration reloaded; memory is on")
        # Typed to its end, a word needs no menu: one Enter is enough.
        await tui.submit("/memory status")
        await tui.shows("Auto-memory: on")
        shown = tui.screen().replace("\n ", "")
        assert f"{memory_directory(pi_home)} (the default of this project)" in shown
        assert "Index: 1 of 200 lines" in shown
        assert "Extractor model: fake/big, thinking off; not used yet" in shown
        assert "Generation: 1" in shown
        await tui.submit("/memory list")
        row = (await tui.shows("deploy.md")).split()
        assert row[:4] == ["project", "deploy.md", "today", "yes"]
        assert " ".join(row[4:]) == "How the service is deployed and rolled back"
        await tui.submit("/memory lst")
        await tui.shows("Warning: /memory knows no 'lst'. What /memory can do:")
        await tui.shows("extract        Save now what is worth keeping of this conversation")
        await tui.submit("/quit")
        assert await tui.wait() == 0
    await gone(partial(mentioning, str(pi_home.root)))


@pytest.mark.req("CMD-3", "CMD-4", "EXT-7", "SEL-7")
async def test_the_status_line_counts_and_what_failed_is_a_warning(pi_home: PiHome, provider: FakeProvider):
    prepared(pi_home, provider)
    first, second = Gate(), Gate()
    write = ToolCall("write", {"path": f"{memory_directory(pi_home)}/tabs.md", "content": "Tabs.\n"})
    provider.script("big", stream(first, write), stream(second, Text("Saved.")), Error(401))
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        await tui.submit(SAID)
        await within(first.reached.wait(), provider.describe)
        await tui.until(lambda: bool(re.match(COUNTING, footer(tui))), "the seconds to be counted")
        await tui.submit("/memory extract")
        await tui.shows("The extraction has been accepted; its outcome will be reported here.")
        first.open()
        await tui.shows("memory: extracting (turn 2 of 5, ")
        assert footer(tui) != ""
        second.open()
        await tui.hides("memory: extracting")
        await tui.shows("The extraction is done (2 turns)")
        await tui.shows("created tabs.md")
        await tui.submit("Please use British English as well")
        await tui.shows("Warning: Project memory: the extractor failed: 401")
        await tui.hides("memory: extracting")
        assert footer(tui) == ""
        await tui.submit("/memory status")
        await tui.shows("Last warning, ")
        await tui.submit("/quit")
        assert await tui.wait() == 0


@pytest.mark.req("LIFE-5", "HOST-11", "HOST-9")
async def test_leaving_says_what_it_waits_for_and_control_c_skips_it(pi_home: PiHome, provider: FakeProvider):
    prepared(pi_home, provider)
    provider.script("big", hang())
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        await tui.submit(SAID)
        await provider.request("big")
        await tui.shows("memory: extracting")
        await tui.submit("/quit")
        await tui.shows(
            "Project memory is finishing its work (extraction or dream, a minute at most); Ctrl+C skips"
        )
        tui.send(CONTROL_C)
        assert await tui.wait() == -signal.SIGINT
    await gone(partial(mentioning, str(pi_home.root)))
    left = [*pi_home.agent_dir.rglob("*.lock*"), *pi_home.temp_dir.glob("pi-project-memory-*")]
    assert left == []
    kinds = [entry.get("customType") for entry in entries(pi_home.session_files()[0])]
    assert "project-memory-cursor" not in kinds


@pytest.mark.req("LIFE-5", "CMD-3")
async def test_a_reload_of_the_extensions_says_in_the_status_line_that_it_waits(
    pi_home: PiHome, provider: FakeProvider
):
    prepared(pi_home, provider)
    gate = Gate()
    provider.script("big", stream(gate, Text("Nothing to save.")))
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        await tui.submit(SAID)
        await within(gate.reached.wait(), provider.describe)
        await tui.submit("/reload")
        await tui.shows("Project memory is finishing its work (extraction or dream, a minute at most)…")
        gate.open()
        await tui.hides("finishing its work")
        await tui.shows("Reloaded keybindings, extensions")
        await tui.submit("/memory status")
        await tui.shows("Auto-memory: on")
        await tui.submit("/quit")
        assert await tui.wait() == 0
    kinds = [entry.get("customType") for entry in entries(pi_home.session_files()[0])]
    assert kinds.count("project-memory-cursor") == 1
