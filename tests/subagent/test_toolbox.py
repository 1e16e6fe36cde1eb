"""The six restricted tools, called by a model that gets everything wrong."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from pi_project_memory.actors.ports.host import HostError
from pi_project_memory.actors.ports.publish import REAL_DISK
from pi_project_memory.actors.ports.tools import TOOL_NAMES, FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent.guarded_files import StorageFailedError
from pi_project_memory.actors.subagent.loop import side_by_side
from pi_project_memory.actors.subagent.toolbox import COMMAND_SECONDS, Toolbox
from subagent_kit import OUTSIDE, LocalHost, Yard, contents, failing, names, put, text_of

NEW = "new text\n"


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Yard(tmp_path)


@dataclass
class Bench:
    """One run's tools over real files; `calls` is what reached the host."""

    yard: Yard
    toolbox: Toolbox
    host: LocalHost
    results: list[ToolOutcome] = field(default_factory=list)

    async def __call__(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its text."""
        outcome = await self.call(tool, arguments)
        return text_of(outcome)

    async def call(self, tool: str, arguments: object) -> ToolOutcome:
        self.results.append(await self.toolbox.call(f"call-{len(self.results)}", tool, arguments))
        return self.results[-1]

    @property
    def failed(self) -> bool:
        return self.results[-1].is_error

    @property
    def changes(self) -> dict[str, Any]:
        return self.toolbox.files.changes.changes


@pytest.fixture
def bench(yard: Yard) -> Bench:
    host = LocalHost(yard.root / "host-tmp")
    host.scratch.mkdir()
    return Bench(yard, yard.toolbox(host=host), host)


# Calls that make no sense.


@pytest.mark.req("SUB-1")
@pytest.mark.parametrize(
    "tool", ["", "Read", "codemode", "None", "deploy", "../read", "read ", "x" * 100_000]
)
async def test_a_tool_that_is_not_one_of_the_six_is_answered_with_their_names(bench: Bench, tool: str):
    text = await bench(tool, path="a.md")
    assert bench.failed
    assert all(name in text for name in TOOL_NAMES)
    assert bench.host.calls == []
    assert len(text) < 1_000


@pytest.mark.req("SUB-1")
@pytest.mark.parametrize("arguments", [None, [], "path", 5, True, [{"path": "a.md"}]], ids=repr)
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_arguments_that_are_no_object_are_answered(bench: Bench, tool: str, arguments: object):
    outcome = await bench.call(tool, arguments)
    assert outcome.is_error
    assert "JSON object" in text_of(outcome)
    assert bench.host.calls == []


STRANGE: list[dict[str, Any]] = [
    {},
    {"path": None},
    {"path": 5},
    {"path": ["a.md"]},
    {"path": {"a": 1}},
    {"path": ""},
    {"path": "\0"},
    {"path": "\ud800"},
    {"path": "x" * 5_000},
    {"path": "/".join(["d"] * 2_000)},
    {"path": "a.md", "edits": "nonsense"},
    {"path": "a.md", "edits": [{"oldText": 1}]},
    {"path": "a.md", "content": None},
    {"path": "a.md", "content": 5, "edits": [], "pattern": "*", "command": 5, "offset": "x"},
    {"command": None},
    {"command": ["ls"]},
    {"command": ""},
    {"command": "ls", "timeout": "soon"},
    {"pattern": "(", "path": "."},
    {"pattern": None},
    {"nothing": {"deep": [[[[1]]]]}},
]


@pytest.mark.req("SUB-1", "SUB-2")
@pytest.mark.parametrize("arguments", STRANGE, ids=lambda value: repr(value)[:40])
@pytest.mark.parametrize("tool", TOOL_NAMES)
async def test_no_arguments_stop_the_run_or_leave_the_memory_changed(
    bench: Bench, tool: str, arguments: dict[str, Any]
):
    before = contents(bench.yard.root)
    await bench.call(tool, arguments)
    assert contents(bench.yard.root) == before
    assert bench.changes == {}


HUGE = "x" * 10_000_000
TOO_LONG: list[tuple[str, dict[str, Any]]] = [
    ("write", {"path": "{memory}/new.md", "content": HUGE}),
    ("read", {"path": HUGE}),
    ("bash", {"command": f"echo {HUGE}"}),
    ("grep", {"pattern": HUGE, "path": "{memory}"}),
    ("edit", {"path": "{memory}/a.md", "edits": [{"oldText": "one", "newText": HUGE}]}),
    ("edit", {"path": "{memory}/a.md", "edits": [{"oldText": "one", "newText": "x" * 1_000}] * 10_000}),
    ("write", {"path": "{memory}/new.md", "content": "x", "more": {HUGE: 1}}),
]


@pytest.mark.req("SUB-1")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    TOO_LONG,
    ids=["content", "path", "command", "pattern", "one edit", "edits", "a name"],
)
async def test_ten_megabytes_of_arguments_are_refused_before_a_tool_sees_them(
    bench: Bench, tool: str, arguments: dict[str, Any]
):
    await bench("read", path=f"{bench.yard.memory}/a.md")
    placed = {
        name: value.replace("{memory}", str(bench.yard.memory)) if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    calls = len(bench.host.calls)
    outcome = await bench.call(tool, placed)
    assert outcome.is_error
    assert "too long" in text_of(outcome)
    assert len(text_of(outcome)) < 1_000
    assert len(bench.host.calls) == calls
    assert bench.changes == {}


@pytest.mark.req("SUB-1")
async def test_the_same_failing_call_fails_the_same_way_each_time(bench: Bench):
    answers = {await bench("write", path=f"{bench.yard.memory}/a.md", content=NEW) for _ in range(20)}
    assert len(answers) == 1
    assert all(outcome.is_error for outcome in bench.results)


# Where paths lead.


@pytest.mark.req("SUB-1", "SUB-2")
async def test_a_bare_name_is_looked_for_in_the_parents_directory_and_not_in_the_memory(bench: Bench):
    text = await bench("write", path="topic.md", content=NEW)
    assert bench.failed
    assert "outside the memory directory" in text
    assert names(bench.yard.project) == [".sessions", ".sessions/s.jsonl", "src", "src/a.py"]
    await bench("write", path="../memory/topic.md", content=NEW)
    assert bench.changes == {"topic.md": "created"}
    assert (await bench("read", path="src/a.py")).startswith("print(1)")
    assert {call.cwd for call in bench.host.calls} == {str(bench.yard.project)}


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize(
    "path",
    [
        "{root}/elsewhere/x.md",
        "~/.ssh/authorized_keys",
        "~/x.md",
        "{outside}/x.md",
        "{memory}/../outside/x.md",
        "{agent}/x.md",
    ],
)
@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_a_text_that_asks_to_write_elsewhere_gets_nowhere(bench: Bench, tool: str, path: str):
    yard = bench.yard
    shown = path.format(root=yard.root, outside=yard.outside, memory=yard.memory, agent=yard.agent)
    before = contents(yard.root)
    edits = [{"oldText": "what", "newText": "x"}]
    await bench(tool, path=shown, content=NEW, edits=edits)
    assert bench.failed
    assert contents(yard.root) == before


@pytest.mark.req("SUB-3")
@pytest.mark.parametrize(("tool", "more"), [("find", {"pattern": "*"}), ("grep", {"pattern": "lies"})])
async def test_a_search_stays_in_the_read_roots(bench: Bench, tool: str, more: dict[str, str]):
    yard = bench.yard
    for path in (str(yard.outside), str(yard.agent), "..", "/", "~", "/proc", str(yard.sessions)):
        text = await bench(tool, path=path, **more)
        assert bench.failed, path
        assert "Refused" in text
        assert OUTSIDE.strip() not in text
    assert bench.host.calls == []


@pytest.mark.req("SUB-3", "DRM-4")
@pytest.mark.parametrize("arguments", [{}, {"path": "."}, {"path": ""}, {"path": None}], ids=str)
@pytest.mark.parametrize("tool", ["find", "grep"])
async def test_a_search_from_above_what_is_closed_is_refused_with_a_way_on(
    bench: Bench, tool: str, arguments: dict[str, Any]
):
    """The walk of a native search cannot leave a directory out."""
    text = await bench(tool, pattern="*", **arguments)
    assert bench.failed
    assert str(bench.yard.sessions) in text
    assert "Search a directory beside it" in text
    assert bench.host.calls == []


@pytest.mark.req("SUB-1", "SUB-3")
async def test_a_search_gets_the_real_directory(bench: Bench):
    (bench.yard.project / "linked").symlink_to(bench.yard.memory)
    await bench("find", pattern="*.md", path="linked")
    assert bench.host.calls[-1].arguments == {"pattern": "*.md", "path": str(bench.yard.memory)}
    assert not bench.failed
    text = await bench("grep", pattern="one", path=str(bench.yard.memory))
    assert "one" in text


@pytest.mark.req("SUB-3")
async def test_a_search_with_a_pattern_that_climbs_finds_nothing_outside(bench: Bench):
    for pattern in ("../outside/*", "../../*", "/etc/*", "**/../outside/secret.md"):
        text = await bench("find", pattern=pattern, path=str(bench.yard.memory))
        assert "secret" not in text


# The read baseline through the tools.


@pytest.mark.req("SUB-4")
async def test_read_then_write(bench: Bench):
    path = f"{bench.yard.memory}/a.md"
    assert "Read it without offset" in await bench("write", path=path, content=NEW)
    assert "Read it without offset" in await bench(
        "edit", path=path, edits=[{"oldText": "one", "newText": "1"}]
    )
    await bench("read", path=path)
    await bench("edit", path=path, edits=[{"oldText": "one", "newText": "1"}])
    assert not bench.failed
    await bench("write", path=path, content=NEW)
    assert not bench.failed
    assert Path(path).read_text() == NEW
    assert bench.changes == {"a.md": "updated"}


@pytest.mark.req("C52", "SUB-2")
async def test_a_header_that_is_no_yaml_is_stored_as_it_was_sent(bench: Bench):
    path = f"{bench.yard.memory}/odd.md"
    text = '---\nname: odd\ndescription: "abc "def" ghi"\n---\nbody\n'
    await bench("write", path=path, content=text)
    await bench("edit", path=path, edits=[{"oldText": "body", "newText": "more"}])
    assert not bench.failed
    assert Path(path).read_text() == text.replace("body", "more")


@pytest.mark.req("SUB-4")
async def test_an_edit_of_an_unknown_file_does_not_show_its_text_first(bench: Bench):
    """A failed match would offer the file's lines to a run that has not read them."""
    await bench("edit", path=f"{bench.yard.memory}/a.md", edits=[{"oldText": "onee", "newText": "1"}])
    assert bench.failed
    assert bench.host.calls == []


@pytest.mark.req("SUB-4")
async def test_a_file_of_three_thousand_lines_is_known_only_by_a_read_that_reaches_its_end(bench: Bench):
    """Case C31: the cut read revokes, an explicit range that is cut as well does not grant, a short one does."""
    path = put(bench.yard.memory / "long.md", "".join(f"{n}\n" for n in range(3_000)))
    arguments = {"path": str(path), "content": NEW}
    await bench("read", path=str(path))
    await bench("write", **arguments)
    assert bench.failed
    await bench("read", path=str(path), offset=1, limit=3_000)
    await bench("write", **arguments)
    assert bench.failed, "the tool's own window cut it"
    await bench("read", path=str(path), offset=1, limit=1_500)
    await bench("read", path=str(path), offset=1_501, limit=1_500)
    await bench("write", **arguments)
    assert bench.failed, "pages are not added up"
    put(path, "".join(f"{n}\n" for n in range(1_999)))
    await bench("read", path=str(path), offset=1, limit=1_999)
    await bench("write", **arguments)
    assert not bench.failed


@pytest.mark.req("SUB-4")
async def test_a_cut_read_takes_away_what_a_whole_one_gave(bench: Bench):
    path = put(bench.yard.memory / "wide.md", "short\n")
    await bench("read", path=str(path))
    put(path, "x" * 60_000)
    await bench("read", path=str(path))
    await bench("write", path=str(path), content=NEW)
    assert bench.failed
    assert path.read_text() == "x" * 60_000


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize("limit", ["5", "two", [], {}, True, 1e400, -1])
async def test_a_limit_of_another_type_is_no_way_to_a_baseline_and_no_fault(bench: Bench, limit: Any):
    path = f"{bench.yard.memory}/a.md"
    await bench("read", path=path, offset=1, limit=limit)
    await bench("write", path=path, content=NEW)
    assert bench.failed


@pytest.mark.req("SUB-4")
async def test_a_failed_read_and_a_look_by_bash_grant_nothing(bench: Bench):
    path = f"{bench.yard.memory}/a.md"
    await bench("read", path=path, offset=100)
    assert bench.failed
    await bench("bash", command=f"cat {path}")
    await bench("grep", pattern="", path=path)
    await bench("write", path=path, content=NEW)
    assert bench.failed


@pytest.mark.req("SUB-4")
async def test_a_picture_by_the_name_of_a_topic_is_never_known(bench: Bench):
    path = bench.yard.memory / "picture.md"
    path.write_bytes(
        bytes.fromhex(
            "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
        )
    )
    await bench("read", path=str(path))
    assert any(block["type"] == "image" for block in bench.results[-1].content)
    await bench("write", path=str(path), content=NEW)
    assert bench.failed


@pytest.mark.req("SUB-4")
async def test_two_writes_of_one_new_file_side_by_side_end_with_one_of_them_whole(bench: Bench):
    path = f"{bench.yard.memory}/new.md"
    texts = ["a" * 50_000, "b" * 50_000]
    jobs = [
        lambda text=text: bench.toolbox.call("same", "write", {"path": path, "content": text})
        for text in texts
    ]
    outcomes = await side_by_side(jobs)
    assert not all(outcome.is_error for outcome in outcomes)
    assert Path(path).read_text() in texts
    assert names(bench.yard.memory) == ["MEMORY.md", "a.md", "new.md"]


# bash.


@pytest.mark.req("SUB-6")
async def test_an_allowed_command_runs_as_it_was_written(bench: Bench):
    command = f"ls {bench.yard.memory} | wc -l"
    assert (await bench("bash", command=command)).strip() == "2"
    assert bench.host.calls[-1].arguments["command"] == command


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "echo x > {m}/b.md", "cat $(ls)", "rm {m}/MEMORY.md", "python3 -c 1", "cat {o}/secret.md"],
)
async def test_a_refused_command_never_reaches_the_host(bench: Bench, command: str):
    before = contents(bench.yard.root)
    text = await bench("bash", command=command.format(m=bench.yard.memory, o=bench.yard.outside))
    assert bench.failed
    assert text.startswith("Refused")
    assert bench.host.calls == []
    assert contents(bench.yard.root) == before


@pytest.mark.req("SUB-6", "EXT-8")
async def test_a_removed_topic_is_a_change_and_is_not_known_any_more(bench: Bench):
    path = f"{bench.yard.memory}/a.md"
    await bench("read", path=path)
    await bench("bash", command=f"rm {path}")
    assert bench.changes == {"a.md": "deleted"}
    assert bench.yard.touched == ["a.md"]
    put(Path(path), "somebody else's\n")
    assert "has not read it whole" in await bench("write", path=path, content=NEW)
    assert Path(path).read_text() == "somebody else's\n"


@pytest.mark.req("SUB-6", "EXT-8")
async def test_a_removal_of_nothing_is_no_change(bench: Bench):
    await bench("bash", command=f"rm -f {bench.yard.memory}/gone.md")
    assert not bench.failed
    await bench("bash", command=f"rm {bench.yard.memory}/gone.md")
    assert bench.failed
    assert (bench.changes, bench.yard.touched) == ({}, [])


@pytest.mark.req("SUB-6", "EXT-8")
async def test_what_a_failed_command_removed_before_it_failed_is_told(bench: Bench):
    await bench("bash", command=f"rm {bench.yard.memory}/a.md {bench.yard.memory}/gone.md")
    assert bench.failed
    assert bench.changes == {"a.md": "deleted"}


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize(
    ("given", "passed"),
    [({}, COMMAND_SECONDS), ({"timeout": None}, COMMAND_SECONDS), ({"timeout": 5}, 5), ({"timeout": -1}, -1)],
    ids=str,
)
async def test_a_command_is_bounded_unless_the_model_bounds_it(
    bench: Bench, given: dict[str, Any], passed: float
):
    """Without a bound a command that waits for something holds the run, and the session's end, for ever."""
    await bench("bash", command="pwd", **given)
    assert bench.host.calls[-1].arguments["timeout"] == passed


@pytest.mark.req("SUB-6")
@pytest.mark.real_time
async def test_a_command_that_waits_for_a_pipe_ends(bench: Bench):
    os.mkfifo(bench.yard.project / "pipe")
    text = await bench("bash", command="cat pipe", timeout=0.2)
    assert bench.failed
    assert text


# Long output.


@pytest.mark.req("SUB-8")
async def test_the_full_output_of_a_long_command_moves_into_scratch(bench: Bench):
    put(bench.yard.project / "src" / "long.txt", "".join(f"line {n}\n" for n in range(5_000)))
    text = await bench("bash", command="cat src/long.txt")
    assert names(bench.host.scratch) == []
    (log,) = bench.yard.scratch.iterdir()
    assert f"Full output: {log}]" in text
    assert bench.results[-1].details is not None
    assert bench.results[-1].details["fullOutputPath"] == str(log)
    assert log.stat().st_mode & 0o777 == 0o600
    assert "line 4999" in await bench("bash", command=f"tail -1 {log}")
    assert "line 7\n" in await bench("read", path=str(log), limit=20)


class Answering:
    """A host that answers every call with one outcome, or raises."""

    def __init__(self, outcome: ToolOutcome | Exception) -> None:
        self.outcome = outcome

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def long_output(log: Any) -> ToolOutcome:
    text = f"the end\n\n[Showing lines 3000-5000 of 5000. Full output: {log}]"
    return ToolOutcome(
        [{"type": "text", "text": text}, {"type": "image", "data": ""}], {"fullOutputPath": log}
    )


@pytest.mark.req("SUB-8")
async def test_the_log_of_a_native_shell_is_moved_and_renamed_in_the_result(yard: Yard):
    log = put(yard.root / "tmp" / "pi-bash-0123456789abcdef.log", "everything\n")
    toolbox = yard.toolbox(host=Answering(long_output(str(log))))
    outcome = await toolbox.call("1", "bash", {"command": "ls src"})
    moved = yard.scratch / "bash-0123456789abcdef.log"
    assert moved.read_text() == "everything\n"
    assert not log.exists()
    assert f"Full output: {moved}]" in text_of(outcome)
    assert str(log) not in text_of(outcome)
    assert outcome.details == {"fullOutputPath": str(moved)}
    assert outcome.content[1] == {"type": "image", "data": ""}


def _foreign(yard: Yard) -> str:
    return str(yard.outside / "secret.md")


def _linked_log(yard: Yard) -> str:
    (yard.root / "pi-bash-1.log").symlink_to(yard.outside / "secret.md")
    return str(yard.root / "pi-bash-1.log")


def _directory_log(yard: Yard) -> str:
    (yard.root / "pi-bash-2.log").mkdir()
    return str(yard.root / "pi-bash-2.log")


@pytest.mark.req("SUB-8")
@pytest.mark.parametrize(
    "log",
    [
        _foreign,
        _linked_log,
        _directory_log,
        lambda yard: str(yard.root / "pi-bash-3.log"),
        lambda _: 5,
        lambda _: "",
    ],
)
async def test_what_is_no_log_of_a_command_stays_where_it_is(yard: Yard, log: Any):
    outcome = long_output(log(yard))
    before = names(yard.root)
    assert await yard.toolbox(host=Answering(outcome)).call("1", "bash", {"command": "ls src"}) == outcome
    assert names(yard.root) == before


# The host, the disk and the run's rights.


@pytest.mark.req("SUB-1")
@pytest.mark.parametrize(
    ("tool", "arguments"), [("read", {"path": "src/a.py"}), ("bash", {"command": "pwd"})]
)
async def test_a_host_that_cannot_run_a_tool_is_an_answer(yard: Yard, tool: str, arguments: dict[str, str]):
    toolbox = yard.toolbox(host=Answering(HostError("tools/execute: no answer within 600 s")))
    outcome = await toolbox.call("1", tool, arguments)
    assert outcome.is_error
    assert "no answer" in text_of(outcome)


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize("point", ["open", "write", "fsync", "link"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
async def test_a_disk_that_takes_nothing_ends_the_run(yard: Yard, point: str, code: int):
    toolbox = yard.toolbox(yard.files(replace(REAL_DISK, **{point: failing(code)})))
    with pytest.raises(StorageFailedError, match=os.strerror(code)):
        await toolbox.call("1", "write", {"path": f"{yard.memory}/new.md", "content": NEW})
    assert names(yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("SUB-5", "LIFE-2")
@pytest.mark.parametrize("tool", [*TOOL_NAMES, "unknown"])
async def test_no_call_begins_without_rights(bench: Bench, tool: str):
    bench.yard.lost = "trust or configuration has changed"
    with pytest.raises(AbortedError, match="trust"):
        await bench(tool, path=f"{bench.yard.memory}/new.md", content=NEW, command="pwd", pattern="*")
    assert bench.host.calls == []


@pytest.mark.req("SUB-5", "LIFE-2")
async def test_rights_lost_during_a_call_end_the_run_with_it(bench: Bench):
    def lose(_: ToolInvocation) -> None:
        bench.yard.lost = "a new generation began"

    bench.host.before = lose
    with pytest.raises(AbortedError):
        await bench("write", path=f"{bench.yard.memory}/new.md", content=NEW)
    assert names(bench.yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("SUB-5")
async def test_a_command_that_removes_is_not_run_once_the_rights_are_lost(bench: Bench):
    """The listener hears of the removal right before it happens: the last moment to think again."""

    def lose(_: str) -> None:
        bench.yard.lost = "a new generation began"

    bench.toolbox.files.on_touch = lose
    with pytest.raises(AbortedError):
        await bench("bash", command=f"rm {bench.yard.memory}/a.md")
    assert (bench.yard.memory / "a.md").exists()
    assert bench.host.calls == []


@pytest.mark.req("SUB-1", "SUB-5")
async def test_calls_that_share_an_id_do_not_share_their_file_effects(bench: Bench):
    """A model may repeat an id, and two runs may be under way at once: the host must tell the calls apart."""
    for _ in range(3):
        await bench.toolbox.call("call_0", "read", {"path": "src/a.py"})
    other = bench.yard.toolbox(host=bench.host)
    await other.call("call_0", "read", {"path": "src/a.py"})
    assert len({call.call_id for call in bench.host.calls}) == 4


@pytest.mark.req("SUB-1")
async def test_a_call_can_be_cancelled(yard: Yard):
    class Hanging:
        async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.move_on_after(3) as scope:
        await yard.toolbox(host=Hanging()).call("1", "read", {"path": "src/a.py"})
    assert scope.cancelled_caught
