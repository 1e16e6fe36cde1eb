"""Proves the harness itself against the real Pi: what it scripts arrives, what happens is seen."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, system_text, tool_names
from pi.pi_driver import json_line, pi_process, run_json, run_print
from pi.pi_home import MakePiHome, ModelSpec, PiHome
from pi.processes import descendants, gone, mentioning
from pi.rpc_session import RpcSession, Transcript, rpc_session
from pi.scripting import (
    Cut,
    Delay,
    Error,
    Gate,
    Hang,
    Reply,
    Request,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
    call,
    calls,
    hang,
    stream,
    text,
)
from pi.session_files import entries, header, roles
from pi.waiting import until

pytestmark = pytest.mark.real_time

BOTH_WIRES = pytest.mark.parametrize("provider_name", ["fake", "fakea"])

PROBE = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.on("before_agent_start", async (event, ctx) => {
    event.systemPromptOptions.sections["probe"] = "The probe speaks.";
    const model = ctx.modelRegistry.find(ctx.model!.provider, "small")!;
    const question = { role: "user" as const, content: "Which notes fit?", timestamp: Date.now() };
    const answer = await ctx.modelRegistry
      .streamSimple(model, { systemPrompt: "You choose notes.", messages: [question] }, {
        maxTokens: 77,
        onPayload: (payload) => ({ ...(payload as object), probe: "patched" }),
      })
      .result();
    const part = answer.content[0];
    const chosen = part?.type === "text" ? part.text : answer.errorMessage;
    return { message: { customType: "probe", content: `Chosen: ${chosen}`, display: false } };
  });
  pi.registerCommand("probe", {
    description: "Answers",
    handler: async (args, ctx) => {
      if (args === "throw") throw new Error("the probe failed");
      if (args === "ask") args = String(await ctx.ui.confirm("Sure?", "It is a question"));
      ctx.ui.notify(`probe heard ${args}`, "warning");
    },
  });
}
"""


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    path = tmp_path / "probe.ts"
    path.write_text(PROBE, "utf-8")
    return path


async def test_print_mode_prints_the_scripted_answer(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", text("Hello → 日本 😀"))
    result = await run_print(pi_home, "greet me please")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "Hello → 日本 😀\n", "")


@BOTH_WIRES
async def test_a_request_is_read_the_same_way_from_both_wires(
    pi_home: PiHome, provider: FakeProvider, provider_name: str
):
    provider.script("main", text("yes"))
    await run_print(pi_home, "is this seen", "--model", f"{provider_name}/main")
    (request,) = provider.requests_for("main")
    assert request.api == {"fake": "openai-completions", "fakea": "anthropic-messages"}[provider_name]
    assert "<tools>" in system_text(request)
    assert message_texts(request) == ["is this seen"]
    assert tool_names(request) == ["read", "bash", "edit", "write"]
    assert json.loads(request.raw) == request.body
    assert request.headers["content-type"] == "application/json"


@BOTH_WIRES
async def test_a_scripted_tool_call_is_executed_and_its_result_comes_back(
    pi_home: PiHome, provider: FakeProvider, provider_name: str
):
    provider.script("main", call("write", path="note.md", content="größer 😀\n"), text("written"))
    result = await run_print(pi_home, "write the note", "--model", f"{provider_name}/main")
    assert result.stdout == "written\n"
    assert (pi_home.project / "note.md").read_text("utf-8") == "größer 😀\n"
    assert "Successfully wrote" in message_texts(await provider.request("main", 1))[-1]


@BOTH_WIRES
async def test_several_calls_and_text_in_one_reply(
    pi_home: PiHome, provider: FakeProvider, provider_name: str
):
    both = (ToolCall("bash", {"command": "echo one"}, "first"), ToolCall("bash", {"command": "echo two"}))
    provider.script("main", stream(Text("I look."), *both), text("done"))
    run = await run_json(pi_home, "look twice", "--model", f"{provider_name}/main")
    ended = {
        event["toolCallId"]: event["result"]["content"][0]["text"] for event in run.of("tool_execution_end")
    }
    assert sorted(ended.values()) == ["one\n", "two\n"]
    assert ended["first"] == "one\n"
    streamed = [event["assistantMessageEvent"]["type"] for event in run.of("message_update")]
    assert streamed.count("toolcall_delta") > len(ended)


async def test_tool_arguments_that_are_no_json_become_a_tool_error(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", calls(ToolCall("read", '{"path": ')), text("sorry"))
    run = await run_json(pi_home, "read it now")
    assert run.of("tool_execution_end")[0]["isError"]


@BOTH_WIRES
async def test_thinking_is_stored_with_its_signature(
    pi_home: PiHome, provider: FakeProvider, provider_name: str
):
    provider.script("thinker", stream(Thinking("let me see", "seal"), Text("seen")))
    await run_print(pi_home, "think about it", "--model", f"{provider_name}/thinker", "--thinking", "high")
    stored = entries(pi_home.session_files()[0], "message")[-1]["message"]
    expected = {"fake": "reasoning_content", "fakea": "seal"}[provider_name]
    assert stored["content"][0] == {
        "type": "thinking",
        "thinking": "let me see",
        "thinkingSignature": expected,
    }


@BOTH_WIRES
@pytest.mark.parametrize(("stop", "stored"), [("length", "length"), ("refusal", "error")])
async def test_the_stop_reason_arrives(
    pi_home: PiHome, provider: FakeProvider, provider_name: str, stop: Stop, stored: str
):
    usage = Usage(input=11, output=7, cache_read=5, cache_write=3)
    pi_home.write_settings(compaction={"enabled": False})
    provider.script("main", Reply((Text("cut off"),), stop=stop, usage=usage))
    await run_print(pi_home, "tell me all", "--model", f"{provider_name}/main")
    message = entries(pi_home.session_files()[0], "message")[-1]["message"]
    seen = [message["usage"][key] for key in ("input", "output", "cacheRead", "cacheWrite")]
    assert (message["stopReason"], seen) == (stored, [11, 7, 5, 3])


@BOTH_WIRES
async def test_a_scripted_error_reaches_pi(pi_home: PiHome, provider: FakeProvider, provider_name: str):
    provider.script("main", Error(429, {"error": {"message": "slow down"}}, headers={"retry-after": "1"}))
    result = await run_print(pi_home, "try it now", "--model", f"{provider_name}/main")
    assert result.exit_code == 1
    assert "slow down" in result.stderr
    assert len(provider.log) == 1


async def test_a_broken_connection_reaches_pi(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", stream(Text("half of"), Cut()))
    result = await run_print(pi_home, "try it now")
    assert result.exit_code == 1


async def test_delays_and_responders(pi_home: PiHome, provider: FakeProvider):
    def answer(request: Request) -> Reply:
        return Reply((Text(f"to {message_texts(request)[-1]}"), Delay(0.01)), before=(Delay(0.01),))

    provider.respond("main", answer)
    assert (await run_print(pi_home, "the first")).stdout == "to the first\n"
    assert (await run_print(pi_home, "the second")).stdout == "to the second\n"


async def test_json_mode_gives_header_and_events(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", text("line\u2028separator"))
    run = await run_json(pi_home, "say it again")
    assert run.header["cwd"] == str(pi_home.project)
    assert run.of("agent_settled") == [{"type": "agent_settled", "aborted": False}]
    assert run.of("message_end")[-1]["message"]["content"][0]["text"] == "line\u2028separator"


async def test_nothing_of_the_test_run_is_in_the_environment(
    pi_home: PiHome, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEAKED_IN", "yes")
    provider.script("main", call("bash", command="env; which node rg"), text("done"))
    await run_print(pi_home, "show the environment")
    shown = conversation_text(await provider.request("main", 1))
    assert "LEAKED_IN" not in shown
    assert f"TMPDIR={pi_home.temp_dir}" in shown
    assert f"{pi_home.root}/bin/node\n{pi_home.root}/bin/rg" in shown


async def test_a_home_without_git_and_with_own_models(make_pi_home: MakePiHome, provider: FakeProvider):
    home = make_pi_home("bare", settings={"defaultModel": "own"}, models=(ModelSpec("own"),), git=False)
    provider.script("own", text("mine"))
    assert (await run_print(home, "who are you")).stdout == "mine\n"
    assert not (home.project / ".git").exists()


@BOTH_WIRES
async def test_an_extension_is_seen_on_the_wire(
    pi_home: PiHome, provider: FakeProvider, probe: Path, provider_name: str
):
    provider.script("small", text("b.md"))
    provider.script("main", text("fine"))
    model = f"{provider_name}/main"
    assert (
        await run_print(pi_home, "use the notes", "--model", model, extensions=[probe])
    ).stdout == "fine\n"
    asked, main = provider.log
    assert (asked.model, system_text(asked), message_texts(asked)) == (
        "small",
        "You choose notes.",
        ["Which notes fit?"],
    )
    assert (asked.body["probe"], tool_names(asked)) == ("patched", [])
    assert 77 in (asked.body.get("max_tokens"), asked.body.get("max_completion_tokens"))
    assert "<probe>\nThe probe speaks.\n</probe>" in system_text(main)
    assert "Chosen: b.md" in conversation_text(main)
    assert "probe" not in main.body


async def test_a_discovered_extension_works_without_an_option(
    pi_home: PiHome, provider: FakeProvider, probe: Path
):
    pi_home.install_extension(probe)
    async with rpc_session(pi_home) as rpc:
        assert "probe" in await rpc.commands()
        assert await rpc.prompt("/probe you") == "handled"
        assert await rpc.notified("heard") == "probe heard you"
        assert rpc.notifications() == [("warning", "probe heard you")]


async def test_a_dialog_is_answered(pi_home: PiHome, probe: Path):
    async with rpc_session(pi_home, extensions=[probe]) as rpc:
        asking = asyncio.ensure_future(rpc.prompt("/probe ask"))
        question = await rpc.wait_for(lambda record: record.get("method") == "confirm", "the question")
        await rpc.answer_ui(question, confirmed=True)
        await asking
        assert await rpc.notified("heard") == "probe heard true"


async def test_an_extension_error_fails_the_session_unless_taken(
    pi_home: PiHome, provider: FakeProvider, probe: Path
):
    async with rpc_session(pi_home, extensions=[probe]) as rpc:
        await rpc.prompt("/probe throw")
        await rpc.wait_event("extension_error")
        with pytest.raises(AssertionError, match="the probe failed"):
            rpc.assert_clean()


async def test_an_rpc_conversation_and_its_session_file(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", text("first answer"), text("second answer"))
    async with rpc_session(pi_home) as rpc:
        await rpc.run("first question")
        records = await rpc.run("second question")
        assert await rpc.last_text() == "second answer"
        session_file = await rpc.session_file()
        assert [entry["type"] for entry in await rpc.entries()].count("message") == 5
    assert records[-1] == {"type": "agent_settled", "aborted": False}
    assert pi_home.session_files() == [session_file]
    assert header(session_file)["cwd"] == str(pi_home.project)
    assert roles(session_file) == ["system", "user", "assistant", "user", "assistant"]


async def test_output_that_is_no_record_is_kept_and_told(pi_home: PiHome):
    async with rpc_session(pi_home) as rpc:
        noisy = Transcript()
        noisy.receive(b'{"type": "agent_start"}\n')
        noisy.receive(b"a stray print\n")
        with pytest.raises(AssertionError, match="a stray print"):
            RpcSession(rpc.pi, noisy).assert_clean()
    assert [record["type"] for record in noisy.records] == ["agent_start"]
    with pytest.raises(pytest.fail.Exception, match="not a JSON object"):
        json_line("[1]")


async def test_a_failing_command_says_why(pi_home: PiHome):
    async with rpc_session(pi_home) as rpc:
        response = await rpc.respond("set_model", provider="fake", modelId="none")
        assert "none" in response["error"]
        with pytest.raises(AssertionError, match="set_model failed"):
            await rpc.request("set_model", provider="fake", modelId="none")


async def test_a_steer_reaches_the_next_request_of_the_run(pi_home: PiHome, provider: FakeProvider):
    gate = Gate()
    provider.script("main", stream(gate, ToolCall("bash", {"command": "true"})), text("as you wish"))
    async with rpc_session(pi_home) as rpc:
        await rpc.prompt("start the work")
        await gate.reached.wait()
        assert await rpc.steer("rather do that") == "queued"
        gate.open()
        await rpc.settled()
        assert message_texts(provider.requests_for("main")[1])[-1] == "rather do that"


@pytest.mark.parametrize("reply", [hang(), stream(Text("half"), Hang())], ids=["headers", "stream"])
async def test_an_abort_while_the_provider_hangs_is_seen_there(
    pi_home: PiHome, provider: FakeProvider, reply: Reply
):
    provider.script("main", reply)
    async with rpc_session(pi_home) as rpc:
        await rpc.prompt("wait for ever")
        request = await provider.request("main")
        assert not request.client_left.is_set()
        await rpc.abort()
        await provider.client_left(request)
        assert (await rpc.settled())["aborted"]


async def test_compaction_asks_for_a_summary_and_stores_it(pi_home: PiHome, provider: FakeProvider):
    pi_home.write_settings(compaction={"enabled": False, "keepRecentTokens": 3})
    provider.script("main", text("one"), text("two"), text("## Goal\nThe summary"), text("three"))
    async with rpc_session(pi_home) as rpc:
        await rpc.run("the first question")
        await rpc.run("the second question")
        assert "The summary" in (await rpc.compact())["summary"]
        await rpc.run("the third question")
        (entry,) = entries(await rpc.session_file(), "compaction")
    assert "The summary" in entry["summary"]
    assert "the first question" not in conversation_text(provider.requests_for("main")[-1])


async def test_new_fork_and_switch(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", text("one"), text("two"), text("three"))
    async with rpc_session(pi_home) as rpc:
        await rpc.run("the first question")
        await rpc.run("the second question")
        first = await rpc.session_file()
        asked = [entry for entry in entries(first, "message") if entry["message"]["role"] == "user"]
        assert (await rpc.fork(asked[1]["id"]))["text"] == "the second question"
        await rpc.run("another second question")
        forked = await rpc.session_file()
        await rpc.new_session()
        assert await rpc.session_file() not in {first, forked}
        await rpc.switch_session(first)
        assert await rpc.session_file() == first
    assert header(forked)["parentSession"] == str(first)


async def test_a_bash_command_of_the_user(pi_home: PiHome):
    async with rpc_session(pi_home) as rpc:
        assert (await rpc.bash("echo here"))["output"] == "here\n"


@pytest.mark.parametrize(("way", "code"), [("close", 0), ("terminate", 143), ("kill", -9)])
async def test_ways_to_end_pi(pi_home: PiHome, way: str, code: int):
    async with rpc_session(pi_home) as rpc:
        await rpc.get_state()
        assert [process.pid for process in mentioning(str(pi_home.root))] == [rpc.pi.pid]
        result = await {"close": rpc.close, "terminate": rpc.terminate, "kill": rpc.kill}[way]()
        assert result.exit_code == code
        await gone(lambda: mentioning(str(pi_home.root)))


async def test_the_children_of_pi_are_found(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", call("bash", command="sleep 600"))
    async with rpc_session(pi_home) as rpc:
        await rpc.prompt("sleep for long")
        await until(
            lambda: any("sleep 600" in child.command for child in descendants(rpc.pi.pid)),
            lambda: rpc.explain("the shell of the tool call among the children of Pi"),
        )
        await rpc.abort()
        await gone(lambda: descendants(rpc.pi.pid))


async def test_a_wait_that_ends_too_late_tells_what_happened(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", hang())
    async with pi_process(pi_home, "-p", "wait for ever") as pi:
        await provider.request("main")
        with pytest.raises(pytest.fail.Exception, match=r"Pi to exit; Pi still runs[\s\S]*#0 .* main"):
            await pi.wait(bound=0.1)
    await gone(lambda: mentioning(str(pi_home.root)))
