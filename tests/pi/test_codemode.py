"""Codemode in the extraction of a real Pi session: what is declared, what a script may do, what is left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import message_texts, messages, system_text, tool_names, tools
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, memory_directory, remember
from pi.pi_home import PiHome
from pi.rpc_session import rpc_session
from pi.scripting import Reply, Request, call, text
from pi.session_files import entries
from pi.waiting import until

pytestmark = [pytest.mark.real_time, pytest.mark.req("SUB-7")]

PROMPT = "Please always indent with tabs in this project"
RULE = "- `codemode`, where it is declared to you, may be called in this task too."
SIX = ["bash", "edit", "find", "grep", "read", "write"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def with_codemode(home: PiHome, provider: FakeProvider, extractor: str = "", **codemode: Any) -> PiHome:
    """Install memory with an extractor, beside a main agent that has codemode."""
    install(home)
    models = {"selector": {"model": "fake/small"}} | (
        {"extractor": {"model": extractor}} if extractor else {}
    )
    configure(home, {"models": models, "dream": {"enabled": False}})
    remember(home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY})
    home.write_settings(defaultTools=["+codemode"], codemode=codemode)
    provider.respond("small", lambda _: text(chosen()))
    return home


def script(code: str) -> Reply:
    return call("codemode", code=code)


def description(request: Request) -> str:
    """What the request says of codemode."""
    [declared] = [tool for tool in tools(request) if tool["function"]["name"] == "codemode"]
    return str(declared["function"]["description"])


def returned(request: Request) -> Any:
    """What the script returned whose result the request ends with."""
    lines = message_texts(request)[-1].split("\n")
    assert lines[0] == "Script completed", lines
    return json.loads(lines[-1])


def scratch_left(home: PiHome) -> list[str]:
    return [path.name for path in home.temp_dir.iterdir() if path.name.startswith("pi-")]


@pytest.mark.req("EXT-6", "EXT-8", "SUB-9")
async def test_in_mode_on_a_script_works_on_the_parents_own_request(pi_home: PiHome, provider: FakeProvider):
    with_codemode(pi_home, provider, mode="on")
    topic = memory_directory(pi_home) / "deploy.md"
    code = f"""
        const old = await tools.read({{ path: "{topic}" }});
        const replaced = old.replace("make ship", "make sail");
        await tools.write({{ path: "{topic}", content: replaced }});
        const listed = await tools.bash({{ command: "ls {topic.parent}" }});
        return {{ listed, names: ALL_TOOLS.map((tool) => tool.name).sort() }};
    """
    provider.script("main", text("Tabs it is."), script(code), text("Saved."))
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        last = await provider.request("main", 2)
        await until(lambda: len(_stored(pi_home, "project-memory-update")) == 1, provider.describe)
    parent, first, _ = provider.requests_for("main")
    assert (system_text(first), tools(first)) == (system_text(parent), tools(parent))
    assert messages(first)[: len(messages(parent))] == messages(parent)
    assert message_texts(first)[-1].count(RULE) == 1
    answer = returned(last)
    assert answer["listed"]["output"].split() == ["MEMORY.md", "deploy.md"]
    assert (answer["listed"]["exit_code"], answer["names"]) == (0, SIX)
    assert topic.read_text() == DEPLOY.replace("make ship", "make sail")
    kinds = {entry["message"]["role"] for entry in entries(pi_home.session_files()[0], "message")}
    assert kinds == {"system", "user", "assistant"}


@pytest.mark.parametrize("budget", [0, 3_000])
async def test_in_mode_only_the_extractor_has_codemode_alone(
    pi_home: PiHome, provider: FakeProvider, budget: int
):
    with_codemode(pi_home, provider, mode="only", inlineBudget=budget)
    topic = memory_directory(pi_home) / "tabs.md"
    code = f"""await tools.write({{ path: "{topic}", content: "Tabs.\\n" }}); return {{}};"""
    provider.script("main", text("Tabs it is."), script(code), text("Saved."))
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        await provider.request("main", 2)
    parent, first, last = provider.requests_for("main")
    assert tool_names(parent) == tool_names(first) == ["codemode"]
    assert [f"### `{name}`" in description(first) for name in SIX] == [budget > 0] * 6
    assert ("### `read`" in description(parent), "models" in description(first)) == (budget > 0, False)
    assert RULE in system_text(first)
    assert system_text(first).startswith(system_text(parent))
    assert (returned(last), topic.read_text()) == ({}, "Tabs.\n")


async def test_another_model_has_the_six_tools_and_codemode(pi_home: PiHome, provider: FakeProvider):
    with_codemode(pi_home, provider, extractor="fake/big", mode="on")
    provider.script("main", text("Tabs it is."))
    provider.script("big", script("return await tools.grep({ pattern: 'x', path: '.' });"), text("Nothing."))
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        last = await provider.request("big", 1)
    assert sorted(tool_names(last)) == sorted([*SIX, "codemode"])
    described = {tool["function"]["name"]: tool["function"]["description"] for tool in tools(last)}
    assert "`tools.find(args)`" in described["find"]
    assert "Script completed" in message_texts(last)[-1]


@pytest.mark.req("SUB-3", "DRM-4")
async def test_a_dream_has_codemode_too(pi_home: PiHome, provider: FakeProvider):
    with_codemode(pi_home, provider, mode="only")
    configure(pi_home, {"models": {"dream": {"model": "fake/big"}}, "extraction": {"enabled": False}})
    provider.script("main", text("Fine."))
    async with rpc_session(pi_home) as pi:
        await pi.run("hello")
        session = await pi.session_file()
        listing = f"return await tools.bash({{ command: 'ls {session.parent}' }});"
        provider.script("big", script(listing), text("Nothing to tidy."))
        await pi.prompt("/memory dream")
        last = await provider.request("big", 1)
    assert tool_names(last) == ["codemode"]
    assert returned(last)["output"].split() == [session.name]


@pytest.mark.req("SUB-2", "SUB-3", "SUB-4", "SUB-6")
async def test_a_script_is_refused_what_the_tools_are_refused(pi_home: PiHome, provider: FakeProvider):
    with_codemode(pi_home, provider, mode="on")
    directory, outside = memory_directory(pi_home), pi_home.root / "outside.md"
    code = f"""
        const refused = [
            tools.write({{ path: "{outside}", content: "x" }}),
            tools.write({{ path: "{directory}/deploy.md", content: "gone" }}),
            tools.read({{ path: "{pi_home.agent_dir}/models.json" }}),
            tools.bash({{ command: "git status" }}),
            tools.bash({{ command: "echo x > {outside}" }}),
        ];
        const reasons = (await Promise.allSettled(refused)).map(({{ status, reason }}) => [status, reason?.message]);
        return {{ reasons, codemode: "codemode" in tools, models: typeof models }};
    """
    provider.script("main", text("Tabs it is."), script(code), text("I give up."))
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        answer = returned(await provider.request("main", 2))
    assert [status for status, _ in answer["reasons"]] == ["rejected"] * 5
    assert [reason.partition(":")[0] for _, reason in answer["reasons"]] == ["Refused"] * 5
    assert (answer["codemode"], answer["models"]) == (False, "undefined")
    assert not outside.exists()
    assert (directory / "deploy.md").read_text() == DEPLOY


async def test_the_stores_of_a_task_and_of_its_parent_are_two(pi_home: PiHome, provider: FakeProvider):
    with_codemode(pi_home, provider, mode="on")
    load = "return { seen: load('who') ?? null };"
    provider.script("main", script("store('who', 'the main agent');"), text("Tabs it is."))
    provider.script("main", script(f"store('who', 'the task'); {load}"), script(load), text("Nothing."))
    provider.script("main", script(load), text("Tabs it was."), script(load), text("Nothing."))
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        await provider.request("main", 4)
        await pi.run(f"{PROMPT}, and say which you remember")
        await provider.request("main", 8)
    requests = provider.requests_for("main")
    seen = [returned(requests[number])["seen"] for number in (4, 6, 8)]
    assert seen == ["the task", "the main agent", None]
    [kept] = _stored(pi_home, "codemode-store")
    assert kept["data"]["set"] == {"who": "the main agent"}


@pytest.mark.req("SUB-8")
async def test_long_output_and_pictures_lie_in_scratch_until_the_run_ends(
    pi_home: PiHome, provider: FakeProvider
):
    with_codemode(pi_home, provider, mode="on")
    long = f"""// @options: {{"max_output_tokens": 100}}
        text("w".repeat(5_000)); image("data:image/png;base64,{PIXEL}");"""
    provider.script("main", text("Tabs it is."), script(long))
    provider.respond("main", lambda request: _read_on(request, pi_home))
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        last = await provider.request("main", 3)
        await until(lambda: not scratch_left(pi_home), lambda: f"{scratch_left(pi_home)} to go")
    assert returned(last) == {"full": 5_000, "listed": 2}


def _read_on(request: Request, home: PiHome) -> Reply:
    """Look at the files that the first script's result names, as a script, and then be done."""
    told = message_texts(request)[-1]
    if "[Full output: " not in told and "[Image saved to " not in told:
        return text("Nothing.")
    everything = "\n".join(message_texts(request))
    path = everything.partition("[Full output: ")[2].partition(" (")[0]
    picture = everything.partition("[Image saved to ")[2].partition(" (")[0]
    folder = path.rpartition("/")[0]
    assert folder.startswith(f"{home.temp_dir}/pi-project-memory-"), path
    assert picture.startswith(f"{folder}/codemode-"), picture
    assert scratch_left(home) == [folder.rpartition("/")[2]]
    return script(f"""
        const full = await tools.read({{ path: "{path}" }});
        const listed = await tools.bash({{ command: "ls {folder}" }});
        return {{ full: full.length, listed: listed.output.trim().split("\\n").length }};
    """)


@pytest.mark.req("SUB-5", "LIFE-3", "HOST-7")
async def test_a_script_without_end_is_stopped_with_its_run(pi_home: PiHome, provider: FakeProvider):
    """With one worker for all scripts, the next one runs only if the first has really ended."""
    with_codemode(pi_home, provider, mode="on")
    topic = memory_directory(pi_home) / "begun.md"
    endless = f"""await tools.write({{ path: "{topic}", content: "x\\n" }}); while (true) {{}}"""
    provider.script("main", text("Tabs it is."), script(endless))
    async with rpc_session(pi_home, environment={"PI_CODEMODE_MAX_WORKERS": "1"}) as pi:
        await pi.run(PROMPT)
        await until(topic.exists, provider.describe)
        await pi.prompt("/memory reload-config")
        await pi.notified("Configuration reloaded; memory is on")
        await until(lambda: not scratch_left(pi_home), lambda: f"{scratch_left(pi_home)} to go")
        provider.script("main", text("Tabs it was."), script("return 'free';"), text("Nothing."))
        await pi.run(f"{PROMPT}, once more")
        last = await provider.request("main", 4)
        assert "Script completed" in message_texts(last)[-1]


def _stored(home: PiHome, custom_type: str) -> list[dict[str, Any]]:
    found = [entry for path in home.session_files() for entry in entries(path)]
    return [entry for entry in found if entry.get("customType") == custom_type]
