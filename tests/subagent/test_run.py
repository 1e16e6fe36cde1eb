"""One background run: which request it makes, and that it gives back all it took on every way out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from host_kit import TroubledHost
from pi_project_memory.actors.core.lock_rules import EXTRACT_LOCK
from pi_project_memory.actors.ports.host import HostError, JsonObject, ModelInfo, ModelRequest
from pi_project_memory.actors.ports.locks import LockHandle, MemoryLocks
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent.guarded_files import StorageFailedError
from pi_project_memory.actors.subagent.run import (
    HEADING,
    RELEASE_SECONDS,
    LockLostError,
    Plan,
    Report,
    Workshop,
    execute,
)
from pi_project_memory.supervisor.host.scenario import ProviderError, Reply, ToolUse
from pi_project_memory.supervisor.host.simulated import ScriptedModels
from pi_project_memory.supervisor.host.tools.registry import TOOLS
from subagent_kit import Yard, contents, names

MAIN = ModelInfo("sim", "main", "anthropic-messages")
OTHER = ModelInfo("sim", "extractor", "anthropic-messages")
RULES = "# Project memory, the rules"
SECTION = "# Project memory, in the parent's prompt"
TASK = "Look at the conversation and save what matters."
NOTHING = Reply(text="Nothing to save.")
DECLARED: list[JsonObject] = [asdict(tool.declaration) for tool in TOOLS.values()]
HISTORY: list[JsonObject] = [{"role": "user", "content": [{"type": "text", "text": "please use tabs"}]}]


@dataclass
class Stage:
    """One run to be made: change what you like, then `run` it."""

    yard: Yard
    temp: Path
    host: TroubledHost
    locks: MemoryLocks = field(default_factory=MemoryLocks)
    turns: list[int] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def workshop(self) -> Workshop:
        yard = self.yard
        return Workshop(
            host=self.host,
            trace=yard.trace,
            session_id="session-1",
            cwd=yard.project / "src",
            memory_dir=yard.memory,
            agent_dir=yard.agent,
            project_root=yard.project,
            worktree=yard.project,
            session_dir=yard.sessions,
            native_tools=DECLARED,
        )

    @property
    def plan(self) -> Plan:
        plan = Plan(
            role="extractor",
            model=MAIN,
            level="off",
            max_tokens=None,
            max_turns=3,
            task=TASK,
            rules=RULES,
            conversation=lambda _: HISTORY,
            check=self.yard.check,
            on_turn=self.turns.append,
            on_touch=self.yard.touched.append,
        )
        return replace(plan, **self.changes)

    async def run(self, **changes: Any) -> Report:
        self.changes.update(changes)
        held = await self.locks.acquire(EXTRACT_LOCK)
        assert isinstance(held, LockHandle)
        async with held:
            return await execute(self.workshop, self.plan, self.host, held)

    @property
    def requests(self) -> list[ModelRequest]:
        return [exchange.request for exchange in self.host.models.exchanges]

    def assert_all_given_back(self, captured: int = 1) -> None:
        assert self.host.released == [f"p{number}" for number in range(captured)]
        assert list(self.temp.iterdir()) == []


def stage_with(tmp_path: Path, temp: Path, replies: Sequence[Reply], **parent: Any) -> Stage:
    yard = Yard(tmp_path / "yard")
    script = {"sim/main": replies, "sim/extractor": replies}
    models = ScriptedModels(script, MAIN.api, MAIN, str(yard.memory))
    snapshot = {"system_text": f"You are the main agent.\n\n{SECTION}", "section": SECTION, **parent}
    host = TroubledHost(models, declared_tools=DECLARED, main_requests=1, scratch=temp).prepare(**snapshot)
    return Stage(yard, temp, host)


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def stage(tmp_path: Path, temp: Path) -> Stage:
    return stage_with(tmp_path, temp, [NOTHING])


def texts(request: ModelRequest) -> list[str]:
    return [block["text"] for message in request.messages for block in message["content"] if "text" in block]


# Continuing the parent's request.


@pytest.mark.req("EXT-6")
async def test_the_parents_request_is_continued_with_one_user_message(stage: Stage):
    report = await stage.run()
    (request,) = stage.requests
    assert (request.parent, request.system_prompt, list(request.tools)) == ("p0", None, [])
    (message,) = request.messages
    assert message["role"] == "user"
    (text,) = texts(request)
    assert text.startswith(HEADING)
    assert text.endswith(TASK)
    assert report.independent == ""


@pytest.mark.req("EXT-6")
async def test_every_turn_continues_the_same_snapshot(tmp_path: Path, temp: Path):
    read = Reply(calls=[ToolUse("read", {"path": "a.py"})])
    stage = stage_with(tmp_path, temp, [read, read, Reply(text="done")])
    await stage.run()
    assert [request.parent for request in stage.requests] == ["p0"] * 3
    assert [len(request.messages) for request in stage.requests] == [1, 3, 5]
    assert stage.requests[1].messages[0] == stage.requests[0].messages[0]
    assert stage.turns == [1, 2, 3]
    stage.assert_all_given_back()


@pytest.mark.req("EXT-6", "CFG-8")
@pytest.mark.parametrize(
    ("changes", "reasoning", "max_tokens"),
    [({}, None, None), ({"level": "high"}, "high", None), ({"level": "off", "max_tokens": 4096}, None, 4096)],
    ids=str,
)
@pytest.mark.parametrize("parent", [{}, {"requested": False}], ids=["continued", "independent"])
async def test_the_options_keep_the_cache_and_the_parents_thread_apart(
    tmp_path: Path,
    temp: Path,
    parent: dict[str, Any],
    changes: dict[str, Any],
    reasoning: Any,
    max_tokens: Any,
):
    stage = stage_with(tmp_path, temp, [Reply(text="done")], **parent)
    await stage.run(**changes)
    options = stage.requests[0].options
    assert (options.reasoning, options.max_tokens) == (reasoning, max_tokens)
    assert options.cache_retention == "short"
    assert options.session_id == "session-1"
    assert options.disable_continuation


# Asking independently.

INCOMPATIBLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no request yet": ({"requested": False}, {}),
    "another model": ({}, {"model": OTHER}),
    "another api of the same model": ({"model": ModelInfo("sim", "main", "openai-responses")}, {}),
    "no parent model": ({"model": None}, {}),
    "a limited conversation": ({}, {"recent_messages": 20}),
    "images left out": ({"images_blocked": True}, {}),
    "a forced prompt": ({"forced_prompt": True}, {}),
    "hidden tools": ({"hidden_tools": ["read"]}, {}),
    "no tools": ({"tools": []}, {}),
    "a tool of another shape": ({"tools": [{**DECLARED[0], "parameters": {}}, *DECLARED[1:]]}, {}),
}


@pytest.mark.req("EXT-6")
@pytest.mark.parametrize(("parent", "changes"), INCOMPATIBLE.values(), ids=INCOMPATIBLE.keys())
async def test_what_does_not_fit_asks_independently(
    tmp_path: Path, temp: Path, parent: dict[str, Any], changes: dict[str, Any]
):
    stage = stage_with(tmp_path, temp, [Reply(text="done")], **parent)
    report = await stage.run(**changes)
    (request,) = stage.requests
    assert request.parent is None
    assert request.messages[:-1] == HISTORY
    assert texts(request)[-1] == TASK
    assert request.system_prompt is not None
    assert request.system_prompt.startswith("You are the main agent.")
    assert HEADING in request.system_prompt
    assert list(request.tools) == DECLARED
    assert report.independent
    stage.assert_all_given_back()


@pytest.mark.req("EXT-6")
async def test_a_host_that_keeps_no_request_is_asked_independently(stage: Stage):
    stage.host.trouble["capture"] = HostError("parent/capture: no answer within 10 s")
    report = await stage.run()
    (request,) = stage.requests
    assert (request.parent, report.independent != "") == (None, True)
    assert request.system_prompt is not None
    assert request.system_prompt.startswith(RULES)
    stage.assert_all_given_back(captured=0)


@pytest.mark.req("EXT-6")
async def test_the_conversation_is_made_for_the_model_that_reads_it(stage: Stage):
    keys = []
    await stage.run(model=OTHER, conversation=lambda key: keys.append(key) or HISTORY)
    assert keys == [("sim", "anthropic-messages", "extractor")]


@pytest.mark.req("EXT-6")
async def test_the_conversation_of_a_continued_request_is_not_sent_again(stage: Stage):
    await stage.run()
    assert "please use tabs" not in "".join(texts(stage.requests[0]))


@pytest.mark.req("EXT-6")
async def test_a_parent_without_a_prompt_leaves_the_section_alone(tmp_path: Path, temp: Path):
    stage = stage_with(tmp_path, temp, [Reply(text="done")], requested=False, system_text="", section=None)
    await stage.run()
    assert stage.requests[0].system_prompt is not None
    assert stage.requests[0].system_prompt.startswith(f"{RULES}\n\n{HEADING}")


# Completion and places.


@pytest.mark.req("PRM-3")
@pytest.mark.parametrize("requested", [True, False], ids=["continued", "independent"])
@pytest.mark.parametrize("section", [SECTION, None, ""], ids=["there", "missing", "empty"])
async def test_the_rules_are_added_where_the_parents_prompt_lacks_them(
    tmp_path: Path,
    temp: Path,
    requested: bool,  # noqa: FBT001 - a column of the table
    section: str | None,
):
    stage = stage_with(tmp_path, temp, [Reply(text="done")], requested=requested, section=section)
    await stage.run()
    (request,) = stage.requests
    everything = "\n".join([request.system_prompt or "", *texts(request)])
    assert everything.count(RULES) == (0 if section else 1)
    if not section:
        assert everything.index(RULES) < everything.index(HEADING) < everything.index(TASK)


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize("parent", [{}, {"requested": False}], ids=["continued", "independent"])
@pytest.mark.parametrize("role", ["extractor", "dream"])
async def test_every_request_names_the_memory_directory(
    tmp_path: Path, temp: Path, parent: dict[str, Any], role: str
):
    stage = stage_with(tmp_path, temp, [Reply(text="done")], **parent)
    await stage.run(role=role)
    (request,) = stage.requests
    everything = "\n".join([request.system_prompt or "", *texts(request)])
    assert str(stage.yard.memory) in everything
    assert str(stage.yard.project / "src") in everything
    assert str(stage.yard.agent) not in everything


@pytest.mark.req("SUB-3", "DRM-4")
@pytest.mark.parametrize("reads_sessions", [False, True], ids=["extractor", "dream"])
async def test_the_sessions_are_read_by_dream_alone(
    tmp_path: Path,
    temp: Path,
    reads_sessions: bool,  # noqa: FBT001 - a column of the table
):
    sessions = "../.sessions/s.jsonl"
    stage = stage_with(
        tmp_path, temp, [Reply(calls=[ToolUse("read", {"path": sessions})]), Reply(text="done")]
    )
    await stage.run(reads_sessions=reads_sessions)
    result = stage.requests[1].messages[-1]
    assert result["isError"] is not reads_sessions
    named = str(stage.yard.sessions) in texts(stage.requests[0])[0]
    assert named is reads_sessions


@pytest.mark.req("SUB-3")
async def test_a_session_that_is_not_kept_closes_nothing(stage: Stage):
    held = await stage.locks.acquire(EXTRACT_LOCK)
    assert isinstance(held, LockHandle)
    workshop = replace(stage.workshop, session_dir=None)
    assert (await execute(workshop, stage.plan, stage.host, held)).result.finish == "done"


@pytest.mark.req("SUB-1", "SUB-3", "SUB-8")
async def test_tools_start_at_the_parents_directory_and_may_read_the_runs_own_scratch(
    tmp_path: Path, temp: Path
):
    replies = [NOTHING, Reply(text="done")]
    stage = stage_with(tmp_path, temp, replies)

    def script_the_reads(turn: int) -> None:
        if turn == 1:
            (scratch,) = temp.iterdir()
            (scratch / "bash-1.log").write_text("everything\n")
            replies[0] = Reply(
                calls=[ToolUse("read", {"path": name}) for name in ("a.py", f"{scratch}/bash-1.log")]
            )

    await stage.run(on_turn=script_the_reads)
    assert {call.cwd for call in stage.host.ran} == {str(stage.yard.project / "src")}
    assert [result["isError"] for result in stage.requests[1].messages[-2:]] == [False, False]
    stage.assert_all_given_back()


@pytest.mark.req("EXT-6", "PRM-1")
@pytest.mark.parametrize("parent", [{}, {"requested": False}], ids=["continued", "independent"])
async def test_two_runs_open_with_the_same_bytes(tmp_path: Path, temp: Path, parent: dict[str, Any]):
    """What differs from run to run, such as the scratch directory, would miss every cache."""
    stage = stage_with(tmp_path, temp, [NOTHING], **parent)
    for _ in range(2):
        await stage.run()
    one, other = stage.requests
    assert (one.system_prompt, one.messages, one.tools) == (other.system_prompt, other.messages, other.tools)


# What it reports.


@pytest.mark.req("EXT-8")
async def test_the_report_tells_what_changed_and_what_it_took(tmp_path: Path, temp: Path):
    write = ToolUse("write", {"path": "{{memory}}/new.md", "content": "x\n"})
    remove = ToolUse("bash", {"command": "rm {{memory}}/a.md"})
    stage = stage_with(tmp_path, temp, [Reply(calls=[write, remove]), Reply(text="Saved.")])
    report = await stage.run()
    assert report.changes == {"new.md": "created", "a.md": "deleted"}
    assert (report.result.finish, report.result.turns) == ("done", 2)
    assert sorted(stage.yard.touched) == ["a.md", "new.md"]


@pytest.mark.req("EXT-2", "EXT-8")
async def test_an_error_of_the_provider_reports_what_was_done_before_it(tmp_path: Path, temp: Path):
    write = ToolUse("write", {"path": "{{memory}}/new.md", "content": "x\n"})
    failed = Reply(error=ProviderError("529 overloaded"))
    stage = stage_with(tmp_path, temp, [Reply(calls=[write]), failed])
    report = await stage.run()
    assert report.changes == {"new.md": "created"}
    assert (report.result.finish, report.result.error) == ("api error", "529 overloaded")
    stage.assert_all_given_back()


# Every way out gives back what was taken.

READ = Reply(calls=[ToolUse("read", {"path": "a.py"})])
WRITE = Reply(calls=[ToolUse("write", {"path": "{{memory}}/new.md", "content": "x\n"})])


@pytest.mark.req("EXT-6", "SUB-8")
@pytest.mark.parametrize(
    ("point", "error"),
    [
        ("stream", HostError("the pipe is closed")),
        ("stream", AbortedError("the session ends")),
        ("tool", StorageFailedError("the disk is full")),
        ("tool", AbortedError("the session ends")),
        ("stream", ZeroDivisionError()),
    ],
    ids=str,
)
async def test_a_run_that_raises_leaves_nothing_behind(
    tmp_path: Path, temp: Path, point: str, error: Exception
):
    stage = stage_with(tmp_path, temp, [READ])
    stage.host.trouble[point] = error
    with pytest.raises(type(error)):
        await stage.run()
    stage.assert_all_given_back()
    assert stage.locks.held == {}


@pytest.mark.req("EXT-7", "SUB-8")
async def test_nor_does_one_that_reaches_its_limit(tmp_path: Path, temp: Path):
    stage = stage_with(tmp_path, temp, [READ])
    assert (await stage.run()).result.finish == "turn limit"
    assert stage.turns == [1, 2, 3]
    stage.assert_all_given_back()


@pytest.mark.req("SUB-8", "LIFE-3")
@pytest.mark.parametrize("replies", [[Reply(hang=True)], [READ, Reply(hang=True)]], ids=["first", "second"])
async def test_nor_does_one_that_is_cancelled_in_the_middle_of_a_request(
    tmp_path: Path, temp: Path, replies: list[Reply]
):
    stage = stage_with(tmp_path, temp, replies)
    with anyio.move_on_after(100) as scope:
        await stage.run()
    assert scope.cancelled_caught
    assert stage.host.models.cancelled == ["sim/main"]
    assert stage.locks.held == {}
    stage.assert_all_given_back()


@pytest.mark.req("SUB-8")
async def test_a_host_that_cannot_let_go_does_not_keep_a_run_from_ending(stage: Stage):
    stage.host.trouble["released"] = HostError("parent/release: the pipe is closed")
    assert (await stage.run()).result.finish == "done"
    stage.assert_all_given_back()


@pytest.mark.req("SUB-8")
async def test_a_host_that_takes_too_long_to_let_go_is_not_waited_for(stage: Stage):
    stage.host.slow["release"] = 1_000
    started = anyio.current_time()
    assert (await stage.run()).result.finish == "done"
    assert anyio.current_time() - started == RELEASE_SECONDS
    assert list(stage.temp.iterdir()) == []


# Rights and the lock.


@pytest.mark.req("SUB-5", "LCK-2")
async def test_a_lock_that_another_process_has_taken_ends_the_run_before_its_next_request(
    tmp_path: Path, temp: Path
):
    stage = stage_with(tmp_path, temp, [READ])
    lost = {"on_turn": lambda turn: stage.locks.held.clear() if turn == 2 else None}
    with pytest.raises(LockLostError, match="extractor"):
        await stage.run(**lost)
    assert len(stage.requests) == 2
    stage.assert_all_given_back()


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_rights_lost_while_the_model_thinks_let_none_of_its_calls_happen(tmp_path: Path, temp: Path):
    stage = stage_with(tmp_path, temp, [WRITE])

    def lose(_: int) -> None:
        stage.yard.lost = "a new generation began"

    before = contents(stage.yard.memory)
    with pytest.raises(AbortedError):
        await stage.run(on_turn=lose)
    assert contents(stage.yard.memory) == before
    assert stage.host.ran == []
    stage.assert_all_given_back()


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_rights_lost_before_the_first_request_ask_nobody(stage: Stage):
    stage.yard.lost = "trust or configuration has changed"
    with pytest.raises(AbortedError):
        await stage.run()
    assert stage.requests == []
    stage.assert_all_given_back()


@pytest.mark.req("LIFE-2")
async def test_rights_lost_at_the_very_end_leave_no_report(stage: Stage):
    """The run was over, but what it came to belongs to nobody any more."""

    def lose(_: int) -> None:
        stage.yard.lost = "a new generation began"

    with pytest.raises(AbortedError):
        await stage.run(on_turn=lose)
    assert len(stage.requests) == 1


@pytest.mark.req("SUB-2")
async def test_a_read_only_memory_ends_the_run_with_the_reason(
    tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch
):
    from pi_project_memory.actors.subagent import guarded_files

    def read_only(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(guarded_files, "publish_new", read_only)
    stage = stage_with(tmp_path, temp, [WRITE])
    with pytest.raises(StorageFailedError, match=r"new\.md cannot be written: Read-only"):
        await stage.run()
    assert len(stage.requests) == 1
    assert names(stage.yard.memory) == ["MEMORY.md", "a.md"]
    stage.assert_all_given_back()
