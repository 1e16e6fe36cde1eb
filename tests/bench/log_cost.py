"""What the log costs: events a second, and a turn with a log beside one without in the same run.

    PYTHONPATH=tests .venv/bin/python tests/bench/log_cost.py

The turns are whole ones of the simulated host, with recall and an extraction that writes; their models answer
at once, so that what is compared is the service's own work. Times are processor time of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from pi_project_memory.actors.ports.trace import RecordedTrace, TraceValue, in_turn
from pi_project_memory.supervisor.host import player
from pi_project_memory.supervisor.host.scenario import Reply, Scenario, ToolUse
from pi_project_memory.supervisor.log import SessionLog

TURNS = 20
EVENTS = 20_000


class Silent(RecordedTrace):
    """Keeps nothing."""

    def event(self, name: str, **fields: TraceValue) -> None:
        pass


def session() -> Scenario:
    write = ToolUse("write", {"path": "{{memory}}/new.md", "content": "a fact"})
    read = ToolUse("read", {"path": "{{memory}}/new.md"})
    return Scenario(
        name="turns",
        memory={
            "MEMORY.md": "- [a](a.md)\n",
            "a.md": "---\nname: a\ndescription: A\nmetadata:\n  type: project\n---\nbody\n",
        },
        models={
            "sim/selector": [Reply(choose=["a.md"])],
            "sim/extractor": [Reply(calls=[read]), Reply(calls=[write]), Reply(text="Done.")] * TURNS,
        },
        steps=[{"user": "What is there to remember"}, {"wait": 0.2}] * TURNS,
    )


async def seconds_of_turns(log: SessionLog | None, root: Path) -> float:
    """Return the processor time of one turn."""

    class Logged(RecordedTrace):
        def event(self, name: str, **fields: TraceValue) -> None:
            assert log is not None
            log.event(name, **fields)

    player.RecordedTrace = Silent if log is None else Logged  # type: ignore[misc]
    started = time.process_time()
    async with player.open_session(session(), root) as played:
        await played.play()
    return (time.process_time() - started) / TURNS


def turn_costs(rounds: int, folder: Path) -> tuple[float, float, int]:
    """Return the median processor seconds of a turn without and with a log, and the bytes logged a turn."""
    without, with_log, size = [], [], 0
    for number in range(rounds):
        without.append(asyncio.run(seconds_of_turns(None, folder / f"without-{number}")))
        log = SessionLog()
        path = log.locate(folder / f"logs-{number}", "bench")
        log.open()
        with_log.append(asyncio.run(seconds_of_turns(log, folder / f"with-{number}")))
        log.close()
        size = path.stat().st_size // TURNS
    return statistics.median(without), statistics.median(with_log), size


def events_a_second(folder: Path) -> float:
    log = SessionLog()
    log.locate(folder / "events", "bench")
    log.open()
    with in_turn("t1"):
        started = time.perf_counter()
        for number in range(EVENTS):
            log.event("received", actor="prefetch", message="PromptSubmitted", generation=number)
        took = time.perf_counter() - started
    log.close()
    return EVENTS / took


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often the turns are played each way")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rate = events_a_second(Path(folder))
        without, with_log, size = turn_costs(options.rounds, Path(folder))
    print(f"events a second            {rate:,.0f}")
    print(f"a turn without a log       {without * 1000:.2f} ms")
    print(f"a turn with a log          {with_log * 1000:.2f} ms")
    print(f"ratio                      {with_log / without:.3f}")
    print(f"logged a turn              {size:,} bytes")


if __name__ == "__main__":
    main()
