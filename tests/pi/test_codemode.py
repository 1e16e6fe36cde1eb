"""Codemode in the extraction of a real Pi session: what is declared, what a script may do, what is left."""

from __future__ import annotations

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import message_texts, messages, system_text, tool_names, tools
from pi.memory_home import DEPLOY, INDEX, chosen, configure, install, memory_directory, remember
from pi.pi_home import PiHome
from pi.rpc_session import rpc_session
from pi.scripting import call, text

pytestmark = pytest.mark.real_time


def with_codemode(home: PiHome, mode: str) -> PiHome:
    install(home)
    configure(home, {"models": {"selector": {"model": "fake/small"}}})
    remember(home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY})
    home.write_settings(defaultTools=["+codemode"], codemode={"mode": mode})
    return home


@pytest.mark.parametrize("mode", ["on", "only"])
async def test_spike(pi_home: PiHome, provider: FakeProvider, mode: str):
    with_codemode(pi_home, mode)
    directory = memory_directory(pi_home)
    provider.respond("small", lambda _: text(chosen()))
    script = f"""
const old = await tools.read({{ path: "{directory}/deploy.md" }});
await tools.write({{ path: "{directory}/deploy.md", content: old + "More.\\n" }});
const ls = await tools.bash({{ command: "ls {directory}" }});
const bad = await tools.bash({{ command: "git status" }}).catch((e) => e.message);
const out = await tools.write({{ path: "/tmp/x.md", content: "x" }}).catch((e) => e.message);
return {{ old, ls, bad, out, all: ALL_TOOLS.map((t) => t.name), models: typeof models }};
"""
    provider.script("main", text("Noted."), call("codemode", code=script), text("Saved."))
    async with rpc_session(pi_home) as pi:
        await pi.run("Please always indent with tabs in this project")
        last = await provider.request("main", 2)
    main, first, last = provider.requests_for("main")
    print(tool_names(main), tool_names(first))
    print(tools(first)[-1]["function"]["description"])
    print(message_texts(last)[-1])
    print([p.name for p in pi_home.temp_dir.iterdir()])
    print((directory / "deploy.md").read_text())
    print(message_texts(first)[-1][:300])
