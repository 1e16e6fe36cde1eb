"""What becomes of an attempt: its time, its files, its tools, and what a run is told (DRM-2, DRM-4, PRM-2)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from dream_kit import DONE, HANGS, HEAD, HOUR, NOW, RULES, Dreamer, Place, Shown, calls, ready, tool
from pi_project_memory.actors.background_messages import TurnsSettled
from pi_project_memory.actors.consolidation import MOST_LISTED, listed
from pi_project_memory.actors.core.dream_gate import Facts, Past
from pi_project_memory.actors.core.dream_state import DreamState
from pi_project_memory.actors.core.lock_rules import DREAM_LOCK, LAST_DREAM_AT_LOCK, Busy, LockSpec
from pi_project_memory.actors.extraction import Extraction, Standing
from pi_project_memory.actors.extractor import ExtractorActor
from pi_project_memory.actors.mailbox import Mailbox
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.host import HostError, ModelAnswer, ModelQuery, ModelRequest
from pi_project_memory.actors.ports.locks import FileLocks, LockHandle
from pi_project_memory.actors.ports.sessions import SessionFiles, SessionSeen
from pi_project_memory.actors.scopes import AbortedError
from pi_project_memory.actors.subagent import scratch
from pi_project_memory.actors.subagent.aftermath import Aftermath
from pi_project_memory.supervisor.host.scenario import ProviderError, Reply
from pi_project_memory.supervisor.host.simulated import message_entry, text_block
from pi_project_memory.supervisor.supervisor import ChildSpec, Supervisor

BEFORE = NOW - 25 * HOUR
TOPIC = "---\nname: n\ndescription: d\nmetadata:\n  type: project\n---\nbody\n"
LOOK = calls(tool("bash", command="pwd"))


class Model:
    """A model that does as `act` says with each request; looking it up is left to the host."""

    def __init__(self, dreamer: Dreamer, act: Any) -> None:
        self.dreamer = dreamer
        self.act = act
        self.requests = 0

    async def resolve_model(self, query: Any) -> Any:
        return await self.dreamer.host.resolve_model(query)

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        self.requests += 1
        return await self.act(request)  # type: ignore[no-any-return]


def thrower(error: Exception) -> Any:
    async def act(_: ModelRequest) -> ModelAnswer:
        raise error

    return act


def texts(request: ModelRequest) -> str:
    """Return every text of a request's messages."""
    blocks = [block for message in request.messages for block in message["content"]]
    return "\n".join(str(block.get("text", "")) for block in blocks)


# The attempt time: C23, row by row


@pytest.mark.req("DRM-2", "C23")
@pytest.mark.parametrize(
    ("replies", "ending"),
    [
        ([Reply(error=ProviderError("overloaded", 529))], ("returned", "api error")),
        ([LOOK], ("returned", "turn limit")),
        ([Reply(text="", stop="aborted")], ("aborted", "")),
        ([DONE], ("returned", "done")),
    ],
)
async def test_a_run_that_returns_or_is_aborted_keeps_the_time(
    tmp_path: Path, replies: list[Reply], ending: tuple[str, str]
):
    dreamer = ready(tmp_path, replies, max_turns=3, scan_throttle_seconds=0)
    async with dreamer.running():
        await dreamer.settle()
        await dreamer.settle()
    assert dreamer.runs() == [ending]
    assert dreamer.place.recorded() == NOW
    assert len(dreamer.requests()) == (3 if ending[1] == "turn limit" else 1)
    assert dreamer.place.held() == []


@pytest.mark.req("DRM-2", "C23", "HOST-11", "SUB-8")
async def test_a_session_that_ends_aborts_the_run_and_keeps_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    dreamer = ready(tmp_path / "place", [HANGS])
    async with dreamer.running():
        await dreamer.settle()
        assert dreamer.place.recorded() == NOW
        assert dreamer.place.held() == ["dream.lock"]
        assert len(list(tmp_path.glob("pi-project-memory-*"))) == 1
    assert dreamer.host.models.cancelled == ["sim/dream"]
    assert dreamer.place.recorded() == NOW
    assert dreamer.place.held() == []
    assert list(tmp_path.glob("pi-project-memory-*")) == []
    assert dreamer.host.released == ["p0"]


@pytest.mark.req("DRM-2", "C23")
@pytest.mark.parametrize("before", [BEFORE, None, 1, NOW + HOUR])
async def test_a_run_that_throws_counts_as_no_attempt(tmp_path: Path, before: int | None):
    place = Place(tmp_path)
    place.add_sessions(5, at=NOW - 1)
    if before is not None:
        place.record(before)
    dreamer = Dreamer(place)
    seen: list[int | None] = []

    async def act(_: ModelRequest) -> ModelAnswer:
        seen.append(place.recorded())
        raise HostError("the connection broke")

    dreamer.equip(models=Model(dreamer, act))
    async with dreamer.running():
        await dreamer.settle()
        await dreamer.settle(seconds=500)
    assert seen == [NOW]
    assert place.recorded() == before
    assert dreamer.runs() == [("raised", "")]
    assert place.held() == []
    assert dreamer.host.notices == [
        ("warning", "Project memory: the dream failed: the connection broke"),
    ]


@pytest.mark.req("DRM-2", "C23")
async def test_a_rollback_leaves_somebody_else_s_time_alone(tmp_path: Path):
    dreamer = ready(tmp_path)

    async def act(_: ModelRequest) -> ModelAnswer:
        dreamer.place.record(NOW + 1)
        raise HostError("the connection broke")

    dreamer.equip(models=Model(dreamer, act))
    async with dreamer.running():
        await dreamer.settle()
    assert dreamer.place.recorded() == NOW + 1
    assert [event["rollback"] for event in dreamer.trace.named("dream_threw")] == ["Mismatch"]


@pytest.mark.req("DRM-2", "C23")
@pytest.mark.parametrize("trouble", ["Busy", "LockFilesError"])
async def test_a_rollback_that_fails_does_not_hide_why_the_run_threw(tmp_path: Path, trouble: str):
    dreamer = ready(tmp_path)

    async def act(_: ModelRequest) -> ModelAnswer:
        if trouble == "Busy":
            await FileLocks(dreamer.place.locks).acquire(LAST_DREAM_AT_LOCK)
        else:
            shutil.rmtree(dreamer.place.locks)
        raise HostError("the connection broke")

    dreamer.equip(models=Model(dreamer, act))
    async with dreamer.running():
        await dreamer.settle(seconds=5)
    assert dreamer.place.recorded() == NOW
    assert dreamer.host.notices[0][1].endswith("the connection broke")
    assert [event["rollback"] for event in dreamer.trace.named("dream_threw")] == [trouble]


@pytest.mark.req("DRM-2", "C23", "LIFE-2")
@pytest.mark.parametrize("how", ["generation", "session"])
async def test_a_run_that_throws_because_it_was_aborted_keeps_the_time(tmp_path: Path, how: str):
    dreamer = ready(tmp_path)

    async def act(_: ModelRequest) -> ModelAnswer:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise HostError("the request was cut off") from None
        raise AssertionError

    dreamer.equip(models=Model(dreamer, act))
    async with dreamer.running():
        await dreamer.settle()
        if how == "generation":
            dreamer.generations.advance("trust has changed")
        else:
            dreamer.scope.abort("the session ends")
        await anyio.sleep(1)
    assert dreamer.place.recorded() == NOW
    assert dreamer.place.held() == []


class Rights:
    """A run's rights, which are lost at the `end`th look."""

    def __init__(self, end: int) -> None:
        self.left = end

    def check(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise AbortedError("trust has changed")


@pytest.mark.req("DRM-2", "SUB-5", "LIFE-2")
async def test_rights_lost_before_the_attempt_leave_no_trace_of_it(tmp_path: Path):
    dreamer = ready(tmp_path)
    with pytest.raises(AbortedError):
        await run_with(dreamer, Rights(1))
    assert dreamer.place.recorded() == BEFORE
    assert dreamer.place.held() == []
    assert dreamer.requests() == []


@pytest.mark.req("DRM-2", "SUB-5", "LIFE-2")
async def test_rights_lost_before_a_run_throws_keep_its_time(tmp_path: Path):
    dreamer = ready(tmp_path)
    rights = Rights(99)

    async def act(_: ModelRequest) -> ModelAnswer:
        rights.left = 0
        raise HostError("the request was cut off")

    dreamer.equip(models=Model(dreamer, act))
    with pytest.raises(HostError):
        await run_with(dreamer, rights)
    assert dreamer.place.recorded() == NOW


async def run_with(dreamer: Dreamer, rights: Rights) -> None:
    """Run a consolidation by itself, without the scope that would cancel it."""
    standing = Standing(rights.check, lambda _: None, lambda _: None)
    facts = Facts(NOW, 0.0, Past(), DreamState(BEFORE))
    await dreamer.consolidation.run("manual", facts, (), dreamer.config, None, standing)


class RefusingHost:
    """Stands in the place of `send_message`."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.asked = 0

    async def __call__(self, _: object) -> None:
        self.asked += 1
        raise self.error


def writes(name: str = "a.md") -> Reply:
    return calls(tool("write", path="{{memory}}/" + name, content=TOPIC))


@pytest.mark.req("DRM-2", "C23", "EXT-8")
@pytest.mark.parametrize("error", [HostError("no"), AbortedError("no"), RuntimeError("no")])
async def test_an_error_while_a_run_is_completed_keeps_the_time(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    dreamer = ready(tmp_path, [writes(), DONE])
    refusing = RefusingHost(error)
    monkeypatch.setattr(type(dreamer.host), "send_message", lambda _, message: refusing(message))
    given_up: list[str] = []
    spec = ChildSpec("dream", dreamer.mailbox, dreamer.make)
    supervisor = Supervisor([spec], dreamer.trace, lambda name, _: given_up.append(name))
    async with anyio.create_task_group() as group:
        await supervisor.start(group)
        await dreamer.settle()
        await dreamer.settle(seconds=700)
        dreamer.scope.abort("the session ends")
        await supervisor.stop()
    assert refusing.asked == 1
    assert dreamer.place.topics() == ["a.md"]
    assert dreamer.place.recorded() == NOW
    assert given_up == []


class StickyLocks:
    """Locks of which the dream's cannot be given back."""

    def __init__(self, inner: FileLocks) -> None:
        self.inner = inner

    async def acquire(self, spec: LockSpec) -> LockHandle | Busy:
        held = await self.inner.acquire(spec)
        return StickyHandle(held) if isinstance(held, LockHandle) else held


class StickyHandle(LockHandle):
    def __init__(self, inner: LockHandle) -> None:
        self.inner = inner

    async def release(self) -> bool:
        await self.inner.release()
        raise OSError(5, "Input/output error")

    async def still_held(self) -> bool:
        return await self.inner.still_held()


@pytest.mark.req("DRM-2", "C23")
async def test_a_lock_that_cannot_be_given_back_keeps_the_time(tmp_path: Path):
    dreamer = ready(tmp_path)
    dreamer.equip(locks=StickyLocks(FileLocks(dreamer.place.locks)))
    async with dreamer.running():
        await dreamer.settle()
    assert dreamer.runs() == [("raised", "")]
    assert dreamer.place.recorded() == NOW


@pytest.mark.req("DRM-2", "LCK-1")
async def test_a_run_whose_lock_was_taken_stops_and_counts_as_no_attempt(tmp_path: Path):
    dreamer = ready(tmp_path, [LOOK])
    dreamer.equip(models=Model(dreamer, dreamer.host.stream_model))

    async def act(request: ModelRequest) -> ModelAnswer:
        (dreamer.place.locks / "dream.lock").unlink()
        held = await FileLocks(dreamer.place.locks).acquire(DREAM_LOCK)
        assert isinstance(held, LockHandle)
        return await dreamer.host.stream_model(request)

    dreamer.equip(models=Model(dreamer, act))
    async with dreamer.running():
        await dreamer.settle()
    assert len(dreamer.requests()) == 1
    assert dreamer.place.recorded() == BEFORE
    assert dreamer.place.held() == ["dream.lock"]
    assert "the lock of the dream run was taken" in dreamer.host.notices[0][1]


@pytest.mark.req("DRM-2", "LIFE-4")
async def test_a_fault_of_ours_rolls_back_and_costs_one_life_of_the_actor(tmp_path: Path):
    dreamer = ready(tmp_path)
    faulty = Model(dreamer, thrower(ValueError("a fault")))
    dreamer.equip(models=faulty)
    lives: list[Any] = []

    def make(mailbox: Mailbox[Any]) -> Any:
        lives.append(dreamer.make(mailbox))
        return lives[-1]

    supervisor = Supervisor([ChildSpec("dream", dreamer.mailbox, make)], dreamer.trace, lambda *_: None)
    async with anyio.create_task_group() as group:
        await supervisor.start(group)
        await dreamer.settle()
        assert dreamer.place.recorded() == BEFORE
        assert dreamer.place.held() == []
        faulty.act = dreamer.host.stream_model
        await dreamer.settle()
        await supervisor.stop()
    assert len(lives) == 2
    assert dreamer.runs() == [("returned", "done")]
    assert dreamer.place.recorded() == NOW


# Generations


@pytest.mark.req("LIFE-2", "DRM-2", "SUB-5")
async def test_a_generation_that_ends_during_a_run_leaves_no_file_and_no_rollback(tmp_path: Path):
    """Even a host that does not hear the abort, and hands over a late answer, cannot make the run go on."""
    dreamer = ready(tmp_path, [writes()])

    async def act(request: ModelRequest) -> ModelAnswer:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(10)
            return await dreamer.host.stream_model(request)

    model = Model(dreamer, act)
    dreamer.equip(models=model)
    async with dreamer.running():
        await dreamer.settle()
        dreamer.generations.advance("trust has changed")
        await anyio.sleep(30)
        assert dreamer.place.topics() == []
        assert dreamer.place.recorded() == NOW
        assert dreamer.place.held() == []
        assert dreamer.host.sent == []
        assert dreamer.runs() == []
        await dreamer.settle(seconds=700)
    assert model.requests == 1


@pytest.mark.req("LIFE-2", "SUB-5")
async def test_a_tool_that_goes_on_after_the_generation_has_ended_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    dreamer = ready(tmp_path, [writes()])
    real = type(dreamer.host).execute_tool

    async def stubborn(host: Any, *arguments: Any) -> Any:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(10)
            return await real(host, *arguments)

    monkeypatch.setattr(type(dreamer.host), "execute_tool", stubborn)
    async with dreamer.running():
        await dreamer.settle()
        dreamer.generations.advance("trust has changed")
        await anyio.sleep(30)
    assert dreamer.place.topics() == []
    assert dreamer.place.recorded() == NOW


@pytest.mark.req("LIFE-2", "LIFE-3")
async def test_whoever_waits_for_a_dream_of_an_old_generation_is_told_that_it_was_aborted(tmp_path: Path):
    dreamer = ready(tmp_path, [HANGS])
    endings: list[str | None] = []

    async def ask() -> None:
        done = await dreamer.ask()
        endings.append(done.attempt and done.attempt.ending)

    async with dreamer.running(), anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.sleep(5)
        dreamer.generations.advance("trust has changed")
    assert endings == ["aborted"]


# What a run is told, and what it may do


@pytest.mark.req("DRM-3", "DRM-4", "PRM-2", "PRM-3")
async def test_the_request_names_the_sessions_their_directory_and_the_memory(tmp_path: Path):
    dreamer = ready(tmp_path, own_id="other-4", minimum_other_sessions=4, max_turns=50)
    place = dreamer.place
    place.add_sessions(3, at=BEFORE - 1, name="old")
    dreamer.host.transcript.append(message_entry("user", [text_block("what was said here")]))
    async with dreamer.running():
        await dreamer.settle()
    (request,) = dreamer.requests()
    task = texts(request)
    for number in range(4):
        assert f"\n- other-{number} (2026-11-30)" in task
    assert "other-4" not in task
    assert "old-0" not in task
    assert f"lie in: {place.sessions}\n" in task
    assert "at most 50 turns" in task
    assert "what was said here" not in task
    system = request.system_prompt or ""
    assert system.startswith("You are the main agent.")
    assert f"\n\n{RULES}\n\n## Background memory task tools" in system
    assert str(place.memory) in system
    assert str(place.sessions) in system
    assert len(request.messages) == 1


@pytest.mark.req("EXT-6", "PRM-3")
async def test_a_dream_continues_the_parent_s_request_where_it_can(tmp_path: Path):
    dreamer = ready(tmp_path)
    dreamer.host.main_requests = 1
    dreamer.host.section = "the rules are there"
    dreamer.host.models.active = dreamer.host.models.resolve(ModelQuery("off", "sim", "dream")).model  # type: ignore[assignment]
    async with dreamer.running():
        await dreamer.settle()
    (request,) = dreamer.requests()
    assert (request.parent, request.system_prompt, list(request.tools)) == ("p0", None, [])
    (message,) = request.messages
    assert message["role"] == "user"
    assert RULES not in texts(request)
    assert texts(request).startswith("## Background memory task tools")
    assert "\n- other-4 (" in texts(request)
    assert request.options.disable_continuation
    assert request.options.cache_retention == "short"


@pytest.mark.req("DRM-3", "PRM-2")
def test_many_sessions_are_listed_up_to_a_bound():
    many = [SessionSeen(f"s{number}", NOW - number * 86_400_000) for number in range(MOST_LISTED + 7)]
    lines = listed(many).split("\n")
    assert lines[:2] == ["- s0 (2026-11-30)", "- s1 (2026-11-29)"]
    assert lines[MOST_LISTED - 1 :] == [f"- s{MOST_LISTED - 1} (2026-08-23)", "- and 7 older ones"]
    assert listed(many[:MOST_LISTED]).count("\n") == MOST_LISTED - 1
    assert listed([]) == "none"


@pytest.mark.req("DRM-3", "PRM-2")
async def test_without_a_session_directory_a_manual_dream_tidies_the_memory_alone(tmp_path: Path):
    dreamer = ready(tmp_path)
    workshop = replace(dreamer.consolidation.workshop, session_dir=None)
    dreamer.equip(workshop=workshop, sessions=SessionFiles(None, "own"))
    async with dreamer.running():
        await dreamer.settle(seconds=700)
        assert dreamer.requests() == []
        await dreamer.ask()
    (request,) = dreamer.requests()
    assert "lie in: none\n" in texts(request)
    assert str(dreamer.place.sessions) not in texts(request) + (request.system_prompt or "")


@pytest.mark.req("DRM-4", "SUB-3")
async def test_the_session_directory_can_be_read_and_searched_and_not_changed(tmp_path: Path):
    place = Place(tmp_path)
    place.add_sessions(5)
    session = next(place.sessions.glob("*other-0.jsonl"))
    before = {path: path.read_bytes() for path in place.sessions.iterdir()}
    dreamer = Dreamer(
        place,
        [
            calls(
                tool("read", path=str(session)),
                tool("grep", pattern="port 5434", path=str(place.sessions), limit=3),
                tool("find", pattern="*other-1*", path=str(place.sessions)),
                tool("bash", command=f"head -1 {session}"),
                tool("bash", command=f"grep -l 5434 {place.sessions}/*.jsonl | wc -l"),
            ),
            calls(
                tool("write", path=str(session), content="x"),
                tool("write", path=f"{place.sessions}/note.md", content=TOPIC),
                tool("edit", path=str(session), edits=[{"oldText": "use", "newText": "x"}]),
                tool("bash", command=f"rm {session}"),
                tool("bash", command=f"echo x > {session}"),
                tool("read", path=str(place.agent / "auth.json")),
                tool("read", path=f"{place.sessions}/gone.jsonl"),
            ),
            DONE,
        ],
    )
    (place.agent / "auth.json").write_text("a credential")
    async with dreamer.running():
        await dreamer.settle()
    results = [message for message in dreamer.requests()[-1].messages if message["role"] == "toolResult"]
    assert [result["isError"] for result in results] == [False] * 5 + [True] * 7
    shown = ["\n".join(block["text"] for block in result["content"]) for result in results]
    assert "use port 5434" in shown[0]
    assert "other-0.jsonl" in shown[1]
    assert "other-1" in shown[2]
    assert '"id": "other-0"' in shown[3]
    assert shown[4].strip() == "5"
    assert {path: path.read_bytes() for path in place.sessions.iterdir()} == before
    assert dreamer.runs() == [("returned", "done")]
    assert place.recorded() == NOW


@pytest.mark.req("C21", "EXT-8", "DRM-2")
async def test_what_a_dream_deletes_is_told_by_name_and_the_service_deletes_nothing_itself(tmp_path: Path):
    """Thirty topics, of which the model removes twenty-three and tries to remove the index as well."""
    names = [f"t{number:02}.md" for number in range(30)]
    gone = names[:23]
    paths = " ".join("{{memory}}/" + name for name in gone)
    dreamer = ready(
        tmp_path,
        [
            calls(tool("bash", command=f"rm {paths}")),
            calls(tool("bash", command="rm {{memory}}/MEMORY.md")),
            writes("merged.md"),
            DONE,
        ],
    )
    for name in names:
        (dreamer.place.memory / name).write_text(TOPIC)
    (dreamer.place.memory / "MEMORY.md").write_text("- [T](t00.md) — t\n")
    async with dreamer.running():
        await dreamer.settle()
    assert dreamer.place.topics() == ["MEMORY.md", "merged.md", *names[23:]]
    (sent,) = dreamer.host.sent
    assert sent.details == {
        "role": "dream",
        "changes": {**dict.fromkeys(gone, "deleted"), "merged.md": "created"},
    }
    assert not sent.display
    assert "while tidying up" in sent.content
    for name in gone:
        assert f"- deleted {dreamer.place.memory}/{name}" in sent.content
    assert sorted(set(dreamer.touched)) == sorted([*gone, "merged.md"])
    assert dreamer.ended == 1


# Beside the extractor


@pytest.mark.req("DRM-1", "LIFE-1", "LCK-1")
async def test_dream_and_extractor_run_side_by_side_from_the_same_turn(tmp_path: Path):
    slow = Reply(text="Done.", delay=20.0)
    dreamer = ready(tmp_path, [slow])
    place, host = dreamer.place, dreamer.host
    host.models.script = {**host.models.script, "sim/main": [slow]}
    host.transcript.append(message_entry("user", [text_block("we use port 5434 now")]))
    mailbox: Mailbox[Any] = Mailbox("extractor")
    extractor = ExtractorActor(
        mailbox,
        dreamer.generations,
        dreamer.trace,
        extraction=Extraction(
            dreamer.consolidation.workshop, host, FileLocks(place.locks), place.clock, dreamer._rules
        ),
        aftermath=Aftermath(
            "extractor",
            host,
            Notifier(host, dreamer.trace),
            dreamer.trace,
            str(place.memory),
            lambda _: None,
            lambda: None,
            lambda: None,
        ),
        activity=Shown(),
        config=dreamer.config,
        head=HEAD,
    )
    async with dreamer.running(), anyio.create_task_group() as group:
        await group.start(extractor.run)
        settled = TurnsSettled(0, host.transcript.head, 1, "off")
        for actor in (mailbox, dreamer.mailbox):
            actor.tell(settled)
        await anyio.sleep(10)
        assert place.held() == ["dream.lock", "extract.lock"]
        await anyio.sleep(20)
        assert place.held() == []
        mailbox.close("the session ends")
    assert {exchange.at for exchange in host.models.exchanges} == {0.0}
    assert sorted(str(run["actor"]) for run in dreamer.trace.named("run_ended")) == ["dream", "extractor"]
    assert place.recorded() == NOW
