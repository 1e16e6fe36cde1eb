"""`/memory`: what each subcommand answers, when, and what works while memory is off (CMD-1, CMD-2, CMD-4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from actors_kit import Outcome
from pi_project_memory.actors.index import IndexActor
from pi_project_memory.actors.prefetch import PrefetchActor
from pi_project_memory.supervisor.commands import SUBCOMMANDS, Commands
from pi_project_memory.supervisor.host.protocol import Complete
from pi_project_memory.supervisor.host.scenario import ProviderError, Reply
from service_kit import DREAM, HANGS, NOTHING, SELECTOR, add_sessions, keeping, staged

NAMES = ("status", "list", "extract", "dream", "reload-config")
DREAMING: Mapping[str, Any] = {"dream": {"enabled": True}, "extraction": {"enabled": False}}
BY_HAND: Mapping[str, Any] = {"extraction": {"enabled": False}}
ACCEPTED = "has been accepted; its outcome will be reported here."


# What can be typed.


@pytest.mark.req("CMD-1")
@pytest.mark.parametrize(
    ("prefix", "values"),
    [
        ("", NAMES),
        (" ", NAMES),
        ("s", ("status",)),
        ("  ex", ("extract",)),
        ("status", ()),
        ("status ", ()),
        ("x", ()),
        ("S", ()),
        ("\x00", ()),
        ("s" * 1_000_000, ()),
    ],
)
async def test_the_argument_is_completed_as_long_as_something_is_left_to_type(
    tmp_path: Path, prefix: str, values: tuple[str, ...]
):
    """A menu for a word that is complete would take the Enter that is meant to send it."""
    async with staged(tmp_path) as stage:
        items = stage.service.complete(Complete(prefix)).items
    assert tuple(item.value for item in items) == values
    assert all(item.label == item.value and item.description for item in items)


@pytest.mark.req("CMD-1")
@pytest.mark.parametrize(
    ("given", "head", "level"),
    [
        ("", "What /memory can do:", "info"),
        ("  ", "What /memory can do:", "info"),
        ("foo", "/memory knows no 'foo'. What /memory can do:", "warning"),
        ("--help", "/memory knows no '--help'. What /memory can do:", "warning"),
        ("STATUS", "/memory knows no 'STATUS'. What /memory can do:", "warning"),
        ("foo --bar baz", "/memory knows no 'foo'. What /memory can do:", "warning"),
    ],
)
async def test_an_unknown_subcommand_lists_the_known_ones(tmp_path: Path, given: str, head: str, level: str):
    async with staged(tmp_path) as stage:
        await stage.ready()
        answer = await stage.command(given)
    first, *rest = answer.text.splitlines()
    assert (first, answer.level) == (head, level)
    assert [line.split()[0] for line in rest] == list(NAMES)
    assert all(subcommand.description in answer.text for subcommand in SUBCOMMANDS)


@pytest.mark.req("CMD-1")
@pytest.mark.parametrize("name", NAMES)
async def test_a_flag_behind_a_subcommand_is_refused_and_nothing_is_done(tmp_path: Path, name: str):
    async with staged(tmp_path) as stage:
        await stage.say(seconds=5)
        requests, generation = len(stage.host.models.exchanges), stage.memory.generations.current
        answer = await stage.command(f"{name} --force  now")
        expected = f"/memory {name} takes nothing more, and nothing was done; it was given '--force now'."
        assert (answer.text, answer.level) == (expected, "warning")
        assert (len(stage.host.models.exchanges), stage.memory.generations.current) == (requests, generation)


@pytest.mark.req("CMD-1")
@pytest.mark.parametrize(
    "given", ["x" * 5_000_000, "status " + "y" * 5_000_000, "\x1b[2J\x07\u202e", "a\x00b"]
)
async def test_whatever_is_typed_the_answer_is_short_and_clean(tmp_path: Path, given: str):
    async with staged(tmp_path) as stage:
        await stage.ready()
        answer = await stage.command(given)
    assert len(answer.text) < 1_000
    assert not any(character in answer.text for character in "\x1b\x07\u202e\x00")
    assert answer.level == "warning"


@pytest.mark.req("CMD-1")
async def test_spaces_around_a_subcommand_do_no_harm(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        assert (await stage.command("  status\t\n")).text.startswith("Auto-memory: on\n")


# Off.


@pytest.mark.req("CMD-2", "CMD-1")
@pytest.mark.parametrize(
    ("off", "state", "reason"),
    [
        ({"config": {"enabled": False}}, "disabled", "`enabled` is false in "),
        ({"trusted": False}, "untrusted", "the project is not trusted"),
        ({"config": "{"}, "failed", "config.json:1:2: it is not valid JSON"),
    ],
)
async def test_while_off_status_and_reload_alone_work_and_the_others_say_why(
    tmp_path: Path, off: Mapping[str, Any], state: str, reason: str
):
    async with staged(tmp_path, **off) as stage:
        await stage.life.ready(60)
        status = (await stage.status()).splitlines()
        assert status[:2] == [f"Auto-memory: {state}", "Memory directory: not initialized"]
        assert reason in status[2]
        for name in ("list", "extract", "dream"):
            answer = await stage.command(name)
            assert answer.text.startswith(f"/memory {name} is not available: ")
            assert reason in answer.text
            assert answer.level == "warning"
        assert stage.host.models.exchanges == []
        answer = await stage.reload()
        assert reason in answer.text
        assert stage.life.memory is None


# Status and list.


@pytest.mark.req("CMD-1", "EXT-8")
async def test_the_status_tells_what_runs_and_what_it_has_cost(tmp_path: Path):
    config = {"dream": {"enabled": True}}
    models = {DREAM: [HANGS]}
    async with staged(
        tmp_path, Reply(text="x", delay=30), config=config, models=models, prepare=add_sessions
    ) as stage:
        await stage.say(seconds=5)
        shown = (await stage.status()).splitlines()
        assert f"Memory directory: {stage.places.memory} (chosen by autoMemoryDirectory)" in shown
        assert f"Project: {stage.places.project}" in shown
        assert "Extraction: running, turn 1 of 5, for 5 s" in shown
        assert "Dream: running, turn 1 of 50, for 5 s" in shown
        assert any(
            line.startswith("Selector model: sim/selector, thinking off; 1 request,") for line in shown
        )
        assert "Generation: 0" in shown


@pytest.mark.req("CMD-1", "LIFE-4")
async def test_the_status_waits_for_everybody_at_once_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Two actors hang; the others are shown all the same, within the host's patience."""

    async def hang(*_: object) -> None:
        await anyio.sleep(1_000)

    async with staged(tmp_path) as stage:
        await stage.say(seconds=5)
        monkeypatch.setattr(IndexActor, "handle", hang)
        monkeypatch.setattr(PrefetchActor, "handle", hang)
        started = anyio.current_time()
        shown = await stage.status()
        assert anyio.current_time() - started == 5
        assert "Index: no answer" in shown
        assert "Recall: no answer" in shown
        assert "Last extraction: done, 1 turn" in shown
        assert "Extractor model: sim/extractor" in shown


@pytest.mark.req("CMD-1", "LIFE-4")
async def test_a_host_that_does_not_name_a_model_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def hang(*_: object) -> None:
        await anyio.sleep(1_000)

    async with staged(tmp_path) as stage:
        await stage.ready()
        monkeypatch.setattr(type(stage.host), "resolve_model", hang)
        started = anyio.current_time()
        assert "Dream model: not known, the host gives no answer" in await stage.status()
        assert anyio.current_time() - started == 5


@pytest.mark.req("CMD-1")
async def test_the_list_shows_the_topics_as_they_are_now(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        (stage.places.memory / "new.md").write_text(
            "---\ndescription: a new one\nmetadata:\n  type: user\n---\n"
        )
        rows = (await stage.command("list")).text.splitlines()
        assert rows[0] == f"2 topics, newest first, in {stage.places.memory}"
        assert [row.split() for row in rows[3:]] == [
            ["user", "new.md", "today", "no", "a", "new", "one"],
            ["project", "deploy.md", "today", "yes", "how", "it", "is", "deployed"],
        ]


@pytest.mark.req("CMD-1", "LIFE-4")
async def test_a_list_that_does_not_come_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def hang(*_: object) -> None:
        await anyio.sleep(1_000)

    async with staged(tmp_path) as stage:
        await stage.ready()
        monkeypatch.setattr(IndexActor, "handle", hang)
        answer = await stage.command("list")
        assert (answer.level, answer.text) == (
            "error",
            "The topics could not be listed: no answer within 5 s",
        )


# Extract and dream.


@pytest.mark.req("CMD-4", "EXT-1")
async def test_where_it_can_report_later_extract_returns_at_once(tmp_path: Path):
    async with staged(tmp_path, keeping("new.md", delay=10), NOTHING, config=BY_HAND) as stage:
        await stage.say()
        started = anyio.current_time()
        answer = await stage.command("extract", wait=False)
        assert anyio.current_time() == started
        assert (answer.text, answer.level) == (f"The extraction {ACCEPTED}", "info")
        await anyio.sleep(9)
        assert stage.host.notices == []
        await anyio.sleep(2)
        text = f"The extraction is done (2 turns). In {stage.places.memory}:\n  created new.md"
        assert stage.host.notices == [("info", text)]


@pytest.mark.req("CMD-4", "EXT-1")
async def test_where_nothing_can_be_shown_later_extract_waits(tmp_path: Path):
    async with staged(tmp_path, keeping("new.md", delay=10), NOTHING, config=BY_HAND) as stage:
        await stage.say()
        started = anyio.current_time()
        answer = await stage.command("extract", wait=True)
        assert anyio.current_time() - started == 10
        assert "created new.md" in answer.text
        assert stage.host.notices == []


@pytest.mark.req("CMD-4", "DRM-1")
@pytest.mark.parametrize("wait", [True, False])
async def test_dream_reports_in_the_same_two_ways(tmp_path: Path, wait: bool):  # noqa: FBT001 - a column
    models = {DREAM: [keeping("merged.md", delay=10), Reply(text="Done.")]}
    config = {"dream": {"enabled": True, "minimumHours": 1}, "extraction": {"enabled": False}}
    async with staged(tmp_path, config=config, models=models) as stage:
        await stage.ready()
        started = anyio.current_time()
        answer = await stage.command("dream", wait=wait)
        assert anyio.current_time() - started == (10 if wait else 0)
        await anyio.sleep(11)
        outcome = f"The dream is done (2 turns). In {stage.places.memory}:\n  created merged.md"
        assert answer.text == (outcome if wait else f"The dream {ACCEPTED}")
        assert stage.host.notices == ([] if wait else [("info", outcome)])


@pytest.mark.req("CMD-1", "DRM-1")
@pytest.mark.parametrize("wait", [True, False])
async def test_a_dream_that_is_switched_off_is_refused_in_the_documented_words(tmp_path: Path, wait: bool):  # noqa: FBT001 - a column
    async with staged(tmp_path, config={"dream": {"enabled": False}}) as stage:
        await stage.ready()
        answer = await stage.command("dream", wait=wait)
        assert (answer.text, answer.level) == ("Memory dream is disabled by the global dream gate", "warning")
        assert stage.requests(DREAM) == []


@pytest.mark.req("CMD-4", "EXT-4")
async def test_extract_during_a_run_tells_how_that_one_and_the_rest_ended(tmp_path: Path):
    async with staged(tmp_path, keeping("new.md", delay=10), NOTHING) as stage:
        await stage.say("please remember the number 1")
        stage.hear("please remember the number 2")
        await stage.command("extract", wait=False)
        await stage.command("extract", wait=False)
        await anyio.sleep(30)
        assert len(stage.texts()) == 3, "one run of two turns, and one for the rest"
        assert (
            stage.host.notices
            == [("info", "The extraction is done (1 turn): nothing was worth changing.")] * 2
        )


@pytest.mark.req("CMD-4", "EXT-3")
async def test_extract_with_nothing_new_says_so(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.say(seconds=5)
        assert (await stage.command("extract")).text == "No extraction: there was nothing new to read."
        await stage.say("ok", seconds=5)
        stage.hear("yes")
        answer = await stage.command("extract")
        assert answer.text == "No extraction: no message of yours since the last time has three words."


@pytest.mark.req("CMD-4", "EXT-4", "C11")
async def test_extract_while_another_session_extracts_says_so(tmp_path: Path):
    async with staged(tmp_path, HANGS) as holder:
        await holder.say()
        async with staged(tmp_path, config=BY_HAND) as stage:
            await stage.say()
            answer = await stage.command("extract")
            assert answer.level == "warning"
            assert answer.text == (
                "No extraction now: another session is extracting into this memory. It will be tried again."
            )


@pytest.mark.req("CMD-4")
async def test_work_that_takes_longer_than_its_command_may_is_told(tmp_path: Path):
    async with staged(tmp_path, Reply(text="x", delay=100), config=BY_HAND) as stage:
        await stage.say()
        started = anyio.current_time()
        answer = await stage.command("extract", wait=True)
        assert anyio.current_time() - started == 60
        text = "The extraction is still at work after 1 min 0 s, and its outcome will not be shown."
        assert (answer.text, answer.level) == (text, "warning")
        await anyio.sleep(60)
        assert stage.cursors == 1, "it went on all the same"


@pytest.mark.req("CMD-4", "CFG-6")
@pytest.mark.parametrize("enabled", [True, False])
async def test_work_that_a_reload_stops_is_told(tmp_path: Path, enabled: bool):  # noqa: FBT001 - a column
    async with staged(tmp_path, HANGS, config=BY_HAND) as stage:
        await stage.say()
        await stage.command("extract", wait=False)
        await anyio.sleep(1)
        await stage.reload({"enabled": enabled})
        await anyio.sleep(5)
        ((level, text),) = stage.host.notices
        assert (level, text.startswith("The extraction was stopped")) == ("warning", True)


@pytest.mark.req("CMD-4", "LIFE-5")
async def test_a_host_that_gives_a_waiting_command_up_does_not_stop_the_work(tmp_path: Path):
    async with staged(tmp_path, keeping("new.md", delay=10), NOTHING, config=BY_HAND) as stage:
        await stage.say()
        with anyio.move_on_after(5):
            await stage.command("extract", wait=True)
        await anyio.sleep(10)
        assert "new.md" in stage.files()


@pytest.mark.req("CMD-1", "SEL-7")
async def test_what_went_wrong_last_is_shown_with_its_age(tmp_path: Path):
    models = {SELECTOR: [Reply(text="no JSON at all")]}
    async with staged(tmp_path, models=models, config=BY_HAND) as stage:
        await stage.say("How do we deploy this service?")
        await anyio.sleep(100)
        ((_, warning),) = stage.host.notices
        assert f"Last warning, 1 min 41 s ago: {warning}" in await stage.status()


@pytest.mark.req("CMD-1", "SAN-2")
async def test_a_provider_cannot_steer_the_terminal(tmp_path: Path):
    error = ProviderError("401 \x1b]0;owned\x07\x1b[2J\u202eno", 401)
    async with staged(tmp_path, Reply(error=error)) as stage:
        await stage.say(seconds=5)
        shown = [text for _, text in stage.host.notices] + [await stage.status()]
        assert len(shown) == 2
        assert all("401" in text for text in shown)
        assert not any(character in text for text in shown for character in "\x1b\x07\u202e")


@pytest.mark.req("CMD-1")
async def test_commands_at_the_same_time_do_not_wait_for_one_another(tmp_path: Path):
    async with staged(tmp_path, Reply(text="x", delay=20), config=BY_HAND) as stage:
        await stage.say()
        started, slow, quick = anyio.current_time(), Outcome(), Outcome()
        async with anyio.create_task_group() as group:
            group.start_soon(slow.of, stage.command("extract"))
            await anyio.sleep(1)
            group.start_soon(quick.of, stage.command("status"))
        assert ((slow.at or 0) - started, (quick.at or 0) - started) == (20, 1)


@pytest.mark.req("CMD-1")
def test_every_subcommand_has_a_name_of_its_own():
    assert len({subcommand.name for subcommand in SUBCOMMANDS}) == len(SUBCOMMANDS)
    assert not any(
        one.name.startswith(other.name) for one in SUBCOMMANDS for other in SUBCOMMANDS if one is not other
    )
    assert Commands.completions("")
