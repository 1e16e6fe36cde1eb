"""Dream in real Pi sessions: automatic, by hand, shared between two processes, taken over from a dead one."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, system_text, tool_names
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, remember
from pi.pi_driver import run_print
from pi.pi_home import PiHome
from pi.rpc_session import RpcSession, rpc_session
from pi.scripting import Gate, Text, ToolCall, call, calls, stream, text
from pi.waiting import until, within
from pi_project_memory.actors.core.identity import data_directory, path_hash

pytestmark = pytest.mark.real_time

DAY_MS = 86_400_000
DREAM = "dreamer"
PROMPT = "Please tell me about the deployment"


def with_dream(home: PiHome, **config: Any) -> PiHome:
    """Install memory with dream on a model of its own and without extraction, and with five other sessions."""
    install(home)
    models = {"selector": {"model": "fake/small"}, "dream": {"model": "fake/big"}}
    configure(home, {"models": models, "extraction": {"enabled": False}} | config)
    for number in range(5):
        write_session(home, f"other-{number}", f"talk number {number} about the quarterly audit")
    return home


def write_session(home: PiHome, session_id: str, said: str) -> Path:
    """Lay a session file of the project where Pi keeps its own."""
    folder = home.agent_dir / "sessions" / f"--{str(home.project).strip('/').replace('/', '-')}--"
    folder.mkdir(parents=True, exist_ok=True)
    header = {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-01-01T00:00:00.000Z"}
    message = {
        "type": "message",
        "id": "00000001",
        "parentId": None,
        "message": {"role": "user", "content": said},
    }
    path = folder / f"2026-01-01T00-00-00-000Z_{session_id}.jsonl"
    path.write_text(f"{json.dumps(header | {'cwd': str(home.project)})}\n{json.dumps(message)}\n")
    return path


def memory_root(home: PiHome, directory: Path) -> Path:
    """Return where the shared state and locks of a memory directory lie."""
    return Path(data_directory(str(home.agent_dir))) / "memory-roots" / path_hash(os.path.realpath(directory))


def last_dream_at(root: Path) -> int:
    state = json.loads((root / "state.json").read_text())
    assert set(state) == {"schemaVersion", "lastDreamAt"}
    assert state["schemaVersion"] == 1
    return int(state["lastDreamAt"])


def set_last_dream(root: Path, milliseconds: int) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    (root / "state.json").write_text(json.dumps({"schemaVersion": 1, "lastDreamAt": milliseconds}))


def answer_everything_else(provider: FakeProvider) -> None:
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))


@pytest.mark.req("DRM-1", "DRM-2", "DRM-3", "DRM-4", "PATH-4", "SUB-3", "C75")
async def test_a_settled_turn_starts_a_dream_when_the_gates_are_open(pi_home: PiHome, provider: FakeProvider):
    with_dream(pi_home)
    directory = remember(pi_home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY, "ship.md": DEPLOY})
    root = memory_root(pi_home, directory)
    set_last_dream(root, int(time.time() * 1000) - 2 * DAY_MS)
    answer_everything_else(provider)
    sessions = write_session(pi_home, "other-9", "more of it").parent
    provider.script(
        "big",
        calls(
            ToolCall("bash", {"command": f"grep -l audit {sessions}/*.jsonl"}),
            ToolCall("write", {"path": f"{sessions}/forged.md", "content": "x"}),
            ToolCall("bash", {"command": f"rm {directory}/ship.md"}),
        ),
        text("Tidied."),
    )
    before = int(time.time() * 1000)
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        second = await provider.request("big", 1)
        await until(lambda: not (directory / "ship.md").exists(), provider.describe)
    first = provider.requests_for("big")[0]
    assert sorted(tool_names(first)) == ["bash", "edit", "find", "grep", "read", "write"]
    task = message_texts(first)[-1]
    assert all(f"other-{number}" in task for number in (0, 4, 9))
    assert str(sessions) in task
    assert "## Background memory task tools" in system_text(first)
    found, forged, _removed = message_texts(second)[-3:]
    assert "other-0" in found
    assert forged.startswith("Refused")
    assert not (sessions / "forged.md").exists()
    assert last_dream_at(root) >= before
    assert not list((root / "locks").iterdir())


@pytest.mark.req("DRM-1", "CMD-1", "CMD-4")
async def test_by_hand_and_its_refusal(pi_home: PiHome, provider: FakeProvider):
    with_dream(pi_home)
    root = memory_root(pi_home, remember(pi_home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY}))
    set_last_dream(root, int(time.time() * 1000))
    provider.respond("big", lambda _: text("Nothing to do."))
    done = await run_print(pi_home, "/memory dream")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "The dream is done" in done.stderr
    configure(pi_home, {"dream": {"enabled": False}})
    refused = await run_print(pi_home, "/memory dream")
    assert "Memory dream is disabled by the global dream gate" in refused.stderr
    assert len(provider.requests_for("big")) == 1


@pytest.mark.req("PATH-4", "LCK-1", "LCK-2", "DRM-2")
async def test_two_processes_and_two_spellings_dream_once(pi_home: PiHome, provider: FakeProvider):
    real = pi_home.root / "notes"
    real.mkdir()
    (real / "deploy.md").write_text(DEPLOY)
    (pi_home.root / "alias").symlink_to(real)
    with_dream(pi_home, autoMemoryDirectory=str(real))
    root = memory_root(pi_home, real)
    set_last_dream(root, int(time.time() * 1000) - 2 * DAY_MS)
    answer_everything_else(provider)
    gate = Gate()
    provider.script("big", stream(gate, Text("Nothing to do.")))
    async with rpc_session(pi_home) as one:
        await one.run(PROMPT)
        await within(gate.reached.wait(), provider.describe)
        configure(pi_home, _spelled(pi_home, pi_home.root / "alias"))
        async with rpc_session(pi_home) as other:
            await other.run(PROMPT)
            await other.prompt("/memory dream")
            refusal = await other.notified("another session")
            assert (root / "locks" / "dream.lock").exists()
        gate.open()
        await _dreamt(one, provider)
    assert "No dream now" in refusal
    assert len(provider.requests_for("big")) == 1
    assert [path.name for path in root.parent.iterdir()] == [root.name]
    assert not list((root / "locks").iterdir())


def _spelled(home: PiHome, directory: Path) -> dict[str, Any]:
    path = Path(data_directory(str(home.agent_dir))) / "config.json"
    config: dict[str, Any] = json.loads(path.read_text())
    return config | {"autoMemoryDirectory": str(directory)}


async def _dreamt(pi: RpcSession, provider: FakeProvider) -> None:
    """Wait until status tells of a finished dream."""
    for _ in range(50):
        mark = pi.mark()
        await pi.prompt("/memory status")
        if "; done, 1 turn" in await pi.notified("Last dream", mark):
            return
        await asyncio.sleep(0.1)
    pytest.fail(provider.describe())


@pytest.mark.req("LCK-1", "LCK-2", "C14", "C15")
async def test_a_dead_holder_is_taken_over_after_the_stale_time(pi_home: PiHome, provider: FakeProvider):
    with_dream(pi_home)
    root = memory_root(pi_home, remember(pi_home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY}))
    set_last_dream(root, int(time.time() * 1000) - 2 * DAY_MS)
    answer_everything_else(provider)
    provider.respond("big", lambda _: text("Nothing to do."))
    locks = root / "locks"
    locks.mkdir(mode=0o700)
    gone = await asyncio.create_subprocess_exec("true")
    await gone.wait()
    lock = locks / "dream.lock"
    for age_minutes, answer in ((59, "another session"), (61, "The dream is done")):
        stamp = int(time.time() * 1000) - age_minutes * 60_000
        lock.write_text(json.dumps({"pid": gone.pid, "token": "x", "acquiredAt": stamp}))
        os.utime(lock, (stamp / 1000, stamp / 1000))
        result = await run_print(pi_home, "/memory dream")
        assert answer in result.stderr
    assert not list(locks.iterdir())
    assert len(provider.requests_for("big")) == 1


@pytest.mark.req("DRM-5", "C19")
async def test_a_damaged_state_is_told_once_and_left_alone(pi_home: PiHome, provider: FakeProvider):
    with_dream(pi_home)
    root = memory_root(pi_home, remember(pi_home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY}))
    root.mkdir(mode=0o700, parents=True)
    (root / "state.json").write_text("{bad")
    answer_everything_else(provider)
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        await pi.notified("state.json")
        await pi.run(PROMPT)
        await pi.prompt("/memory status")
        await pi.notified("Dream: stopped")
        told = [told for kind, told in pi.notifications() if kind != "info" and "state.json" in told]
    assert len(told) == 1
    assert (root / "state.json").read_text() == "{bad"
    assert provider.requests_for("big") == []


@pytest.mark.req("DRM-1", "DRM-3")
async def test_a_session_that_is_not_kept_has_no_other_sessions(pi_home: PiHome, provider: FakeProvider):
    with_dream(pi_home)
    remember(pi_home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY})
    answer_everything_else(provider)
    provider.respond("big", lambda _: call("ls"))
    result = await run_print(pi_home, PROMPT, "--no-session")
    assert (result.exit_code, result.stderr) == (0, "")
    assert provider.requests_for("big") == []
    assert "make unship" not in conversation_text(provider.requests_for("main")[0])
