"""A turn's events as lanes, bars and words (OBS-2)."""

from __future__ import annotations

import ast
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pi_project_memory.supervisor.traces.chart import chart
from pi_project_memory.supervisor.traces.events import Event
from pi_project_memory.supervisor.traces.page import page
from pi_project_memory.supervisor.traces.records import parse
from pi_project_memory.supervisor.traces.scale import QUIET_MS, make_scale, ticks
from pi_project_memory.supervisor.traces.summary import name, totals, when
from pi_project_memory.supervisor.traces.terminal import Screen, event_line, render
from pi_project_memory.supervisor.traces.timeline import MOST_ROWS, Entry, Timeline, make_timeline
from pi_project_memory.supervisor.traces.words import TITLES, details, duration, title, tone
from trace_kit import BEGAN, a_turn, event, lines, record


def timeline_of(*events: Event) -> Timeline:
    return make_timeline(1, events)


def whole() -> Timeline:
    made = [parse(line) for line in lines(a_turn()).splitlines()]
    return make_timeline(1, [one for one in made if one is not None])


def entry(timeline: Timeline, event_name: str) -> Entry:
    (found,) = (one for one in timeline.entries if one.event.name == event_name)
    return found


def span(timeline: Timeline, event_name: str) -> tuple[float, float]:
    found = entry(timeline, event_name)
    return (found.begin, found.end)


@pytest.mark.req("OBS-2")
def test_a_turn_begins_with_its_first_work_and_ends_with_its_last():
    timeline = whole()
    assert (timeline.session, timeline.turn, timeline.began, timeline.length) == ("s1", 1, BEGAN, 11_000)
    assert name(timeline) == "Turn 1"
    assert when(timeline) == "2026-09-21 14:13:20.000 UTC, 11.00 s"


@pytest.mark.req("OBS-2")
def test_work_that_took_time_began_that_much_earlier():
    timeline = whole()
    assert span(timeline, "run_begun") == (0, 315)
    assert span(timeline, "index_loaded") == (1, 4)
    assert not entry(timeline, "published").lasting


@pytest.mark.req("OBS-2")
def test_a_beginning_and_its_end_are_one_bar_that_tells_what_both_say():
    timeline = whole()
    assert span(timeline, "recall") == (1, 312)
    assert span(timeline, "run_ended") == (9316, 11_000)
    names = [one.event.name for one in timeline.entries]
    assert not {"selection_begun", "extraction_begun"} & set(names)
    ended = entry(timeline, "run_ended")
    told = details(ended.event, ended.opening)
    assert told == [
        ("extraction begun: settled", ""),
        ("no.", "1"),
        ("entries", "3"),
        ("turns", "2"),
        ("changed", "1"),
    ]


@pytest.mark.req("OBS-2")
def test_the_main_agent_works_from_the_prepared_request_until_it_settles():
    timeline = whole()
    settled = entry(timeline, "run_settled")
    assert (settled.lane, settled.begin, settled.end) == ("main agent", 315, 9315)


@pytest.mark.req("OBS-2")
def test_lanes_come_in_the_order_of_a_turn_and_strangers_behind():
    strange = [event(0, "x", actor="zebra"), event(0, "x", actor="apple"), event(0, "x", actor="dream")]
    lanes = [lane.name for lane in timeline_of(*strange, event(1, "untold")).lanes]
    assert lanes == ["service", "dream", "zebra", "apple"]
    assert [lane.name for lane in whole().lanes] == [
        "service",
        "main agent",
        "prefetch",
        "selector",
        "index",
        "extractor",
    ]


@pytest.mark.req("OBS-2")
def test_each_end_finds_the_beginning_of_its_own_job():
    timeline = timeline_of(
        event(0, "selection_begun", actor="prefetch", job=1),
        event(10, "selection_begun", actor="prefetch", job=2),
        event(20, "recall", actor="prefetch", job=2),
        event(30, "prefetch_stopped", actor="prefetch", job=1, reason="newer messages came"),
    )
    assert span(timeline, "recall") == (10, 20)
    assert span(timeline, "prefetch_stopped") == (0, 30)
    assert [lane.rows for lane in timeline.lanes] == [2]


@pytest.mark.req("OBS-2")
def test_work_without_an_end_lasts_as_long_as_the_log_and_says_so():
    timeline = timeline_of(
        event(0, "extraction_begun", actor="extractor", job=1),
        event(50, "tool_called", actor="extractor", tool="read"),
    )
    begun = entry(timeline, "extraction_begun")
    assert (begun.begin, begun.end, begun.open_ended) == (0, 50, True)
    assert "no end in the log" in page(timeline)
    assert "▶" in "".join(chart(timeline, 80))


@pytest.mark.req("OBS-2")
def test_work_that_a_new_generation_overtook_ends_where_its_last_word_was_dropped():
    timeline = timeline_of(
        event(0, "extraction_begun", actor="extractor", job=1),
        event(10, "stale_dropped", actor="extractor", message="TurnsSettled", reason="old"),
        event(50, "stale_dropped", actor="extractor", message="ExtractionEnded", job=1, reason="old"),
        event(90, "received", actor="extractor", message="TurnsSettled"),
    )
    begun_at = [(one.begin, one.end) for one in timeline.entries if one.event.name == "stale_dropped"]
    assert begun_at == [(0, 50), (10, 10)]


@pytest.mark.req("OBS-2")
def test_a_run_of_the_main_agent_that_goes_on_does_not_stretch_its_preparation():
    timeline = timeline_of(event(20, "run_begun", ms=20), event(500, "received", actor="index"))
    assert span(timeline, "run_begun") == (0, 20)


@pytest.mark.req("OBS-2")
def test_what_overlaps_lies_below_one_another_up_to_a_bound():
    tools = [event(100 + n, "tool_called", actor="extractor", tool="read", ms=90) for n in range(10)]
    (lane,) = timeline_of(*tools).lanes
    assert lane.rows == MOST_ROWS
    assert [mark.row for mark in lane.marks] == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]
    after = timeline_of(
        event(10, "tool_called", actor="extractor", ms=10), event(30, "tool_called", actor="extractor", ms=20)
    )
    assert [lane.rows for lane in after.lanes] == [1]


@pytest.mark.req("OBS-2")
def test_the_totals_add_up_what_models_and_tools_did():
    assert totals(whole().totals) == [
        "2 model requests",
        "2,900 tokens in",
        "12 tokens out",
        "2 tool calls",
        "1 file written",
        "$0.0020",
    ]
    assert totals(timeline_of(event(0, "x")).totals) == []


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize(
    ("name_of", "fields", "expected"),
    [
        ("stale_dropped", {"message": "SelectionReady", "reason": "another branch is active"}, "dropped"),
        ("prefetch_stopped", {"reason": "the run was stopped"}, "dropped"),
        ("extraction_stopped", {"reason": "another branch is active"}, "dropped"),
        ("untold", {"message": "ToolUsed", "error": "MailboxFullError"}, "dropped"),
        ("model_unanswered", {"error": "CancelledError"}, "dropped"),
        ("model_unanswered", {"error": "HostError"}, "failed"),
        ("model_answered", {"stop": "error"}, "failed"),
        ("model_answered", {"stop": "stop"}, "plain"),
        ("tool_called", {"failed": True}, "failed"),
        ("tool_called", {"failed": False}, "plain"),
        ("run_ended", {"ending": "raised"}, "failed"),
        ("run_ended", {"ending": "aborted"}, "dropped"),
        ("run_ended", {"ending": "skipped"}, "plain"),
        ("recall", {"late": True, "recalled": 2}, "late"),
        ("recall", {"late": True, "recalled": 0}, "plain"),
        ("recall", {"failed": True}, "failed"),
        ("notice", {"level": "warning"}, "failed"),
        ("notice", {"level": "info"}, "plain"),
        ("actor_failed", {}, "failed"),
        ("message_failed", {}, "failed"),
        ("something_new", {"failed": True}, "plain"),
    ],
)
def test_how_it_went_can_be_seen(name_of: str, fields: dict[str, Any], expected: str):
    assert tone(event(0, name_of, **fields)) == expected


@pytest.mark.req("OBS-1", "OBS-2")
def test_what_was_dropped_is_listed_with_the_reason():
    timeline = timeline_of(
        event(0, "received", actor="prefetch", message="PromptSubmitted"),
        event(
            5,
            "stale_dropped",
            actor="prefetch",
            message="SelectionReady",
            generation=1,
            reason="the current generation is 2",
        ),
    )
    told = "SelectionReady dropped as stale: the current generation is 2"
    text = "\n".join(render(timeline, Screen(100)))
    assert text.index("Dropped") < text.index(told) < text.index("Events")
    assert "generation 1" in text
    assert told in page(timeline).partition("<h2>Dropped</h2>")[2].partition("</section>")[0]
    assert "Dropped" not in "\n".join(render(whole(), Screen(100)))


@pytest.mark.req("OBS-2")
def test_an_unknown_event_is_shown_plainly_with_all_it_says():
    strange = event(
        0, "moon_rose", actor="moth", phase="full", height=1200, cold=False, why=None, took_ms=1500
    )
    assert title(strange) == "moon rose"
    assert details(strange) == [
        ("phase", "full"),
        ("height", "1,200"),
        ("cold", "no"),
        ("why", "none"),
        ("took ms", "1.50 s"),
    ]
    text = "\n".join(render(timeline_of(strange), Screen(100)))
    assert "moth" in text
    assert "moon rose  phase full, height 1,200" in text


@pytest.mark.req("OBS-2")
def test_a_known_event_keeps_quiet_about_what_is_not_there():
    recall = event(0, "recall", actor="prefetch", job=1, chosen=0, recalled=0, late=False, note="", units=0)
    assert title(recall) == "0 of 0 chosen topics recalled"
    assert details(recall) == [("no.", "1")]
    assert title(event(0, "topic", verdict="unknown name")) == "…: unknown name"


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0.04, "0.0 ms"),
        (9.94, "9.9 ms"),
        (10, "10 ms"),
        (999, "999 ms"),
        (1000, "1.00 s"),
        (59_990, "59.99 s"),
        (60_000, "1 min 0 s"),
        (3_599_600, "1 h 0 min"),
        (7_260_000, "2 h 1 min"),
    ],
)
def test_a_length_of_time_reads_as_people_say_it(ms: float, told: str):
    assert duration(ms) == told


@pytest.mark.req("OBS-2")
def test_a_long_pause_is_cut_short_and_nothing_else():
    scale = make_scale([(0, 300), (9000, 9700)])
    assert [(s.begin, s.end, s.cut) for s in scale.stretches] == [
        (0, 300, False),
        (300, 9000, True),
        (9000, 9700, False),
    ]
    first, cut, last = scale.stretches
    assert cut.right - cut.left < 0.06
    assert (last.right - last.left) / (first.right - first.left) == pytest.approx(700 / 300)
    assert scale.place(0) == 0
    assert scale.place(9700) == scale.place(99_999) == 1
    assert make_scale([(0, 300), (300 + QUIET_MS, 900)]).cuts == ()


SPANS = st.lists(
    st.tuples(st.floats(0, 1e7), st.floats(0, 1e6)).map(lambda pair: (pair[0], pair[0] + pair[1])), min_size=1
)


@pytest.mark.req("OBS-2")
@given(SPANS)
@example([(0.0, 0.0)])
@example([(float(n * 10_000), float(n * 10_000)) for n in range(200)])
def test_a_scale_keeps_the_order_of_time_and_stays_within_its_bounds(spans: list[tuple[float, float]]):
    scale = make_scale(spans)
    moments = sorted(moment for one in spans for moment in one)
    places = [scale.place(moment) for moment in moments]
    assert all(0 <= place <= 1 for place in places)
    assert all(one <= other + 1e-9 for one, other in pairwise(places))
    assert sum(cut.right - cut.left for cut in scale.cuts) < 0.5
    written = ticks(scale, 0.1)
    assert written[0] == (scale.stretches[0].begin, 0.0)
    assert all(other[1] - one[1] >= 0.1 for one, other in pairwise(written))


@pytest.mark.req("OBS-2")
def test_a_long_stretch_has_round_moments_on_its_axis():
    assert [moment for moment, _ in ticks(make_scale([(0, 2300)]), 0.2)] == [0, 500, 1000, 1500, 2000]


def columns_of(line: str, character: str) -> list[int]:
    return [column for column, one in enumerate(line) if one == character]


@pytest.mark.req("OBS-2")
def test_the_chart_puts_what_is_parallel_above_one_another():
    rows = {line.split("  ")[0]: line for line in chart(whole(), 100) if line}
    run = columns_of(rows["extractor"], "━")
    assert columns_of(rows["prefetch"], "━")[0] == columns_of(rows["service"], "█")[0] < run[0]
    model_row = list(chart(whole(), 100))[-2]
    assert set(columns_of(model_row, "█")) <= set(run)
    assert columns_of(rows["main agent"], "░")
    assert "sim/selector answered" in rows["selector"]


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("width", [20, 40, 59, 80, 140])
def test_no_line_is_wider_than_the_terminal(width: int):
    long = event(20, "published", actor="extractor", path="a/very/long/path/" * 20, change="created")
    texts = event(30, "notice", actor="x" * 60, level="info", texts={"text": "word " * 200})
    text = [*render(whole(), Screen(width)), *render(timeline_of(long, texts), Screen(width))]
    assert max(map(len, text)) <= width
    assert "".join(line.strip() for line in text).count("a/very/long/path/") == 20


@pytest.mark.req("OBS-2")
def test_colours_are_for_terminals_alone():
    broken = timeline_of(event(0, "tool_called", actor="extractor", tool="read", failed=True))
    assert "\x1b[31m" in "\n".join(render(broken, Screen(80, colours=True)))
    assert "\x1b" not in "\n".join(render(broken, Screen(80)))
    assert any(line.lstrip().startswith("+0.000 s !") for line in render(broken, Screen(80)))


@pytest.mark.req("OBS-2")
def test_texts_of_the_level_debug_are_shown_where_they_were_kept():
    asked = event(0, "selection_begun", actor="prefetch", job=1, texts={"query": "<b>what</b>\nnow"})
    done = event(9, "recall", actor="prefetch", job=1, texts={"text": "x" * 999, "note": ""})
    timeline = timeline_of(asked, done)
    text = "\n".join(render(timeline, Screen(100)))
    assert "query: <b>what</b> now" in text
    assert "…" in text
    assert "note" not in text
    assert "<pre>&lt;b&gt;what&lt;/b&gt;\nnow</pre>" in page(timeline)
    assert "x" * 999 in page(timeline)


@pytest.mark.req("OBS-2")
def test_an_event_is_one_line_for_those_who_read_along():
    one = event(1234, "tool_called", "t12", actor="extractor", tool="read", failed=True, ms=12)
    assert event_line(one, Screen(200)) == "14:13:21.234 t12  ! extractor  read  12 ms"
    assert len(event_line(one, Screen(30))) == 30
    outside = event(0, "shut_down", None, reason="the session ends (quit)")
    assert (
        event_line(outside, Screen(200))
        == "14:13:20.000        service    shut down: the session ends (quit)"
    )


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2)
NAMES = st.sampled_from(
    [
        "run_begun",
        "run_settled",
        "selection_begun",
        "recall",
        "run_ended",
        "tool_called",
        "topic",
        "model_answered",
    ]
)
FIELDS = st.dictionaries(
    st.sampled_from(["ms", "job", "actor", "late", "cost", "input", "reason", "path", "texts", "stop"])
    | st.text(),
    VALUES,
    max_size=5,
)
RECORDS = st.lists(st.tuples(st.floats(-1e6, 1e6), NAMES | st.text(), FIELDS), min_size=1, max_size=12)


@pytest.mark.req("OBS-2")
@given(RECORDS)
def test_whatever_a_log_holds_can_be_shown(raw: list[tuple[float, str, dict[str, Any]]]):
    whole_records = [
        record(at, event_name, **fields) for at, event_name, fields in raw if "turn" not in fields
    ]
    events = [one for one in (parse(json.dumps(each).encode()) for each in whole_records) if one is not None]
    if events:
        timeline = make_timeline(1, events)
        assert timeline.length >= 0
        assert "\x1b" not in "\n".join(render(timeline, Screen(80)))
        assert "<script" not in page(timeline)


ROOT = Path(__file__).resolve().parents[2]


def traced_events() -> set[str]:
    """Return the names of the events that the sources record."""
    trees = [
        ast.parse(path.read_bytes())
        for folder in ("actors", "supervisor")
        for path in (ROOT / folder).rglob("*.py")
    ]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "event" and call.args
        if isinstance(call.args[0], ast.Constant)
    }


@pytest.mark.req("OBS-1", "OBS-2")
def test_every_event_has_its_words_and_its_line_in_the_documentation():
    documented = re.findall(
        r"^\| `(\w+)` \|", (ROOT / "docs" / "traces.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(documented) == set(TITLES) == traced_events()
