"""An examination as text for a person, and as JSON for a program."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.supervisor.doctor.observations import (
    Examination,
    Fact,
    Finding,
    Note,
    Observation,
    Section,
    counted,
)
from pi_project_memory.supervisor.version import __version__

_LABELS: dict[type[Observation], str] = {Fact: "ok", Note: "note", Finding: "WRONG"}
_WIDTH = 7
_INDENT = " " * (2 + _WIDTH)


def as_text(examination: Examination) -> str:
    """Return a heading and aligned lines for each section, and what they come to."""
    lines = [f"pi-project-memory {__version__} in {sanitize_line(examination.agent)}"]
    for section in examination.sections:
        lines += ["", sanitize_line(section.title), *_lines(section)]
    return "\n".join([*lines, "", _verdict(len(examination.findings))])


def _lines(section: Section) -> Iterator[str]:
    for observation in section.observations:
        label = f"  {_LABELS[type(observation)]:<{_WIDTH}}"
        match observation:
            case Fact(text) | Note(text):
                yield f"{label}{sanitize_line(text)}"
            case Finding(problem, where, remedy):
                yield f"{label}{_sentence(sanitize_line(problem))}"
                yield f"{_INDENT}where:  {sanitize_line(where)}"
                yield f"{_INDENT}remedy: {sanitize_line(remedy)}"


def _verdict(findings: int) -> str:
    return f"{counted(findings, 'finding')}." if findings else "Nothing is wrong."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def as_json(examination: Examination) -> str:
    """Return version, agentDir, project, findings and, in `sections`, everything that was seen."""
    value = {
        "version": __version__,
        "agentDir": examination.agent,
        "project": examination.project,
        "findings": [_finding(finding) for finding in examination.findings],
        "sections": [
            {"title": section.title, "observations": [_observation(seen) for seen in section.observations]}
            for section in examination.sections
        ],
    }
    # ASCII, because a path that is not UTF-8 on disk could not be printed otherwise.
    return json.dumps(value, indent=2)


def _observation(seen: Observation) -> dict[str, str]:
    match seen:
        case Fact(text):
            return {"kind": "fact", "text": text}
        case Note(text):
            return {"kind": "note", "text": text}
        case Finding():
            return {"kind": "finding", **_finding(seen)}


def _finding(finding: Finding) -> dict[str, str]:
    return {"problem": finding.problem, "where": finding.where, "remedy": finding.remedy}
