"""What happens at a session's end: its phases, their bounds, and what is left (LIFE-5, HOST-11)."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

from actors_kit import Outcome, turns
from pi_project_memory.actors.core.summary import SUMMARY_TYPE
from pi_project_memory.actors.ports.git import NoWorktree
from pi_project_memory.supervisor.host.protocol import BeforeCompact, HistoryChanged, ShutdownReason
from pi_project_memory.supervisor.host.scenario import Reply
from service_kit import (
    DREAM,
    EXTRACTOR,
    HANGS,
    NOTHING,
    SELECTOR,
    Stage,
    add_sessions,
    keeping,
    staged,
)

REASONS = get_args(ShutdownReason)
DREAMING: dict[str, Any] = {"dream": {"enabled": True}, "extraction": {"enabled": False}}


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's temporary directory, for what runs leave in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


class SlowGit:
    """A git that takes its time, as on a disk that sleeps."""

    async def locate(self, directory: str) -> NoWorktree:
        await anyio.sleep(30)
        return NoWorktree("no git here")


# Nothing under way.


@pytest.mark.req("LIFE-5")
@pytest.mark.parametrize("reason", REASONS)
async def test_a_session_in_which_nothing_was_said_ends_at_once(tmp_path: Path, reason: ShutdownReason):
    async with staged(tmp_path) as stage:
        await stage.ready()
        assert await stage.shut_down(reason) == 0
    assert stage.host.models.exchanges == []


@pytest.mark.req("LIFE-5")
@pytest.mark.parametrize(
    "config",
    [{"enabled": False}, "{ broken", {"extraction": {"enabled": False}}],
    ids=["disabled", "broken configuration", "no automatic extraction"],
)
async def test_whatever_is_switched_off_is_not_waited_for(tmp_path: Path, config: Any):
    async with staged(tmp_path, config=config) as stage:
        await stage.say(seconds=0)
        assert await stage.shut_down() == 0
    assert stage.requests() == []


@pytest.mark.req("LIFE-5")
async def test_behind_a_finished_extraction_a_session_ends_at_once(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.say(seconds=1)
        assert await stage.shut_down() == 0
    assert (len(stage.requests()), stage.cursors) == (1, 1)


@pytest.mark.req("LIFE-5")
async def test_a_session_that_is_still_being_set_up_ends_at_once(tmp_path: Path):
    async with staged(tmp_path, git=SlowGit()) as stage:
        assert await stage.shut_down() == 0
    assert stage.life.memory is None
    assert not (stage.places.agent_dir / "project-memory" / "projects").exists()


@pytest.mark.req("LIFE-5", "EXT-1")
async def test_a_compaction_of_a_resumed_session_waits_for_no_more_than_its_extraction(tmp_path: Path):
    """Nothing has been said in this process yet, so that nobody has made the extractor."""
    async with staged(tmp_path, Reply(text="Nothing.", delay=3)) as stage:
        await stage.ready()
        stage.hear()
        started = anyio.current_time()
        await stage.service.before_compact(BeforeCompact(stage.context, "manual"))
        assert anyio.current_time() - started == 3
        assert len(stage.requests()) == 1


# What is left to be done.


@pytest.mark.req("LIFE-5", "EXT-1")
@pytest.mark.parametrize("reason", REASONS)
async def test_the_rest_is_extracted_first_whatever_ends_the_session(
    tmp_path: Path, temp: Path, reason: ShutdownReason
):
    config = {"extraction": {"everyNTurns": 10, "idleFlushSeconds": 0}}
    async with staged(tmp_path, keeping("kept.md", delay=5), NOTHING, config=config) as stage:
        await stage.say("please remember the number 1")
        await stage.say("please remember the number 2")
        assert stage.requests() == []
        assert await stage.shut_down(reason) == 5
    assert "number 1" in stage.texts()[0]
    assert "number 2" in stage.texts()[0]
    assert "kept.md" in stage.files()
    assert stage.ours()[-2:] == [SUMMARY_TYPE, "project-memory-cursor"]
    assert (stage.locks(), list(temp.iterdir())) == ([], [])


@pytest.mark.req("LIFE-5", "EXT-1")
async def test_what_an_earlier_process_left_unprocessed_is_extracted_at_the_end(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        stage.hear()
        stage.service.history_changed(HistoryChanged("tree", stage.host.transcript.renew()))
        await stage.shut_down()
    assert (len(stage.requests()), stage.cursors) == (1, 1)


@pytest.mark.req("LIFE-5", "EXT-4")
async def test_a_run_under_way_is_waited_for_and_followed_by_its_trailing_one(tmp_path: Path):
    async with staged(tmp_path, Reply(text="First.", delay=20), Reply(text="Second.", delay=20)) as stage:
        await stage.say("please remember the number 1")
        await stage.say("please remember the number 2")
        assert await stage.shut_down() == 38
    assert ["number 1" in text for text in stage.texts()] == [True, False]
    assert stage.cursors == 2


@pytest.mark.req("LIFE-5", "EXT-1")
async def test_a_run_asked_for_by_hand_is_waited_for_without_automatic_extraction(tmp_path: Path):
    config = {"extraction": {"enabled": False}}
    async with staged(tmp_path, keeping("kept.md", delay=5), NOTHING, config=config) as stage:
        await stage.say()
        await stage.command("extract", wait=False)
        await anyio.sleep(1)
        assert await stage.shut_down() == 4
    assert "kept.md" in stage.files()
    (notice,) = stage.host.notices
    assert "created kept.md" in notice[1]


@pytest.mark.req("LIFE-5", "DRM-2")
async def test_a_dream_under_way_is_waited_for_and_no_other_begins(tmp_path: Path):
    async with staged(
        tmp_path, config=DREAMING, models={DREAM: [Reply(text="Done.", delay=20)]}, prepare=add_sessions
    ) as stage:
        await stage.say(seconds=5)
        assert len(stage.requests(DREAM)) == 1
        assert await stage.shut_down() == 15
    assert stage.ended() == [("dream", "returned")]
    assert stage.locks() == []


@pytest.mark.req("LIFE-5", "EXT-4")
async def test_extraction_and_dream_share_one_minute(tmp_path: Path):
    config = {"dream": {"enabled": True}}
    async with staged(tmp_path, HANGS, config=config, models={DREAM: [HANGS]}, prepare=add_sessions) as stage:
        await stage.say()
        assert await stage.shut_down() == 60
    assert sorted(stage.cancelled) == [DREAM, EXTRACTOR]
    assert stage.locks() == []


# Selectors and the bound.


@pytest.mark.req("LIFE-5")
@pytest.mark.parametrize("reason", REASONS)
async def test_pending_selectors_are_given_up_at_once(tmp_path: Path, reason: ShutdownReason):
    async with staged(tmp_path, models={SELECTOR: [HANGS]}) as stage:
        await stage.ready()
        started, answered = anyio.current_time(), Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(answered.of, stage.prompt("How do we deploy this service?"))
            await anyio.sleep(0.5)
            assert await stage.shut_down(reason) == 0
        assert answered.at == started + 0.5
        assert answered.value.message is None
    assert stage.cancelled == [SELECTOR]
    assert stage.host.notices == []


@pytest.mark.req("LIFE-5")
async def test_selectors_are_given_up_while_an_extraction_is_still_waited_for(tmp_path: Path):
    late = Reply(choose=["deploy.md"], delay=10)
    async with staged(tmp_path, Reply(text="x", delay=30), models={SELECTOR: [late]}) as stage:
        await stage.say(seconds=0)
        seconds = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(seconds.of, stage.shut_down())
            await anyio.sleep(1)
            assert stage.cancelled == [SELECTOR]
        assert seconds.value == 30
        assert stage.host.sent == []


@pytest.mark.req("LIFE-5", "LIFE-2", "LIFE-3", "C78")
@pytest.mark.parametrize("reason", REASONS)
async def test_after_a_minute_what_runs_is_aborted_and_everything_is_given_back(
    tmp_path: Path, temp: Path, reason: ShutdownReason
):
    async with staged(tmp_path, HANGS, status=True) as stage:
        await stage.say()
        assert stage.locks() == ["extract.lock"]
        assert len(list(temp.iterdir())) == 1
        assert await stage.shut_down(reason) == 60
        assert (stage.locks(), list(temp.iterdir())) == ([], [])
        assert stage.cancelled == [EXTRACTOR]
        assert stage.cursors == 0
        assert SUMMARY_TYPE not in stage.ours()
    (ended,) = stage.trace.named("shut_down")
    assert ended["reason"] == f"the session ends ({reason})"
    assert ended["late"] == ""
    assert stage.host.statuses[-1] is None


@pytest.mark.req("LIFE-5", "LIFE-2")
async def test_a_host_deaf_to_its_abort_is_named_and_waited_for_no_longer(tmp_path: Path):
    """Requested and finished are two facts: the extractor's model request goes on in the host."""
    async with staged(tmp_path, keeping("late.md")) as stage:
        await stage.ready()
        gate = stage.host.hold("stream_model extractor")
        stage.hear()
        stage.settle()
        await gate.reached.wait()
        assert 60 < await stage.shut_down() < 62
        (ended,) = stage.trace.named("shut_down")
        assert ended["late"] == "extractor"
        gate.open()
        await anyio.sleep(100)
        assert "late.md" not in stage.files()
        assert stage.cursors == 0
    assert stage.locks() == []


# New work is refused while the old comes to its end.


async def _prompt(stage: Stage) -> object:
    answer = await stage.prompt("How do we deploy this service?")
    return answer.section or answer.message


async def _settle(stage: Stage) -> object:
    stage.hear("please remember this as well")
    stage.settle()
    return None


async def _compact(stage: Stage) -> object:
    started = anyio.current_time()
    await stage.service.before_compact(BeforeCompact(stage.context, "threshold"))
    return anyio.current_time() - started or None


def _command(name: str) -> Callable[[Stage], Awaitable[object]]:
    async def run(stage: Stage) -> object:
        answer = await stage.command(name, wait=False)
        assert "the session ends (quit)" in answer.text
        assert answer.level == "warning"

    return run


async def _reload(stage: Stage) -> object:
    answer = await stage.reload({"enabled": False})
    assert (answer.text, answer.level) == ("The session is ending; nothing was reloaded.", "warning")


async def _status(stage: Stage) -> object:
    assert "Reason: the session ends (quit)" in await stage.status()


@pytest.mark.req("LIFE-5", "CFG-6")
@pytest.mark.parametrize(
    "work",
    [_prompt, _settle, _compact, _command("extract"), _command("dream"), _command("list"), _reload, _status],
    ids=["prompt", "settle", "compaction", "extract", "dream", "list", "reload", "status"],
)
async def test_new_work_is_refused_while_the_last_extraction_runs(
    tmp_path: Path, work: Callable[[Stage], Awaitable[object]]
):
    async with staged(tmp_path, keeping("kept.md", delay=10), NOTHING) as stage:
        await stage.say()
        async with anyio.create_task_group() as group:
            seconds = Outcome()
            group.start_soon(seconds.of, stage.shut_down())
            await anyio.sleep(2)
            assert await work(stage) is None
        assert seconds.value == 9
    assert stage.requests(SELECTOR)[1:] == []
    assert len(stage.requests()) == 2, "one run of two turns, and none for what came later"
    assert "kept.md" in stage.files()
    assert stage.cursors == 1
    assert stage.ended() == [("extractor", "returned")]


@pytest.mark.req("LIFE-5")
async def test_a_second_shutdown_waits_for_the_first_and_cuts_nothing_short(tmp_path: Path):
    async with staged(tmp_path, keeping("kept.md", delay=10), NOTHING) as stage:
        await stage.say()
        first, second = Outcome(), Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(first.of, stage.shut_down())
            await anyio.sleep(2)
            group.start_soon(second.of, stage.shut_down("reload"))
        assert (first.value, second.value) == (9, 7)
    assert stage.cursors == 1


# The host vanishes.


@pytest.mark.req("HOST-11", "LIFE-5")
async def test_a_host_that_goes_away_during_the_wait_ends_it(tmp_path: Path, temp: Path):
    async with staged(tmp_path, HANGS) as stage:
        await stage.say()
        seconds = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(seconds.of, stage.shut_down())
            await anyio.sleep(5)
            stage.host.gone = True
            await stage.service.host_gone()
        assert seconds.value == 5
        assert (stage.locks(), list(temp.iterdir()), stage.cursors) == ([], [], 0)


@pytest.mark.req("HOST-11", "LIFE-2")
async def test_a_host_that_vanishes_ends_everything_at_once(tmp_path: Path, temp: Path):
    """A selector, an extraction, a dream and a prompt that waits, all at the same time."""
    models = {SELECTOR: [HANGS], DREAM: [HANGS]}
    config = {"dream": {"enabled": True}}
    async with staged(tmp_path, HANGS, config=config, models=models, prepare=add_sessions) as stage:
        await stage.say(seconds=5)
        answered = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(answered.of, stage.prompt("How do we deploy this service?"))
            await anyio.sleep(0.5)
            assert len(stage.locks()) == 2
            started = anyio.current_time()
            stage.host.gone = True
            await stage.service.host_gone()
            assert anyio.current_time() == started
        assert answered.at == started
        assert sorted(stage.cancelled) == sorted([SELECTOR, SELECTOR, EXTRACTOR, DREAM])
        assert (stage.locks(), list(temp.iterdir())) == ([], [])
        assert stage.cursors == 0
    assert len(stage.trace.named("shut_down")) == 1


@pytest.mark.req("HOST-11", "LIFE-5")
async def test_a_session_can_end_more_than_once(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        await stage.shut_down()
        await stage.service.host_gone()
        assert await stage.shut_down("new") == 0
        await turns()
    assert len(stage.trace.named("shut_down")) == 1
