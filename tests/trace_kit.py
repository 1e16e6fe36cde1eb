"""Logs of made-up sessions, and sessions played with a real log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pi_project_memory.actors.core.jstext import iso_from_ms
from pi_project_memory.actors.ports.trace import RecordedTrace, TraceValue
from pi_project_memory.supervisor.host import player
from pi_project_memory.supervisor.host.scenario import Scenario
from pi_project_memory.supervisor.log import SessionLog
from pi_project_memory.supervisor.traces.events import Event, event_of

BEGAN = 1_790_000_000_000
"""When made-up turns begin, in milliseconds since the epoch."""


def record(after: float, event: str, turn: str | None = "t1", /, **fields: Any) -> dict[str, Any]:
    """Return what the log says of an event `after` milliseconds from the beginning."""
    own = {} if turn is None else {"turn": turn}
    return {"time": iso_from_ms(BEGAN + after), "session": "s1", **own, **fields, "event": event}


def event(after: float, name: str, turn: str | None = "t1", /, **fields: Any) -> Event:
    made = event_of(record(after, name, turn, **fields))
    assert made is not None
    return made


def lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def write_log(
    directory: Path,
    records: Iterable[dict[str, Any]],
    session: str = "s1",
    stamp: str = "20260901T100000",
    process: int = 1,
) -> Path:
    """Write a log as the service of a session would."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stamp}-{session}-{process}.jsonl"
    path.write_bytes(lines(records))
    return path


def a_turn(turn: str = "t1", at: float = 0.0) -> list[dict[str, Any]]:
    """Return a whole turn: recall, an answer of the main agent, an extraction that writes a file."""
    extractor, prefetch = {"actor": "extractor"}, {"actor": "prefetch"}

    def say(after: float, name: str, /, **fields: Any) -> dict[str, Any]:
        return record(at + after, name, turn, **fields)

    return [
        say(1, "received", **prefetch, message="PromptSubmitted", generation=0),
        say(1, "selection_begun", **prefetch, job=1),
        say(4, "index_loaded", actor="index", lines=4, units=300, ms=3),
        say(310, "model_answered", actor="selector", model="sim/selector", input=900, output=12, ms=300),
        say(312, "topic", **prefetch, path="release.md", verdict="recalled"),
        say(312, "recall", **prefetch, job=1, chosen=1, recalled=1, late=False, note=""),
        say(315, "run_begun", message_type="user", section=True, ms=315),
        say(9315, "run_settled", aborted=False),
        say(9316, "received", **extractor, message="TurnsSettled", generation=0),
        say(9316, "extraction_begun", **extractor, job=1, cause="settled", entries=3),
        say(10300, "model_answered", **extractor, model="sim/extractor", input=2000, cost=0.002, ms=980),
        say(10400, "tool_called", **extractor, tool="read", ms=90, failed=False),
        say(10450, "published", **extractor, path="style.md", change="created", bytes=120),
        say(10455, "tool_called", **extractor, tool="write", ms=150, failed=False),
        say(11000, "run_ended", **extractor, ending="returned", turns=2, changed=1),
    ]


def play_into(log: SessionLog, scenario: Scenario, root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a session that is played below `root` and writes its traces into `log` too."""

    class Both(RecordedTrace):
        def event(self, name: str, **fields: TraceValue) -> None:
            super().event(name, **fields)
            log.event(name, **fields)

    monkeypatch.setattr(player, "RecordedTrace", Both)
    return player.open_session(scenario, root)
