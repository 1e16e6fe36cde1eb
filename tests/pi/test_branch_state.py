"""What a branch has seen of the memory, across restarts, forks, compactions and moves of a real session."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, system_text
from pi.memory_home import CONFIG, DEPLOY, INDEX, chosen, configure, memory_directory, with_memory
from pi.pi_home import MakePiHome, PiHome
from pi.pipe_tap import tap
from pi.rpc_session import RpcSession, rpc_session
from pi.scripting import Request, hang, text
from pi.session_files import entries

pytestmark = pytest.mark.real_time

BODY = "make unship"
FIRST, SECOND, THIRD = "How do we deploy this service?", "And how is it rolled back?", "How was that again?"

BACK = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerCommand("back", {
    description: "Moves to the entry with this id",
    handler: async (id, ctx) => void (await ctx.navigateTree(id)),
  });
  pi.registerCommand("again", { description: "Loads every extension anew", handler: (_text, ctx) => ctx.reload() });
}
"""


@pytest.fixture
def back(tmp_path: Path) -> Path:
    path = tmp_path / "back.ts"
    path.write_text(BACK, "utf-8")
    return path


def short_memory(make_pi_home: MakePiHome) -> PiHome:
    """A home whose compactions keep the last turn alone."""
    settings = {"compaction": {"enabled": True, "reserveTokens": 100, "keepRecentTokens": 3}}
    return with_memory(make_pi_home(settings=settings))


def always(provider: FakeProvider, *names: str) -> None:
    """Let the selector choose the same topics, and the main agent be content, for ever."""
    provider.respond("small", lambda _: text(chosen(*names)))
    provider.respond("main", lambda _: text("Fine."))


def recalls(request: Request) -> int:
    """How often the topic's text stands in a request."""
    return conversation_text(request).count(BODY)


def prompts(request: Request) -> list[str]:
    """The selector's messages, each by its last line."""
    return [message.rpartition("\n")[2] for message in message_texts(request)]


async def used(pi: RpcSession) -> int:
    """How much of the recall budget the status says is used."""
    mark = pi.mark()
    await pi.prompt("/memory status")
    found = re.search(r"Recall: ([\d,]+) of 61,440 units used", await pi.notified("Recall:", mark))
    assert found is not None
    return int(found[1].replace(",", ""))


async def user_entries(pi: RpcSession) -> list[str]:
    found = await pi.entries()
    return [e["id"] for e in found if e["type"] == "message" and e["message"]["role"] == "user"]


def store_the_recall_twice(session: Path) -> None:
    """Add a copy of the stored recall to the end of a session file."""
    stored = entries(session)
    (recall,) = [entry for entry in stored if entry["type"] == "custom_message"]
    copy = recall | {"id": "c0ffee00", "parentId": stored[-1]["id"]}
    with session.open("a", encoding="utf-8") as file:
        file.write(json.dumps(copy) + "\n")


@pytest.mark.req("SEL-6", "RCL-3", "RCL-4", "IDX-7")
async def test_a_resumed_session_knows_what_it_has_seen(pi_home: PiHome, provider: FakeProvider):
    """With case C42: what stands in the session file twice is charged once."""
    topic = memory_directory(with_memory(pi_home)) / "deploy.md"
    always(provider, "deploy.md")
    async with rpc_session(pi_home) as pi:
        await pi.run(FIRST)
        before = await used(pi)
        session = await pi.session_file()
    store_the_recall_twice(session)
    async with rpc_session(pi_home, "--continue") as pi:
        assert await pi.session_file() == session
        assert await used(pi) == before > 0
        await pi.run(SECOND)
        topic.write_text(DEPLOY.replace(BODY, f"{BODY} twice"), "utf-8")
        await pi.run(THIRD)
        assert await used(pi) > before
    assert [recalls(request) for request in provider.requests_for("main")] == [1, 2, 3]
    assert [prompts(request)[1:] for request in provider.requests_for("small")] == [
        [],
        [chosen("deploy.md"), SECOND],
        [chosen("deploy.md"), SECOND, chosen("deploy.md"), THIRD],
    ]
    kinds = [entry["customType"] for entry in entries(session, "custom_message")]
    assert kinds.count("project-memory-recall") == 3


@pytest.mark.req("SEL-6", "RCL-3", "RCL-4", "HOST-12")
async def test_a_fork_knows_what_stands_before_it_and_no_more(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    always(provider, "deploy.md")
    async with rpc_session(pi_home) as pi:
        await pi.run(FIRST)
        full = await used(pi)
        await pi.run(SECOND)
        first, second = await user_entries(pi)
        await pi.fork(second)
        assert await used(pi) == full
        await pi.run(THIRD)
        assert prompts(provider.requests_for("small")[-1])[1:] == [chosen("deploy.md"), THIRD]
        await pi.fork(first)
        assert await used(pi) == 0
        await pi.run(THIRD)
        assert len(message_texts(provider.requests_for("small")[-1])) == 1
    assert [recalls(request) for request in provider.requests_for("main")] == [1, 1, 1, 1]


@pytest.mark.req("IDX-4", "RCL-4", "SEL-6")
async def test_after_a_compaction_the_topic_comes_again_and_the_section_anew(
    make_pi_home: MakePiHome, provider: FakeProvider
):
    """Case C09: what is saved shows after the compaction, and what was recalled can be recalled again."""
    home = short_memory(make_pi_home)
    always(provider, "deploy.md")
    async with rpc_session(home) as pi:
        await pi.run(FIRST)
        await pi.run(SECOND)
        index = memory_directory(home) / "MEMORY.md"
        index.write_text(INDEX + "- [New](new.md) — added meanwhile\n", "utf-8")
        await pi.run("Thanks for all of that")
        assert await used(pi) > 0
        await pi.compact()
        assert await used(pi) == 0
        await pi.run(THIRD)
        assert await used(pi) > 0
    answered = [
        request for request in provider.requests_for("main") if "<auto_memory>" in system_text(request)
    ]
    before, last = answered[:3], answered[-1]
    assert ["added meanwhile" in system_text(request) for request in before] == [False] * 3
    assert len({system_text(request) for request in before}) == 1
    assert ["older one" in conversation_text(request) for request in before] == [False, False, True]
    assert "added meanwhile" in system_text(last)
    assert (recalls(last), prompts(last)[-1]) == (1, "</memory-recall>")
    asked = provider.requests_for("small")[-1]
    assert THIRD in prompts(asked)
    assert FIRST not in prompts(asked)


@pytest.mark.req("RCL-4", "SEL-6", "IDX-4", "HOST-12")
async def test_a_move_in_the_tree_follows_the_branch(pi_home: PiHome, provider: FakeProvider, back: Path):
    with_memory(pi_home)
    always(provider, "deploy.md")
    async with rpc_session(pi_home, extensions=[back]) as pi:
        await pi.run(FIRST)
        await pi.run(SECOND)
        full = await used(pi)
        leaf = (await pi.entries())[-1]["id"]
        first, _ = await user_entries(pi)
        (memory_directory(pi_home) / "MEMORY.md").write_text(INDEX + "- [New](new.md) — new\n", "utf-8")
        await pi.run(f"/back {first}")
        assert await used(pi) == 0
        await pi.run(THIRD)
        await pi.run(f"/back {leaf}")
        assert await used(pi) == full
        await pi.run("And once more, please")
    requests = provider.requests_for("main")
    assert [recalls(request) for request in requests] == [1, 1, 1, 1]
    assert ["— new" in system_text(request) for request in requests] == [False, False, True, True]
    assert [len(message_texts(request)) for request in provider.requests_for("small")] == [1, 3, 1, 5]


@pytest.mark.req("HOST-12", "RCL-2", "SEL-7", "C82")
async def test_a_late_answer_does_not_reach_the_session_that_came_instead(
    pi_home: PiHome, provider: FakeProvider, back: Path
):
    """Case C82: the session is replaced, in each way, while its service is still asked for a recall."""
    with_memory(pi_home)
    always(provider, "deploy.md")

    async def again(mark: int) -> None:
        """Pi reloads nothing before the run has settled; its selection still goes on then."""
        await pi.settled(mark)
        await pi.prompt("/again")

    async with rpc_session(pi_home, extensions=[back]) as pi:
        await pi.run(FIRST)
        old = await pi.session_file()
        replacements: list[Callable[[int], Awaitable[object]]] = [
            lambda _: pi.new_session(),
            lambda _: pi.switch_session(old),
            again,
        ]
        for replace in replacements:
            mark, asked = pi.mark(), len(provider.requests_for("small"))
            provider.script("small", hang())
            await pi.send({"id": f"held-{asked}", "type": "prompt", "message": SECOND})
            held = await provider.request("small", asked)
            await replace(mark)
            await provider.client_left(held)
            await pi.run(THIRD)
            assert len(provider.requests_for("small")) == asked + 2
            assert recalls(provider.requests_for("main")[-1]) == 1
        assert [note for note in pi.notifications() if note[0] != "info"] == []


@pytest.mark.req("HOST-5")
@pytest.mark.parametrize("extraction", [False, True], ids=["recall alone", "with extraction"])
async def test_no_message_crosses_the_pipe_twice_for_one_branch(
    extraction: bool,  # noqa: FBT001 - a column of the table
    make_pi_home: MakePiHome,
    provider: FakeProvider,
    back: Path,
):
    home = short_memory(make_pi_home)
    always(provider, "deploy.md")
    async with rpc_session(home) as pi:
        for number in range(3):
            await pi.run(f"This is message number {number} of a longer session")
    configure(home, CONFIG | {"extraction": {"enabled": extraction}})
    pipe = tap(home)
    async with rpc_session(home, "--continue", extensions=[back]) as pi:
        for number in range(2):
            await pi.run(f"This is another message, number {number}")
        first = (await user_entries(pi))[0]
        await pi.run(f"/back {first}")
        await pi.run("The other branch goes on from here")
        await pi.compact()
        await used(pi)
    reads = pipe.reads()
    assert {read.handle for read in reads} == {"h1", "h2", "h3"}
    crossed = Counter((read.handle, message) for read in reads for message in read.messages)
    assert max(crossed.values(), default=0) == extraction
    assert len(crossed) >= 10 * extraction


@pytest.mark.req("HOST-5")
async def test_a_turn_sends_no_more_the_longer_the_session_is(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    always(provider)
    pipe = tap(pi_home)
    async with rpc_session(pi_home) as pi:
        for _ in range(8):
            await pi.run(f"This is a long message {'x' * 5_000}")
    turns = _by_turn(pipe.sent())
    assert len(turns) == 8
    assert max(turns[1:]) - min(turns[1:]) < 200
    assert [read.messages for read in pipe.reads() if read.messages] == []
    assert "x" * 100 not in "".join(str(call) for call in _calls(pipe.sent(), "agent_settled"))


def _by_turn(frames: Sequence[bytes]) -> list[int]:
    """The bytes that Pi tells from each prompt on, its answers left out."""
    sizes: list[int] = []
    for frame in frames:
        method = json.loads(frame).get("method")
        if method == "before_agent_start":
            sizes.append(0)
        if method is not None and sizes:
            sizes[-1] += len(frame)
    return sizes


def _calls(frames: Sequence[bytes], method: str) -> list[Any]:
    calls = (json.loads(frame) for frame in frames)
    return [call["params"] for call in calls if call.get("method") == method]
