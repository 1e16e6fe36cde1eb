"""The session's own log: where it lies, what it holds, and that it never harms the session (OBS-1, OBS-3)."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pi_project_memory.supervisor import log as log_module
from pi_project_memory.supervisor.log import FILES_KEPT, SessionLog, prune


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Give no permission away by accident: what is private is so by intent."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def opened(directory: Path, session: str = "s1") -> tuple[SessionLog, Path]:
    log = SessionLog()
    path = log.locate(directory, session)
    log.open()
    return log, path


@pytest.mark.req("OBS-1", "OBS-3")
def test_an_event_is_one_json_line_with_its_time_session_and_fields(tmp_path: Path):
    log, path = opened(tmp_path / "logs")
    log.event("received", actor="index", generation=3, late=False, ms=1.5, note=None)
    (record,) = records(path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record.pop("time"))
    assert record == {
        "session": "s1",
        "event": "received",
        "actor": "index",
        "generation": 3,
        "late": False,
        "ms": 1.5,
        "note": None,
    }
    log.close()


@pytest.mark.req("OBS-3", "PATH-5")
def test_file_and_directories_are_private_whatever_the_umask(tmp_path: Path):
    log, path = opened(tmp_path / "project-memory" / "logs")
    log.event("a")
    log.close()
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert mode(path.parent.parent) == 0o700


@pytest.mark.req("OBS-3")
@pytest.mark.parametrize(
    "session",
    ["s1", "", "../../evil", "a/b\\c", "a\x00b\nc", "x" * 500, "日" * 200, "\ud83d", "😀", "..", ".hidden"],
)
def test_any_session_id_makes_a_file_name_inside_the_directory(tmp_path: Path, session: str):
    log, path = opened(tmp_path, session)
    log.event("a", session_text=session)
    log.close()
    assert list(tmp_path.iterdir()) == [path]
    assert path.suffix == ".jsonl"
    assert path.name.isascii()
    assert [record["event"] for record in records(path)] == ["a"]


@pytest.mark.req("OBS-1")
def test_what_happened_before_the_opening_is_written_with_the_time_it_happened_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = SessionLog()
    monkeypatch.setattr(log_module.time, "time", lambda: 1_700_000_000.25)
    log.event("early", number=1)
    monkeypatch.undo()
    path = log.locate(tmp_path, "s1")
    log.event("located", number=2)
    assert not path.exists()
    log.open()
    log.event("late", number=3)
    log.close()
    assert [record["number"] for record in records(path)] == [1, 2, 3]
    assert records(path)[0]["time"] == "2023-11-14T22:13:20.250Z"


@pytest.mark.req("OBS-3")
def test_a_log_that_is_never_opened_keeps_a_bounded_number_of_events():
    log = SessionLog()
    for number in range(5000):
        log.event("early", number=number)
    assert len(log._waiting) == 1000


@pytest.mark.req("OBS-1")
def test_closing_writes_what_waits_and_ends_the_log(tmp_path: Path):
    log = SessionLog()
    path = log.locate(tmp_path, "s1")
    log.event("early")
    log.close()
    log.event("after the end")
    log.open()
    log.close()
    assert [record["event"] for record in records(path)] == ["early"]
    assert not log._waiting


@pytest.mark.req("OBS-3")
def test_a_log_without_a_place_closes_in_silence():
    log = SessionLog()
    log.event("early")
    log.open()
    log.close()
    log.close()


@pytest.mark.req("OBS-3", "PATH-6")
def test_without_events_nothing_is_written(tmp_path: Path):
    log = SessionLog()
    log.locate(tmp_path / "logs", "s1")
    log.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("OBS-3")
def test_opening_twice_writes_nothing_twice(tmp_path: Path):
    log, path = opened(tmp_path)
    log.event("once")
    log.open()
    log.close()
    assert len(records(path)) == 1


@pytest.mark.req("OBS-1", "OBS-3")
@pytest.mark.parametrize(
    "value",
    [
        "lone \ud83d",
        "\udcff.md",
        2**70,
        float("nan"),
        float("inf"),
        "\u2028\n\x00",
        Path("/a"),
        {1, 2},
        object(),
    ],
    ids=repr,
)
def test_a_value_of_any_kind_is_written_somehow_and_the_log_goes_on(tmp_path: Path, value: Any):
    log, path = opened(tmp_path)
    log.event("odd", value=value)
    log.event("next")
    log.close()
    odd, following = records(path)
    assert "value" in odd
    assert following["event"] == "next"


@pytest.mark.req("OBS-3")
def test_the_file_is_set_aside_before_it_grows_beyond_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_module, "MAX_BYTES", 2000)
    log, path = opened(tmp_path)
    for number in range(200):
        log.event("event", number=number)
        assert all(file.stat().st_size <= 2000 for file in tmp_path.iterdir())
    log.close()
    older = path.with_suffix(".1.jsonl")
    assert sorted(tmp_path.iterdir()) == sorted([path, older])
    assert mode(path) == mode(older) == 0o600
    kept = [record["number"] for file in (older, path) for record in records(file)]
    assert kept == list(range(kept[0], 200))


@pytest.mark.req("OBS-3")
def test_the_real_bounds_keep_a_directory_small():
    assert FILES_KEPT * log_module.MAX_BYTES <= 100 * 1024 * 1024


@pytest.mark.req("OBS-3")
def test_what_is_there_already_is_continued_not_replaced(tmp_path: Path):
    log, path = opened(tmp_path)
    log.event("first")
    log.close()
    again = SessionLog()
    again.path = path
    again.open()
    again.event("second")
    again.close()
    assert [record["event"] for record in records(path)] == ["first", "second"]


def _a_file_in_the_way(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.write_text("in the way")


def _a_dangling_link(path: Path) -> None:
    path.parent.parent.mkdir(parents=True)
    path.parent.symlink_to(path.parent.parent / "nowhere" / "deep")


def _a_directory_instead(path: Path) -> None:
    path.mkdir(parents=True)


def _a_planted_link(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to(path.parent.parent / "target")


@pytest.mark.req("OBS-3")
@pytest.mark.parametrize(
    "trouble", [_a_file_in_the_way, _a_dangling_link, _a_directory_instead, _a_planted_link]
)
def test_a_log_that_cannot_be_opened_is_given_up_in_silence(tmp_path: Path, trouble: Any):
    log = SessionLog()
    path = log.locate(tmp_path / "project-memory" / "logs", "s1")
    log.event("early")
    trouble(path)
    log.open()
    log.event("late")
    log.open()
    log.close()
    assert not log._waiting
    assert not (tmp_path / "project-memory" / "target").exists()


class _FullDisk:
    """A file on a disk that is full: whatever reaches the disk fails."""

    def tell(self) -> int:
        return 0

    def write(self, data: bytes) -> int:
        return len(data)

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    close = flush


@pytest.mark.req("OBS-3")
def test_a_disk_that_fills_ends_the_log_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log_module._RotatingFile, "_opened", lambda _self: _FullDisk())
    log, _ = opened(tmp_path)
    for _ in range(3):
        log.event("event")
    log.close()
    log.close()


@pytest.mark.req("OBS-3")
def test_a_disk_that_was_full_from_the_first_line_on_ends_the_log_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_module._RotatingFile, "_opened", lambda _self: _FullDisk())
    log = SessionLog()
    log.locate(tmp_path, "s1")
    for _ in range(3):
        log.event("early")
    log.open()
    log.event("late")
    log.close()


@pytest.mark.req("OBS-3")
def test_a_directory_that_vanishes_ends_the_log_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(log_module, "MAX_BYTES", 300)
    log, path = opened(tmp_path / "logs")
    log.event("first")
    path.unlink()
    path.parent.rmdir()
    for number in range(20):
        log.event("event", number=number)
    log.close()
    assert not path.parent.exists()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.req("OBS-3")
def test_the_oldest_files_beyond_the_bound_are_removed_and_only_ours(tmp_path: Path):
    logs = [f"202401{day:02d}T000000-s-1.jsonl" for day in range(1, 28)]
    for name in (*logs, "notes.txt", "hidden", "20200101T000000.log"):
        (tmp_path / name).write_text("{}\n")
    (tmp_path / "other").mkdir()
    prune(tmp_path / logs[-1])
    assert names(tmp_path) == sorted(
        [*logs[-FILES_KEPT:], "notes.txt", "hidden", "20200101T000000.log", "other"]
    )


@pytest.mark.req("OBS-3")
@pytest.mark.parametrize("count", [0, 1, FILES_KEPT])
def test_within_the_bound_nothing_is_removed(tmp_path: Path, count: int):
    for number in range(count):
        (tmp_path / f"{number:03d}.jsonl").touch()
    prune(tmp_path / "000.jsonl")
    assert len(names(tmp_path)) == count


@pytest.mark.req("OBS-3")
def test_opening_prunes_but_never_the_file_just_opened(tmp_path: Path):
    for number in range(40):
        (tmp_path / f"99{number:02d}0101T000000-s-1.jsonl").touch()
    log, path = opened(tmp_path)
    log.event("here")
    log.close()
    assert len(names(tmp_path)) == FILES_KEPT
    assert [record["event"] for record in records(path)] == ["here"]


@pytest.mark.req("OBS-3")
def test_what_cannot_be_removed_disturbs_nobody(tmp_path: Path):
    for number in range(30):
        (tmp_path / f"{number:04d}.jsonl").mkdir()
    log, path = opened(tmp_path)
    log.event("here")
    log.close()
    assert [record["event"] for record in records(path)] == ["here"]
