"""Whole sessions over real files: what the extractor leaves in the memory and in the session."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_project_memory.actors.core.branch import NOTICE_TYPE
from pi_project_memory.actors.core.summary import SUMMARY_TYPE
from pi_project_memory.actors.extractor import CURSOR_TYPE
from pi_project_memory.actors.ports.host import ModelRequest
from pi_project_memory.supervisor.host.player import Session, open_session
from pi_project_memory.supervisor.host.scenario import (
    Action,
    Compaction,
    ConfigEdit,
    OutsideEdit,
    Reply,
    Scenario,
    ToolUse,
    TreeMove,
    UserCommand,
    UserTurn,
    load_scenario,
)
from subagent_kit import contents, names

FIXTURE = Path(__file__).resolve().parents[2] / "fixtures" / "sessions" / "extraction.yaml"
EXTRACTOR = "sim/extractor"
INDEX = "- [A](a.md) — the first topic\n"
TOPIC = "---\nname: A\ndescription: the first topic\nmetadata:\n  type: project\n---\nbody\n"
NOTHING = Reply(text="Nothing to save.")
SAID = "please write commit messages in the imperative"


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's temporary directory, for what runs leave in it; the user's home lies beside it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return folder


def call(tool: str, path: str = "MEMORY.md", **arguments: Any) -> ToolUse:
    return ToolUse(tool, {"path": f"{{{{memory}}}}/{path}", **arguments})


def add_line(line: str, after: str = INDEX) -> ToolUse:
    return call("edit", edits=[{"oldText": after, "newText": f"{after}{line}\n"}])


def scenario(*replies: Reply, **fields: Any) -> Scenario:
    extraction = fields.pop("extraction", {})
    config = {"extraction": extraction, "dream": {"enabled": False}, **fields.pop("config", {})}
    return Scenario(
        "session",
        [],
        memory={"MEMORY.md": INDEX, "a.md": TOPIC},
        models={
            EXTRACTOR: list(replies) or [NOTHING],
            "sim/selector": [Reply(choose=[])],
            "sim/main": [NOTHING],
        },
        config=config,
        **fields,
    )


@asynccontextmanager
async def playing(root: Path, *replies: Reply, **fields: Any) -> AsyncIterator[Session]:
    async with open_session(scenario(*replies, **fields), root) as session:
        yield session


async def say(session: Session, text: str = SAID, seconds: float = 1.0, **turn: Any) -> None:
    await session.step(UserTurn(user=text, **turn))
    await anyio.sleep(seconds)


def requests(session: Session) -> list[ModelRequest]:
    return session.host.models.requests_to(EXTRACTOR)


def told(session: Session, kind: str) -> list[str]:
    """Return the texts of our hidden messages of one kind."""
    entries = session.host.transcript.entries
    return [entry["content"] for entry in entries if entry.get("customType") == kind and "content" in entry]


def cursors(session: Session) -> int:
    return sum(entry.get("customType") == CURSOR_TYPE for entry in session.host.transcript.entries)


def result_texts(request: ModelRequest) -> list[str]:
    """Return what the tools answered before a request."""
    results = [message for message in request.messages if message["role"] == "toolResult"]
    return ["".join(block.get("text", "") for block in message["content"]) for message in results]


def locks(root: Path) -> list[Path]:
    return [path for path in root.rglob("*.lock*") if path.is_file()]


@pytest.mark.req("HOST-2", "EXT-1", "EXT-8", "SUB-9")
async def test_the_session_of_the_fixture_keeps_what_was_said(tmp_path: Path, temp: Path):
    prepared = load_scenario(FIXTURE)
    async with open_session(prepared, tmp_path / "place") as session:
        await session.play()
        memory = session.places.memory
        assert "imperative" in (memory / "commit-style.md").read_text()
        assert "on port 5434 since" in (memory / "test-database.md").read_text()
        assert len((memory / "MEMORY.md").read_text().splitlines()) == 2
        assert len(told(session, SUMMARY_TYPE)) == 1
        assert cursors(session) == 2
        assert session.host.notices == []
    assert locks(tmp_path) == []
    assert list(temp.iterdir()) == []


@pytest.mark.req("SUB-9", "EXT-8")
async def test_nothing_of_a_run_enters_the_session_but_its_summary(tmp_path: Path):
    replies = [
        Reply(calls=[call("read", "a.md"), ToolUse("bash", {"command": "echo LOUD"})]),
        Reply(calls=[call("write", "b.md", content="QUIET\n")]),
        Reply(text="A LAST WORD"),
    ]
    async with playing(tmp_path, *replies) as session:
        await say(session)
        kinds = [(entry["type"], entry.get("customType")) for entry in session.host.transcript.entries]
        assert [kind for kind in kinds if kind[0] != "custom" or kind[1] == CURSOR_TYPE] == [
            ("message", None),
            ("message", None),
            ("custom_message", SUMMARY_TYPE),
            ("custom", CURSOR_TYPE),
        ]
        everything = str(session.host.transcript.entries)
        assert not any(word in everything for word in ("LOUD", "QUIET", "LAST WORD"))
        (summary,) = told(session, SUMMARY_TYPE)
        assert f"created {session.places.memory}/b.md" in summary


@pytest.mark.req("EXT-6", "PRM-3")
async def test_the_same_model_continues_the_main_agents_request(tmp_path: Path):
    async with playing(tmp_path, config={"models": {"extractor": {"model": "inherit"}}}) as session:
        await say(session)
        (request,) = session.host.models.requests_to("sim/main")
        assert request.parent is not None
        assert request.system_prompt is None
        assert str(session.places.memory) in request.messages[0]["content"][0]["text"]
        assert len(session.host.released) == 1


@pytest.mark.req("CFG-1", "PATH-6", "EXT-1")
@pytest.mark.parametrize(
    "off", [{"config": {"enabled": False}}, {"trusted": False}], ids=["disabled", "untrusted"]
)
async def test_switched_off_it_creates_nothing_and_asks_nobody(tmp_path: Path, off: dict[str, Any]):
    """Case C32: three turns, a compaction, a command and the end of the session."""
    async with playing(tmp_path, **off) as session:
        before = names(tmp_path)
        for number in range(3):
            await say(session, f"please remember the number {number}")
        await session.step(Compaction(compact=1))
        answer = await session.step(UserCommand(command="extract"))
        assert "not available" in answer.text
        await anyio.sleep(1_000)
    assert session.host.models.exchanges == []
    assert names(tmp_path) == before
    assert contents(session.places.memory) == {"MEMORY.md": INDEX.encode(), "a.md": TOPIC.encode()}
    assert told(session, SUMMARY_TYPE) == []


@pytest.mark.req("EXT-1", "EXT-4", "C34")
async def test_a_compaction_loses_nothing_that_was_said_before_it(tmp_path: Path):
    """Case C34: the fact is in the first of six turns, and a run every ten was wanted."""
    async with playing(tmp_path, extraction={"everyNTurns": 10}) as session:
        for number in range(6):
            await say(session, f"please remember the number {number}")
        assert requests(session) == []
        await session.step(Compaction(compact=1))
        (request,) = requests(session)
        assert "the number 0" in str(request.messages)
        assert "the number 5" in str(request.messages)
        assert cursors(session) == 1


@pytest.mark.req("EXT-4")
async def test_a_compaction_waits_a_minute_at_most_and_the_run_goes_on(tmp_path: Path):
    slow = Reply(calls=[call("write", "late.md", content="kept\n")], delay=100)
    async with playing(tmp_path, slow, NOTHING) as session:
        await say(session)
        started = anyio.current_time()
        await session.step(Compaction(compact=1))
        assert anyio.current_time() - started == 60
        await anyio.sleep(100)
        assert (session.places.memory / "late.md").exists()
        assert session.host.models.cancelled == []
        assert cursors(session) == 1


@pytest.mark.req("EXT-1", "LIFE-5")
async def test_the_end_of_a_session_extracts_the_rest(tmp_path: Path):
    async with playing(tmp_path, extraction={"everyNTurns": 10}) as session:
        await say(session)
    assert len(requests(session)) == 1
    assert cursors(session) == 1
    assert locks(tmp_path) == []


@pytest.mark.req("LIFE-5", "LIFE-2", "SUB-8")
async def test_a_run_that_outlasts_the_end_of_the_session_is_stopped_without_a_trace(
    tmp_path: Path, temp: Path
):
    """Case C78: a minute, then the model request is aborted and everything is given back."""
    async with playing(tmp_path, Reply(hang=True)) as session:
        await say(session)
        started = anyio.current_time()
    assert anyio.current_time() - started == pytest.approx(60, abs=1)
    assert session.host.models.cancelled == [EXTRACTOR]
    assert (cursors(session), told(session, SUMMARY_TYPE)) == (0, [])
    assert locks(tmp_path) == []
    assert list(temp.iterdir()) == []


@pytest.mark.req("LIFE-2", "HOST-11")
async def test_a_host_that_vanishes_ends_the_run_at_once(tmp_path: Path, temp: Path):
    late = Reply(calls=[call("write", "late.md", content="x\n")], delay=10)
    async with playing(tmp_path, late) as session:
        await say(session)
        started = anyio.current_time()
        session.host.gone = True
        await session.service.host_gone()
        assert anyio.current_time() == started
        await anyio.sleep(100)
        assert not (session.places.memory / "late.md").exists()
        assert locks(tmp_path) == []
        assert list(temp.iterdir()) == []


@pytest.mark.req("EXT-2")
async def test_what_the_main_agent_kept_by_itself_is_not_kept_again(tmp_path: Path):
    async with playing(tmp_path) as session:
        write = ToolUse("write", {"path": f"{session.places.memory}/b.md", "content": "x\n"})
        await say(session, answer=[Action(call=write), Action(say="Noted.")])
        assert (requests(session), cursors(session)) == ([], 1)


@pytest.mark.req("EXT-2", "EXT-3")
async def test_branches_keep_their_own_cursor(tmp_path: Path):
    async with playing(tmp_path) as session:
        await say(session, "please remember the number 1")
        await say(session, "please remember the number 2")
        await session.step(TreeMove(back_to=1))
        await say(session, "please remember the number 3")
        conversations = [str(request.messages[:-1]) for request in requests(session)]
        assert ["number 1" in text for text in conversations] == [True, False, True], (
            "its cursor came after it"
        )
        assert ["number 2" in text for text in conversations] == [False, True, False]
        assert ["number 3" in text for text in conversations] == [False, False, True]


# Two sessions of one project.


@asynccontextmanager
async def two_sessions(
    root: Path, one: Sequence[Reply], other: Sequence[Reply]
) -> AsyncIterator[list[Session]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(open_session(scenario(*replies), root))
            for replies in (one, other)
        ]


def keeping(line: str) -> list[Reply]:
    """Return a model that reads the index and then adds a line of its own to it."""
    return [
        Reply(calls=[call("read")], delay=5),
        Reply(calls=[add_line(line)], delay=5),
        Reply(text="Saved."),
    ]


@pytest.mark.req("EXT-4", "LCK-1", "SUB-4")
async def test_two_sessions_that_keep_something_at_once_lose_no_line(tmp_path: Path):
    """Case C11: one lock admits one of them; the other tries again when it is idle."""
    lines = ["- [B](b.md) — from the first session", "- [C](c.md) — from the second session"]
    async with two_sessions(tmp_path, keeping(lines[0]), keeping(lines[1])) as (one, other):
        for session in (one, other):
            await session.step(UserTurn(user=SAID))
        await anyio.sleep(60)
        index = (one.places.memory / "MEMORY.md").read_text()
        assert sum(line in index for line in lines) == 1
        assert sorted([cursors(one), cursors(other)]) == [0, 1]
        assert [session.host.notices for session in (one, other)] == [[], []]
        await anyio.sleep(120)
        index = (one.places.memory / "MEMORY.md").read_text()
        assert [index.count(line) for line in lines] == [1, 1]
        assert index.startswith(INDEX)
        assert [cursors(one), cursors(other)] == [1, 1]
    assert locks(tmp_path) == []


@pytest.mark.req("EXT-4", "LIFE-5")
async def test_a_session_that_ends_while_the_other_one_extracts_does_not_wait_for_it(tmp_path: Path):
    """What it could not keep stays unprocessed on its branch, for the next time it is opened."""
    async with open_session(scenario(Reply(text="x", delay=50)), tmp_path) as holder:
        await say(holder)
        async with open_session(scenario(), tmp_path) as session:
            await say(session)
            started = anyio.current_time()
        assert anyio.current_time() - started < 2
        assert (requests(session), cursors(session)) == ([], 0)


@pytest.mark.req("SUB-4", "PATH-7")
async def test_two_main_agents_and_two_extractors_leave_whole_files(tmp_path: Path):
    """Nothing of ours clobbers what somebody writes through Pi's own tools, without any lock."""
    lines = ["- [B](b.md) — one", "- [C](c.md) — two"]
    async with two_sessions(tmp_path, keeping(lines[0]), keeping(lines[1])) as (one, other):
        for session in (one, other):
            await session.step(UserTurn(user=SAID))
        await anyio.sleep(7)
        index = one.places.memory / "MEMORY.md"
        index.write_text(index.read_text() + "- [D](d.md) — by a main agent\n")
        await anyio.sleep(300)
        assert "- [D](d.md) — by a main agent\n" in index.read_text()
        assert index.read_text().startswith(INDEX)


# An edit by somebody else during a run.


@pytest.mark.req("SUB-4", "IDX-7", "C12")
async def test_an_edit_during_a_run_is_kept_and_the_model_reads_again(tmp_path: Path):
    """Case C12: fifty lines are added between the read and the write of three."""
    stale = call("write", content="- [X](x.md) — one\n- [Y](y.md) — two\n- [Z](z.md) — three\n")
    replies = [
        Reply(calls=[call("read", offset=1, limit=1)]),
        Reply(calls=[stale], delay=10),
        Reply(calls=[call("read")]),
        Reply(calls=[add_line("- [B](b.md) — kept")]),
        Reply(text="Saved."),
    ]
    theirs = "".join(f"- [T{n}](t{n}.md) — theirs\n" for n in range(50))
    async with playing(tmp_path, *replies, extraction={"maxTurns": 6}) as session:
        await say(session)
        index = session.places.memory / "MEMORY.md"
        with index.open("a") as file:
            file.write(theirs)
        await anyio.sleep(20)
        texts = result_texts(requests(session)[-1])
        assert "changed since this run read it" in texts[1]
        assert "Read it again" in texts[1]
        assert index.read_text() == f"{INDEX}- [B](b.md) — kept\n{theirs}"


@pytest.mark.req("IDX-7", "EXT-8")
async def test_an_edit_during_a_run_that_changes_another_file_is_told_to_the_main_agent(tmp_path: Path):
    """The run's own changes are told by its summary, and hide nobody else's."""
    replies = [Reply(calls=[call("write", "b.md", content="x\n")], delay=10), Reply(text="Saved.", delay=10)]
    async with playing(tmp_path, *replies) as session:
        read = ToolUse("read", {"path": f"{session.places.memory}/a.md"})
        await say(session, answer=[Action(call=read), Action(say="Read.")])
        await session.step(OutsideEdit(edit={"a.md": TOPIC + "changed by the user\n"}))
        await anyio.sleep(30)
        assert len(told(session, SUMMARY_TYPE)) == 1
        await say(session, "thanks, that was all")
        (notice,) = told(session, NOTICE_TYPE)
        assert f"{session.places.memory}/a.md" in notice


@pytest.mark.req("IDX-7", "SUB-4")
async def test_an_edit_that_a_run_was_refused_for_is_told_to_the_main_agent(tmp_path: Path):
    replies = [
        Reply(calls=[call("read", "a.md")]),
        Reply(calls=[call("write", "a.md", content="x\n")], delay=10),
        Reply(text="Left alone."),
    ]
    async with playing(tmp_path, *replies) as session:
        read = ToolUse("read", {"path": f"{session.places.memory}/a.md"})
        await say(session, answer=[Action(call=read), Action(say="Read.")])
        await session.step(OutsideEdit(edit={"a.md": TOPIC + "changed by the user\n"}))
        await anyio.sleep(30)
        assert told(session, SUMMARY_TYPE) == []
        await say(session, "thanks, that was all")
        (notice,) = told(session, NOTICE_TYPE)
        assert f"{session.places.memory}/a.md" in notice


STOPPED = [
    Reply(calls=[call("read", "a.md")]),
    Reply(calls=[call("write", "a.md", content=TOPIC + "by the run\n")]),
    Reply(hang=True),
    NOTHING,
]


@pytest.mark.req("IDX-7", "LIFE-2")
async def test_what_a_stopped_run_had_changed_reaches_the_main_agent_all_the_same(tmp_path: Path):
    """Its summary is never sent, so the file is told of like anybody's change."""
    async with playing(tmp_path, *STOPPED) as session:
        read = ToolUse("read", {"path": f"{session.places.memory}/a.md"})
        await say(session, answer=[Action(call=read), Action(say="Read.")])
        assert "by the run" in (session.places.memory / "a.md").read_text()
        await session.step(UserCommand(command="reload-config"))
        await anyio.sleep(1)
        assert told(session, SUMMARY_TYPE) == []
        await say(session, "ok")
        (notice,) = told(session, NOTICE_TYPE)
        assert f"{session.places.memory}/a.md" in notice


@pytest.mark.req("IDX-7", "LIFE-2")
@pytest.mark.parametrize("enabled", [True, False], ids=["another run follows", "none follows"])
async def test_after_a_stopped_run_an_edit_of_what_it_touched_is_told(tmp_path: Path, enabled: bool):  # noqa: FBT001 - a column of the table
    async with playing(tmp_path, *STOPPED) as session:
        await say(session)
        await session.step(ConfigEdit(config={"extraction": {"enabled": enabled}}))
        await session.step(UserCommand(command="reload-config"))
        read = ToolUse("read", {"path": f"{session.places.memory}/a.md"})
        await say(session, "ok", answer=[Action(call=read), Action(say="Read.")])
        await session.step(OutsideEdit(edit={"a.md": TOPIC + "changed by the user\n"}))
        await say(session, "ok")
        (notice,) = told(session, NOTICE_TYPE)
        assert f"{session.places.memory}/a.md" in notice


@pytest.mark.req("IDX-7", "LIFE-2")
async def test_after_a_run_that_a_move_in_the_tree_stopped_too(tmp_path: Path):
    async with playing(tmp_path, *STOPPED, extraction={"everyNTurns": 2}) as session:
        await say(session)
        await say(session)
        await session.step(TreeMove(back_to=1))
        read = ToolUse("read", {"path": f"{session.places.memory}/a.md"})
        await say(session, "ok", answer=[Action(call=read), Action(say="Read.")])
        await session.step(OutsideEdit(edit={"a.md": TOPIC + "changed by the user\n"}))
        await session.step(UserTurn(user="ok"))
        (notice,) = told(session, NOTICE_TYPE)
        assert f"{session.places.memory}/a.md" in notice


@pytest.mark.req("EXT-8", "EXT-2", "IDX-7")
async def test_what_a_failed_run_had_changed_reaches_the_main_agent(tmp_path: Path):
    """Its lock is lost behind the first of its writes: the cursor stays, and the one change is told."""
    replies = [
        Reply(calls=[call("read", "a.md")]),
        Reply(calls=[call("write", "a.md", content=TOPIC + "by the run\n")]),
        Reply(calls=[call("read", "a.md")], delay=10),
    ]
    async with playing(tmp_path, *replies) as session:
        read = ToolUse("read", {"path": f"{session.places.memory}/a.md"})
        await say(session, answer=[Action(call=read), Action(say="Read.")])
        for path in locks(tmp_path):
            path.unlink()
        await anyio.sleep(30)
        assert cursors(session) == 0
        assert "lock" in session.host.notices[0][1]
        await say(session, "ok")
        texts = told(session, SUMMARY_TYPE) + told(session, NOTICE_TYPE)
        assert [f"{session.places.memory}/a.md" in text for text in texts] == [True]


# Models and texts of ill will.


@pytest.mark.req("SUB-2", "SUB-3", "SUB-6")
async def test_a_model_that_was_talked_into_it_reaches_nothing_outside_the_memory(tmp_path: Path):
    """Cases C36 and C72: every way out of the memory at once, with a link that was planted there before."""
    calls = [
        ToolUse("write", {"path": "{{memory}}/../elsewhere/x.md", "content": "x"}),
        ToolUse("write", {"path": "~/planted.md", "content": "x"}),
        ToolUse("write", {"path": "README.md", "content": "x"}),
        call("write", "leak.md", content="x"),
        call("write", "sub/new.md", content="x"),
        call("write", ".git/config.md", content="x"),
        call("edit", "../project/README.md", edits=[{"oldText": "the", "newText": "x"}]),
        call("read", "leak.md"),
        ToolUse("read", {"path": "{{memory}}/../agent/project-memory/config.json"}),
        ToolUse("grep", {"pattern": ".", "path": "{{memory}}/../agent"}),
        ToolUse("bash", {"command": "cat {{memory}}/leak.md"}),
        ToolUse("bash", {"command": "echo x > {{memory}}/a.md"}),
        ToolUse("bash", {"command": "rm -rf {{memory}}"}),
        ToolUse("bash", {"command": "rm {{memory}}/MEMORY.md"}),
    ]
    files = {"README.md": "the project\n"}
    async with playing(tmp_path, Reply(calls=calls), NOTHING, project=files) as session:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret.md").write_text("SECRET\n")
        (session.places.memory / "leak.md").symlink_to(outside / "secret.md")
        (session.places.memory / "sub").symlink_to(outside)
        before = contents(tmp_path)
        await say(session)
        results = [m for m in requests(session)[-1].messages if m["role"] == "toolResult"]
        assert [message["isError"] for message in results] == [True] * len(calls)
        assert "SECRET" not in str(results)
        after = contents(tmp_path)
        assert {name: after.get(name) for name in before} == before
        assert not [
            name for name in names(tmp_path) if name.endswith(("planted.md", "x.md", "new.md", "config.md"))
        ]
        assert names(outside) == ["secret.md"]
        assert told(session, SUMMARY_TYPE) == []


@pytest.mark.req("EXT-7", "SUB-1")
@pytest.mark.parametrize(
    "reply",
    [
        Reply(calls=[ToolUse("deploy", {})]),
        Reply(calls=[ToolUse("read", {})]),
        Reply(calls=[ToolUse("write", {"path": "{{memory}}/a.md", "content": "x"})]),
        Reply(calls=[ToolUse("write", {"path": "{{memory}}/new.md", "content": "x" * 10_000_000})]),
        Reply(text=""),
        Reply(text="x" * 1_000_000),
    ],
    ids=[
        "unknown tool",
        "invalid arguments",
        "the same failing call",
        "ten megabytes",
        "nothing",
        "much prose",
    ],
)
async def test_a_model_that_does_nothing_right_costs_its_turns_and_nothing_else(tmp_path: Path, reply: Reply):
    async with playing(tmp_path, reply) as session:
        await say(session)
        assert len(requests(session)) in {1, 5}
        assert contents(session.places.memory) == {"MEMORY.md": INDEX.encode(), "a.md": TOPIC.encode()}
        assert cursors(session) == 1
        assert session.host.notices == []


@pytest.mark.req("EXT-4", "LIFE-6")
async def test_a_user_who_types_fast_makes_two_runs(tmp_path: Path):
    async with playing(tmp_path, Reply(text="x", delay=10)) as session:
        for number in range(40):
            await session.step(UserTurn(user=f"please remember the number {number}"))
        await anyio.sleep(60)
        first, second = (str(request.messages[:-1]) for request in requests(session))
        assert "the number 0" in first
        assert "the number 39" in second
        assert all(f"the number {number}'" in first + second for number in range(40))
        await asyncio.sleep(0)
