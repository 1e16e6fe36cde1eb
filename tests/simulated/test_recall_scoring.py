"""The numbers of an evaluation, against sums made by hand."""

from __future__ import annotations

import pytest

from pi_project_memory.supervisor.evaluate.scoring import Score, Summary, score, summarize


@pytest.mark.parametrize(
    ("expected", "allowed", "chosen", "result"),
    [
        ("ab", "", "ab", Score(found=("a", "b"))),
        ("ab", "", "b", Score(found=("b",), missed=("a",))),
        ("a", "", "xa", Score(found=("a",), wrong=("x",))),
        ("a", "c", "ca", Score(found=("a",), allowed=("c",))),
        ("a", "c", "", Score(missed=("a",))),
        ("", "", "", Score()),
        ("", "", "x", Score(wrong=("x",))),
        ("", "c", "c", Score(allowed=("c",))),
        ("a", "", "aaa", Score(found=("a",))),
        ("a", "", "uvwxya", Score(missed=("a",), wrong=("u", "v", "w", "x", "y"))),
        ("a", "", "xxxxxa", Score(found=("a",), wrong=("x",))),
    ],
)
def test_one_answer_is_scored_name_by_name(expected: str, allowed: str, chosen: str, result: Score):
    assert score(tuple(expected), tuple(allowed), tuple(chosen)) == result


def test_the_numbers_over_several_answers():
    scores = [
        Score(found=("a", "b")),  # recall 1
        Score(found=("a",), missed=("b", "c"), wrong=("x",)),  # recall 1/3
        Score(missed=("a",), allowed=("c",)),  # recall 0
        Score(),
        Score(wrong=("x", "y"), allowed=("c",)),
    ]
    assert summarize(scores) == Summary(
        answers=5,
        right=2,
        expecting=3,
        recall=pytest.approx((1 + 1 / 3 + 0) / 3),
        expected=6,
        found=3,
        wrong=3,
        allowed=2,
        precision=3 / 6,
        silent=2,
        silent_wrong=2,
    )


def test_where_nothing_can_be_divided_there_is_no_number():
    nothing = summarize([Score()])
    assert (nothing.recall, nothing.precision, nothing.right) == (None, None, 1)
    assert summarize([]).answers == 0
