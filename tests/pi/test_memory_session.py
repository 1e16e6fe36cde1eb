"""A real Pi session with memory: what reaches the provider, what lies on disk, what is left afterwards."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, system_text
from pi.memory_home import CONFIG, chosen, configure, install, memory_directory, with_memory
from pi.pi_driver import run_json, run_print
from pi.pi_home import PiHome
from pi.processes import gone, mentioning
from pi.rpc_session import rpc_session
from pi.scripting import Delay, Gate, Text, hang, stream, text
from pi.session_files import entries
from pi.waiting import until, within
from pi_project_memory.actors.core.branch import RECALL_TYPE as RECALL

pytestmark = pytest.mark.real_time


@pytest.mark.req("HOST-2", "HOST-9", "HOST-10", "SEL-1", "RCL-2", "RCL-5")
async def test_print_mode_has_section_and_recall(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    provider.script("small", text(chosen("deploy.md")))
    provider.script("main", text("Use make ship."))
    result = await run_print(pi_home, "How do we deploy this service?")
    assert (result.exit_code, result.stdout.strip(), result.stderr) == (0, "Use make ship.", "")
    request = provider.requests_for("main")[0]
    assert system_text(request).count("<auto_memory>") == 1
    assert str(memory_directory(pi_home)) in system_text(request)
    assert "- [Deployment](deploy.md)" in system_text(request)
    assert "make unship" in conversation_text(request)
    assert "<memory-recall>" in message_texts(request)[-1]
    stored = entries(pi_home.session_files()[0], "custom_message")
    assert [(entry["customType"], entry["display"]) for entry in stored] == [("project-memory-recall", False)]
    assert mentioning(str(pi_home.root)) == []


@pytest.mark.req("HOST-9", "HOST-3")
async def test_json_mode_stays_json(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    provider.script("small", text(chosen()))
    provider.script("main", text("Nothing special."))
    result = await run_json(pi_home, "What is this project about?")
    assert result.result.exit_code == 0
    assert result.of("agent_settled")
    assert "<memory-recall>" not in conversation_text(provider.requests_for("main")[0])


@pytest.mark.req("IDX-4", "HOST-3", "SEL-6")
async def test_three_prompts_keep_the_section_byte_for_byte(pi_home: PiHome, provider: FakeProvider):
    directory = with_memory(pi_home) and memory_directory(pi_home)
    provider.respond("small", lambda _: text(chosen("deploy.md")))
    provider.respond("main", lambda _: text("Fine."))
    async with rpc_session(pi_home) as pi:
        await pi.run("How do we deploy this service?")
        (directory / "MEMORY.md").write_text("- [Other](deploy.md) — something else\n", encoding="utf-8")
        await pi.run("And how is it rolled back?")
        await pi.run("Thanks for the explanation")
    requests = provider.requests_for("main")
    sections = [system_text(request) for request in requests]
    assert len(sections) == 3
    assert sections[0] == sections[1] == sections[2]
    assert sum("make unship" in part for part in message_texts(requests[2])) == 1
    selector = provider.requests_for("small")
    assert [message_texts(request)[0] for request in selector[1:]] == [message_texts(selector[0])[0]] * 2
    assert {request.body["response_format"]["type"] for request in selector} == {"json_schema"}


@pytest.mark.req("RCL-2")
async def test_late_recall_is_stored_once_and_forces_no_call(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    provider.script("small", stream(Delay(2.6), Text(chosen("deploy.md"))))
    provider.respond("main", lambda _: text("Fine."))
    async with rpc_session(pi_home) as pi:
        await pi.run("How do we deploy this service?")
        await until(
            lambda: any(RECALL in entry.get("customType", "") for entry in _entries(pi_home)),
            lambda: "the late recall is not stored",
        )
        assert len(provider.requests_for("main")) == 1
        await pi.run("Thanks")
    first, second = provider.requests_for("main")
    assert "make unship" not in conversation_text(first)
    assert conversation_text(second).count("make unship") == 1


@pytest.mark.req("HOST-7")
async def test_abort_reaches_the_selector_in_silence(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    provider.script("small", hang())
    async with rpc_session(pi_home) as pi:
        running = asyncio.ensure_future(pi.prompt("How do we deploy this service?"))
        selector = await provider.request("small", 0)
        await pi.abort()
        await running
        await pi.settled()
        await provider.client_left(selector)
        assert [note for note in pi.notifications() if note[0] != "info"] == []


@pytest.mark.req("SEL-1", "HOST-9")
async def test_steered_message_is_a_query_of_its_own(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    gate = Gate()
    provider.respond("small", lambda _: text(chosen()))
    provider.script("main", stream(gate, Text("First.")), text("Second."))
    async with rpc_session(pi_home) as pi:
        await pi.prompt("How do we deploy this service?")
        await within(gate.reached.wait(), provider.describe)
        await pi.steer("Also tell me about rollback please")
        gate.open()
        await pi.settled()
        await provider.request("small", 1)
    queries = [message_texts(request)[-1] for request in provider.requests_for("small")]
    assert [query.rpartition("\n")[2] for query in queries] == [
        "How do we deploy this service?",
        "Also tell me about rollback please",
    ]


@pytest.mark.req("CMD-1", "HOST-9")
async def test_status_and_list_answer_where_each_mode_shows_them(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    printed = await run_print(pi_home, "/memory status")
    assert (printed.exit_code, printed.stdout) == (0, "")
    assert "Auto-memory: on" in printed.stderr
    assert str(memory_directory(pi_home)) in printed.stderr
    async with rpc_session(pi_home) as pi:
        await pi.prompt("/memory list")
        shown = await pi.notified("deploy.md")
        assert "How the service is deployed" in shown


@pytest.mark.req("CFG-2", "HOST-9", "PATH-6")
async def test_broken_config_is_told_once_and_pi_answers(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    path = configure(pi_home, '{"enabled": true,\n  oops}')
    provider.respond("main", lambda _: text("Still here."))
    result = await run_print(pi_home, "Hello there, how are you?")
    assert (result.exit_code, result.stdout.strip()) == (0, "Still here.")
    assert result.stderr.count(str(path)) == 1
    assert f"{path}:2:3" in result.stderr
    assert path.read_text() == '{"enabled": true,\n  oops}'
    assert "auto_memory" not in system_text(provider.requests_for("main")[0])


@pytest.mark.req("PATH-5", "HOST-8")
async def test_memory_root_that_is_a_file_is_named(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    wrong = pi_home.root / "notes"
    wrong.write_text("precious")
    configure(pi_home, CONFIG | {"autoMemoryDirectory": str(wrong)})
    provider.respond("main", lambda _: text("Still here."))
    result = await run_print(pi_home, "Hello there, how are you?")
    assert (result.exit_code, result.stdout.strip()) == (0, "Still here.")
    assert str(wrong) in result.stderr
    assert wrong.read_text() == "precious"


@pytest.mark.req("PATH-1", "HOST-8")
async def test_a_git_that_hangs_delays_nothing_for_long(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    git = pi_home.root / "bin" / "git"
    git.write_text("#!/bin/sh\nexec sleep 600\n")
    git.chmod(0o755)
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Still here."))
    result = await run_print(pi_home, "Hello there, how are you?")
    assert (result.exit_code, result.stdout.strip()) == (0, "Still here.")


@pytest.mark.req("CFG-1", "PATH-6")
async def test_disabled_memory_touches_nothing(pi_home: PiHome, provider: FakeProvider):
    install(pi_home)
    configure(pi_home, {"enabled": False})
    provider.respond("main", lambda _: text("Plain."))
    result = await run_print(pi_home, "Hello there, how are you?")
    assert (result.exit_code, result.stdout.strip(), result.stderr) == (0, "Plain.", "")
    kept = pi_home.agent_dir / "project-memory"
    assert sorted(path.name for path in kept.iterdir() if path.name != "logs") == ["config.json"]
    status = await run_print(pi_home, "/memory status")
    assert "Auto-memory: disabled" in status.stderr
    assert "Memory directory: not initialized" in status.stderr


@pytest.mark.req("PATH-6")
async def test_untrusted_project_gets_no_directory(pi_home: PiHome, provider: FakeProvider):
    install(pi_home)
    configure(pi_home)
    provider.respond("main", lambda _: text("Plain."))
    result = await run_print(pi_home, "Hello there, how are you?", "--no-approve")
    assert (result.exit_code, result.stdout.strip()) == (0, "Plain.")
    kept = pi_home.agent_dir / "project-memory"
    assert sorted(path.name for path in kept.iterdir() if path.name != "logs") == ["config.json"]


@pytest.mark.req("HOST-8", "HOST-10")
async def test_missing_interpreter_is_one_warning(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    install(pi_home, str(pi_home.root / "no-python"))
    provider.respond("main", lambda _: text("Still here."))
    result = await run_print(pi_home, "Hello there, how are you?")
    assert (result.exit_code, result.stdout.strip()) == (0, "Still here.")
    assert result.stderr.count("memory is off for this session") == 1
    assert "no-python" in result.stderr
    assert "pi-project-memory install" in result.stderr or "doctor" in result.stderr


@pytest.mark.req("HOST-11")
async def test_killed_pi_leaves_no_process(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    provider.script("small", hang())
    async with rpc_session(pi_home) as pi:
        running = asyncio.ensure_future(pi.prompt("How do we deploy this service?"))
        await provider.request("small", 0)
        await pi.kill()
        running.cancel()
    await gone(partial(mentioning, str(pi_home.root)))


def _entries(home: PiHome) -> list[dict[str, Any]]:
    return [entry for path in home.session_files() for entry in entries(path, "custom_message")]
