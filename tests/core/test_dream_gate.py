"""The gates of consolidation, a row each, and what a process remembers between them (DRM-1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pi_project_memory.actors.core.config import DreamConfig
from pi_project_memory.actors.core.cursor import Ending
from pi_project_memory.actors.core.dream_gate import (
    DISABLED,
    HOUR_MS,
    Cause,
    Closed,
    Decision,
    Facts,
    Find,
    Gate,
    Open,
    Past,
    decide,
    pause_after,
)
from pi_project_memory.actors.core.dream_state import DreamState

NOW_MS = 1_796_048_090_000
NOW = 50_000.0
DEFAULTS = DreamConfig()
DAY_MS = 24 * HOUR_MS

STATE, SESSIONS, FREE = Find("state"), Find("sessions"), Open()

AGO = DreamState(NOW_MS - DAY_MS)
"""The last attempt was just long enough ago."""

READY = Facts(NOW_MS, NOW, Past(), AGO, others=5)
"""Everything is known and every gate is open."""


def given(**changes: Any) -> Facts:
    return replace(READY, **changes)


def gate(decision: Decision) -> Gate | Decision:
    return decision.gate if isinstance(decision, Closed) else decision


@pytest.mark.req("DRM-1")
@pytest.mark.parametrize(
    ("facts", "config", "automatic", "manual"),
    [
        (READY, {}, FREE, FREE),
        # dream.enabled: nothing is found out while it is off, and a manual run is refused too
        (given(state=None, others=None), {"enabled": False}, "enabled", "enabled"),
        # the state file: asked for first; a damaged one has stopped the scheduler, not the user
        (given(state=None, others=None), {}, STATE, STATE),
        (given(state=None, others=None, past=Past(problem="damaged")), {}, "state", STATE),
        # a pause after a run that threw
        (given(state=None, past=Past(failures=1, failed_at=NOW - 599)), {}, "pause", STATE),
        (given(past=Past(failures=1, failed_at=NOW - 600)), {}, FREE, FREE),
        (given(past=Past(failures=2, failed_at=NOW - 1_199)), {}, "pause", FREE),
        # hours since the last attempt
        (given(state=DreamState(NOW_MS - DAY_MS + 1), others=None), {}, "hours", SESSIONS),
        (given(state=AGO, others=None), {}, SESSIONS, SESSIONS),
        (given(state=AGO, others=None), {"minimum_hours": 25}, "hours", SESSIONS),
        (given(state=DreamState(NOW_MS - HOUR_MS)), {"minimum_hours": 1}, FREE, FREE),
        (given(state=DreamState(None), others=None), {}, SESSIONS, SESSIONS),
        (given(state=DreamState(NOW_MS + 1, ahead_of_clock=True)), {}, FREE, FREE),
        (given(state=DreamState(NOW_MS + 1)), {}, "hours", FREE),
        # one scan in so many seconds, and it is not asked for before that
        (given(others=None, past=Past(scanned_at=NOW - 599.5)), {}, "throttle", SESSIONS),
        (given(others=None, past=Past(scanned_at=NOW - 600)), {}, SESSIONS, SESSIONS),
        (given(others=None, past=Past(scanned_at=NOW)), {"scan_throttle_seconds": 0}, SESSIONS, SESSIONS),
        # other sessions
        (given(others=4), {}, "sessions", FREE),
        (given(others=0), {"minimum_other_sessions": 1}, "sessions", FREE),
        (given(others=1), {"minimum_other_sessions": 1}, FREE, FREE),
    ],
)
def test_each_gate_by_itself(
    facts: Facts, config: dict[str, Any], automatic: Gate | Decision, manual: Gate | Decision
) -> None:
    settings = structs.replace(DEFAULTS, **config)
    assert gate(decide(facts, settings, "settled")) == automatic
    assert gate(decide(facts, settings, "manual")) == manual


ALL_SHUT = Facts(
    NOW_MS,
    NOW,
    Past(scanned_at=NOW, failures=1, failed_at=NOW, problem="damaged"),
    DreamState(NOW_MS),
    others=0,
)

ORDER: list[tuple[Gate, dict[str, Any]]] = [
    ("state", {"past": replace(ALL_SHUT.past, problem="")}),
    ("pause", {"past": Past(scanned_at=NOW)}),
    ("hours", {"state": AGO}),
    ("throttle", {"past": Past()}),
    ("sessions", {"others": 5}),
]
"""The gates behind the switch, each with what opens it."""


@pytest.mark.req("DRM-1", "C25")
def test_the_gates_are_judged_from_cheap_to_dear() -> None:
    facts = ALL_SHUT
    assert gate(decide(facts, structs.replace(DEFAULTS, enabled=False), "settled")) == "enabled"
    for name, opened in ORDER:
        assert gate(decide(facts, DEFAULTS, "settled")) == name
        facts = replace(facts, **opened)
    assert decide(facts, DEFAULTS, "settled") == FREE


@pytest.mark.req("DRM-1")
def test_a_manual_run_obeys_the_switch_alone() -> None:
    assert decide(ALL_SHUT, DEFAULTS, "manual") == FREE
    refusal = decide(ALL_SHUT, structs.replace(DEFAULTS, enabled=False), "manual")
    assert refusal == Closed("enabled", "Memory dream is disabled by the global dream gate")
    assert DISABLED == "Memory dream is disabled by the global dream gate"


@pytest.mark.req("DRM-1")
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (
            given(state=DreamState(NOW_MS - 7 * HOUR_MS - 5)),
            "7 of 24 hours have passed since the last attempt",
        ),
        (given(state=DreamState(NOW_MS + HOUR_MS)), "0 of 24 hours have passed since the last attempt"),
        (
            given(past=Past(scanned_at=NOW - 100, counted=3)),
            "3 of 5 other sessions had news; they are counted again in 500 s at the earliest",
        ),
        (given(others=3), "3 of 5 other sessions have news since the last attempt"),
        (
            given(past=Past(failures=1, failed_at=NOW - 30)),
            "the last run failed; the next is tried in 570 s at the earliest",
        ),
        (given(past=Past(problem="state.json is damaged")), "state.json is damaged"),
    ],
)
def test_a_shut_gate_says_why(facts: Facts, reason: str) -> None:
    decision = decide(facts, DEFAULTS, "settled")
    assert isinstance(decision, Closed)
    assert decision.reason == reason


@pytest.mark.req("DRM-2")
def test_the_pause_doubles_with_every_failure_up_to_a_day() -> None:
    minutes = [pause_after(failures) / 60 for failures in range(10)]
    assert minutes == [0, 10, 20, 40, 80, 160, 320, 640, 1_280, 1_440]
    assert pause_after(10**6) == 24 * 3_600


@pytest.mark.req("DRM-2")
@pytest.mark.parametrize(
    ("ending", "failures"),
    [("raised", 3), ("returned", 0), ("aborted", 0), ("skipped", 2), ("busy", 2)],
)
def test_a_run_that_threw_counts_until_one_ends_otherwise(ending: Ending, failures: int) -> None:
    past = Past(scanned_at=NOW, failures=2, failed_at=1.0).after(ending, 7, NOW + 9)
    failed_at = NOW + 9 if ending == "raised" else 1.0
    assert past == Past(scanned_at=NOW, counted=7, failures=failures, failed_at=failed_at)


@pytest.mark.req("DRM-1")
@pytest.mark.parametrize("cause", ["settled", "manual"])
def test_no_decision_frees_the_way_before_everything_was_found_out(cause: Cause) -> None:
    for state in (None, AGO):
        for others in (None, 9):
            decision = decide(given(state=state, others=others), DEFAULTS, cause)
            assert (decision == FREE) == (state is not None and others is not None)
