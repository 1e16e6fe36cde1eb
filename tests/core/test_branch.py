"""What one branch has seen of the memory, folded from its entries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.branch import (
    NOTICE_TYPE,
    READ_TYPE,
    RECALL_BUDGET,
    RECALL_TYPE,
    SEEN_TYPE,
    SELECTION_TYPE,
    BranchState,
    Pair,
    RecalledTopic,
    active_entries,
    read_data,
    rebuild,
    recall_details,
    seen_details,
    selection_data,
)

Json = dict[str, Any]

A = RecalledTopic("a.md", "digest-a", 100, "v1")
B = RecalledTopic("sub/b.md", "digest-b", 20, "v7")


def recall(recall_id: str, *topics: RecalledTopic, entry_id: str = "") -> Json:
    details = recall_details(recall_id, topics)
    return {"type": "custom_message", "customType": RECALL_TYPE, "id": entry_id, "details": details}


def notice(**versions: str) -> Json:
    return {"type": "custom_message", "customType": NOTICE_TYPE, "details": seen_details(versions)}


def custom(kind: str, data: object, entry_id: str = "") -> Json:
    return {"type": "custom", "customType": kind, "id": entry_id, "data": data}


def selection(query: str, *names: str) -> Json:
    return custom(SELECTION_TYPE, selection_data(Pair(query, names)))


def message(entry_id: str) -> Json:
    return {"type": "message", "id": entry_id, "message": {"role": "user", "content": "a b"}}


def compaction(kept: object, entry_id: str = "c") -> Json:
    return {"type": "compaction", "id": entry_id, "summary": "s", "firstKeptEntryId": kept}


@pytest.mark.req("RCL-3", "RCL-4", "SEL-6")
def test_a_branch_gives_back_what_it_was_told():
    state = rebuild(
        [
            message("1"),
            recall("r1", A),
            selection("how is it built", "a.md"),
            custom(READ_TYPE, read_data("c.md", "v3")),
            recall("r2", B),
            selection("and tested"),
            notice(**{"a.md": "v2", "gone.md": ""}),
            custom(SEEN_TYPE, seen_details({"c.md": "v4"})),
        ]
    )
    assert state == BranchState(
        used=120,
        shown={"a.md": "digest-a", "sub/b.md": "digest-b"},
        read={"c.md": "v3"},
        seen={"a.md": "v2", "c.md": "v4", "sub/b.md": "v7", "gone.md": ""},
        pairs=(Pair("how is it built", ("a.md",)), Pair("and tested", ())),
        recall_ids=frozenset({"r1", "r2"}),
        guided=True,
    )


@pytest.mark.req("RCL-3", "SEL-6")
def test_folding_gives_the_state_that_the_steps_gave():
    stepwise = (
        BranchState()
        .with_recall("r1", [A, B])
        .with_pair(Pair("two words", ("a.md", "sub/b.md")))
        .with_read("a.md", "v1")
    )
    entries = [
        recall("r1", A, B),
        selection("two words", "a.md", "sub/b.md"),
        custom(READ_TYPE, read_data("a.md", "v1")),
    ]
    assert rebuild(json.loads(json.dumps(entries))) == stepwise


@pytest.mark.req("RCL-3", "C42")
def test_a_recall_that_stands_on_the_branch_twice_is_charged_once():
    assert rebuild([recall("r1", A), message("1"), recall("r1", A)]).used == 100
    assert rebuild([recall("r1", A), recall("r2", A)]).used == 200


@pytest.mark.req("RCL-3")
def test_a_recall_and_a_notice_in_one_message_both_count():
    entry = recall("r1", A)
    entry["details"] |= seen_details({"old.md": "v9"})
    state = rebuild([entry])
    assert (state.used, state.seen) == (100, {"a.md": "v1", "old.md": "v9"})


@pytest.mark.req("RCL-3", "SEL-6")
@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"type": "custom_message"},
        {"type": "custom_message", "customType": RECALL_TYPE},
        {"type": "custom_message", "customType": RECALL_TYPE, "details": None},
        {"type": "custom_message", "customType": RECALL_TYPE, "details": {"id": 5, "topics": []}},
        {"type": "custom_message", "customType": RECALL_TYPE, "details": {"id": "r9", "topics": "a.md"}},
        {"type": "custom_message", "customType": NOTICE_TYPE, "details": {"seen": ["a.md"]}},
        {"type": "custom_message", "customType": NOTICE_TYPE, "details": {"seen": {"a.md": 5}}},
        {"type": "custom_message", "customType": "another-extension", "details": recall("r9", A)["details"]},
        {"type": "message", "customType": RECALL_TYPE, "details": recall("r9", A)["details"]},
        custom(SELECTION_TYPE, {"query": 5, "names": []}),
        custom(SELECTION_TYPE, {"query": "two words", "names": "a.md"}),
        custom(SELECTION_TYPE, None),
        custom(READ_TYPE, {"path": "a.md"}),
        custom(READ_TYPE, ["a.md", "v1"]),
        custom(SEEN_TYPE, "a.md"),
        custom("project-memory-cursor", {"through": "1"}),
        {"type": "model_change", "data": {"path": "a.md", "version": "v1"}},
    ],
    ids=lambda entry: json.dumps(entry)[:70],
)
def test_a_foreign_or_damaged_entry_is_passed_over(entry: Json):
    around = [selection("one two"), entry, recall("r1", B)]
    assert rebuild(around) == rebuild([around[0], around[2]])


@pytest.mark.req("RCL-3")
def test_of_a_damaged_recall_and_selection_the_sound_parts_count():
    entry = recall("r1", A)
    entry["details"]["topics"] += [None, {"path": "x.md"}, {**entry["details"]["topics"][0], "units": "9"}]
    assert rebuild([entry]).used == 100
    entry["details"]["topics"][0]["units"] = -5
    assert rebuild([entry]).used == 0
    assert rebuild([custom(SELECTION_TYPE, {"query": "q q", "names": ["a.md", 5, None]})]).pairs == (
        Pair("q q", ("a.md",)),
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_TYPES = st.sampled_from([RECALL_TYPE, NOTICE_TYPE, SELECTION_TYPE, READ_TYPE, SEEN_TYPE]) | _JSON
_DETAILS = _JSON | st.dictionaries(
    st.sampled_from(["id", "topics", "seen", "query", "names", "path", "version"]), _JSON, max_size=4
)
_ENTRY = st.fixed_dictionaries(
    {"type": st.sampled_from(["custom_message", "custom", "compaction"]) | _JSON},
    optional={
        "customType": _TYPES,
        "details": _DETAILS,
        "data": _DETAILS,
        "id": _JSON,
        "firstKeptEntryId": _JSON,
    },
)


@pytest.mark.req("RCL-3", "SEL-6")
@given(st.lists(_ENTRY, max_size=6))
def test_no_branch_breaks_the_fold(entries: list[Json]):
    assert rebuild(entries).used >= 0


@pytest.mark.req("RCL-3", "RCL-4", "SEL-6")
def test_after_a_compaction_the_kept_part_alone_counts():
    entries = [
        recall("r1", A),
        selection("one two", "a.md"),
        custom(READ_TYPE, read_data("c.md", "v3")),
        message("kept"),
        recall("r2", B),
        selection("three four", "sub/b.md"),
        compaction("kept"),
    ]
    assert rebuild(entries) == rebuild(entries[3:6])
    assert rebuild([*entries, recall("r3", A)]).used == 120


@pytest.mark.req("RCL-4", "SEL-6")
@pytest.mark.parametrize("kept", ["c", "nowhere", None, 5])
def test_a_compaction_that_keeps_nothing_leaves_a_fresh_branch(kept: object):
    assert rebuild([recall("r1", A), selection("one two", "a.md"), compaction(kept)]) == BranchState()


@pytest.mark.req("RCL-4")
def test_the_newest_compaction_counts_and_may_reach_back_behind_an_older_one():
    entries = [message("1"), message("2"), compaction("2", "c1"), message("3"), compaction("2", "c2")]
    assert [entry["id"] for entry in active_entries(entries)] == ["2", "c1", "3", "c2"]
    entries[-1] = compaction("3", "c2")
    assert [entry["id"] for entry in active_entries(entries)] == ["3", "c2"]
    assert active_entries(entries[:2]) == entries[:2]


@pytest.mark.req("RCL-3")
def test_the_budget_is_61440_units_to_the_last():
    nearly = BranchState().with_recall("r1", [RecalledTopic("a.md", "d", 61_339, "v")])
    assert RECALL_BUDGET == 61_440
    assert (nearly.fits(101), nearly.fits(102), nearly.spent) == (True, False, False)
    spent = nearly.with_recall("r2", [RecalledTopic("b.md", "d", 101, "v")])
    assert (spent.used, spent.spent, spent.fits(0), spent.fits(1)) == (61_440, True, True, False)


@pytest.mark.req("RCL-4")
def test_a_read_holds_until_the_file_changes_and_a_later_read_renews_it():
    state = BranchState().with_read("a.md", "v1")
    assert (state.has_read("a.md", "v1"), state.has_read("a.md", "v2"), state.has_read("b.md", "v1")) == (
        True,
        False,
        False,
    )
    assert state.with_read("a.md", "v2").has_read("a.md", "v2")


@pytest.mark.req("SEL-6")
@pytest.mark.parametrize(
    ("count", "first"), [(0, 0), (1, 0), (40, 0), (41, 20), (59, 20), (60, 40), (79, 40), (80, 60)]
)
def test_the_history_is_whole_at_first_and_then_moves_in_steps_of_twenty(count: int, first: int):
    """Within a step each request repeats the one before and adds to it, which is what a cache can use."""
    pairs = tuple(Pair(f"query {number}", ()) for number in range(count))
    assert BranchState(pairs=pairs).history() == pairs[first:]
