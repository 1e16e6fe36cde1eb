"""`pi-project-memory trace` as it is typed (OBS-2)."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pi_project_memory.supervisor.agent_dir import VARIABLE
from pi_project_memory.supervisor.cli import main
from trace_kit import a_turn, lines, record, write_log

COMMAND = [sys.executable, "-m", "pi_project_memory.supervisor.main", "trace"]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where this environment's logs lie."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "agent"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path / "agent" / "project-memory" / "logs"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["trace", *arguments]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return told.out


@pytest.mark.req("OBS-2")
def test_the_latest_turn_of_the_latest_session_is_shown_with_its_lanes_and_events(
    logs: Path, capsys: pytest.CaptureFixture[str]
):
    write_log(logs, [*a_turn("t1"), *a_turn("t2", 50_000)])
    text = shown(capsys)
    first, *rest = text.splitlines()
    assert first == "Turn 2 of session s1"
    for lane in ("service", "main agent", "prefetch", "selector", "index", "extractor"):
        assert any(line.startswith(lane) for line in rest)
    assert "+0.010 s   selector    sim/selector answered  300 ms, tokens in 900, tokens out 12" in text
    assert "+10.450 s   extractor   style.md created  bytes 120" in text


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("turn", ["1", "t1"])
def test_a_turn_and_a_session_are_chosen_by_name(turn: str, logs: Path, capsys: pytest.CaptureFixture[str]):
    write_log(logs, [*a_turn("t1"), *a_turn("t2")], "first")
    os.utime(write_log(logs, a_turn("t5"), "second", "20260902T000000"), (1, 1))
    assert shown(capsys, "--session", "fir", "--turn", turn).startswith("Turn 1 of session s1")
    assert shown(capsys, "--session", "second").startswith("Turn 5")


@pytest.mark.req("OBS-2")
def test_the_chart_takes_the_width_of_the_terminal(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    write_log(logs, a_turn())
    widths = []
    for columns in ("5", "60", "100", "500"):
        monkeypatch.setenv("COLUMNS", columns)
        widths.append(max(map(len, shown(capsys).splitlines())))
    assert widths == [20, 60, 100, 140]


@pytest.mark.req("OBS-2")
def test_what_is_missing_is_told_below(logs: Path, capsys: pytest.CaptureFixture[str]):
    path = write_log(logs, [record(0, "received") for _ in range(5003)])
    path.write_bytes(path.read_bytes() + b"half a li")
    assert shown(capsys).endswith(
        "3 further events of this turn are left out.\n1 lines of the log are no events and were passed over.\n"
    )


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["trace", *arguments]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("pi-project-memory: ")
    assert told.err.count("\n") == 1
    return told.err


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("way", [[], ["--follow"], ["--html", "page.html"], ["--session", "s1"]])
def test_without_logs_it_fails_and_says_where_they_will_be(
    way: list[str], logs: Path, capsys: pytest.CaptureFixture[str]
):
    assert f"There are no logs yet in {logs}" in refused(capsys, *way)


@pytest.mark.req("OBS-2")
def test_what_is_not_there_is_told_with_what_is(logs: Path, capsys: pytest.CaptureFixture[str]):
    write_log(logs, [*a_turn("t1"), *a_turn("t2")])
    assert "There are: 1, 2; 0" in refused(capsys, "--turn", "3")
    assert "newest first: s1." in refused(capsys, "--session", "other")
    assert "no turn 3" in refused(capsys, "--turn", "3", "--html", "page.html")


@pytest.mark.req("OBS-2")
def test_a_log_that_cannot_be_read_is_told(logs: Path, capsys: pytest.CaptureFixture[str]):
    path = write_log(logs, [])
    path.unlink()
    path.mkdir()
    assert f"{path} cannot be read" in refused(capsys)


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize(
    "arguments", [["--turn", "x"], ["--turn", "-1"], ["--turn", "٣"], ["--follow", "--html", "p"]]
)
def test_what_makes_no_sense_is_refused_with_the_usage(
    arguments: list[str], logs: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit, match="2"):
        main(["trace", *arguments])
    assert "usage: pi-project-memory trace" in capsys.readouterr().err


@pytest.mark.req("OBS-2")
def test_a_page_is_written_for_its_owner_alone_and_replaced_the_next_time(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_log(logs, a_turn())
    file = tmp_path / "turn.html"
    assert shown(capsys, "--html", str(file)) == f"Wrote {file}\n"
    first = file.read_bytes()
    assert first.startswith(b"<!doctype html>")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    write_log(logs, a_turn("t2"))
    shown(capsys, "--html", str(file))
    assert b"<h1>Turn 2</h1>" in file.read_bytes()
    assert b"<h1>Turn 1</h1>" in first


@pytest.mark.req("OBS-2")
def test_a_page_that_cannot_be_written_is_told(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_log(logs, a_turn())
    assert f"{tmp_path} cannot be written: Is a directory" in refused(capsys, "--html", str(tmp_path))
    assert "No such file" in refused(capsys, "--html", str(tmp_path / "nowhere" / "page.html"))


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    ) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.mark.req("OBS-2", "OBS-3")
@pytest.mark.real_time
def test_following_shows_a_session_live_across_rotations_until_interrupted(logs: Path):
    path = write_log(logs, [record(0, "old")])
    long = "x" * 300
    with started("--follow") as child:
        assert child.stdout is not None
        assert child.stdout.readline().decode().startswith("— session s1")
        assert b" old" in child.stdout.readline()
        with path.open("ab") as file:
            file.write(lines([record(1, "published", path=long, change="created")]))
        assert long.encode() in child.stdout.readline()
        path.replace(path.with_suffix(".1.jsonl"))
        path.write_bytes(lines([record(2, "published", path="second.md", change="updated")]))
        assert b"second.md updated" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, b"", b"")


@pytest.mark.req("OBS-2")
@pytest.mark.real_time
def test_a_reader_that_has_had_enough_ends_it_in_silence(logs: Path):
    write_log(logs, [record(n, "published", path=f"{n}.md", change="created") for n in range(4000)])
    with started() as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"Turn 1 of session s1\n"
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 0


@pytest.mark.req("OBS-2")
@pytest.mark.real_time
def test_an_output_that_knows_fewer_characters_gets_those_it_knows(logs: Path):
    write_log(logs, a_turn())
    with started(PYTHONIOENCODING="ascii") as child:
        out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, b"")
    assert b"service     ????" in out


@pytest.mark.req("OBS-2")
def test_colours_are_written_to_a_terminal_unless_it_wants_none(
    logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    write_log(logs, a_turn())
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b" not in shown(capsys)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "\x1b[1mTurn 1" in shown(capsys)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(capsys)
