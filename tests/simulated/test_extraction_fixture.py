"""The prepared extraction fixture is sound, and one that is not is refused with all that is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pi_project_memory.actors.core.frontmatter import MEMORY_TYPES
from pi_project_memory.supervisor.evaluate.extraction_fixture import Line, load_extraction_fixture
from pi_project_memory.supervisor.evaluate.loading import EvaluationError
from pi_project_memory.supervisor.evaluate.script import load_script
from pi_project_memory.supervisor.host.scenario import ToolUse

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "extraction"
PREPARED = load_extraction_fixture(FOLDER)
CASES = PREPARED.cases

TOPIC = "---\nname: Old\ndescription: About it\nmetadata:\n  type: project\n---\nThe port is 1.\n"
FACT = {"what": "the port", "types": ["project"], "says": ["port is 2"], "into": "old.md"}
CASE: dict[str, Any] = {
    "looks_at": "A port.",
    "today": "2026-01-02",
    "memory": {"MEMORY.md": "- [Old](old.md) — the port\n", "old.md": TOPIC},
    "conversation": [{"user": "The port is 2 from now on."}, {"agent": "Good."}],
    "expect": {"save": [FACT]},
}


def written(folder: Path, case: object = CASE, name: str = "one") -> Path:
    (folder / "cases").mkdir(exist_ok=True)
    YAML(typ="safe").dump(case, folder / "cases" / f"{name}.yaml")
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(EvaluationError) as refused:
        load_extraction_fixture(folder)
    return str(refused.value)


def test_there_are_15_conversations_of_which_five_leave_nothing_to_do():
    silent = {name for name, case in CASES.items() if case.expect.silent}
    assert len(CASES) == 15
    assert silent == {"agent_only", "code_facts", "duplicate", "injection", "transient"}
    assert {kind for case in CASES.values() for fact in case.expect.save for kind in fact.types} == set(
        MEMORY_TYPES
    )
    assert sum(fact.into is not None for case in CASES.values() for fact in case.expect.save) == 2
    assert all(case.expect.never for case in CASES.values())


def test_every_conversation_holds_more_than_what_is_to_be_kept():
    assert all(sum(line.call is not None for line in case.conversation) >= 1 for case in CASES.values())
    assert all(case.conversation[0].user for case in CASES.values())


def test_a_conversation_becomes_the_entries_of_a_session():
    case = CASES["secret"]
    entries = case.entries()
    roles = [entry["message"]["role"] for entry in entries]
    assert roles[:4] == ["user", "assistant", "toolResult", "assistant"]
    call, result = (entry["message"] for entry in entries[1:3])
    assert call["content"][0]["id"] == result["toolCallId"]
    assert (call["stopReason"], result["isError"], result["toolName"]) == ("toolUse", True, "bash")
    assert len({entry["id"] for entry in entries}) == len(entries)


def test_the_prepared_script_names_cases_that_exist():
    assert load_script(FOLDER / "script.yaml", CASES).replies


def test_a_sound_case_is_read(tmp_path: Path):
    case = load_extraction_fixture(written(tmp_path)).cases["one"]
    assert case.conversation == (Line(user="The port is 2 from now on."), Line(agent="Good."))
    assert case.today.isoformat() == "2026-01-02"
    assert Line(call=ToolUse("read", {})).result == ""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"conversation": [{"user": "The port is 2", "agent": "Good."}]},
            "line 1 of the conversation must have",
        ),
        (
            {"conversation": [{"user": "The port is 2"}, {"result": "x"}]},
            "line 2 of the conversation must have",
        ),
        ({"conversation": [{"user": "port 2"}]}, "without three words of the user in one message"),
        ({"conversation": [{"agent": "The port is 2."}]}, "without three words of the user in one message"),
        ({"memory": {"MEMORY.md": "", "old.md": TOPIC}}, "MEMORY.md: no line points to old.md"),
        ({"memory": {"old.md": TOPIC}}, "MEMORY.md: no line points to old.md"),
        ({"memory": {"MEMORY.md": "- [Old](old.md) — x\n", "old.md": "x"}}, "old.md: it has no frontmatter"),
        ({"memory": {"../old.md": TOPIC}}, "../old.md is no path of a topic"),
        ({"expect": {"save": [FACT | {"into": "new.md"}]}}, "the port: there is no topic new.md"),
        ({"expect": {"save": [FACT | {"says": ["PORT"]}]}}, "the port: the memory says it already"),
        ({"expect": {"save": [FACT | {"says": ["port ("]}]}}, "port ( is no regular expression"),
        ({"expect": {"save": [FACT | {"index": "["}]}}, "[ is no regular expression"),
        ({"expect": {"gone": {"the host": "host"}}}, "gone: the host does not stand in the memory"),
        ({"expect": {"keep": {"the host": "host"}}}, "keep: the host does not stand in the memory"),
        ({"expect": {"never": {"the host": "host"}}}, "never: the host does not stand in the conversation"),
        ({"expect": {"save": [FACT | {"types": ["odd"]}]}}, "Invalid enum value 'odd'"),
        ({"expects": {}}, "unknown field `expects`"),
        ({"today": "someday"}, "Invalid RFC3339 encoded date - at `$.today`"),
    ],
)
def test_a_wrong_case_is_refused_with_its_place(tmp_path: Path, changes: dict[str, object], told: str):
    text = refusal(written(tmp_path, CASE | changes))
    assert str(tmp_path / "cases" / "one.yaml") in text
    assert told in text


def test_all_findings_of_a_case_are_told_at_once(tmp_path: Path):
    expect = {"gone": {"a": "a b c"}, "keep": {"b": "a b c"}, "never": {"c": "a b c"}}
    folder = written(tmp_path, CASE | {"expect": expect, "conversation": [{"user": "port 2"}]})
    assert refusal(folder).count("\n- ") == 4


def test_a_fixture_must_have_cases(tmp_path: Path):
    assert "cases holds no case" in refusal(tmp_path)
    folder = written(tmp_path)
    (folder / "cases" / "two.yaml").write_text("[", "utf-8")
    assert "two.yaml does not have the form it needs" in refusal(folder)
