"""The extraction fixture: short conversations, and what should be in the memory after each.

A fixture is a folder with `cases/`, one YAML file for each conversation; the file's name is the case's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from msgspec import Struct, field

from pi_project_memory.actors.core.extraction_gate import judge
from pi_project_memory.actors.core.lint import lint_index, lint_topic
from pi_project_memory.actors.ports.host import JsonObject
from pi_project_memory.actors.ports.topic_files import is_topic_path
from pi_project_memory.supervisor.evaluate.extraction_scoring import INDEX, Expectation, matches
from pi_project_memory.supervisor.evaluate.loading import EvaluationError, load_yaml, refuse
from pi_project_memory.supervisor.host.scenario import ToolUse
from pi_project_memory.supervisor.host.simulated import message_entry, text_block

CASES = "cases"

_AGENT = {"api": "anthropic-messages", "provider": "prepared", "model": "agent"}
"""Who the agent's messages say they come from: no model that is evaluated, so nothing is replayed as its own."""

_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
_NO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": _NO_COST}


class Line(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that happens in a conversation: the user or the agent speaks, or a tool is called."""

    user: str | None = None
    agent: str | None = None
    call: ToolUse | None = None
    result: str = ""
    failed: bool = False


class Case(Struct, frozen=True, forbid_unknown_fields=True):
    """One conversation: what it looks at, on which day, over which memory, and what should come of it."""

    looks_at: str
    today: date
    conversation: tuple[Line, ...]
    memory: dict[str, str] = field(default_factory=dict)
    expect: Expectation = Expectation()

    def entries(self) -> list[JsonObject]:
        """Return the conversation as a session keeps it."""
        messages = (
            message for number, line in enumerate(self.conversation) for message in _messages(number, line)
        )
        return [{"id": f"{number:08x}", **message} for number, message in enumerate(messages, start=1)]


@dataclass(frozen=True, slots=True)
class ExtractionFixture:
    """A checked fixture: its cases by id, in the order of their names."""

    folder: Path
    cases: Mapping[str, Case]


def load_extraction_fixture(folder: Path) -> ExtractionFixture:
    """Return the fixture in `folder`; raises EvaluationError with everything that is wrong with a file."""
    paths = sorted((folder / CASES).glob("*.yaml"))
    if not paths:
        raise EvaluationError(f"{folder / CASES} holds no case; a case is a YAML file")
    cases = {path.stem: load_yaml(path, Case) for path in paths}
    for path in paths:
        refuse(path, _findings(cases[path.stem]))
    return ExtractionFixture(folder, cases)


def _messages(number: int, line: Line) -> Iterator[JsonObject]:
    if line.user is not None:
        yield message_entry("user", [text_block(line.user)], timestamp=0)
    if line.agent is not None:
        yield _spoken([text_block(line.agent)], "stop")
    if line.call is not None:
        call_id, tool = f"call-{number}", line.call.tool
        yield _spoken(
            [{"type": "toolCall", "id": call_id, "name": tool, "arguments": line.call.arguments}], "toolUse"
        )
        of_call = {"toolCallId": call_id, "toolName": tool, "isError": line.failed, "timestamp": 0}
        yield message_entry("toolResult", [text_block(line.result)], **of_call)


def _spoken(content: list[JsonObject], stop: str) -> JsonObject:
    return message_entry("assistant", content, stopReason=stop, usage=_NO_USAGE, timestamp=0, **_AGENT)


def _findings(case: Case) -> Iterator[str]:
    for number, line in enumerate(case.conversation, start=1):
        if sum(part is not None for part in (line.user, line.agent, line.call)) != 1:
            yield f"line {number} of the conversation must have exactly one of the keys user, agent, call"
    yield from _memory_findings(case.memory)
    broken = list(_broken_patterns(case.expect))
    yield from broken or _expectation_findings(case)
    if judge(case.entries(), frozenset()) != "run":
        yield "without three words of the user in one message, no extraction runs"


def _memory_findings(memory: Mapping[str, str]) -> Iterator[str]:
    topics = [path for path in memory if path != INDEX]
    for path in topics:
        if not is_topic_path(path):
            yield f"{path} is no path of a topic"
        yield from lint_topic(path, memory[path].encode())
    if memory:
        yield from lint_index(memory.get(INDEX, ""), topics)


def _broken_patterns(expect: Expectation) -> Iterator[str]:
    for pattern in _patterns(expect):
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"{pattern} is no regular expression: {error}"


def _patterns(expect: Expectation) -> Iterator[str]:
    for fact in expect.save:
        yield from (*fact.says, *([] if fact.index is None else [fact.index]))
    for texts in (expect.allowed, expect.never, expect.gone, expect.keep):
        yield from texts.values()


def _expectation_findings(case: Case) -> Iterator[str]:
    """Yield what would make an expectation say nothing, or impossible to meet."""
    expect, memory = case.expect, case.memory
    for fact in expect.save:
        if fact.into is not None and fact.into not in memory:
            yield f"{fact.what}: there is no topic {fact.into}"
        if any(all(matches(text, content) for text in fact.says) for content in memory.values()):
            yield f"{fact.what}: the memory says it already"
    said = "\n".join(_said(line) for line in case.conversation)
    for what, texts, place, where in (
        ("gone", expect.gone, memory.values(), "the memory"),
        ("keep", expect.keep, memory.values(), "the memory"),
        ("never", expect.never, [said], "the conversation"),
    ):
        for name, text in texts.items():
            if not any(matches(text, content) for content in place):
                yield f"{what}: {name} does not stand in {where}"


def _said(line: Line) -> str:
    return "\n".join((line.user or "", line.agent or "", line.result))
