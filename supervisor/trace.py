"""`pi-project-memory trace`: one turn's life, from the log of its session (OBS-2)."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pi_project_memory.actors.core.identity import data_directory
from pi_project_memory.supervisor.agent_dir import agent_dir
from pi_project_memory.supervisor.traces.events import Event
from pi_project_memory.supervisor.traces.following import Follower
from pi_project_memory.supervisor.traces.logs import LogFile, TraceError, choose
from pi_project_memory.supervisor.traces.page import page
from pi_project_memory.supervisor.traces.records import TurnRecords, read_turn
from pi_project_memory.supervisor.traces.terminal import NARROWEST, WIDEST, Screen, event_line, render
from pi_project_memory.supervisor.traces.timeline import Timeline, make_timeline

PAUSE = 0.3
"""Seconds between two looks at a log that is followed."""


def add_trace(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the subcommand."""
    parser.add_argument(
        "--session", metavar="ID", help="a session's id or its beginning; without it, the one heard of last"
    )
    parser.add_argument(
        "--turn", metavar="N", type=_turn, help="the turn, counted from 1; 0 is what belongs to none"
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--follow", action="store_true", help="show events as they happen, until Ctrl+C")
    way.add_argument("--html", metavar="FILE", type=Path, help="write the turn as a page of its own")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show what the options ask for; return the exit code."""
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = _show(options, Path(data_directory(str(agent_dir(os.environ, Path.home())))) / "logs")
        sys.stdout.flush()
    except TraceError as error:
        return _failed(str(error))
    except BrokenPipeError:
        # Whoever read has had enough; the interpreter must not flush into the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _show(options: argparse.Namespace, logs: Path) -> int:
    log = choose(logs, options.session)
    if options.follow:
        follower = Follower(logs, options.session is None, options.turn, lambda: time.sleep(PAUSE))
        return _follow(follower.follow(log))
    records = read_turn(log, options.turn)
    timeline = make_timeline(records.number, records.events)
    if options.html is not None:
        return _write_page(options.html, timeline, _notes(records))
    for line in (*render(timeline, _screen()), *_notes(records)):
        print(line)
    return 0


def _follow(told: Iterable[LogFile | Event]) -> int:
    with suppress(KeyboardInterrupt):
        for one in told:
            # Whoever reads a pipe wants whole lines.
            screen = _screen() if sys.stdout.isatty() else Screen(sys.maxsize)
            line = (
                event_line(one, screen) if isinstance(one, Event) else f"— session {one.session}, {one.path}"
            )
            print(line, flush=True)
    return 0


def _write_page(file: Path, timeline: Timeline, notes: list[str]) -> int:
    text = page(timeline, notes).encode("utf-8")
    try:
        # Private as the log is: at the level `debug` it holds texts.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as output:
            output.write(text)
    except OSError as error:
        return _failed(f"{file} cannot be written: {error.strerror}. Name another file.")
    print(f"Wrote {file}")
    return 0


def _notes(records: TurnRecords) -> list[str]:
    """Return what is missing from what is shown."""
    notes = []
    if records.left_out:
        notes.append(f"{records.left_out:,} further events of this turn are left out.")
    if records.unreadable:
        notes.append(f"{records.unreadable:,} lines of the log are no events and were passed over.")
    return notes


def _screen() -> Screen:
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    columns = shutil.get_terminal_size((100, 24)).columns
    return Screen(min(max(columns, NARROWEST), WIDEST), colours)


def _turn(text: str) -> int:
    number = text.removeprefix("t")
    if not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no turn; turns are counted 1, 2, 3")
    return int(number)


def _failed(text: str) -> int:
    print(f"pi-project-memory: {text}", file=sys.stderr)
    return 1
