"""Adding up tokens and cost, whatever a provider reports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.usage import Usage

REPORTED = {
    "input": 100,
    "output": 10,
    "cacheRead": 7,
    "cacheWrite": 3,
    "totalTokens": 120,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.375},
}


@pytest.mark.req("EXT-8")
def test_requests_add_up():
    once = Usage().plus(REPORTED)
    assert once == Usage(1, 100, 10, 7, 3, 0.375)
    assert once.plus(REPORTED) == Usage(2, 200, 20, 14, 6, 0.75)
    assert once + once == once.plus(REPORTED)


@pytest.mark.req("EXT-8")
def test_the_cost_is_the_total_and_not_the_sum_of_its_parts():
    assert Usage().plus({"cost": {"input": 5.0, "total": 0.25}}).cost == 0.25


NOTHING = [
    None,
    "100",
    [],
    {},
    {"input": None, "output": "10", "cacheRead": True, "cost": 3},
    {"cost": {"total": "1"}},
    {"input": float("nan"), "cost": {"total": float("nan")}},
    {"input": float("inf"), "output": float("-inf"), "cost": {"total": float("inf")}},
    {"input": 10**400, "cost": {"total": 10**400}},
    {"input": -5, "cost": {"total": -0.5}},
]


@pytest.mark.req("EXT-8")
@pytest.mark.parametrize("reported", NOTHING, ids=repr)
def test_a_report_that_says_nothing_usable_counts_the_request_alone(reported: Any):
    assert Usage().plus(reported) == Usage(requests=1)


@pytest.mark.req("EXT-8")
def test_one_field_that_is_unusable_costs_no_other():
    assert Usage().plus({**REPORTED, "input": None}) == Usage(1, 0, 10, 7, 3, 0.375)


EXTREME = st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e308, 10**400, -(10**400)])
NUMBER = st.one_of(EXTREME, st.none(), st.integers(), st.floats(), st.text(max_size=2), st.booleans())


@pytest.mark.req("EXT-8")
@given(st.dictionaries(st.sampled_from([*REPORTED, "x"]), NUMBER | st.fixed_dictionaries({"total": NUMBER})))
def test_no_report_stops_the_count(reported: dict[str, Any]):
    usage = Usage().plus(reported)
    assert usage.requests == 1
    assert all(isinstance(count, int) for count in (usage.input, usage.output, usage.cache_read))
    assert usage.cost - usage.cost == 0, "neither infinite nor no number"
