"""`/memory` in the real Pi: what each mode shows, and that a session goes on whatever is typed or breaks."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import system_text
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, memory_directory, remember
from pi.pi_driver import run_json, run_print
from pi.pi_home import PiHome
from pi.processes import gone, mentioning
from pi.rpc_session import RpcSession, rpc_session
from pi.scripting import Gate, ToolCall, calls, stream, text
from pi.session_files import entries
from pi.waiting import within

pytestmark = pytest.mark.real_time

CONFIG: dict[str, Any] = {
    "models": {"selector": {"model": "fake/small"}, "extractor": {"model": "fake/big"}},
    "dream": {"enabled": False},
}
BY_HAND = CONFIG | {"extraction": {"enabled": False}}
SAID = "Please always indent with tabs in this project"


def prepared(home: PiHome, provider: FakeProvider, config: dict[str, Any] = CONFIG) -> PiHome:
    """Install memory with an extractor on a model of its own; the selector chooses nothing."""
    install(home)
    configure(home, config)
    remember(home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY})
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))
    return home


async def answered(pi: RpcSession, command: str, part: str) -> str:
    """Run a command and return the notification that holds `part`."""
    mark = pi.mark()
    assert await pi.prompt(f"/memory {command}") == "handled"
    return await pi.notified(part, mark)


@pytest.mark.req("CMD-1", "CMD-4", "CFG-6", "HOST-9")
async def test_every_subcommand_in_rpc_mode(pi_home: PiHome, provider: FakeProvider):
    """`extract` returns at once: other commands and prompts are answered while it runs."""
    prepared(pi_home, provider, BY_HAND)
    directory, gate = memory_directory(pi_home), Gate()
    write = ToolCall("write", {"path": f"{directory}/tabs.md", "content": "Indent with tabs.\n"})
    provider.script("big", stream(gate, write), text("Saved."))
    async with rpc_session(pi_home) as pi:
        await pi.run(SAID)
        status = await answered(pi, "status", "Auto-memory: on")
        assert f"Memory directory: {directory} (the default of this project)" in status
        assert "Extraction: by /memory extract alone" in status
        assert "deploy.md" in await answered(pi, "list", "1 topic, newest first")
        await answered(pi, "extract", "has been accepted")
        await within(gate.reached.wait(), provider.describe)
        assert "Extraction: running, turn 1 of 5" in await answered(pi, "status", "Auto-memory: on")
        await pi.run("How are you?")
        mark = pi.mark()
        gate.open()
        done = await pi.notified("The extraction is done (2 turns)", mark)
        assert "created tabs.md" in done
        await answered(pi, "dream", "Memory dream is disabled by the global dream gate")
        await answered(pi, "tidy --now", "/memory knows no 'tidy'")
        await answered(pi, "status --json", "/memory status takes nothing more")
        configure(pi_home, {"enabled": False})
        await answered(pi, "reload-config", "Configuration reloaded; memory is off")
        disabled = await answered(pi, "status", "Auto-memory: disabled")
        assert "Memory directory: not initialized" in disabled
        await answered(pi, "extract", "/memory extract is not available")
        await pi.run("Is anybody there?")
        configure(pi_home, BY_HAND)
        await answered(pi, "reload-config", "Configuration reloaded; memory is on")
        await pi.run("And now again please")
        kinds = {text.splitlines()[0][:30]: kind for kind, text in pi.notifications()}
    assert kinds["Memory dream is disabled by th"] == "warning"
    assert kinds["The extraction is done (2 turn"] == "info"
    sections = ["<auto_memory>" in system_text(request) for request in provider.requests_for("main")]
    assert sections == [True, True, False, True], "while memory is off its section is gone"


@pytest.mark.req("CMD-4", "HOST-9", "EXT-1")
async def test_print_mode_waits_for_an_extraction_and_tells_its_outcome(
    pi_home: PiHome, provider: FakeProvider
):
    prepared(pi_home, provider, BY_HAND)
    assert (await run_print(pi_home, SAID)).stdout == "Fine.\n"
    [session] = pi_home.session_files()
    path = memory_directory(pi_home) / "tabs.md"
    write = ToolCall("write", {"path": str(path), "content": "Indent with tabs.\n"})
    provider.script("big", calls(write), text("Saved."))
    result = await run_print(pi_home, "/memory extract", "--session", str(session))
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"The extraction is done (2 turns). In {path.parent}:\n  created tabs.md\n"
    assert path.read_text() == "Indent with tabs.\n"
    assert "project-memory-cursor" in [entry.get("customType") for entry in entries(session)]
    again = await run_print(pi_home, "/memory extract", "--session", str(session))
    assert (again.exit_code, again.stdout, again.stderr) == (
        0,
        "",
        "No extraction: there was nothing new to read.\n",
    )


@pytest.mark.req("CMD-1", "HOST-9", "LIFE-5")
@pytest.mark.parametrize("command", ["status", "nonsense --flag", ""])
async def test_json_mode_stays_json_and_ends_at_once(pi_home: PiHome, provider: FakeProvider, command: str):
    prepared(pi_home, provider)
    run = await run_json(pi_home, f"/memory {command}")
    assert run.result.exit_code == 0
    expected = {"status": "Auto-memory: on", "": "What /memory can do:"}.get(
        command, "/memory knows no 'nonsense'"
    )
    assert expected in run.result.stderr
    assert provider.requests_for("main") == []


@pytest.mark.req("CFG-2", "CFG-6", "OBS-3", "LIFE-4", "IDX-3")
async def test_a_session_goes_on_whatever_breaks_beside_it(pi_home: PiHome, provider: FakeProvider):
    """A log that cannot be written, a configuration broken between two reloads, a directory that disappears."""
    prepared(pi_home, provider)
    data = pi_home.agent_dir / "project-memory"
    (data / "logs").write_text("not a directory", "utf-8")
    directory = memory_directory(pi_home)
    write = ToolCall("write", {"path": f"{directory}/tabs.md", "content": "Indent with tabs.\n"})
    async with rpc_session(pi_home) as pi:
        provider.script("big", text("Nothing."))
        await pi.run(SAID)
        lost = await pi.notified("its log cannot be written")
        assert str(data / "logs") in lost
        assert "Log: " not in await answered(pi, "status", "Auto-memory: on")
        path = configure(pi_home, '{"enabled": true,\n  oops}')
        broken = await answered(pi, "reload-config", "the last valid configuration stays in force")
        assert f"{path}:2:3: it is not valid JSON" in broken
        assert "Generation: 0" in await answered(pi, "status", "Auto-memory: on")
        configure(pi_home, CONFIG | {"extraction": {"everyNTurns": "often"}})
        mended = await answered(pi, "reload-config", "Configuration reloaded; memory is on")
        assert "Not used: extraction.everyNTurns must be an integer of at least 1" in mended
        shutil.rmtree(directory)
        provider.script("big", calls(write), text("Saved."))
        await pi.run("Please use British English everywhere")
        await provider.request("big", 2)
        await answered(pi, "list", "tabs.md")
        kinds = [kind for kind, _ in pi.notifications() if kind != "info"]
    assert kinds == ["warning", "error"]
    assert (data / "logs").read_text("utf-8") == "not a directory"
    assert json.loads(path.read_text("utf-8"))["dream"] == {"enabled": False}
    await gone(partial(mentioning, str(pi_home.root)))
