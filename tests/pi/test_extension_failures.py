"""A service that fails in every way there is, under the real Pi: Pi goes on, the user knows, nothing is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import system_text
from pi.pi_driver import pi_process, run_json, run_print
from pi.pi_home import PiHome
from pi.processes import gone
from pi.pty_driver import pty_session
from pi.rpc_session import rpc_session
from pi.scripted_service import install_extension, install_service
from pi.scripting import Gate, Json, Text, stream, text
from pi.waiting import until

pytestmark = pytest.mark.real_time

SECTION = "Section of the fake service."
STUBBORN: Json = {"deaf": True, "ignore_eof": True, "ignore_sigterm": True}


@pytest.mark.req("HOST-8", "HOST-9")
async def test_a_missing_interpreter_is_one_warning(pi_home: PiHome, provider: FakeProvider):
    service = install_service(pi_home, command=["/nowhere/python", "-m", "x"])
    provider.script("main", text("Hello"))
    result = await run_print(pi_home, "hi")
    assert (result.exit_code, result.stdout) == (0, "Hello\n")
    warnings = result.stderr.splitlines()
    assert len(warnings) == 1
    assert "off for this session" in warnings[0]
    assert "/nowhere/python" in warnings[0]
    assert "ENOENT" in warnings[0]
    assert str(service.log_file) in warnings[0]


@pytest.mark.req("HOST-8", "HOST-9")
@pytest.mark.parametrize("content", [None, "{", '{"command": "python"}'])
async def test_a_broken_installation_is_one_warning(
    pi_home: PiHome, provider: FakeProvider, content: str | None
):
    launch = install_extension(pi_home) / "launch.json"
    if content is not None:
        launch.write_text(content, "utf-8")
    provider.script("main", text("Hello"))
    run = await run_json(pi_home, "hi")
    assert run.of("agent_settled")
    assert len(run.result.stderr.splitlines()) == 1
    assert str(launch) in run.result.stderr
    assert "pi-project-memory install" in run.result.stderr


@pytest.mark.req("HOST-8", "HOST-9")
async def test_the_terminal_shows_why_memory_is_off(pi_home: PiHome):
    install_extension(pi_home)
    async with pty_session(pi_home) as tui:
        await tui.shows("Project memory is off for this session")
        await tui.submit("/memory status")
        await tui.shows("Project memory cannot do this")
        await tui.submit("/quit")
        assert await tui.wait() == 0


@pytest.mark.req("HOST-8")
async def test_a_service_that_ends_at_once_is_given_up_after_three_restarts(
    pi_home: PiHome, provider: FakeProvider
):
    words = "Traceback\nModuleNotFoundError: no module named x\n"
    service = install_service(pi_home, {"exit": 3, "last_words": words})
    provider.respond("main", lambda _: text("Hello"))
    async with rpc_session(pi_home) as rpc:
        warning = await rpc.notified("off for this session")
        assert "exit code 3; its last words: ModuleNotFoundError: no module named x" in warning
        assert str(service.log_file) in warning
        await rpc.run("hi")
        assert await rpc.last_text() == "Hello"
        await rpc.run("/memory status")
        assert "exit code 3" in await rpc.notified("Project memory cannot do this")
        kinds = [kind for kind, _ in rpc.notifications()]
    assert kinds == ["warning"] * 3
    assert len(service.starts()) == 4


@pytest.mark.req("HOST-8")
async def test_a_service_that_dies_in_the_middle_of_a_frame_is_replaced(
    pi_home: PiHome, provider: FakeProvider
):
    dies: Json = {"on": {"before_agent_start": [{}, {"die": 9}]}}
    service = install_service(pi_home, dies, {})
    provider.respond("main", lambda request: text(f"answer {request.number}"))
    async with rpc_session(pi_home) as rpc:
        for prompt in ("one", "two", "three"):
            await rpc.run(prompt)
            await service.started(1 if prompt == "one" else 2)
        assert [kind for kind, _ in rpc.notifications()] == ["warning"]
    assert {system_text(request) for request in provider.requests_for("main")} == {
        system_text(provider.requests_for("main")[0])
    }
    again = service.params("initialize", run=1)[0]
    assert (again["session"]["restarted"], again["history"]["handle"]) == (True, "h1")
    assert again["history"]["length"] > service.params("initialize", run=0)[0]["history"]["length"]
    assert [params["prompt"] for params in service.params("before_agent_start", run=1)] == ["three"]


@pytest.mark.req("HOST-8")
async def test_the_section_outlives_the_service(pi_home: PiHome, provider: FakeProvider):
    service = install_service(pi_home, {"on": {"agent_settled": {"die": 9}}}, {"exit": 1})
    provider.respond("main", lambda request: text(f"answer {request.number}"))
    async with rpc_session(pi_home) as rpc:
        await rpc.run("one")
        await rpc.notified("off for this session")
        await rpc.run("two")
        session_file = await rpc.session_file()
    async with rpc_session(pi_home, "--session", str(session_file)) as rpc:
        await rpc.notified("off for this session")
        await rpc.run("three")
    systems = [system_text(request) for request in provider.requests_for("main")]
    assert len(systems) == 3
    assert all(f"<auto_memory>\n{SECTION}\n</auto_memory>" in system for system in systems)
    assert systems[0] == systems[1] == systems[2]
    assert len(service.starts()) == 4 + 4


@pytest.mark.req("HOST-4", "HOST-8")
async def test_another_version_is_told_and_not_tried_again(pi_home: PiHome, provider: FakeProvider):
    refusal = "protocol version 9 is spoken here, the host speaks 1; install both from one release"
    answer: Json = {"error": {"code": -32001, "message": refusal}}
    service = install_service(pi_home, {"on": {"initialize": answer}})
    provider.script("main", text("Hello"))
    result = await run_print(pi_home, "hi")
    assert result.stdout == "Hello\n"
    assert len(result.stderr.splitlines()) == 1
    assert refusal in result.stderr
    assert len(service.starts()) == 1
    await gone(service.processes)


@pytest.mark.req("HOST-8", "HOST-9")
async def test_a_service_that_never_reads_holds_pi_up_for_its_bounds_alone(
    pi_home: PiHome, provider: FakeProvider
):
    service = install_service(pi_home, STUBBORN)
    provider.script("main", text("Hello"))
    result = await run_print(pi_home, "hi")
    assert (result.exit_code, result.stdout) == (0, "Hello\n")
    assert "did not answer the handshake within 5 s" in result.stderr
    assert len(service.starts()) == 1
    await gone(service.processes)


@pytest.mark.req("HOST-8")
async def test_a_service_that_falls_silent_is_replaced(pi_home: PiHome, provider: FakeProvider):
    silent = STUBBORN | {"deaf": False, "on": {"before_agent_start": {"deaf": True}}}
    service = install_service(pi_home, silent, {})
    provider.respond("main", lambda request: text(f"answer {request.number}"))
    async with rpc_session(pi_home) as rpc:
        await rpc.run("one")
        assert "stopped answering" in await rpc.notified("It is being started again")
        await service.received("initialize", 2)
        assert len(service.processes()) == 1
        await rpc.run("two")
    first, second = provider.requests_for("main")
    assert SECTION not in system_text(first)
    assert SECTION in system_text(second)
    await gone(service.processes)


@pytest.mark.req("HOST-9")
async def test_a_shutdown_waits_for_the_service_and_says_so(pi_home: PiHome, provider: FakeProvider):
    service = install_service(pi_home, {"on": {"shutdown": {"delay": 1.5}}})
    provider.script("main", text("Hello"))
    result = await run_print(pi_home, "hi")
    assert result.stdout == "Hello\n"
    assert (
        result.stderr
        == "Project memory is finishing its work (extraction or dream, a minute at most); Ctrl+C skips the wait.\n"
    )
    await gone(service.processes)


@pytest.mark.req("HOST-3", "HOST-9")
async def test_file_work_goes_on_while_a_shutdown_waits(pi_home: PiHome, provider: FakeProvider):
    write: Json = {"path": str(pi_home.project / "note.md"), "content": "a note"}
    invocation: Json = {"callId": "c1", "tool": "write", "arguments": write, "cwd": str(pi_home.project)}
    asking: Json = {"delay": 0.4, "ask": [{"method": "tools/execute", "params": invocation}]}
    service = install_service(pi_home, {"on": {"agent_settled": asking, "shutdown": {"delay": 1.5}}})
    provider.script("main", text("Hello"))
    await run_print(pi_home, "hi")
    order = [frame["method"] for frame in service.frames() if "method" in frame]
    assert order.index("shutdown") < order.index("tool_operation")
    [outcome] = [answer["result"] for answer in service.answers()]
    assert (outcome["isError"], outcome["content"][0]["text"]) == (
        False,
        f"Successfully wrote to {write['path']}",
    )


@pytest.mark.req("HOST-11")
async def test_the_terminal_signals_are_pis_alone(pi_home: PiHome, provider: FakeProvider):
    gate = Gate()
    service = install_service(pi_home)
    provider.script("main", stream(Text("half"), gate))
    async with pi_process(pi_home, "-p", "hi") as pi:
        await gate.reached.wait()
        [process] = service.processes()
        assert process.session == process.pid
        folder = pi_home.agent_dir / "extensions" / "project-memory"
        assert Path(f"/proc/{process.pid}/cwd").readlink() == folder
        os.killpg(os.getpgid(pi.pid), signal.SIGINT)
        assert (await pi.wait()).exit_code == -signal.SIGINT
    await gone(service.processes)
    assert not service.params("shutdown")


@pytest.mark.req("HOST-11")
async def test_a_killed_pi_closes_the_pipe(pi_home: PiHome, provider: FakeProvider):
    service = install_service(pi_home)
    async with rpc_session(pi_home) as rpc:
        await service.received("initialize")
        await rpc.kill()
    await gone(service.processes)


@pytest.mark.req("HOST-8", "HOST-9")
async def test_sigterm_lets_the_service_finish(pi_home: PiHome, provider: FakeProvider):
    gate = Gate()
    service = install_service(pi_home)
    provider.script("main", stream(Text("half"), gate))
    async with rpc_session(pi_home) as rpc:
        await rpc.prompt("hi")
        await gate.reached.wait()
        assert (await rpc.terminate()).exit_code == 128 + signal.SIGTERM
    assert [params["aborted"] for params in service.params("agent_settled")] == [True]
    assert service.params("shutdown") == [{"reason": "quit"}]
    await gone(service.processes)


@pytest.mark.req("HOST-8")
async def test_an_idle_service_that_dies_is_noticed_at_once(pi_home: PiHome):
    service = install_service(pi_home)
    async with rpc_session(pi_home) as rpc:
        await service.received("initialize")
        [process] = service.processes()
        os.kill(process.pid, signal.SIGKILL)
        assert "was ended by SIGKILL" in await rpc.notified("It is being started again")
        await service.received("initialize", 2)
        await until(lambda: len(service.processes()) == 1, lambda: "one service alone")
