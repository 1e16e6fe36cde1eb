"""Live reload of the configuration, and memory that goes on and off (CFG-2, CFG-6, CFG-8, PATH-6)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from actors_kit import Outcome
from pi_project_memory.actors.core.branch import NOTICE_TYPE
from pi_project_memory.actors.core.summary import SUMMARY_TYPE
from pi_project_memory.actors.ports.git import NoWorktree
from pi_project_memory.supervisor.host.protocol import HistoryChanged
from pi_project_memory.supervisor.host.scenario import Compaction, Reply, TreeMove
from pi_project_memory.supervisor.lifecycle import NEXT_SESSION
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
from subagent_kit import names

ON: Mapping[str, Any] = {}
OFF: Mapping[str, Any] = {"enabled": False}
DREAMING: Mapping[str, Any] = {"dream": {"enabled": True}, "extraction": {"enabled": False}}
RELOADED = "Configuration reloaded; memory is on, and background work under way has been stopped."


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the system's temporary directory, for what runs leave in it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def nothing_runs(stage: Stage, temp: Path) -> None:
    """Assert that nothing is under way any more, and that nothing comes of what was."""
    await anyio.sleep(1)
    assert (stage.locks(), list(temp.iterdir())) == ([], [])
    await anyio.sleep(1_000)
    assert SUMMARY_TYPE not in stage.ours()
    assert stage.cursors == 0
    assert stage.files() == ["MEMORY.md", "deploy.md"]


# Enabled stays: what runs is stopped, and the new values hold.


@pytest.mark.req("CFG-6", "LIFE-2", "LIFE-3")
@pytest.mark.parametrize("fresh", [ON, OFF], ids=["stays on", "goes off"])
async def test_a_running_extraction_is_stopped(tmp_path: Path, temp: Path, fresh: Mapping[str, Any]):
    async with staged(tmp_path, keeping("late.md", delay=10), status=True) as stage:
        await stage.say()
        assert stage.locks() == ["extract.lock"]
        started = anyio.current_time()
        await stage.reload(fresh)
        assert anyio.current_time() == started
        await nothing_runs(stage, temp)
        assert stage.cancelled == [EXTRACTOR]
        assert stage.host.statuses[-1] is None


@pytest.mark.req("CFG-6", "LIFE-2", "DRM-2")
@pytest.mark.parametrize("fresh", [DREAMING, OFF], ids=["stays on", "goes off"])
async def test_a_running_dream_is_stopped(tmp_path: Path, temp: Path, fresh: Mapping[str, Any]):
    models = {DREAM: [keeping("late.md", delay=10)]}
    async with staged(tmp_path, config=DREAMING, models=models, prepare=add_sessions, status=True) as stage:
        await stage.say()
        assert stage.locks() == ["dream.lock"]
        await stage.reload(fresh)
        await nothing_runs(stage, temp)
        assert stage.cancelled == [DREAM]
        assert stage.host.statuses[-1] is None


@pytest.mark.req("CFG-6")
@pytest.mark.parametrize("fresh", [ON, OFF], ids=["stays on", "goes off"])
async def test_a_prompt_that_waits_for_its_recall_is_answered_at_once(
    tmp_path: Path, fresh: Mapping[str, Any]
):
    async with staged(tmp_path, models={SELECTOR: [HANGS]}) as stage:
        await stage.ready()
        started, answered = anyio.current_time(), Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(answered.of, stage.prompt("How do we deploy this service?"))
            await anyio.sleep(1)
            await stage.reload(fresh)
        assert answered.at == started + 1
        assert answered.value.message is None
        assert "make ship" not in answered.value.section.text
        assert "deploy.md" in answered.value.section.text, "it had been loaded before"
        assert stage.cancelled == [SELECTOR]
        assert stage.host.notices == []


@pytest.mark.req("CFG-6")
@pytest.mark.parametrize("fresh", [ON, OFF], ids=["stays on", "goes off"])
async def test_a_late_selection_is_given_up_as_well(tmp_path: Path, fresh: Mapping[str, Any]):
    late = Reply(choose=["deploy.md"], delay=10)
    config = {"extraction": {"enabled": False}}
    async with staged(tmp_path, config=config, models={SELECTOR: [late]}) as stage:
        await stage.say(seconds=3)
        await stage.reload({**config, **fresh})
        await anyio.sleep(100)
        assert (stage.cancelled, stage.host.sent, stage.ours()) == ([SELECTOR], [], [])


@pytest.mark.req("CFG-6")
@pytest.mark.parametrize("fresh", [{"extraction": {"everyNTurns": 3, "idleFlushSeconds": 60}}, OFF])
async def test_the_idle_timer_is_cancelled(tmp_path: Path, fresh: Mapping[str, Any]):
    config = {"extraction": {"everyNTurns": 3, "idleFlushSeconds": 60}}
    async with staged(tmp_path, config=config) as stage:
        await stage.say()
        await anyio.sleep(58)
        await stage.reload(fresh)
        await anyio.sleep(1_000)
        assert stage.requests() == []


@pytest.mark.req("CFG-6")
async def test_new_values_hold_from_the_next_turn_on(tmp_path: Path):
    models = {"sim/other": [NOTHING], "sim/chooser": [Reply(choose=[])]}
    async with staged(tmp_path, Reply(text="x"), models=models) as stage:
        await stage.say()
        fresh = {
            "extraction": {"everyNTurns": 2, "maxTurns": 7},
            "models": {"extractor": {"model": "sim/other"}, "selector": {"model": "sim/chooser"}},
        }
        await stage.reload(fresh)
        await stage.say()
        assert (len(stage.requests()), len(stage.requests("sim/other"))) == (1, 0)
        assert (len(stage.requests(SELECTOR)), len(stage.requests("sim/chooser"))) == (1, 1)
        await stage.say()
        (request,) = stage.requests("sim/other")
        assert "at most 7 turns" in str(request.messages[-1])


@pytest.mark.req("CFG-6", "DRM-1")
async def test_dream_is_switched_on_and_off_for_the_next_turn(tmp_path: Path):
    off = {"dream": {"enabled": False}, "extraction": {"enabled": False}}
    async with staged(tmp_path, config=off, prepare=add_sessions) as stage:
        await stage.say(seconds=5)
        assert stage.requests(DREAM) == []
        await stage.reload({**DREAMING, "dream": {"enabled": True, "maxTurns": 9}})
        await stage.say(seconds=5)
        (request,) = stage.requests(DREAM)
        assert "at most 9 turns" in str(request.messages[-1])
        await stage.reload(off)
        answer = await stage.command("dream")
        assert answer.text == "Memory dream is disabled by the global dream gate"


@pytest.mark.req("CFG-6")
async def test_what_was_stopped_is_extracted_with_the_next_turn(tmp_path: Path):
    async with staged(tmp_path, HANGS, NOTHING) as stage:
        await stage.say("please remember the number 1")
        await stage.reload()
        await stage.say("please remember the number 2")
        assert "number 1" in stage.texts()[-1]
        assert "number 2" in stage.texts()[-1]


@pytest.mark.req("CFG-6", "IDX-4")
async def test_an_idle_memory_gets_a_new_generation_and_reads_its_index_anew(tmp_path: Path):
    async with staged(tmp_path) as stage:
        before = (await stage.say()).section
        (stage.places.memory / "MEMORY.md").write_text("- [Other](deploy.md) — anew\n")
        assert (await stage.prompt()).section == before
        answer = await stage.reload()
        assert (answer.text, answer.level) == (RELOADED, "info")
        after = (await stage.prompt()).section
        assert after is not None
        assert "anew" in after.text
        assert "Generation: 1" in await stage.status()


@pytest.mark.req("CFG-6", "RCL-4")
async def test_a_move_in_the_session_that_waits_when_the_configuration_is_read_is_not_lost(tmp_path: Path):
    """Which branch is active is a fact of the session, not work of a generation."""
    choose = [Reply(choose=["deploy.md"])]
    async with staged(tmp_path, models={SELECTOR: choose}) as stage:
        recall = (await stage.say()).message
        assert recall is not None
        busy = stage.host.hold("append_entry")
        stage.session._add_user("Something else that is asked for")
        await busy.reached.wait()
        stage.service.history_changed(HistoryChanged("tree", stage.host.transcript.move_to(None)))
        await stage.reload()
        busy.open()
        assert "Recall: 0 of" in await stage.status()
        again = (await stage.prompt()).message
        assert again is not None
        assert again.content == recall.content


@pytest.mark.req("CFG-6")
async def test_reloads_at_the_same_time_take_turns(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        answers = [Outcome() for _ in range(20)]
        async with anyio.create_task_group() as group:
            for answer in answers:
                group.start_soon(answer.of, stage.reload())
        assert {answer.value.text for answer in answers} == {RELOADED}
        assert "Generation: 20" in await stage.status()


@pytest.mark.req("CFG-6")
async def test_a_reload_that_the_host_gives_up_takes_effect_as_a_whole(tmp_path: Path):
    """A host that lost patience must not leave actors behind that nobody stops."""
    async with staged(tmp_path, keeping("late.md")) as stage:
        await stage.ready()
        gate = stage.host.hold("stream_model extractor")
        await stage.say()
        memory = stage.memory
        stage.configure(OFF)
        with anyio.move_on_after(0.5):
            await stage.command("reload-config")
        gate.open()
        await anyio.sleep(10)
        assert [child.ended.is_set() for child in memory._supervisor._children] == [True] * 4
        assert "Auto-memory: disabled" in await stage.status()
        await stage.reload(ON)
        assert "Auto-memory: on" in await stage.status()
        assert "late.md" not in stage.files()


# Off.


@pytest.mark.req("CFG-6", "CMD-2", "PATH-6")
async def test_switched_off_nothing_is_said_asked_or_written(tmp_path: Path):
    async with staged(tmp_path, config={"dream": {"enabled": True}}) as stage:
        await stage.say()
        requests = len(stage.host.models.exchanges)
        answer = await stage.reload(OFF)
        assert answer.text.startswith("Configuration reloaded; memory is off: `enabled` is false in /")
        assert answer.level == "info"
        entries = len(stage.host.transcript.entries)
        before = names(tmp_path)
        start = await stage.say("How do we deploy this service?")
        assert (start.section, start.message) == (None, None)
        await stage.session.step(Compaction(compact=1))
        for command in ("list", "extract", "dream"):
            refused = await stage.command(command)
            assert "not available: `enabled` is false" in refused.text
        await anyio.sleep(1_000)
        assert len(stage.host.models.exchanges) == requests
        assert names(tmp_path) == before
        ours = [entry for entry in stage.host.transcript.entries[entries:] if "customType" in entry]
        assert ours == []


@pytest.mark.req("CFG-6", "CMD-1", "CMD-2")
async def test_switched_off_its_paths_are_forgotten(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        await stage.reload(OFF)
        status = await stage.status()
        assert status.startswith(
            "Auto-memory: disabled\nMemory directory: not initialized\nReason: `enabled`"
        )
        assert str(stage.places.memory) not in status
        assert stage.life.memory is None


@pytest.mark.req("CFG-6", "IDX-7")
async def test_switched_off_pending_notices_are_forgotten(tmp_path: Path):
    choose = [Reply(choose=["deploy.md"]), Reply(choose=[])]
    async with staged(tmp_path, models={SELECTOR: choose}) as stage:
        await stage.say()
        (stage.places.memory / "deploy.md").write_text("changed while nobody looked\n")
        await stage.reload(OFF)
        await stage.say()
        assert NOTICE_TYPE not in stage.ours()
        await stage.reload(ON)
        await stage.say()
        assert stage.ours().count(NOTICE_TYPE) == 1, "the branch still holds the old text"


# On again.


@pytest.mark.req("CFG-6", "PATH-6")
async def test_switched_on_the_directories_are_made(tmp_path: Path):
    config = {"enabled": False, "autoMemoryDirectory": None}
    async with staged(tmp_path, config=config) as stage:
        await stage.say()
        data = stage.places.agent_dir / "project-memory"
        assert [path.name for path in data.iterdir()] == ["config.json"]
        answer = await stage.reload({"autoMemoryDirectory": None})
        assert answer.text == RELOADED
        assert sorted(path.name for path in data.iterdir()) == ["config.json", "memory-roots", "projects"]
        start = await stage.say("please remember the number 1")
        assert start.section is not None
        assert len(stage.requests()) == 1


@pytest.mark.req("CFG-6", "EXT-2", "RCL-4")
async def test_switched_on_again_it_goes_on_where_the_branch_says(tmp_path: Path):
    """Cursor and recalls are those of the branch as it is now, not as it was when the session began."""
    models = {SELECTOR: [Reply(choose=["deploy.md"])]}
    async with staged(tmp_path, models=models) as stage:
        assert (await stage.say("please remember the number 1")).message is not None
        await stage.reload(OFF)
        await stage.say("please remember the number 2")
        await stage.reload(ON)
        assert (await stage.say("please remember the number 3")).message is None, "it was recalled before"
        first, second = stage.texts()
        assert "number 1" in first
        assert ["number 1" in second, "number 2" in second, "number 3" in second] == [False, True, True]


@pytest.mark.req("CFG-6", "EXT-2")
async def test_switched_on_again_behind_a_move_it_reads_the_branch_that_is_active(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.say("please remember the number 1")
        await stage.say("please remember the number 2")
        await stage.reload(OFF)
        await stage.session.step(TreeMove(back_to=1))
        await stage.reload(ON)
        await stage.say("please remember the number 3")
        last = stage.texts()[-1]
        here = ["number 1" in last, "number 2" in last, "number 3" in last]
        assert here == [True, False, True], "the first turn's cursor came after its end"


@pytest.mark.req("CFG-6")
async def test_on_and_off_many_times_leaves_one_memory(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        for _ in range(10):
            await stage.reload(OFF)
            await stage.reload(ON)
        await stage.say()
        assert len(stage.requests()) == 1


# The directory is the session's.


@pytest.mark.req("CFG-6", "CFG-5")
@pytest.mark.parametrize("start", [ON, OFF], ids=["on from the start", "switched on later"])
async def test_the_memory_directory_is_fixed_for_the_session(tmp_path: Path, start: Mapping[str, Any]):
    other = tmp_path / "elsewhere"
    async with staged(tmp_path, config=start) as stage:
        await stage.life.ready(60)
        answer = await stage.reload({"autoMemoryDirectory": str(other)})
        assert answer.text == f"{RELOADED}\n{NEXT_SESSION}"
        assert f"Memory directory: {stage.places.memory} (" in await stage.status()
        assert not other.exists()
        again = await stage.reload()
        assert NEXT_SESSION in again.text, "it is still not what the file says"
        back = await stage.reload({"autoMemoryDirectory": str(stage.places.memory)})
        assert back.text == RELOADED
    assert stage.files() == ["MEMORY.md", "deploy.md"]


# A configuration that cannot be used.


@pytest.mark.req("CFG-2", "CFG-6")
@pytest.mark.parametrize("broken", ["{", '{"enabled": tru}', "\ufeff{}", "[1,]"])
async def test_a_configuration_that_breaks_between_two_reloads_changes_nothing(tmp_path: Path, broken: str):
    async with staged(tmp_path, Reply(text="x", delay=5)) as stage:
        await stage.say()
        path = stage.configure(broken)
        answer = await stage.command("reload-config")
        assert answer.level == "error"
        assert str(path) in answer.text
        assert "not valid JSON" in answer.text
        assert answer.text.endswith("Until then the last valid configuration stays in force.")
        assert stage.cancelled == [], "what runs goes on"
        await anyio.sleep(5)
        assert stage.cursors == 1
        status = await stage.status()
        assert "Generation: 0" in status
        assert "Last warning, 5 s ago: " in status
        repaired = await stage.reload(ON)
        assert repaired.text == RELOADED


@pytest.mark.req("CFG-2", "CFG-6")
async def test_a_configuration_that_cannot_be_read_changes_nothing(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        path = stage.configure(ON)
        path.unlink()
        path.mkdir()
        answer = await stage.command("reload-config")
        assert (answer.level, "it is not a regular file" in answer.text) == ("error", True)
        assert "Auto-memory: on" in await stage.status()
        path.rmdir()
        gone = await stage.command("reload-config")
        assert gone.level == "info", "without a file the defaults hold"
        assert f"the defaults (there is no {path})" in await stage.status()


@pytest.mark.req("CFG-2", "CFG-6")
async def test_a_broken_file_leaves_a_memory_that_is_off_as_it_is(tmp_path: Path):
    async with staged(tmp_path, config=OFF) as stage:
        await stage.life.ready(60)
        answer = await stage.reload("{")
        assert answer.text.endswith("Until then the last valid configuration stays in force.")
        assert "Auto-memory: disabled" in await stage.status()


@pytest.mark.req("CFG-2", "CFG-8")
async def test_a_configuration_broken_at_the_start_is_told_once_and_mended_by_a_reload(tmp_path: Path):
    async with staged(tmp_path, config='{"enabled": true,\n  oops}') as stage:
        await stage.say()
        await stage.say()
        ((level, text),) = stage.host.notices
        assert level == "error"
        assert text.startswith("Project memory is off for this session: /")
        assert "config.json:2:3: " in text
        status = await stage.status()
        assert status.startswith("Auto-memory: failed\nMemory directory: not initialized\nReason: /")
        assert "config.json:2:3: " in status
        still = await stage.reload('{"enabled": true,')
        assert (still.level, still.text.endswith("Until then memory stays off.")) == ("error", True)
        assert (await stage.reload(ON)).text == RELOADED
        assert (await stage.say("please remember the number 1")).section is not None
        assert len(stage.requests()) == 1


@pytest.mark.req("CFG-6", "PATH-5")
async def test_a_directory_that_cannot_be_used_is_told_and_mended_by_a_reload(tmp_path: Path):
    wrong = tmp_path / "notes"
    wrong.write_text("precious")
    async with staged(tmp_path, config={"autoMemoryDirectory": str(wrong)}) as stage:
        assert (await stage.prompt()).section is None
        still = await stage.reload()
        assert still.level == "warning"
        assert str(wrong) in still.text
        wrong.unlink()
        assert (await stage.reload()).text == RELOADED
        assert wrong.is_dir()


@pytest.mark.req("CFG-3", "CFG-6")
async def test_values_that_are_not_used_are_named(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        answer = await stage.reload({"extraction": {"everyNTurns": "3"}, "models": 5})
        unused = [
            "Not used: models must be an object; the default holds",
            "Not used: extraction.everyNTurns must be an integer of at least 1; the default holds",
        ]
        assert answer.text.splitlines()[1:] == unused
        assert "\n".join(unused) in await stage.status()


# Reloads at odd moments.


class SlowGit:
    """A git that takes its time, as on a disk that sleeps; it counts who asks."""

    def __init__(self, seconds: float = 8) -> None:
        self.seconds = seconds
        self.asked = 0

    async def locate(self, directory: str) -> NoWorktree:
        self.asked += 1
        await anyio.sleep(self.seconds)
        return NoWorktree("no git here")


@pytest.mark.req("CFG-6")
async def test_a_reload_during_the_start_is_put_off(tmp_path: Path):
    git = SlowGit(30)
    async with staged(tmp_path, git=git) as stage:
        answer = await stage.reload()
        assert answer.text == "Memory is still starting and nothing was reloaded; try again."
        assert answer.level == "warning"
        assert "Auto-memory: starting" in await stage.status()
        await stage.ready()
        assert (await stage.reload()).text == RELOADED
        assert git.asked == 1
        await stage.say()
        assert len(stage.requests()) == 1


@pytest.mark.req("LIFE-5", "CFG-6")
async def test_a_session_that_ends_while_memory_is_switched_on_gets_none(tmp_path: Path):
    async with staged(tmp_path, config=OFF, git=SlowGit(3)) as stage:
        await stage.life.ready(60)
        answer = Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(answer.of, stage.reload(ON))
            await anyio.sleep(1)
            assert await stage.shut_down() == 0
        assert stage.life.memory is None
        assert (await stage.prompt()).section is None


# Trust.


@pytest.mark.req("CFG-6", "SUB-5", "PATH-6", "EXT-2")
async def test_a_project_that_loses_its_trust_loses_its_memory_at_once(tmp_path: Path, temp: Path):
    async with staged(tmp_path, keeping("late.md", delay=10)) as stage:
        await stage.say()
        stage.trusted = False
        started = anyio.current_time()
        assert (await stage.prompt()).section is None
        assert anyio.current_time() == started
        await nothing_runs(stage, temp)
        assert stage.cancelled == [EXTRACTOR]
        status = await stage.status()
        assert status.startswith("Auto-memory: untrusted\nMemory directory: not initialized\n")
        refused = await stage.reload(ON)
        assert "the project is not trusted" in refused.text
        assert stage.life.memory is None


@pytest.mark.req("CFG-6", "SUB-5")
async def test_a_loss_of_trust_waits_for_nothing_that_is_under_way(tmp_path: Path):
    """Not even for a reload that takes its time."""
    async with staged(tmp_path, HANGS) as stage:
        await stage.say()
        async with stage.life._changing:
            stage.trusted = False
            stage.settle()
            await anyio.sleep(1)
            assert stage.cancelled == [EXTRACTOR]
            answer = await stage.prompt()
            assert (answer.section, answer.pending) == (None, False)


@pytest.mark.req("CFG-6", "SUB-5", "EXT-2")
async def test_a_project_that_is_trusted_again_goes_on_where_it_was(tmp_path: Path):
    async with staged(tmp_path, HANGS, NOTHING) as stage:
        await stage.say("please remember the number 1")
        stage.trusted = False
        stage.settle(aborted=True)
        await anyio.sleep(1)
        stage.trusted = True
        await stage.status()
        await anyio.sleep(1)
        await stage.say("please remember the number 2")
        assert ["number 1" in stage.texts()[-1], "number 2" in stage.texts()[-1]] == [True, True]


@pytest.mark.req("PATH-6", "SUB-5")
async def test_a_project_that_becomes_trusted_gets_its_memory(tmp_path: Path):
    async with staged(tmp_path, trusted=False) as stage:
        assert (await stage.prompt()).section is None
        stage.trusted = True
        stage.settle()
        await stage.life.ready(1)
        await anyio.sleep(1)
        assert (await stage.prompt()).section is not None
        assert stage.trace.named("shut_down") == []


@pytest.mark.req("PATH-6")
async def test_trust_does_not_switch_on_what_is_switched_off(tmp_path: Path):
    async with staged(tmp_path, trusted=False, config=OFF) as stage:
        await stage.life.ready(60)
        stage.trusted = True
        assert "Auto-memory: disabled" in await stage.status()
        await anyio.sleep(1)
        assert stage.life.memory is None
