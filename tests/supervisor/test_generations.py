"""Whatever comes late, after a new generation has begun, has no effect: not a file, a message, a cursor (LIFE-2)."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

from actors_kit import Outcome
from pi_project_memory.actors.actor import StaleGenerationError
from pi_project_memory.actors.background_messages import (
    DreamEnded,
    DreamMessage,
    DreamTurn,
    ExtractionEnded,
    ExtractionTurn,
    ExtractionWanted,
    ExtractorMessage,
    IdleTimeUp,
    TurnsSettled,
)
from pi_project_memory.actors.core.config import DEFAULT_CONFIG
from pi_project_memory.actors.core.lock_rules import Busy, LockSpec
from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.core.summary import SUMMARY_TYPE
from pi_project_memory.actors.mailbox import Message, Reply, Request
from pi_project_memory.actors.messages import (
    BackgroundWrites,
    BranchChanged,
    ChangesDue,
    FileRead,
    IndexMessage,
    PrefetchMessage,
    PromptSubmitted,
    Reconfigured,
    Selection,
    SelectionReady,
    ToolUsed,
    UserMessageSeen,
    VersionsSeen,
)
from pi_project_memory.actors.ports.host import HistoryHead
from pi_project_memory.actors.ports.locks import FileLocks, LockHandle
from pi_project_memory.actors.ports.publish import REAL_DISK, DiskOps
from pi_project_memory.actors.ports.store import DiskStore, TopicRead
from pi_project_memory.actors.prefetch import PrefetchActor
from pi_project_memory.actors.subagent import run
from pi_project_memory.actors.subagent.attempt import Attempt
from pi_project_memory.actors.subagent.guarded_files import RunFiles
from pi_project_memory.supervisor.host.scenario import Reply as ModelReply
from service_kit import DREAM, NOTHING, SELECTOR, Gate, Stage, add_sessions, keeping, staged

CHOOSES = {SELECTOR: [ModelReply(choose=["deploy.md"])]}
SLOW_CHOICE = {SELECTOR: [ModelReply(choose=["deploy.md"], delay=10)]}
DREAMING: Mapping[str, Any] = {"dream": {"enabled": True}, "extraction": {"enabled": False}}
QUESTION = "How do we deploy this service?"


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's temporary directory, for what runs leave in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# How a generation ends.


async def _read_anew(stage: Stage) -> None:
    await stage.reload()


async def _switched_off(stage: Stage) -> None:
    await stage.reload({"enabled": False})


async def _trust_lost(stage: Stage) -> None:
    stage.trusted = False
    await stage.status()


async def _host_gone(stage: Stage) -> None:
    await stage.service.host_gone()


Bump = Callable[[Stage], Awaitable[None]]
BUMPS = [_read_anew, _switched_off, _trust_lost, _host_gone]
bumps = pytest.mark.parametrize("bump", BUMPS, ids=lambda bump: bump.__name__[1:])


async def late(stage: Stage, temp: Path, gate: Gate, bump: Bump) -> None:
    """Let the generation end while `gate` is shut, open it, and assert that nothing comes of what it held."""
    with anyio.fail_after(100):
        await gate.reached.wait()
    before = (stage.files(), stage.ours(), list(stage.host.sent), list(stage.host.notices))
    await bump(stage)
    gate.open()
    await anyio.sleep(1_000)
    after = (stage.files(), stage.ours(), list(stage.host.sent), list(stage.host.notices))
    assert after == before
    assert stage.locks() == []
    assert list(temp.iterdir()) == []


# Selector answers, and what is made of them.


@bumps
@pytest.mark.req("LIFE-2", "CFG-6", "SEL-7")
async def test_a_late_selector_answer(tmp_path: Path, temp: Path, bump: Bump):
    async with staged(tmp_path, models=CHOOSES) as stage:
        await stage.ready()
        gate = stage.host.hold("stream_model selector")
        await stage.prompt(QUESTION)
        await late(stage, temp, gate, bump)


@bumps
@pytest.mark.req("LIFE-2", "RCL-2")
async def test_an_answer_for_which_a_prompt_still_waits(tmp_path: Path, temp: Path, bump: Bump):
    async with staged(tmp_path, models=CHOOSES) as stage:
        await stage.ready()
        gate, answered = stage.host.hold("stream_model selector"), Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(answered.of, stage.prompt(QUESTION))
            await late(stage, temp, gate, bump)
        assert answered.value.message is None


class HeldStore(DiskStore):
    """Lets the first reading of a topic, or the first snapshot that is held, wait at a gate."""

    topic: Gate | None = None
    look: Gate | None = None

    async def read_topic(self, path: str) -> TopicRead:
        gate, HeldStore.topic = HeldStore.topic, None
        if gate is not None:
            await gate.passed()
        return await super().read_topic(path)

    async def snapshot(self) -> Mapping[str, Fingerprint]:
        gate, HeldStore.look = HeldStore.look, None
        if gate is not None:
            await gate.passed()
        return await super().snapshot()


@bumps
@pytest.mark.req("LIFE-2", "RCL-2")
async def test_a_recall_whose_topic_is_still_being_read(tmp_path: Path, temp: Path, bump: Bump):
    async with staged(tmp_path, models=CHOOSES, store=HeldStore) as stage:
        await stage.ready()
        gate = HeldStore.topic = Gate()
        await stage.prompt(QUESTION)
        await late(stage, temp, gate, bump)


# Runs: model answers, tools, publishing, locks.


def extracting(stage: Stage) -> None:
    """Let a settled turn begin a run."""
    stage.hear()
    stage.settle()


@bumps
@pytest.mark.parametrize(
    "call",
    [
        "resolve_model extractor",
        "read_history",
        "capture_parent",
        "stream_model extractor",
        "execute_tool write",
    ],
)
@pytest.mark.req("LIFE-2", "SUB-5", "CFG-6", "EXT-2")
async def test_a_late_answer_to_an_extraction(tmp_path: Path, temp: Path, call: str, bump: Bump):
    """Its model, its part of the branch, the parent's request, the model's answer, and a tool's effect."""
    async with staged(tmp_path, keeping("late.md")) as stage:
        await stage.ready()
        gate = stage.host.hold(call)
        extracting(stage)
        await late(stage, temp, gate, bump)
        assert stage.cursors == 0
        assert len(stage.host.released) == next(stage.host._parents), "the parent's request is given back"


@bumps
@pytest.mark.req("LIFE-2", "EXT-8", "EXT-2")
async def test_a_late_tool_result_whose_effect_came_before(tmp_path: Path, temp: Path, bump: Bump):
    """The file stays as it was published; neither summary nor cursor nor another request follows."""
    async with staged(tmp_path, keeping("early.md")) as stage:
        await stage.ready()
        gate = stage.host.hold("execute_tool write done")
        extracting(stage)
        await late(stage, temp, gate, bump)
        assert "early.md" in stage.files()
        assert (len(stage.requests()), stage.cursors) == (1, 0)
        assert SUMMARY_TYPE not in stage.ours()


@pytest.mark.req("LIFE-2", "PATH-7", "EXT-2")
async def test_a_publish_that_has_begun_completes_and_nothing_follows_it(
    tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch
):
    loop, reached, opened = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def link(source: str, name: str) -> None:
        loop.call_soon_threadsafe(reached.set)
        assert opened.wait(20)
        REAL_DISK.link(source, name)

    monkeypatch.setattr(run, "RunFiles", partial(RunFiles, ops=DiskOps(link=link)))
    async with staged(tmp_path, keeping("whole.md")) as stage:
        await stage.ready()
        extracting(stage)
        await reached.wait()
        await stage.reload()
        opened.set()
        await anyio.sleep(1_000)
        assert (stage.places.memory / "whole.md").read_text() == "kept\n"
        assert stage.files() == ["MEMORY.md", "deploy.md", "whole.md"]
        assert (stage.cursors, SUMMARY_TYPE in stage.ours()) == (0, False)
        assert (stage.locks(), list(temp.iterdir())) == ([], [])


@bumps
@pytest.mark.req("LIFE-2", "LCK-1", "EXT-4")
async def test_a_lock_that_is_got_late_is_given_back(
    tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch, bump: Bump
):
    gate, acquire = Gate(), FileLocks.acquire

    async def held(locks: FileLocks, spec: LockSpec) -> LockHandle | Busy:
        with anyio.CancelScope(shield=True):
            handle = await acquire(locks, spec)
            await gate.passed()
            return handle

    monkeypatch.setattr(FileLocks, "acquire", held)
    async with staged(tmp_path, keeping("late.md")) as stage:
        await stage.ready()
        extracting(stage)
        await late(stage, temp, gate, bump)
        assert stage.requests() == []


@bumps
@pytest.mark.req("LIFE-2", "EXT-2", "EXT-8")
async def test_a_cursor_behind_a_summary_that_was_under_way(tmp_path: Path, bump: Bump):
    """What the host has in its hands arrives; the cursor that belongs to it does not move any more."""
    async with staged(tmp_path, keeping("early.md"), NOTHING) as stage:
        await stage.ready()
        gate = stage.host.hold("send_message")
        extracting(stage)
        await gate.reached.wait()
        await bump(stage)
        gate.open()
        await anyio.sleep(1_000)
        assert stage.ours().count(SUMMARY_TYPE) == 1
        assert stage.cursors == 0


@bumps
@pytest.mark.req("LIFE-2", "DRM-2")
async def test_a_late_answer_to_a_dream(tmp_path: Path, temp: Path, bump: Bump):
    models = {DREAM: [keeping("late.md")]}
    async with staged(tmp_path, config=DREAMING, models=models, prepare=add_sessions) as stage:
        await stage.ready()
        gate = stage.host.hold("stream_model dream")
        extracting(stage)
        await late(stage, temp, gate, bump)
        assert len(stage.requests(DREAM)) == 1


# Notices, timers, and messages that wait.


@bumps
@pytest.mark.req("LIFE-2", "IDX-7")
async def test_a_notice_of_changes_that_were_still_being_looked_for(tmp_path: Path, temp: Path, bump: Bump):
    async with staged(tmp_path, models=CHOOSES, store=HeldStore) as stage:
        await stage.say(QUESTION)
        (stage.places.memory / "deploy.md").write_text("changed by somebody else\n")
        gate = HeldStore.look = Gate()
        stage.memory.tell(stage.memory.index, ChangesDue(stage.memory.generations.current))
        await late(stage, temp, gate, bump)


@bumps
@pytest.mark.req("LIFE-2", "EXT-1")
async def test_an_idle_timer_that_runs_out_later(tmp_path: Path, temp: Path, bump: Bump):
    config = {"extraction": {"everyNTurns": 2, "idleFlushSeconds": 60}}
    async with staged(tmp_path, config=config) as stage:
        await stage.say()
        await anyio.sleep(58.9)
        await bump(stage)
        await anyio.sleep(1_000)
        assert stage.requests() == []


HEAD = HistoryHead("h1", 1)
DONE = Attempt("returned")
MESSAGES: Mapping[type[Message], Mapping[str, Any]] = {
    ToolUsed: {"tool": "bash", "path": ""},
    VersionsSeen: {"versions": {"deploy.md": "x"}},
    BackgroundWrites: {"paths": ("deploy.md",)},
    PromptSubmitted: {"prompt": QUESTION},
    UserMessageSeen: {"text": QUESTION},
    SelectionReady: {"job": 1, "branch": 0, "selection": Selection(paths=("deploy.md",))},
    FileRead: {"path": "deploy.md", "version": "x"},
    Reconfigured: {"config": DEFAULT_CONFIG},
    TurnsSettled: {"head": HEAD, "turns": 5},
    ExtractionWanted: {"cause": "manual", "head": HEAD},
    IdleTimeUp: {"timer": 1},
    ExtractionTurn: {"job": 1, "number": 1},
    ExtractionEnded: {"job": 1, "attempt": DONE, "through": "x"},
    DreamTurn: {"job": 1, "number": 1},
    DreamEnded: {"job": 1, "attempt": DONE, "others": 5},
}
"""What the messages that say more than their kind are made of."""

ACTORS = {
    "index": IndexMessage,
    "prefetch": PrefetchMessage,
    "extractor": ExtractorMessage,
    "dream": DreamMessage,
}
KINDS = [(actor, kind) for actor, union in ACTORS.items() for kind in get_args(union)]


@pytest.mark.req("LIFE-2", "LIFE-1")
@pytest.mark.parametrize(
    ("actor", "kind"),
    [(actor, kind) for actor, kind in KINDS if not kind.lasting],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_every_message_of_an_older_generation_is_dropped_and_its_asker_told(
    tmp_path: Path, actor: str, kind: type[Message]
):
    async with staged(tmp_path, models=CHOOSES) as stage:
        await stage.say()
        await stage.reload()
        before = (stage.ours(), len(stage.host.models.exchanges), await stage.status())
        fields, reply = dict(MESSAGES.get(kind, {})), Reply[object]()
        if issubclass(kind, Request):
            fields["reply"] = reply
        getattr(stage.memory, actor).tell(kind(generation=0, **fields))
        await anyio.sleep(100)
        (dropped,) = stage.trace.named("stale_dropped")
        assert (dropped["actor"], dropped["message"], dropped["generation"]) == (actor, kind.__name__, 0)
        if issubclass(kind, Request):
            with pytest.raises(StaleGenerationError):
                await reply.wait(0)
        assert (stage.ours(), len(stage.host.models.exchanges), await stage.status()) == before


@pytest.mark.req("LIFE-2")
@pytest.mark.parametrize("actor", ["prefetch", "extractor"])
async def test_a_fact_of_the_session_outlives_its_generation_but_not_its_memory(tmp_path: Path, actor: str):
    async with staged(tmp_path) as stage:
        memory = await stage.ready()
        await stage.reload()
        getattr(memory, actor).tell(BranchChanged(0, HEAD))
        await anyio.sleep(1)
        assert stage.trace.named("stale_dropped") == []
        memory.scope.abort("the session ends")
        getattr(memory, actor).tell(BranchChanged(1, HEAD))
        await anyio.sleep(1)
        assert [event["message"] for event in stage.trace.named("stale_dropped")] == ["BranchChanged"]


@pytest.mark.req("LIFE-2", "LIFE-4", "SEL-6")
async def test_the_late_answer_of_an_actors_earlier_life_is_not_taken_for_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def fail(actor: PrefetchActor, message: FileRead) -> None:
        raise KeyError(message.path)

    monkeypatch.setattr(PrefetchActor, "_remember_read", fail)
    models = {SELECTOR: [ModelReply(hang=True), ModelReply(choose=[])]}
    async with staged(tmp_path, models=models) as stage:
        memory = await stage.ready()
        await stage.prompt(QUESTION)
        (begun,) = stage.trace.named("selection_begun")
        answer, chosen = Reply[Any](), Selection(paths=("deploy.md",))
        memory.prefetch.tell(FileRead(0, "deploy.md", "x"))
        memory.prefetch.tell(PromptSubmitted(0, answer, QUESTION))
        memory.prefetch.tell(SelectionReady(0, int(str(begun["job"])), 0, chosen))
        assert await answer.wait(10) is None
        assert [event["actor"] for event in stage.trace.named("actor_failed")] == ["prefetch"]
