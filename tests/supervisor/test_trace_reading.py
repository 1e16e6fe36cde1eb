"""Finding a log and reading one turn of it, whatever state it is in (OBS-2, OBS-3)."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.supervisor.log import SessionLog
from pi_project_memory.supervisor.traces import records as records_module
from pi_project_memory.supervisor.traces.events import Event, event_of
from pi_project_memory.supervisor.traces.following import FIRST_SHOWN, Follower
from pi_project_memory.supervisor.traces.logs import LogFile, TraceError, choose, list_logs
from pi_project_memory.supervisor.traces.records import (
    LONGEST_LINE,
    MOST_EVENTS,
    TurnRecords,
    parse,
    read_turn,
)
from pi_project_memory.supervisor.traces.tail import Tail
from trace_kit import BEGAN, a_turn, event, lines, record, write_log


def log_in(directory: Path) -> LogFile:
    return choose(directory, None)


def touch(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


@pytest.mark.req("OBS-2")
def test_the_log_written_last_comes_first_whatever_its_name(tmp_path: Path):
    old = write_log(tmp_path, a_turn(), "s-old", "20260103T000000")
    new = write_log(tmp_path, a_turn(), "s-new", "20260101T000000")
    touch(old, 100)
    touch(new, 200)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "20260101T000000-no-process.jsonl").touch()
    assert [log.path for log in list_logs(tmp_path)] == [new, old]
    assert [log.session for log in list_logs(tmp_path)] == ["s-new", "s-old"]


@pytest.mark.req("OBS-2", "OBS-3")
def test_a_part_that_was_set_aside_is_no_log_of_its_own(tmp_path: Path):
    path = write_log(tmp_path, a_turn())
    path.replace(path.with_suffix(".1.jsonl"))
    assert [log.path for log in list_logs(tmp_path)] == [path]
    write_log(tmp_path, a_turn("t2"))
    assert [log.path for log in list_logs(tmp_path)] == [path]
    assert read_turn(log_in(tmp_path), 1).events
    assert read_turn(log_in(tmp_path), 2).events


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize(
    "wanted", ["0199-abc", "0199-a", "20260901T100000-0199-abc", "/x/20260901T100000-0199-abc"]
)
def test_a_session_is_found_by_its_id_its_beginning_or_its_file(wanted: str, tmp_path: Path):
    path = write_log(tmp_path, a_turn(), "0199-abc")
    write_log(tmp_path, a_turn(), "0200-def", "20260902T100000")
    assert choose(tmp_path, wanted).path == path


@pytest.mark.req("OBS-2")
def test_a_whole_id_counts_before_one_that_begins_with_it_and_odd_characters_are_no_matter(tmp_path: Path):
    path = write_log(tmp_path, a_turn(), "a_b")
    write_log(tmp_path, a_turn(), "a_bc", "20260902T100000")
    assert choose(tmp_path, "a/b").path == path


@pytest.mark.req("OBS-2")
def test_of_several_logs_of_a_session_the_last_is_shown(tmp_path: Path):
    first = write_log(tmp_path, a_turn(), process=1)
    second = write_log(tmp_path, a_turn(), process=2)
    touch(first, 100)
    touch(second, 200)
    assert choose(tmp_path, "s1").path == second
    assert choose(tmp_path, first.name).path == first


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("wanted", ["nobody", "s", "", "..", "s1/../x"])
def test_a_session_that_is_unknown_or_not_the_only_one_is_told_with_those_there_are(
    wanted: str, tmp_path: Path
):
    for number in range(14):
        path = write_log(tmp_path, a_turn(), f"s{number:02}", f"20260901T1000{number:02}")
        touch(path, number)
    with pytest.raises(TraceError, match=r"newest first: s13, s12, .*s04 and 4 older ones") as error:
        choose(tmp_path, wanted)
    assert repr(wanted) in str(error.value)


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("place", ["missing", "empty", "file"])
def test_without_logs_it_says_where_they_will_be(place: str, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(TraceError, match=r"no logs yet in .*first prompt"):
        choose(tmp_path / place, None)


def _locked(*_: object) -> object:
    raise PermissionError(13, "Permission denied")


@pytest.mark.req("OBS-2")
def test_a_directory_or_a_log_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = LogFile(write_log(tmp_path, a_turn()), "s1", 0)
    monkeypatch.setattr(Path, "iterdir", _locked)
    with pytest.raises(TraceError, match=f"{tmp_path} cannot be read: Permission denied"):
        list_logs(tmp_path)
    monkeypatch.setattr(records_module.os, "open", _locked)
    with pytest.raises(TraceError, match=rf"{log.path} cannot be read: Permission denied"):
        read_turn(log, None)


@pytest.mark.req("OBS-2")
def test_a_log_that_was_removed_meanwhile_is_told(tmp_path: Path):
    log = LogFile(tmp_path / "20260901T100000-s1-1.jsonl", "s1", 0)
    with pytest.raises(TraceError, match="is gone"):
        read_turn(log, None)


@pytest.mark.req("OBS-2")
def test_without_a_number_the_latest_turn_is_read_with_all_that_came_late(tmp_path: Path):
    write_log(
        tmp_path, [*a_turn("t9"), *a_turn("t10", 5000), record(99_000, "published", "t10", path="x.md")]
    )
    records = read_turn(log_in(tmp_path), None)
    assert records.number == 10
    assert {one.turn for one in records.events} == {10}
    assert records.events[-1].name == "published"
    assert records.counts == {9: 15, 10: 16}


@pytest.mark.req("OBS-2")
def test_turns_that_overlap_are_told_apart(tmp_path: Path):
    mixed = [one for pair in zip(a_turn("t1"), a_turn("t2", 3), strict=True) for one in pair]
    write_log(tmp_path, mixed)
    for turn in (1, 2):
        assert [one.name for one in read_turn(log_in(tmp_path), turn).events] == [
            one["event"] for one in a_turn()
        ]


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize(
    ("turns", "wanted", "told"),
    [
        (3, 7, "no turn 7 in .* There are: 1, 2, 3; 0"),
        (30, 31, "no turn 31 in .* There are: …, 11, 12, .* 30; 0"),
        (0, None, "holds no turn yet"),
        (0, 1, "holds no turn yet"),
    ],
)
def test_a_turn_that_is_unknown_is_told_with_those_there_are(
    turns: int, wanted: int | None, told: str, tmp_path: Path
):
    all_turns = [one for turn in range(1, turns + 1) for one in a_turn(f"t{turn}")]
    write_log(tmp_path, [record(0, "session_begun", None), *all_turns])
    with pytest.raises(TraceError, match=told):
        read_turn(log_in(tmp_path), wanted)


@pytest.mark.req("OBS-2")
def test_what_belongs_to_no_turn_is_shown_by_itself_or_between_the_events_of_a_turn(tmp_path: Path):
    first, *rest = a_turn()
    outside = [record(ms, name, None) for ms, name in ((0, "before"), (2, "between"), (99_999, "after"))]
    write_log(tmp_path, [outside[0], first, outside[1], *rest, outside[2]])
    assert [one.name for one in read_turn(log_in(tmp_path), 0).events] == ["before", "between", "after"]
    turn = [one.name for one in read_turn(log_in(tmp_path), 1).events]
    assert turn == [first["event"], "between", *(one["event"] for one in rest)]


BROKEN = [
    b"",
    b"\n",
    b"{}\n",
    b"[1, 2]\n",
    b"null\n",
    b"\x00\xff\xfe\x80binary\n",
    b'{"time":"2026-09-01T10:00:00.000Z"}\n',
    b'{"event":"x"}\n',
    b'{"time":"yesterday","event":"x"}\n',
    b'{"time":"0001-01-01T00:00:00.000Z","event":"x"}\n',
    b'{"time":12,"event":"x"}\n',
    b'{"time":"2026-13-01T10:00:00.000Z","turn":"t1","event":"x"}\n',
    b'{"time":"2026-09-01T10:00:00.000Z","event":7}\n',
    b'{"time":"2026-09-01T10:00:00.000Z","event":"\\ud8',
    b"[" * 100_000 + b"\\ud800\n",
    b'{"a":' * 5000 + b"\n",
    b"x" * (LONGEST_LINE + 5) + b"\n",
]


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("broken", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_line_is_passed_over_and_counted(broken: bytes, tmp_path: Path):
    path = write_log(tmp_path, a_turn())
    whole = path.read_bytes()
    path.write_bytes(broken + (b"" if broken.endswith(b"\n") or not broken else b"\n") + whole)
    records = read_turn(log_in(tmp_path), None)
    assert len(records.events) == len(a_turn())
    assert records.unreadable == (1 if broken else 0)


@pytest.mark.req("OBS-2")
def test_a_line_that_is_still_being_written_is_the_only_one_missing(tmp_path: Path):
    path = write_log(tmp_path, a_turn())
    path.write_bytes(path.read_bytes()[:-20])
    records = read_turn(log_in(tmp_path), None)
    assert (len(records.events), records.unreadable) == (len(a_turn()) - 1, 1)


@pytest.mark.req("OBS-2", "OBS-1")
def test_a_name_that_is_not_utf8_is_read_back_without_what_cannot_be_shown(tmp_path: Path):
    log = SessionLog()
    path = log.locate(tmp_path, "s1")
    log.event("published", turn="t1", path="caf\udce9 \ud83d.md")
    log.close()
    (one,) = read_turn(LogFile(path, "s1", 0), None).events
    assert one.text("path") == "caf .md"


@pytest.mark.req("OBS-2")
def test_control_characters_never_reach_the_one_who_reads():
    one = event_of(
        record(0, "pub\x1b[31mlished", actor="in\u202edex", path="a\x1b]0;x\x07\nb.md", more={"a": "\x9b"})
    )
    assert one is not None
    assert (one.name, one.actor, one.text("path"), one.text("more")) == (
        "pub[31mlished",
        "index",
        "a]0;x b.md",
        '{"a": ""}',
    )


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize(
    ("turn", "number"),
    [
        ("t1", 1),
        ("t007", 7),
        ("t", 0),
        ("1", 0),
        ("tx", 0),
        ("t-1", 0),
        ("t" + "9" * 5000, 0),
        (3, 0),
        ("t٣", 0),
    ],
)
def test_a_turn_is_a_t_and_a_number(turn: object, number: int):
    one = event_of(record(0, "x", None, turn=turn))
    assert one is not None
    assert one.turn == number


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("ms", ["5", None, True, -5, 1e300, 10**400, [5]], ids=lambda ms: str(ms)[:8])
def test_a_length_of_time_that_is_none_counts_as_none(ms: Any):
    one = event(0, "x", ms=ms)
    assert one.ms in {0.0, 1.0}
    assert one.at == BEGAN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.req("OBS-2")
@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_line_is_an_event_or_none(line: bytes):
    assert isinstance(parse(line), Event | None)


@pytest.mark.req("OBS-2")
def test_a_turn_without_end_is_cut_and_says_so():
    records = TurnRecords(None)
    for _ in range(MOST_EVENTS + 7):
        records.add(record(0, "received"))
    assert (len(records.events), records.left_out) == (MOST_EVENTS, 7)
    records.add(record(0, "received", "t2"))
    assert (len(records.events), records.left_out) == (1, 0)


@pytest.mark.req("OBS-2")
def test_the_size_of_a_log_is_not_what_reading_it_takes(tmp_path: Path):
    path = write_log(tmp_path, a_turn("t1"))
    filler = lines([record(1, "received", None, message="x" * 300)] * 1000)
    with path.open("ab") as file:
        for _ in range(40):
            file.write(filler)
        file.write(b"y" * 20_000_000 + b"\n")
        file.write(lines(a_turn("t2")))
    assert path.stat().st_size > 35_000_000
    tracemalloc.start()
    try:
        records = read_turn(log_in(tmp_path), 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(records.events), records.unreadable) == (len(a_turn()), 1)
    assert peak < 5 * LONGEST_LINE


@pytest.mark.req("OBS-2", "OBS-3")
def test_a_rotation_between_the_two_parts_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write_log(tmp_path, [record(0, "first", "t1"), record(1, "second", "t1")])
    plain_open: Callable[[Path], BinaryIO | None] = records_module._open
    calls: list[Path] = []

    def rotating_open(wanted: Path) -> BinaryIO | None:
        file = plain_open(wanted)
        calls.append(wanted)
        if len(calls) == 1:
            path.replace(path.with_suffix(".1.jsonl"))
            write_log(tmp_path, [record(2, "third", "t1")])
        return file

    log = log_in(tmp_path)
    monkeypatch.setattr(records_module, "_open", rotating_open)
    assert [one.name for one in read_turn(log, 1).events] == ["first", "second", "third"]
    assert len(calls) == 4


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def rotate(path: Path) -> None:
    path.replace(path.with_suffix(".1.jsonl"))
    path.touch()


@pytest.mark.req("OBS-2")
def test_a_tail_gives_whole_lines_as_they_come(tmp_path: Path):
    path = tmp_path / "log"
    tail = Tail(path)
    assert list(tail.lines()) == []
    append(path, b"one\ntw")
    assert list(tail.lines()) == [b"one"]
    assert list(tail.lines()) == []
    append(path, b"o\nthree\n")
    assert list(tail.lines()) == [b"two", b"three"]
    tail.close()


@pytest.mark.req("OBS-2", "OBS-3")
def test_a_tail_survives_rotations(tmp_path: Path):
    path = tmp_path / "log.jsonl"
    append(path, b"one\n")
    tail = Tail(path)
    assert list(tail.lines()) == [b"one"]
    append(path, b"two\n")
    rotate(path)
    append(path, b"three\n")
    assert list(tail.lines()) == [b"two", b"three"]
    path.replace(path.with_suffix(".1.jsonl"))
    assert list(tail.lines()) == []
    append(path, b"four\n")
    assert list(tail.lines()) == [b"four"]
    tail.close()


@pytest.mark.req("OBS-2")
def test_a_tail_starts_over_when_the_file_was_emptied(tmp_path: Path):
    path = tmp_path / "log"
    append(path, b"one\ntwo\n")
    tail = Tail(path)
    assert list(tail.lines()) == [b"one", b"two"]
    path.write_bytes(b"new\n")
    assert list(tail.lines()) == [b"new"]
    tail.close()


@pytest.mark.req("OBS-2")
def test_a_tail_leaves_a_line_without_end_out_and_keeps_none_of_it(tmp_path: Path):
    path = tmp_path / "log"
    tail = Tail(path)
    for _ in range(3):
        append(path, b"x" * LONGEST_LINE)
        assert list(tail.lines()) == []
        assert len(tail._rest) <= LONGEST_LINE
    append(path, b"\nnext\n")
    assert list(tail.lines()) == [b"next"]
    tail.close()


class Pauses:
    """Does one thing in each pause, and ends the following in the pause after the last."""

    class End(Exception):  # noqa: N818 - it is no error
        pass

    def __init__(self, *deeds: Callable[[], object]) -> None:
        self.deeds = list(deeds)

    def __call__(self) -> None:
        if not self.deeds:
            raise self.End
        self.deeds.pop(0)()


def followed(directory: Path, pauses: Pauses, *, newest: bool = True, turn: int | None = None) -> list[str]:
    """Return what a follower says until the pauses end it: names of events and of sessions."""
    told: list[str] = []
    follower = Follower(directory, newest, turn, pauses)
    names = (_name(one) for one in follower.follow(log_in(directory)))
    with pytest.raises(Pauses.End):
        told.extend(names)
    return told


def _name(one: LogFile | Event) -> str:
    return f"session {one.session}" if isinstance(one, LogFile) else one.name


@pytest.mark.req("OBS-2")
def test_following_shows_the_last_events_and_then_each_as_it_comes(tmp_path: Path):
    path = write_log(tmp_path, [record(0, f"old {n}") for n in range(30)])
    pauses = Pauses(lambda: append(path, lines([record(1, "new")])), lambda: None)
    assert followed(tmp_path, pauses) == [
        "session s1",
        *(f"old {n}" for n in range(30 - FIRST_SHOWN, 30)),
        "new",
    ]


@pytest.mark.req("OBS-2")
def test_following_goes_over_to_a_session_that_begins(tmp_path: Path):
    path = write_log(tmp_path, [record(0, "old")])
    pauses = Pauses(
        lambda: write_log(tmp_path, [record(0, "begun")], "s2", "20260902T000000"),
        lambda: append(path, lines([record(1, "unheard")])),
    )
    assert followed(tmp_path, pauses) == ["session s1", "old", "session s2", "begun"]


@pytest.mark.req("OBS-2")
def test_following_a_session_stays_with_it_and_with_its_turn(tmp_path: Path):
    path = write_log(tmp_path, [record(0, "one", "t1"), record(0, "two", "t2")])
    pauses = Pauses(
        lambda: write_log(tmp_path, [record(0, "other", "t2")], "s2", "20260902T000000"),
        lambda: append(path, lines([record(1, "three", "t2"), record(1, "four", "t3")])),
    )
    assert followed(tmp_path, pauses, newest=False, turn=2) == ["session s1", "two", "three"]
