"""Long work in the host's status line: which role, turn n of m, for how long (CMD-3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pi_project_memory.actors.ports.host import HostError, NoticeLevel
from pi_project_memory.supervisor.host.scenario import Reply
from pi_project_memory.supervisor.status_line import StatusLine, Work, line
from pi_project_memory.supervisor.wording import elapsed
from service_kit import DREAM, HANGS, NOTHING, add_sessions, keeping, staged


class Screen:
    """Keeps every line with the time at which it was shown; `broken` refuses them."""

    def __init__(self) -> None:
        self.shown: list[tuple[float, str | None]] = []
        self.broken = False

    async def show_status(self, text: str | None) -> None:
        if self.broken:
            raise HostError("no screen")
        self.shown.append((anyio.current_time(), text))

    async def notify(self, level: NoticeLevel, text: str) -> None:
        raise AssertionError("a status is no notice")

    @property
    def texts(self) -> list[str | None]:
        return [text for _, text in self.shown]


@asynccontextmanager
async def status_line() -> AsyncIterator[tuple[Screen, StatusLine]]:
    screen = Screen()
    async with anyio.create_task_group() as group:
        yield screen, StatusLine(screen, group)


@pytest.mark.req("CMD-3")
async def test_a_run_is_shown_at_once_each_second_and_until_it_ends():
    async with status_line() as (screen, status):
        status.begin("extractor", 5)
        status.turn("extractor", 1)
        await anyio.sleep(2.5)
        status.turn("extractor", 2)
        await anyio.sleep(1.2)
        status.end("extractor")
        await anyio.sleep(10)
    assert screen.shown == [
        (0, "memory: extracting (turn 1 of 5, 0 s)"),
        (1, "memory: extracting (turn 1 of 5, 1 s)"),
        (2, "memory: extracting (turn 1 of 5, 2 s)"),
        (2.5, "memory: extracting (turn 2 of 5, 2 s)"),
        (3.5, "memory: extracting (turn 2 of 5, 3 s)"),
        (3.7, None),
    ]


@pytest.mark.req("CMD-3")
async def test_two_runs_share_the_line():
    async with status_line() as (screen, status):
        status.begin("extractor", 5)
        await anyio.sleep(0.5)
        status.begin("dream", 50)
        await anyio.sleep(0.1)
        status.turn("dream", 7)
        await anyio.sleep(0.1)
        status.end("extractor")
        await anyio.sleep(0.1)
        status.end("dream")
    assert screen.texts == [
        "memory: extracting (turn 0 of 5, 0 s)",
        "memory: extracting (turn 0 of 5, 0 s), dreaming (turn 0 of 50, 0 s)",
        "memory: extracting (turn 0 of 5, 0 s), dreaming (turn 7 of 50, 0 s)",
        "memory: dreaming (turn 7 of 50, 0 s)",
        None,
    ]


@pytest.mark.req("CMD-3")
async def test_a_run_behind_another_takes_the_line_up_again():
    async with status_line() as (screen, status):
        for number in range(3):
            status.begin("extractor", 5)
            status.turn("extractor", number)
            await anyio.sleep(0.5)
            status.end("extractor")
            await anyio.sleep(0.5)
    assert [text is None for text in screen.texts] == [False, True] * 3


@pytest.mark.req("CMD-3", "LIFE-6")
async def test_a_thousand_turns_in_one_moment_are_one_line():
    async with status_line() as (screen, status):
        status.begin("extractor", 5_000)
        for number in range(1_000):
            status.turn("extractor", number)
        await anyio.sleep(0.9)
        status.end("extractor")
    assert screen.texts == ["memory: extracting (turn 999 of 5000, 0 s)", None]


@pytest.mark.req("CMD-3")
async def test_a_host_without_a_line_ends_no_run_and_gets_it_back():
    async with status_line() as (screen, status):
        screen.broken = True
        status.begin("dream", 50)
        await anyio.sleep(3.5)
        screen.broken = False
        await anyio.sleep(1)
        status.end("dream")
    assert screen.texts == ["memory: dreaming (turn 0 of 50, 4 s)", None]


@pytest.mark.req("CMD-3")
async def test_what_is_told_of_a_run_that_has_ended_is_not_shown():
    async with status_line() as (screen, status):
        status.turn("extractor", 3)
        status.end("extractor")
        await anyio.sleep(5)
    assert screen.texts == []


@pytest.mark.req("CMD-3")
def test_the_line_counts_minutes_and_hours():
    works = {"dream": Work(50, since=10.0, number=3)}
    assert line(works, 10.0 + 59.9) == "memory: dreaming (turn 3 of 50, 59 s)"
    assert line(works, 10.0 + 61) == "memory: dreaming (turn 3 of 50, 1 min 1 s)"
    assert elapsed(7_260) == "2 h 1 min"


# In a session.


@pytest.mark.req("CMD-3")
async def test_an_extraction_shows_its_turns(tmp_path: Path):
    async with staged(
        tmp_path, keeping("new.md", delay=1.5), Reply(text="Saved.", delay=2), status=True
    ) as stage:
        await stage.say(seconds=10)
        assert stage.host.statuses == [
            "memory: extracting (turn 1 of 5, 0 s)",
            "memory: extracting (turn 1 of 5, 1 s)",
            "memory: extracting (turn 2 of 5, 1 s)",
            "memory: extracting (turn 2 of 5, 2 s)",
            "memory: extracting (turn 2 of 5, 3 s)",
            None,
        ]


@pytest.mark.req("CMD-3", "DRM-1")
async def test_a_dream_shows_its_turns(tmp_path: Path):
    config = {"dream": {"enabled": True, "maxTurns": 7}, "extraction": {"enabled": False}}
    models = {DREAM: [Reply(text="Done.", delay=1.5)]}
    async with staged(tmp_path, config=config, models=models, prepare=add_sessions, status=True) as stage:
        await stage.say(seconds=10)
        assert stage.host.statuses == [
            "memory: dreaming (turn 1 of 7, 0 s)",
            "memory: dreaming (turn 1 of 7, 1 s)",
            None,
        ]


@pytest.mark.req("CMD-3", "EXT-3")
async def test_a_turn_that_is_passed_over_does_not_flicker(tmp_path: Path):
    async with staged(tmp_path, status=True) as stage:
        await stage.say("ok then", seconds=10)
        assert (stage.host.statuses, stage.cursors) == ([], 1)


@pytest.mark.req("CMD-3", "HOST-9")
async def test_a_host_without_a_status_line_is_told_none(tmp_path: Path):
    async with staged(tmp_path, Reply(text="x", delay=5), status=False) as stage:
        await stage.say(seconds=10)
        assert (len(stage.requests()), stage.host.statuses) == (1, [])


@pytest.mark.req("CMD-3", "LIFE-4")
async def test_the_line_of_a_run_that_crashes_goes_away(tmp_path: Path):
    async with staged(tmp_path, HANGS, NOTHING, status=True) as stage:
        await stage.say()
        assert stage.host.statuses[-1] is not None
        stage.memory.extractor.tell("no message at all")  # type: ignore[arg-type]
        await anyio.sleep(1)
        assert [event["actor"] for event in stage.trace.named("actor_failed")] == ["extractor"]
        assert stage.host.statuses[-1] is None
