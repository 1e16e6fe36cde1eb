"""How a real Pi session ends: in order, by signals, by force, and what each leaves behind (LIFE-5, HOST-11)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, memory_directory, remember
from pi.pi_driver import pi_process
from pi.pi_home import PiHome
from pi.processes import Process, gone, mentioning
from pi.rpc_session import RpcSession, rpc_session
from pi.scripting import Gate, Json, Text, ToolCall, call, hang, stream, text
from pi.session_files import entries
from pi.waiting import until, within

pytestmark = pytest.mark.real_time

SAID = "Please always indent with tabs in this project"


def prepared(home: PiHome, provider: FakeProvider, **config: Any) -> PiHome:
    """Install memory with an extractor on a model of its own; the selector chooses nothing."""
    install(home)
    models = {"selector": {"model": "fake/small"}, "extractor": {"model": "fake/big"}}
    configure(home, {"models": models, "dream": {"enabled": False}} | config)
    remember(home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY})
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))
    return home


def services(home: PiHome) -> list[Process]:
    return [process for process in mentioning(str(home.root)) if "pi_project_memory" in process.command]


def held(home: PiHome) -> list[str]:
    """Return the names of what a run holds: its lock and its scratch directory."""
    locks = [path.name for path in home.agent_dir.rglob("*.lock*")]
    return sorted([*locks, *(path.name[:18] for path in home.temp_dir.glob("pi-project-memory-*"))])


def cursors(session: Path) -> int:
    return sum(entry.get("customType") == "project-memory-cursor" for entry in entries(session))


async def extracting(pi: RpcSession, home: PiHome, provider: FakeProvider) -> Path:
    """Play a turn, wait until its extraction holds what it needs, and return the session's file."""
    await pi.run(SAID)
    await provider.request("big")
    assert held(home) == ["extract.lock", "pi-project-memory-"]
    return await pi.session_file()


async def nothing_left(home: PiHome) -> None:
    """Wait until no process of the home is left, and assert that it has given everything back."""
    await gone(partial(mentioning, str(home.root)))
    assert held(home) == []


@pytest.mark.req("LIFE-5", "HOST-9")
async def test_a_session_in_which_nothing_was_said_ends_without_delay(
    pi_home: PiHome, provider: FakeProvider
):
    """Well within the minute that a session's end may take."""
    prepared(pi_home, provider)
    async with rpc_session(pi_home) as pi:
        await pi.get_state()
        assert (await pi.close()).exit_code == 0
    await nothing_left(pi_home)


@pytest.mark.req("LIFE-5", "EXT-1", "C79")
@pytest.mark.parametrize("end", ["end of input", "SIGTERM"])
async def test_an_orderly_end_waits_for_the_extraction(pi_home: PiHome, provider: FakeProvider, end: str):
    prepared(pi_home, provider)
    gate, topic = Gate(), memory_directory(pi_home) / "tabs.md"
    write = ToolCall("write", {"path": str(topic), "content": "Indent with tabs.\n"})
    provider.script("big", stream(gate, write), text("Saved."))
    async with rpc_session(pi_home) as pi:
        session = await extracting(pi, pi_home, provider)
        ending = asyncio.ensure_future(pi.close() if end == "end of input" else pi.terminate())
        waiting = "Project memory is finishing its work (extraction or dream, a minute at most); Ctrl+C skips the wait."
        await until(lambda: waiting in pi.pi.stderr, lambda: pi.pi.explain("the word of the wait"))
        gate.open()
        assert (await ending).exit_code == (0 if end == "end of input" else 128 + signal.SIGTERM)
    assert topic.read_text() == "Indent with tabs.\n"
    assert cursors(session) == 1
    await nothing_left(pi_home)


@pytest.mark.req("HOST-11", "LIFE-5", "LIFE-2", "SUB-8", "LCK-2", "C78", "C80")
@pytest.mark.parametrize("end", ["a second SIGTERM", "kill -9"])
async def test_an_end_by_force_gives_everything_back_and_moves_no_cursor(
    pi_home: PiHome, provider: FakeProvider, end: str
):
    prepared(pi_home, provider)
    provider.script("big", hang())
    async with rpc_session(pi_home) as pi:
        session = await extracting(pi, pi_home, provider)
        if end == "kill -9":
            await pi.kill()
        else:
            pi.pi.signal(signal.SIGTERM)
            await until(
                lambda: "finishing its work" in pi.pi.stderr, lambda: pi.pi.explain("the first signal")
            )
            assert (await pi.terminate()).exit_code == 128 + signal.SIGTERM
    await nothing_left(pi_home)
    assert cursors(session) == 0
    provider.script("big", text("Nothing."))
    async with rpc_session(pi_home, "--session", str(session)) as pi:
        await pi.prompt("/memory status")
        await pi.notified("Auto-memory: on")
    assert cursors(session) == 1, "what was left is extracted when the session is opened and ends again"
    assert "indent with tabs" in str(provider.requests_for("big")[-1].body)


@pytest.mark.req("HOST-11", "LIFE-5", "HOST-9")
async def test_an_interrupt_in_print_mode_gives_everything_back(pi_home: PiHome, provider: FakeProvider):
    prepared(pi_home, provider)
    provider.script("big", hang())
    async with pi_process(pi_home, "-p", SAID) as pi:
        await provider.request("big")
        await until(lambda: "finishing its work" in pi.stderr, lambda: pi.explain("the end to wait"))
        os.killpg(os.getpgid(pi.pid), signal.SIGINT)
        result = await pi.wait()
        assert (result.exit_code, result.stdout) == (-signal.SIGINT, "Fine.\n")
    await nothing_left(pi_home)
    assert cursors(pi_home.session_files()[0]) == 0


@pytest.mark.req("LIFE-5", "HOST-8", "HOST-12", "EXT-1")
async def test_a_session_that_is_replaced_keeps_what_was_said_and_its_service_ends(
    pi_home: PiHome, provider: FakeProvider
):
    """New, resumed and forked: the old service finishes first, and there is never more than one."""
    prepared(pi_home, provider)
    gate = Gate()
    provider.script("big", stream(gate, Text("Nothing to save.")))
    provider.respond("big", lambda _: text("Nothing to save."))
    async with rpc_session(pi_home) as pi:
        first = await extracting(pi, pi_home, provider)
        [old] = services(pi_home)
        replacing = asyncio.ensure_future(pi.new_session())
        await pi.wait_for(_says_that_it_waits, "the status line to say why")
        gate.open()
        await within(replacing, lambda: pi.explain("a new session"))
        assert cursors(first) == 1
        seen = {old.pid}
        for replace in (partial(pi.switch_session, first), partial(_fork, pi)):
            await pi.run(SAID)
            await replace()
            [service] = services(pi_home)
            assert service.pid not in seen
            seen.add(service.pid)
        assert pi.ui_requests("setStatus")[-1].get("statusText") is None
    await nothing_left(pi_home)
    assert [cursors(path) >= 1 for path in pi_home.session_files()] == [True] * len(pi_home.session_files())


def _says_that_it_waits(record: Json) -> bool:
    return record.get("method") == "setStatus" and "finishing its work" in record.get("statusText", "")


async def _fork(pi: RpcSession) -> None:
    said = [entry for entry in await pi.entries() if entry.get("message", {}).get("role") == "user"]
    await pi.fork(said[-1]["id"])


@pytest.mark.req("CFG-6", "HOST-7", "HOST-11")
async def test_a_reload_drops_the_model_request_and_the_lock(pi_home: PiHome, provider: FakeProvider):
    prepared(pi_home, provider)
    provider.script("big", hang())
    async with rpc_session(pi_home) as pi:
        session = await extracting(pi, pi_home, provider)
        await pi.prompt("/memory reload-config")
        await provider.client_left(provider.requests_for("big")[0])
        await until(lambda: held(pi_home) == [], lambda: f"the lock and the scratch to go: {held(pi_home)}")
        provider.script("big", text("Nothing."))
    assert cursors(session) == 1, "the end of the session extracted what the reload had stopped"


@pytest.mark.req("CFG-6", "HOST-7", "LIFE-3", "SUB-8")
async def test_a_reload_ends_the_program_of_a_tool(pi_home: PiHome, provider: FakeProvider):
    """Nobody ever writes into the pipe that it reads."""
    prepared(pi_home, provider)
    pipe = pi_home.project / "pipe"
    os.mkfifo(pipe)
    provider.script("big", call("bash", command=f"cat {pipe}"))
    async with rpc_session(pi_home) as pi:
        await pi.run(SAID)
        await until(lambda: bool(mentioning(str(pipe))), provider.describe)
        await pi.prompt("/memory reload-config")
        await gone(partial(mentioning, str(pipe)))
        await until(lambda: held(pi_home) == [], lambda: f"the lock and the scratch to go: {held(pi_home)}")
        provider.script("big", text("Nothing."))


HANGING = """
import sys, time
from pi_project_memory.actors.ports import config_file
from pi_project_memory.supervisor.main import run

def hang(path):
    print("in the worker", file=sys.stderr, flush=True)
    time.sleep(3_600)

config_file.read_config = hang
run()
"""


@pytest.mark.req("HOST-11", "LIFE-5")
async def test_a_worker_that_hangs_on_a_dead_disk_does_not_keep_the_service(tmp_path: Path):
    start = {
        "protocolVersion": 1,
        "host": {"name": "test", "version": "1"},
        "mode": "print",
        "agentDir": str(tmp_path),
        "cwd": str(tmp_path),
        "trusted": True,
        "session": {"id": "s1", "directory": "", "usesDefaultDirectory": True},
        "history": {"handle": "h", "length": 0},
    }
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}).encode()
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HANGING, "serve"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert service.stdin is not None
    assert service.stdout is not None
    assert service.stderr is not None
    try:
        service.stdin.write(frame + b"\n")
        assert b'"id":1' in await within(service.stdout.readline(), lambda: "the handshake")
        assert await within(service.stderr.readline(), lambda: "the worker") == b"in the worker\n"
        service.stdin.close()
        assert await within(service.wait(), lambda: "a service whose worker hangs to end") == 1
    finally:
        if service.returncode is None:
            service.kill()
            await service.wait()
