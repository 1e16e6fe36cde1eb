"""The numbers of an extraction evaluation, against memories and sums made by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pi_project_memory.supervisor.evaluate.extraction_scoring import (
    Expectation,
    ExtractionScore,
    Fact,
    Fate,
    score,
)
from pi_project_memory.supervisor.evaluate.extraction_summary import summarize


def topic(body: str, kind: str = "project") -> str:
    return f"---\nname: Name\ndescription: What it is about\nmetadata:\n  type: {kind}\n---\n{body}\n"


def index(*names: str) -> str:
    return "".join(f"- [Title]({name}.md) — about {name}\n" for name in names)


OLD = topic("The port is 1. Reset it with make reset.")
BEFORE = {"MEMORY.md": index("old"), "old.md": OLD}
SOUND = {"MEMORY.md": index("old", "new"), "old.md": OLD}

NEW_FACT = Expectation(save=(Fact("the plan", ("project",), ("PLAN", r"\bb\b")),))
UPDATE = Expectation(
    save=(Fact("the port", ("project",), ("port is 2",), into="old.md", index="about"),),
    gone={"the old port": "port is 1"},
    keep={"the reset": "make reset"},
)
NOTHING = Expectation(never={"the key": "KEY-[0-9]+"}, keep={"the reset": "make reset"})


@pytest.mark.parametrize(
    ("expected", "after", "result"),
    [
        (NOTHING, BEFORE, ExtractionScore()),
        (NEW_FACT, BEFORE, ExtractionScore(("missed",))),
        (NEW_FACT, SOUND | {"new.md": topic("plan b")}, ExtractionScore(("right",), changed=True)),
        (NEW_FACT, SOUND | {"new.md": topic("plan b", "user")}, ExtractionScore(("mistyped",), changed=True)),
        (
            NEW_FACT,
            SOUND | {"new.md": topic("plan")},
            ExtractionScore(("missed",), surplus=("new.md",), changed=True),
        ),
        (
            NEW_FACT,
            {
                "MEMORY.md": index("old", "a", "c"),
                "old.md": OLD,
                "a.md": topic("plan b"),
                "c.md": topic("plan b"),
            },
            ExtractionScore(("misplaced",), changed=True),
        ),
        (
            UPDATE,
            {"MEMORY.md": index("old"), "old.md": topic("The port is 2. make reset")},
            ExtractionScore(("right",), changed=True),
        ),
        (
            UPDATE,
            SOUND | {"new.md": topic("port is 2")},
            ExtractionScore(("misplaced",), outdated=("the old port",), changed=True),
        ),
        (
            UPDATE,
            SOUND | {"old.md": topic("port is 2, make reset"), "new.md": topic("port is 2")},
            ExtractionScore(("misplaced",), changed=True),
        ),
        (
            UPDATE,
            {"MEMORY.md": "- [Title](old.md) — the port\n", "old.md": topic("port is 2")},
            ExtractionScore(
                ("right",),
                lost=("the reset",),
                index=("no line of old.md tells the port",),
                changed=True,
            ),
        ),
        (
            Expectation(gone={"the port": "port is 1"}),
            {"MEMORY.md": ""},
            ExtractionScore(changed=True),
        ),
        (
            Expectation(gone={"the port": "port is 1"}),
            {"MEMORY.md": index("old"), "old.md": topic("Nothing of it.")},
            ExtractionScore(changed=True),
        ),
        (NOTHING, {"MEMORY.md": ""}, ExtractionScore(lost=("the reset", "old.md"), changed=True)),
        (
            NOTHING,
            BEFORE | {"MEMORY.md": index("old") + "KEY-1\n"},
            ExtractionScore(
                leaked=("the key",),
                index=(
                    (
                        "MEMORY.md: lines that are no link pointers: 2; move what they say into topic files and "
                        "leave one line for each: - [Title](file.md) — what it is about."
                    ),
                ),
                changed=True,
            ),
        ),
        (
            Expectation(allowed={"a remark": "remark"}),
            SOUND | {"new.md": topic("A remark.")},
            ExtractionScore(changed=True),
        ),
        (
            Expectation(),
            BEFORE | {"new.md": "A remark.\n"},
            ExtractionScore(
                surplus=("new.md",),
                index=(
                    "MEMORY.md: no line points to new.md; add one for each: - [Title](file.md) — what it is about.",
                ),
                form=(
                    (
                        "new.md: it has no frontmatter; start it with name, description and metadata.type between "
                        "--- lines."
                    ),
                ),
                changed=True,
            ),
        ),
    ],
)
def test_a_memory_is_compared_with_what_was_expected(
    expected: Expectation, after: Mapping[str, str], result: ExtractionScore
):
    assert score(expected, BEFORE, after) == result


def test_what_was_there_before_is_no_leak_and_no_new_fact():
    before = BEFORE | {"old.md": topic("KEY-1, plan b, make reset")}
    assert score(NOTHING, before, before | {"MEMORY.md": index("old") + "\n"}).leaked == ()
    assert score(NEW_FACT, before, before).fates == ("missed",)


def test_the_faults_are_named_in_one_order():
    assert ExtractionScore(("right", "missed", "misplaced"), leaked=("a",), index=("b",)).faults == (
        "misplaced",
        "missed",
        "leaked",
        "index",
    )
    assert ExtractionScore(("right",), changed=True).faults == ()


def expecting(*into: str | None, gone: bool = False) -> Expectation:
    facts = tuple(Fact("a fact", ("project",), ("a",), into=name) for name in into)
    return Expectation(save=facts, gone={"old": "a"} if gone else {})


def scored(*fates: Fate, **findings: tuple[str, ...]) -> ExtractionScore:
    return ExtractionScore(fates, changed=True, **findings)


def test_the_numbers_over_several_cases():
    numbers = summarize(
        [
            (expecting(None, "old.md"), scored("right", "right")),
            (expecting("old.md", None), scored("misplaced", "missed", index=("i", "j"))),
            (expecting("old.md"), scored("mistyped", form=("f", "g"))),
            (expecting("old.md"), ExtractionScore(("missed",))),
            (expecting(gone=True), scored(outdated=("o",), lost=("l", "m"))),
            (expecting(), scored(surplus=("s", "t"), leaked=("u", "v", "w"))),
            (expecting(), ExtractionScore()),
        ]
    )
    assert (numbers.cases, numbers.right) == (7, 2)
    assert numbers.facts == {"right": 2, "misplaced": 1, "mistyped": 1, "missed": 2}
    assert (numbers.wanted, numbers.saved, numbers.recall) == (6, 4, 4 / 6)
    assert (numbers.surplus, numbers.precision) == (2, 4 / 6)
    assert (numbers.belonging, numbers.updated) == (4, 2)
    assert (numbers.leaked, numbers.outdated, numbers.lost, numbers.form) == (3, 1, 2, 2)
    assert (numbers.silent, numbers.disturbed) == (2, 1)
    assert (numbers.changed, numbers.kept) == (5, 4)


def test_where_nothing_can_be_divided_there_is_no_number():
    nothing = summarize([(Expectation(), ExtractionScore())])
    assert (nothing.recall, nothing.precision, nothing.right) == (None, None, 1)
    assert summarize([]).cases == 0
