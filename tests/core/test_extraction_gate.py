"""Whether there is anything to extract: the three-word rule, and what the main agent wrote itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.extraction_gate import judge, written_paths
from pi_project_memory.actors.core.replay import conversation

NOTE = "/m/note.md"


def entry(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "id": "e", "message": {"role": role, "content": content, **fields}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def call(tool: str = "write", path: Any = NOTE, call_id: str = "c1") -> dict[str, Any]:
    block = {"type": "toolCall", "id": call_id, "name": tool, "arguments": {"path": path, "content": "x"}}
    return entry("assistant", [block])


def result(call_id: str = "c1", **fields: Any) -> dict[str, Any]:
    return entry("toolResult", [text("done")], toolCallId=call_id, **fields)


def nested(*calls: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a script that made `calls`, as Pi records them."""
    return result(nestedCalls={"calls": list(calls), "complete": True})


IMAGE = {"type": "image", "mimeType": "image/png"}

ENOUGH = [
    ("a string", "please use tabs"),
    ("one block", [text("please use tabs")]),
    ("more words", [text("please always use tabs here")]),
    ("a block beside a picture", [IMAGE, text("please use tabs")]),
    ("one of several blocks by itself", [text("ok"), text("please use tabs"), text("thanks")]),
    ("no-break spaces", "please\u00a0use\u00a0tabs"),
    ("a byte order mark between words", "please\ufeffuse\ufefftabs"),
    ("line breaks of all kinds", "please\u2028use\r\ntabs"),
    ("spaces around", "   please   use   tabs   "),
]
TOO_FEW = [
    ("one word", "ok"),
    ("two words", "yes do"),
    ("nothing", ""),
    ("spaces alone", " \u00a0\n\t\u3000 "),
    ("no content", []),
    ("a picture", [IMAGE]),
    ("words are not added up over blocks", [text("please use"), text("tabs now")]),
    ("three blocks of one word", [text("please"), text("use"), text("tabs")]),
    ("text without spaces", "请始终使用制表符而不是空格"),
    ("a unit separator is no space in JavaScript", "please\x1fuse\x1ftabs"),
    ("nor is a next line", "please\x85use\x85tabs"),
    ("nor a zero-width space", "please\u200buse\u200btabs"),
    ("a block of another kind", [{"type": "audio", "text": "please use tabs"}]),
    ("content of a strange kind", {"text": "please use tabs"}),
    ("no content at all", None),
]


@pytest.mark.req("EXT-3")
@pytest.mark.parametrize("content", [case[1] for case in ENOUGH], ids=[case[0] for case in ENOUGH])
def test_three_words_in_one_text_are_enough(content: Any):
    assert judge([entry("user", content)], frozenset()) == "run"


@pytest.mark.req("EXT-3")
@pytest.mark.parametrize("content", [case[1] for case in TOO_FEW], ids=[case[0] for case in TOO_FEW])
def test_fewer_are_not(content: Any):
    assert judge([entry("user", content)], frozenset()) == "too few words"


@pytest.mark.req("EXT-3")
def test_words_are_not_added_up_over_messages():
    said = [entry("user", "please"), entry("assistant", [text("what is it")]), entry("user", "use tabs")]
    assert judge(said, frozenset()) == "too few words"


@pytest.mark.req("EXT-3", "C28")
def test_nothing_runs_on_a_row_of_short_answers_until_somebody_says_something():
    """Case C28: four turns without prose, then one with it."""
    short = [entry("user", content) for content in ("ok", "yes do", "", [IMAGE])]
    assert [judge(short[: count + 1], frozenset()) for count in range(4)] == ["too few words"] * 4
    assert judge([*short, entry("user", "please always use tabs")], frozenset()) == "run"


@pytest.mark.req("EXT-3")
@pytest.mark.parametrize("role", ["assistant", "toolResult", "custom", "system", "bashExecution"])
def test_only_a_user_is_heard(role: str):
    assert judge([entry(role, "please always use tabs")], frozenset()) == "too few words"


@pytest.mark.req("EXT-2", "EXT-3")
def test_a_hidden_message_is_no_user():
    hidden = {"type": "custom_message", "customType": "project-memory-recall", "content": "a b c d"}
    assert judge([hidden], frozenset()) == "no message"


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"type": "compaction", "summary": "a long summary here"}],
        [{"type": "custom", "customType": "project-memory-cursor", "data": {"through": "x"}}],
        [{"type": "message"}, {"type": "message", "message": None}, {"type": "message", "message": {}}],
    ],
)
def test_entries_without_a_message_are_none(entries: list[dict[str, Any]]):
    assert judge(entries, frozenset()) == "no message"


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize("tool", ["write", "edit"])
def test_what_the_main_agent_wrote_itself_is_not_written_again(tool: str):
    said = [entry("user", "please always use tabs"), call(tool), result()]
    assert written_paths(said) == (NOTE,)
    assert judge(said, frozenset({NOTE})) == "main agent wrote"


@pytest.mark.req("EXT-2")
def test_a_write_outside_the_memory_skips_nothing():
    said = [entry("user", "please always use tabs"), call(path="/src/a.py"), result()]
    assert judge(said, frozenset({NOTE})) == "run"


SAID = entry("user", "please always use tabs")


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(
    "entries",
    [
        [call(), result(isError=True)],
        [call()],
        [call(call_id="c2"), result()],
        [result()],
        [call("read"), result()],
        [call("bash"), result()],
        [call("Write"), result()],
        [call(path=None), result()],
        [call(path=["/m/note.md"]), result()],
        [entry("assistant", [{"type": "toolCall", "id": "c1", "name": "write"}]), result()],
        [entry("assistant", "write /m/note.md"), result()],
        [
            entry("user", [{"type": "toolCall", "id": "c1", "name": "write", "arguments": {"path": NOTE}}]),
            result(),
        ],
    ],
    ids=[
        "failed",
        "not finished",
        "another call's result",
        "a result whose call was dealt with before",
        "a read",
        "a command",
        "another tool",
        "no path",
        "a path of a strange kind",
        "no arguments",
        "prose",
        "a call by nobody",
    ],
)
def test_what_did_not_write_skips_nothing(entries: list[dict[str, Any]]):
    assert written_paths([SAID, *entries]) == ()
    assert judge([SAID, *entries], frozenset({NOTE})) == "run"


@pytest.mark.req("EXT-2")
def test_one_success_among_failures_counts():
    entries = [call(), result(isError=True), call(call_id="c2"), result("c2")]
    assert written_paths(entries) == (NOTE,)


@pytest.mark.req("EXT-2")
def test_each_path_is_named_once_in_the_order_of_the_writes():
    entries = [
        *(call(path="/m/b.md"), result()),
        *(call(path=NOTE, call_id="c2"), result("c2")),
        *(call("edit", "/m/b.md", "c3"), result("c3")),
    ]
    assert written_paths(entries) == ("/m/b.md", NOTE)


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(("status", "paths"), [("ok", (NOTE,)), ("error", ()), ("unfinished", ())])
def test_a_write_by_a_script_of_the_main_agent_counts_if_it_went_well(status: str, paths: tuple[str, ...]):
    record = {"id": "c1/1", "name": "write", "arguments": {"path": NOTE, "content": "x"}, "status": status}
    entries = [entry("assistant", [{"type": "toolCall", "id": "c1", "name": "codemode"}]), nested(record)]
    assert written_paths(entries) == paths


@pytest.mark.req("EXT-2")
@pytest.mark.parametrize(
    "record",
    [
        {"id": "c1/1", "name": "read", "arguments": {"path": NOTE}, "status": "ok"},
        {"id": "c1/1", "name": "write", "argumentsBytes": 99_999, "status": "ok"},
        {"id": "c1/1", "name": "write", "arguments": "…", "status": "ok"},
        "a note",
        None,
    ],
)
def test_a_script_that_wrote_nothing_known_skips_nothing(record: Any):
    assert written_paths([nested(record)]) == ()


@pytest.mark.req("EXT-2")
def test_a_script_that_failed_after_its_write_has_written_all_the_same():
    record = {"id": "c1/1", "name": "edit", "arguments": {"path": NOTE}, "status": "ok"}
    failed = result(isError=True, nestedCalls={"calls": [record], "complete": False})
    assert written_paths([failed]) == (NOTE,)


KEYS = ("type", "message", "role", "content", "text", "id", "name", "arguments", "path", "toolCallId")
VALUES = ("message", "user", "assistant", "toolResult", "text", "toolCall", "thinking", "write", "ok")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from((*KEYS, "isError", "nestedCalls", "calls", "status")),
            inner | st.sampled_from(VALUES),
            max_size=5,
        )
    ),
    max_leaves=12,
)
BLOCKS = st.one_of(
    JSON,
    st.lists(
        JSON | st.fixed_dictionaries({"type": st.sampled_from(["text", "toolCall", "thinking"])}), max_size=3
    ),
)
DAMAGED = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("message"),
            "message": st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "assistant", "toolResult"]) | JSON, "content": BLOCKS},
                optional={"nestedCalls": JSON, "toolCallId": JSON, "isError": JSON},
            ),
        }
    ),
    st.dictionaries(st.sampled_from(["type", "message", "customType", "content"]), JSON, max_size=4),
)


@pytest.mark.req("EXT-2", "EXT-5")
@given(st.lists(DAMAGED, max_size=4))
def test_a_damaged_entry_never_stops_the_memory(entries: list[dict[str, Any]]):
    """Sessions are other people's files: whatever they hold is understood or passed over."""
    written_paths(entries)
    judge(entries, frozenset({NOTE}))
    conversation(entries, ("p", "a", "m"))
