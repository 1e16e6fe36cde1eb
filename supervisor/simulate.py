"""`pi-project-memory simulate`: plays a scenario and tells what happened, as a person wants to read it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio

from pi_project_memory.actors.core.jstext import utf16_len
from pi_project_memory.actors.ports.host import ModelRequest
from pi_project_memory.actors.ports.trace import TraceValue
from pi_project_memory.supervisor.host.player import Session, open_session
from pi_project_memory.supervisor.host.protocol import AgentStartAnswer, CommandAnswer
from pi_project_memory.supervisor.host.scenario import (
    ClockMove,
    Compaction,
    ConfigEdit,
    OutsideEdit,
    Scenario,
    ScenarioError,
    Step,
    TreeMove,
    UserCommand,
    UserTurn,
    Wait,
    load_scenario,
)

SELECTOR = "sim/selector"
_LABEL = 10


def run(path: Path) -> int:
    """Play the scenario in `path` in a temporary folder and print its story; return the exit code."""
    try:
        scenario = load_scenario(path)
    except ScenarioError as error:
        print(error, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="pi-project-memory-simulated-") as folder:
        anyio.run(_tell, scenario, Path(folder))
    return 0


async def _tell(scenario: Scenario, folder: Path) -> None:
    print(f"{scenario.name}\n")
    async with open_session(scenario, folder) as session:
        story = Story(session)
        for number, step in enumerate(scenario.typed_steps(), start=1):
            started = anyio.current_time()
            answer = await session.step(step)
            seconds = anyio.current_time() - started
            for line in story.lines(number, step, answer, seconds):
                print(line)
            print()


class Story:
    """Turns each step into lines, from what the service answered, asked for and traced meanwhile."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._section = ""
        self._requests = 0
        self._events = 0
        self._notices = 0
        self._late = 0

    def lines(self, number: int, step: Step, answer: object, seconds: float) -> Iterator[str]:
        """Yield what is to be said of one step that took `seconds`."""
        yield f"{number}. {_HEADLINES[type(step)](step)}"
        match answer:
            case AgentStartAnswer():
                yield from self._turn(answer)
            case CommandAnswer(text):
                yield from _block("shows", text)
        for name, fields in self._new_events():
            if line := _event_line(name, fields):
                yield line
        for message in self._session.host.sent[self._late :]:
            yield from _block("message", message.content)
        self._late = len(self._session.host.sent)
        for level, text in self._session.host.notices[self._notices :]:
            yield _line(level, text)
        self._notices = len(self._session.host.notices)
        yield _line("took", f"{seconds:.2f} s")

    def _turn(self, answer: AgentStartAnswer) -> Iterator[str]:
        yield _line("section", self._section_line(answer))
        for request in self._new_requests():
            yield from _block("offered", _catalogue(request))
        for name, fields in self._new_events():
            if line := _event_line(name, fields):
                yield line
        if answer.message is not None:
            yield from _block("recall", answer.message.content)

    def _section_line(self, answer: AgentStartAnswer) -> str:
        text = answer.section.text if answer.section else ""
        before, self._section = self._section, text
        if not text:
            return "none"
        same = "unchanged" if text == before else "new" if not before else "changed"
        return f"{utf16_len(text):,} units in the system prompt, {same}"

    def _new_requests(self) -> list[ModelRequest]:
        requests = self._session.host.models.requests_to(SELECTOR)[self._requests :]
        self._requests += len(requests)
        return requests

    def _new_events(self) -> list[tuple[str, dict[str, TraceValue]]]:
        events = self._session.trace.events[self._events :]
        self._events += len(events)
        return events


_HEADLINES: Mapping[type[Any], Callable[[Any], str]] = {
    UserTurn: lambda step: f"user: {step.user}",
    Compaction: lambda step: f"compaction, the last {step.compact} turns are kept",
    TreeMove: lambda step: f"back to the end of turn {step.back_to}",
    OutsideEdit: lambda step: f"outside edit of {', '.join(step.edit)}",
    ConfigEdit: lambda _: "new configuration file",
    ClockMove: lambda step: f"the clock moves by {step.clock:g} s",
    Wait: lambda step: f"{step.wait:g} s pass",
    UserCommand: lambda step: f"/memory {step.command}",
}


def _event_line(name: str, fields: dict[str, TraceValue]) -> str:
    match name:
        case "topic":
            return _line("chosen", f"{fields['path']}: {fields['verdict']}")
        case "not_asked":
            return _line("selector", f"not asked: {fields['reason']}")
        case "run_ended":
            note = f" ({fields['note']})" if fields["note"] else ""
            how = (
                f" (turns: {fields['turns']}, files changed: {fields['changed']})" if fields["turns"] else ""
            )
            return _line(str(fields["actor"]), f"{fields['ending']}{note}{how}")
        case "recall":
            timing = f"scan {fields['scan_ms']} ms, selector {fields['select_ms']} ms"
            note = f"; {fields['note']}" if fields["note"] else ""
            late = (
                "; late, so it goes out as a message of its own"
                if fields["late"] and fields["recalled"]
                else ""
            )
            return _line(
                "result", f"{fields['recalled']} recalled, {fields['units']} units; {timing}{note}{late}"
            )
    return ""


def _catalogue(request: ModelRequest) -> str:
    first: str = request.messages[0]["content"][0]["text"]
    return first.partition("\n\n")[2]


def _block(label: str, text: str) -> Iterator[str]:
    for position, line in enumerate(text.splitlines()):
        yield _line(label if position == 0 else "", line)


def _line(label: str, text: str) -> str:
    return f"   {label:<{_LABEL}}{text}".rstrip()
