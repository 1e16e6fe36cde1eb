"""The extension between the real Pi and a scripted service: what crosses, and what reaches the model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, system_text
from pi.pi_driver import run_json, run_print
from pi.pi_home import MakePiHome, PiHome
from pi.processes import gone
from pi.pty_driver import TAB, pty_session
from pi.rpc_session import rpc_session
from pi.scripted_service import ScriptedService, install_service
from pi.scripting import Gate, Json, Text, ToolCall, call, stream, text
from pi.session_files import entries
from pi.waiting import until

pytestmark = pytest.mark.real_time

ODD = "→ — 日本 😀 \u2028 \u0085 end"
"""Text that a locale, or a line reader, could break."""

RECALL: Json = {"customType": "project-memory", "content": f"Recalled: {ODD}", "details": {"files": ["a.md"]}}
SECTION: Json = {"name": "auto_memory", "text": f"Rules of the memory. {ODD}"}
ANSWERS_WITH_BOTH: Json = {"before_agent_start": {"result": {"section": SECTION, "message": RECALL}}}

POKE = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerCommand("poke", {
    description: "Starts a run with a message of an extension",
    handler: async () => pi.sendMessage({ customType: "poke", content: "poked", display: true }, { triggerTurn: true }),
  });
  pi.registerCommand("back", {
    description: "Moves to the first user message",
    handler: async (_args, ctx) => {
      const first = ctx.sessionManager.getBranch().find((e) => e.type === "message" && e.message.role === "user");
      await ctx.navigateTree(first!.id);
    },
  });
}
"""


@pytest.fixture
def poke(tmp_path: Path) -> Path:
    path = tmp_path / "poke.ts"
    path.write_text(POKE, "utf-8")
    return path


async def nothing_left(service: ScriptedService) -> None:
    await gone(service.processes)


@pytest.mark.req("HOST-2", "HOST-4", "HOST-6", "HOST-9")
async def test_print_mode_sets_the_section_recalls_and_leaves_nothing(
    pi_home: PiHome, provider: FakeProvider
):
    service = install_service(pi_home, {"on": ANSWERS_WITH_BOTH})
    provider.script("main", text("Hello"))
    result = await run_print(pi_home, f"prompt {ODD}")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello\n", "")
    request = provider.requests_for("main")[0]
    assert f"<auto_memory>\n{SECTION['text']}\n</auto_memory>" in system_text(request)
    assert message_texts(request) == [f"prompt {ODD}", RECALL["content"]]
    assert [frame["method"] for frame in service.frames()] == [
        "initialize",
        "before_agent_start",
        "user_message",
        "agent_settled",
        "shutdown",
    ]
    assert service.params("before_agent_start")[0]["prompt"] == f"prompt {ODD}"
    stored = entries(pi_home.session_files()[0], "custom_message")[0]
    assert (stored["display"], stored["details"]) == (False, RECALL["details"])
    await nothing_left(service)


@pytest.mark.req("HOST-4")
async def test_the_handshake_tells_the_service_where_it_is(pi_home: PiHome, provider: FakeProvider):
    service = install_service(pi_home)
    provider.script("main", text("Hello"))
    result = await run_print(pi_home, "hi", "--tools", "+codemode")
    assert result.exit_code == 0, result
    told = service.params("initialize")[0]
    assert (told["protocolVersion"], told["host"]) == (1, {"name": "pi", "version": "1.6.0"})
    assert (told["mode"], told["trusted"], told["cwd"]) == ("print", True, str(pi_home.project))
    assert told["agentDir"] == str(pi_home.agent_dir)
    session_file = pi_home.session_files()[0]
    assert told["session"]["directory"] == str(session_file.parent)
    assert told["session"]["id"] in session_file.name
    assert told["session"] | {"id": "", "directory": ""} == {
        "id": "",
        "directory": "",
        "usesDefaultDirectory": True,
        "reason": "startup",
        "restarted": False,
    }
    assert told["model"] == {
        "provider": "fake",
        "id": "main",
        "api": "openai-completions",
        "reasoning": False,
        "contextWindow": 200_000,
        "maxTokens": 8_192,
    }
    assert {tool["name"] for tool in told["tools"]} >= {"read", "bash"}
    assert all(tool["description"] and tool["parameters"]["type"] == "object" for tool in told["tools"])
    assert told["codemode"] == {"active": True, "mode": "on", "inlineBudget": 3_000}
    assert told["capabilities"] == {"notify": True, "status": False}


@pytest.mark.req("HOST-6", "HOST-9")
async def test_json_mode_stays_json_whatever_the_service_writes(pi_home: PiHome, provider: FakeProvider):
    notice: Json = {"notification": True, "method": "ui/notify", "params": {"level": "warning", "text": ODD}}
    service = install_service(
        pi_home, {"say": ["Traceback: no frame at all", '{"half": '], "on": {"initialize": {"ask": [notice]}}}
    )
    provider.script("main", text("Hello"))
    run = await run_json(pi_home, "hi")
    assert run.of("agent_settled")
    assert run.result.stderr == f"{ODD}\n"
    assert [(frame["id"], frame["error"]["code"]) for frame in service.answers()] == [(None, -32700)] * 2
    assert "Section of the fake service." in system_text(provider.requests_for("main")[0])
    await nothing_left(service)


@pytest.mark.req("HOST-3", "HOST-5", "HOST-9")
async def test_a_session_in_rpc_mode(pi_home: PiHome, provider: FakeProvider, poke: Path):
    asked: list[Json] = [
        {"notification": True, "method": "ui/status", "params": {"text": "remembering"}},
        {"notification": True, "method": "ui/notify", "params": {"level": "info", "text": ODD}},
        {"method": "history/read", "params": {"handle": "h1", "start": 0, "stop": 99}},
    ]
    service = install_service(pi_home, {"on": ANSWERS_WITH_BOTH | {"agent_settled": [{"ask": asked}, {}]}})
    provider.respond("main", lambda request: text(f"answer {request.number}"))
    async with rpc_session(pi_home, extensions=[poke]) as rpc:
        await rpc.run("one")
        await rpc.notified(ODD)
        assert [status["statusText"] for status in rpc.ui_requests("setStatus")] == ["remembering"]
        await rpc.run("/poke")
        await until(
            lambda: len(service.params("agent_settled")) == 2, lambda: f"a second run: {service.frames()}"
        )
        branch = await rpc.entries()
    first, second = provider.requests_for("main")
    assert system_text(second) == system_text(first)
    assert "poked" in conversation_text(second)
    kinds = [(params["messageType"], params["prompt"]) for params in service.params("before_agent_start")]
    assert kinds == [("user", "one"), ("custom", None)]
    read = next(answer["result"]["entries"] for answer in service.answers() if answer["id"] == "s1")
    assert read == branch[: len(read)]
    assert read[-1]["message"]["content"][0]["text"] == "answer 0"
    lengths = [params["context"]["history"]["length"] for params in service.params("agent_settled")]
    assert lengths[0] == len(read)
    assert {params["context"]["history"]["handle"] for params in service.params("agent_settled")} == {"h1"}
    await nothing_left(service)


@pytest.mark.req("HOST-5")
async def test_a_move_or_a_compaction_makes_old_handles_stale(
    make_pi_home: MakePiHome, provider: FakeProvider, poke: Path
):
    home = make_pi_home(
        settings={"compaction": {"enabled": True, "reserveTokens": 100, "keepRecentTokens": 3}}
    )
    read: Json = {"method": "history/read", "params": {"handle": "h1", "start": 0, "stop": 1}}
    service = install_service(home, {"on": {"history_changed": {"ask": [read]}}})
    provider.respond("main", lambda request: text(f"answer {request.number}"))
    async with rpc_session(home, extensions=[poke]) as rpc:
        await rpc.run("one")
        await rpc.run("two")
        await rpc.compact()
        await service.received("history_changed")
        await rpc.run("/back")
        await service.received("history_changed", 2)
        await until(lambda: len(service.answers()) == 2, lambda: f"two answers: {service.frames()}")
    changes = [
        (params["reason"], params["history"]["handle"]) for params in service.params("history_changed")
    ]
    assert changes == [("compact", "h2"), ("tree", "h3")]
    assert [answer["error"]["code"] for answer in service.answers()] == [-32002, -32002]
    assert service.params("before_compact")[0]["reason"] == "manual"


@pytest.mark.req("HOST-5")
async def test_compaction_waits_for_the_service(make_pi_home: MakePiHome, provider: FakeProvider):
    home = make_pi_home(
        settings={"compaction": {"enabled": True, "reserveTokens": 100, "keepRecentTokens": 3}}
    )
    service = install_service(home, {"on": {"before_compact": {"delay": 0.5, "ask": [MODEL_REQUEST]}}})
    provider.respond("main", lambda request: text(f"answer {request.number}"))
    provider.script("small", text("done"))
    async with rpc_session(home) as rpc:
        await rpc.run("one")
        await rpc.run("two")
        compacting = asyncio.ensure_future(rpc.compact())
        await service.received("before_compact")
        assert not any("summar" in system_text(request).lower() for request in provider.requests_for("main"))
        await compacting
    order = [request.model for request in provider.log]
    assert order[:2] == ["main", "main"]
    assert order.count("small") == 1
    assert not service.params("$/cancel")


MODEL_REQUEST: Json = {
    "method": "model/stream",
    "params": {
        "provider": "fake",
        "modelId": "small",
        "systemPrompt": "Choose notes.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": ODD}], "timestamp": 1}],
        "options": {"maxTokens": 77, "maxRetries": 0},
        "payloadPatch": {"response_format": {"type": "json_schema"}, "stream_options": {"extra": 1}},
    },
}


@pytest.mark.req("HOST-2", "HOST-3")
async def test_the_service_asks_models_through_pi(pi_home: PiHome, provider: FakeProvider):
    def resolve(**query: str | None) -> Json:
        return {"method": "model/resolve", "params": {"thinkingLevel": "high"} | query}

    asked = [
        MODEL_REQUEST,
        resolve(provider=None, modelId=None),
        resolve(provider="fake", modelId="thinker"),
        resolve(provider="fake", modelId="nowhere"),
    ]
    service = install_service(pi_home, {"on": {"agent_settled": {"ask": asked}, "shutdown": {"delay": 0.6}}})
    provider.script("main", text("Hello"))
    provider.script("small", text(ODD))
    result = await run_print(pi_home, "hi")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello\n", "")
    request = provider.requests_for("small")[0]
    assert (system_text(request), message_texts(request)) == ("Choose notes.", [ODD])
    assert request.body["response_format"] == {"type": "json_schema"}
    assert request.body["stream_options"] == {"include_usage": True, "extra": 1}
    assert request.body["max_completion_tokens"] == 77
    answers = {answer["id"]: answer["result"] for answer in service.answers()}
    assert answers["s1"]["httpStatus"] == 200
    assert answers["s1"]["message"]["content"][0]["text"] == ODD
    found = [(answers[i]["status"], answers[i]["thinkingLevel"]) for i in ("s2", "s3", "s4")]
    assert found == [("ok", "off"), ("ok", "high"), ("not_found", "off")]
    assert answers["s2"]["model"]["id"] == "main"


@pytest.mark.req("HOST-7")
async def test_a_cancelled_model_request_is_dropped_at_the_provider(pi_home: PiHome, provider: FakeProvider):
    gate = Gate()
    asking: Json = {"ask": [MODEL_REQUEST], "cancel_after": 0.3}
    service = install_service(pi_home, {"on": {"agent_settled": asking}})
    provider.script("main", text("Hello"))
    provider.script("small", stream(Text("half"), gate, Text("never sent")))
    async with rpc_session(pi_home) as rpc:
        await rpc.run("hi")
        await provider.client_left(await provider.request("small"))
        await until(lambda: bool(service.answers()), lambda: f"an answer: {service.frames()}")
    assert [answer["error"]["code"] for answer in service.answers()] == [-32800]


@pytest.mark.req("HOST-3")
async def test_entries_and_late_messages_cause_no_extra_call(pi_home: PiHome, provider: FakeProvider):
    asked: list[Json] = [
        {"method": "entry/append", "params": {"customType": "project-memory", "data": {"cursor": 3}}},
        {"method": "message/send", "params": RECALL},
    ]
    service = install_service(pi_home, {"on": {"user_message": {"ask": asked}}})
    gate = Gate()
    provider.script("main", stream(gate, ToolCall("read", {"path": "README.md"})), text("Hello"))
    (pi_home.project / "README.md").write_text("readme", "utf-8")
    running = asyncio.ensure_future(run_print(pi_home, "hi"))
    await until(lambda: len(service.answers()) == 2, lambda: f"two answers: {service.frames()}")
    gate.open()
    assert (await running).stdout == "Hello\n"
    first, second = provider.requests_for("main")
    assert RECALL["content"] not in conversation_text(first)
    assert RECALL["content"] in conversation_text(second)
    session_file = pi_home.session_files()[0]
    assert [entry["data"] for entry in entries(session_file, "custom")] == [{"cursor": 3}]
    assert [answer["result"] for answer in service.answers()] == [{}, {}]


@pytest.mark.req("HOST-3")
async def test_wanted_tool_results_are_told_and_get_what_is_appended(pi_home: PiHome, provider: FakeProvider):
    wants: Json = {"protocolVersion": 1, "service": {}, "logFile": None, "toolResultEvents": ["read"]}
    on: Json = {"initialize": {"result": wants}, "tool_result": {"result": {"append": f"Note: {ODD}"}}}
    service = install_service(pi_home, {"on": on})
    provider.script("main", call("read", path="README.md"), call("bash", command="echo hi"), text("Hello"))
    (pi_home.project / "README.md").write_text("readme", "utf-8")
    await run_print(pi_home, "hi")
    told = service.params("tool_result")
    assert [result.pop("toolCallId") is not None for result in told] == [True]
    assert told == [
        {
            "toolName": "read",
            "input": {"path": "README.md"},
            "isError": False,
            "truncated": False,
            "hasImage": False,
            "nested": False,
        }
    ]
    seen = message_texts(provider.requests_for("main")[1])[-1]
    assert seen == f"readme\nNote: {ODD}"


@pytest.mark.req("HOST-3")
async def test_steered_messages_are_told_as_well(pi_home: PiHome, provider: FakeProvider):
    gate = Gate()
    service = install_service(pi_home)
    provider.script("main", stream(gate, Text("first")), text("second"))
    async with rpc_session(pi_home) as rpc:
        mark = rpc.mark()
        await rpc.prompt("one")
        await gate.reached.wait()
        await rpc.steer("two")
        gate.open()
        await rpc.settled(mark)
    assert [params["text"] for params in service.params("user_message")] == ["one", "two"]
    assert len(service.params("before_agent_start")) == 1


@pytest.mark.req("HOST-9")
async def test_a_command_answers_on_standard_error_in_print_mode(pi_home: PiHome):
    service = install_service(pi_home, {"on": {"command": {"result": {"text": f"All is well. {ODD}"}}}})
    result = await run_print(pi_home, "/memory status  now")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"All is well. {ODD}\n")
    told = service.params("command")[0]
    assert (told["arguments"], told["wait"]) == ("status  now", True)
    await nothing_left(service)


@pytest.mark.req("HOST-9")
async def test_the_terminal_shows_completions_and_answers(pi_home: PiHome):
    items = [{"value": "status", "label": "status", "description": "what memory is doing"}]
    on: Json = {"complete": {"result": {"items": items}}, "command": {"result": {"text": "All is well."}}}
    service = install_service(pi_home, {"on": on})
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        tui.send("/memory st")
        await tui.shows("what memory is doing")
        tui.send(TAB)
        await tui.submit("")
        await tui.shows("All is well.")
        await tui.submit("/quit")
        assert await tui.wait() == 0
    assert service.params("command")[0]["arguments"].strip() == "status"
    assert service.params("command")[0]["wait"] is False
    assert service.params("shutdown") == [{"reason": "quit"}]
    await nothing_left(service)


@pytest.mark.req("HOST-8", "HOST-12")
async def test_a_new_session_replaces_the_service_and_drops_late_replies(
    pi_home: PiHome, provider: FakeProvider
):
    late: Json = {"delay": 1.5, "result": {"section": SECTION, "message": RECALL}}
    service = install_service(pi_home, {"on": {"before_agent_start": late}}, {"on": ANSWERS_WITH_BOTH})
    provider.respond("main", lambda request: text(f"answer {request.number}"))
    async with rpc_session(pi_home) as rpc:
        prompting = asyncio.ensure_future(rpc.respond("prompt", message="one"))
        await service.received("before_agent_start")
        await rpc.new_session()
        await service.started(2)
        assert len(service.processes()) == 1
        await prompting
        await rpc.run("two")
    assert service.params("shutdown", run=0) == [{"reason": "new"}]
    assert service.params("initialize", run=1)[0]["session"]["reason"] == "new"
    assert service.params("initialize", run=1)[0]["history"]["handle"] == "h1"
    last = provider.requests_for("main")[-1]
    assert message_texts(last) == ["two", RECALL["content"]]
    await nothing_left(service)


@pytest.mark.req("HOST-9")
async def test_a_reload_asks_the_service_to_finish_and_says_so(pi_home: PiHome):
    service = install_service(pi_home, {"on": {"shutdown": {"delay": 1.5}}}, {})
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        await service.received("initialize")
        await tui.submit("/reload")
        await tui.shows("Project memory is finishing its work")
        await service.received("initialize", 2)
        await tui.hides("Project memory is finishing its work")
        await tui.submit("/quit")
        assert await tui.wait() == 0
    assert [params["reason"] for params in service.params("shutdown")] == ["reload", "quit"]
    assert service.params("initialize", run=1)[0]["session"]["reason"] == "reload"
