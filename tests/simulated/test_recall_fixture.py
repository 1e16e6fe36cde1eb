"""The prepared recall fixture is sound, and one that is not is refused with all that is wrong with it."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from ruamel.yaml import YAML

from pi_project_memory.actors.core.lint import lint_index, lint_topic
from pi_project_memory.supervisor.evaluate.loading import EvaluationError
from pi_project_memory.supervisor.evaluate.recall_fixture import Kind, load_recall_fixture
from pi_project_memory.supervisor.evaluate.script import load_script

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "recall"
PREPARED = load_recall_fixture(FOLDER)
NOT_EXPECTED_ANYWHERE = {"findings-spring.md", "hosting-vm.md"}

TOPIC = "---\nname: {0}\ndescription: About {0}\nmodified: 2025-01-0{1}\n---\nText.\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A fixture of two topics and one query, to be spoilt."""
    folder = tmp_path / "fixture"
    (folder / "memory").mkdir(parents=True)
    for day, name in enumerate(("old", "new"), start=1):
        (folder / "memory" / f"{name}.md").write_text(TOPIC.format(name, day), "utf-8")
    spoil(folder)
    return folder


def spoil(folder: Path, **changes: object) -> None:
    query: dict[str, object] = {"id": "q1", "kind": "plain", "query": "two words", "expected": ["new.md"]}
    write_queries(folder, [{key: value for key, value in (query | changes).items() if value is not None}])


def write_queries(folder: Path, queries: object) -> None:
    YAML(typ="safe").dump(queries, folder / "queries.yaml")


def test_there_are_25_queries_of_every_kind_over_a_dozen_topics():
    kinds = Counter(prepared.kind for prepared in PREPARED.queries)
    assert len(PREPARED.queries) == 25
    assert set(kinds) == set(get_args(Kind))
    assert len(PREPARED.topics) == 12
    assert sum(not prepared.expected for prepared in PREPARED.queries) == 8


def test_every_topic_named_exists_and_every_topic_is_wanted_but_two():
    named = {name for prepared in PREPARED.queries for name in (*prepared.expected, *prepared.allowed)}
    expected = {name for prepared in PREPARED.queries for name in prepared.expected}
    assert named <= set(PREPARED.topics)
    assert set(PREPARED.topics) - expected == NOT_EXPECTED_ANYWHERE


def test_the_prepared_memory_is_as_a_memory_should_be():
    findings = [finding for path, (data, _) in PREPARED.topics.items() for finding in lint_topic(path, data)]
    index = (FOLDER / "memory" / "MEMORY.md").read_text("utf-8")
    assert findings == []
    assert lint_index(index, PREPARED.topics) == ()
    assert all(f"({path})" in index for path in PREPARED.topics)


async def test_the_order_and_the_dates_come_from_the_topics_themselves():
    topics = await PREPARED.store().scan()
    assert {topic.header.type for topic in topics} == {"user", "feedback", "project", "reference"}
    assert [topic.mtime_ms for topic in topics] == [topic.header.modified_ms for topic in topics]
    order = [topic.path for topic in topics]
    assert order.index("hosting-cluster.md") < order.index("hosting-vm.md")


def test_the_prepared_script_names_queries_that_exist():
    script = load_script(FOLDER / "script.yaml", [prepared.id for prepared in PREPARED.queries])
    assert script.replies


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"expected": ["gone.md"]}, "q1: there is no topic gone.md"),
        ({"allowed": ["gone.md"]}, "q1: there is no topic gone.md"),
        ({"allowed": ["new.md"]}, "q1: a topic is named twice"),
        (
            {"expected": [f"{n}.md" for n in range(6)]},
            "q1: 6 topics are expected, and no selection holds more",
        ),
        ({"query": " word\u0085word "}, "q1: without white space inside, a query is never put to a selector"),
        ({"kind": "odd"}, "Invalid enum value 'odd' - at `$[0].kind`"),
        ({"expected": None}, "missing required field `expected` - at `$[0]`"),
        ({"expects": []}, "unknown field `expects` - at `$[0]`"),
        ({"expected": "new.md"}, "Expected `array`, got `str` - at `$[0].expected`"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(copy: Path, changes: dict[str, object], told: str):
    spoil(copy, **changes)
    with pytest.raises(EvaluationError) as refusal:
        load_recall_fixture(copy)
    assert str(copy / "queries.yaml") in str(refusal.value)
    assert told in str(refusal.value)


def test_all_findings_are_told_at_once(copy: Path):
    wrong = {"id": "q1", "kind": "plain", "query": "word", "expected": ["a.md"]}
    write_queries(copy, [wrong, wrong])
    with pytest.raises(EvaluationError) as refusal:
        load_recall_fixture(copy)
    assert str(refusal.value).count("\n- q1: ") == 5


def test_a_fixture_must_have_queries_and_dated_topics(copy: Path, tmp_path: Path):
    def refusal(folder: Path) -> str:
        with pytest.raises(EvaluationError) as refused:
            load_recall_fixture(folder)
        return str(refused.value)

    (copy / "queries.yaml").write_text("[]", "utf-8")
    assert "queries.yaml cannot be used:\n- it holds no query" in refusal(copy)
    (copy / "queries.yaml").write_text("- [", "utf-8")
    assert "queries.yaml does not have the form it needs" in refusal(copy)
    (copy / "queries.yaml").unlink()
    assert "queries.yaml cannot be read: No such file or directory" in refusal(copy)
    (copy / "memory" / "new.md").write_text("---\nmodified: someday\n---\n", "utf-8")
    assert "memory cannot be used:\n- new.md has no `modified` date" in refusal(copy)
    shutil.rmtree(copy / "memory")
    assert "memory cannot be read as a memory: No such file or directory" in refusal(copy)
    (copy / "memory").mkdir()
    assert "memory cannot be used:\n- it holds no topic" in refusal(copy)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("replies: {nowhere: [{choose: []}]}", "there is no case nowhere"),
        ("replies: {q1: [{chose: []}]}", "unknown field `chose` - at `$.replies[...][0]`"),
    ],
)
def test_a_script_must_fit_the_cases(tmp_path: Path, text: str, told: str):
    (tmp_path / "script.yaml").write_text(text, "utf-8")
    with pytest.raises(EvaluationError) as refusal:
        load_script(tmp_path / "script.yaml", ["q1"])
    assert told in str(refusal.value)
