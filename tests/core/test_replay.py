"""History replayed to a model: what it may see of another model's answers, and where it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.replay import (
    compacted_away,
    conversation,
    count_spoken,
    for_model,
    model_key,
    recent,
)

A = ("anthropic", "anthropic-messages", "a-1")
OTHERS = {
    "another provider": ("bedrock", "anthropic-messages", "a-1"),
    "another api": ("anthropic", "openai-responses", "a-1"),
    "another model": ("anthropic", "anthropic-messages", "a-2"),
    "another in everything": ("openai", "openai-responses", "gpt"),
}

THINKING = {"type": "thinking", "thinking": "hm", "thinkingSignature": "s0"}
REDACTED = {"type": "thinking", "thinking": "", "redacted": True, "thinkingSignature": "s1"}
TEXT = {"type": "text", "text": "done", "textSignature": "s2"}
CALL = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "x"}, "thoughtSignature": "s3"}


def said_by(model: tuple[str, str, str], *content: dict[str, Any]) -> dict[str, Any]:
    provider, api, name = model
    return {"role": "assistant", "provider": provider, "api": api, "model": name, "content": list(content)}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def answer(call_id: str = "c1") -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": call_id, "toolName": "read", "content": [], "isError": False}


def entry(message: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "e", "message": message}


@pytest.mark.req("EXT-5", "C41")
def test_the_same_model_gets_its_own_words_back_as_they_were():
    """Case C41: byte for byte, since a signature covers what it signs."""
    message = said_by(A, THINKING, REDACTED, TEXT, CALL)
    assert for_model(message, A) == message


@pytest.mark.req("EXT-5")
@pytest.mark.parametrize("model", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.req("C41")
def test_any_other_model_gets_neither_thinking_nor_signatures(model: tuple[str, str, str]):
    fit = for_model(said_by(A, THINKING, REDACTED, TEXT, CALL), model)
    assert fit is not None
    assert fit["content"] == [
        {"type": "text", "text": "done"},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "x"}},
    ]
    assert model_key(fit) == A


@pytest.mark.req("EXT-5")
@pytest.mark.parametrize("missing", ["provider", "api", "model"])
def test_a_message_that_does_not_say_who_made_it_is_another_models(missing: str):
    message = said_by(A, THINKING, TEXT)
    del message[missing]
    fit = for_model(message, A)
    assert fit is not None
    assert fit["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.req("EXT-5")
def test_a_message_of_thinking_alone_is_left_out_for_another_model():
    assert for_model(said_by(A, THINKING, REDACTED), OTHERS["another api"]) is None
    assert conversation([entry(said_by(A, THINKING)), entry(user("hi"))], OTHERS["another api"]) == [
        user("hi")
    ]


@pytest.mark.req("EXT-5")
@pytest.mark.parametrize("message", [user("hi"), answer()], ids=["user", "tool result"])
def test_other_roles_pass_unchanged(message: dict[str, Any]):
    signed = {
        **message,
        "textSignature": "kept",
        "content": [{"type": "text", "text": "x", "textSignature": "k"}],
    }
    assert for_model(signed, A) == signed


@pytest.mark.req("EXT-5")
def test_what_is_replayed_is_a_copy():
    """The host's own entries stay as they were."""
    message = said_by(A, THINKING, TEXT, CALL)
    conversation([entry(message)], OTHERS["another model"])
    assert message == said_by(A, THINKING, TEXT, CALL)


@pytest.mark.req("EXT-6")
@pytest.mark.parametrize(
    "other",
    [
        entry({"role": "system", "content": "You may use all tools", "toolsAdded": [{"name": "deploy"}]}),
        entry({"role": "bashExecution", "command": "ls", "content": "x"}),
        entry({"role": "custom", "customType": "x", "content": "x"}),
        {"type": "compaction", "summary": "what happened", "systemMessage": {"role": "system"}},
        {"type": "branch_summary", "summary": "what happened"},
        {"type": "custom", "customType": "project-memory-cursor", "data": {"through": "e"}},
        {"type": "custom_message", "customType": "project-memory-recall", "content": "a recalled note"},
        {"type": "custom_message", "customType": "project-memory-update", "content": "what changed"},
        {"type": "model_change", "provider": "p", "modelId": "m"},
        {"type": "message"},
        {},
    ],
)
def test_what_is_no_conversation_is_left_out(other: dict[str, Any]):
    """A system message of the history would declare tools that a run may not have."""
    assert conversation([other, entry(user("hi")), other], A) == [user("hi")]


@pytest.mark.req("EXT-6")
@pytest.mark.parametrize("content", ["the build is red", [{"type": "text", "text": "the build is red"}]])
def test_another_extensions_message_is_heard_as_the_model_heard_it(content: Any):
    hidden = {"type": "custom_message", "customType": "ci-watch", "content": content, "details": {"a": 1}}
    (message,) = conversation([hidden], A)
    assert message["role"] == "user"
    assert message["content"] == [{"type": "text", "text": "the build is red"}]


@pytest.mark.req("EXT-6")
def test_a_string_becomes_a_block_and_a_picture_a_word():
    picture = {"type": "image", "mimeType": "image/png"}
    spoken = [entry({"role": "user", "content": "look"}), entry({"role": "user", "content": [picture]})]
    assert [message["content"] for message in conversation(spoken, A)] == [
        [{"type": "text", "text": "look"}],
        [{"type": "text", "text": "[image]"}],
    ]


@pytest.mark.req("EXT-6")
def test_a_result_whose_call_lies_before_the_cursor_is_left_out():
    """Providers refuse a result without its call; a cursor set in the middle of a turn leaves such ones."""
    entries = [entry(answer("old")), entry(user("go on")), entry(said_by(A, CALL)), entry(answer("c1"))]
    assert [message["role"] for message in conversation(entries, A)] == ["user", "assistant", "toolResult"]


@pytest.mark.req("EXT-6")
def test_a_result_keeps_its_call_for_another_model_too():
    entries = [entry(said_by(A, THINKING, CALL)), entry(answer())]
    assert [message["role"] for message in conversation(entries, OTHERS["another api"])] == [
        "assistant",
        "toolResult",
    ]


TALK = [user("1"), said_by(A, CALL), answer(), answer(), said_by(A, TEXT), user("2"), said_by(A, TEXT)]


@pytest.mark.req("EXT-6")
@pytest.mark.parametrize(
    ("limit", "kept"),
    [(None, 7), (3, 3), (4, 6), (5, 7), (6, 7), (100, 7)],
    ids=["inherit", "three", "four with the results of a call", "all", "more", "many more"],
)
def test_the_most_recent_messages_are_kept_with_the_results_among_them(limit: int | None, kept: int):
    assert recent(TALK, limit) == TALK[len(TALK) - kept :]


@pytest.mark.req("EXT-6")
def test_only_what_was_spoken_is_counted():
    assert count_spoken(TALK) == 5
    assert count_spoken([]) == 0
    assert recent([], 3) == []


@pytest.mark.req("EXT-6")
@given(
    st.lists(st.sampled_from([user("u"), said_by(A, TEXT), answer()]), max_size=30),
    st.none() | st.integers(3, 12),
)
def test_a_limit_keeps_an_end_that_begins_with_somebody_speaking(
    messages: list[dict[str, Any]], limit: int | None
):
    kept = recent(messages, limit)
    assert kept == messages[len(messages) - len(kept) :]
    assert limit is None or count_spoken(kept) == min(limit, count_spoken(messages))
    assert len(kept) == len(messages) or kept[0]["role"] != "toolResult"


SAID = {"type": "message", "id": "said", "message": user("please use tabs")}
NOTE = {"type": "custom", "id": "note", "customType": "project-memory-cursor"}


def compaction(kept: str | None) -> dict[str, Any]:
    return {"type": "compaction", "id": "cut", "summary": "…", "firstKeptEntryId": kept}


@pytest.mark.req("EXT-4", "EXT-6")
@pytest.mark.parametrize(
    ("entries", "lost"),
    [
        ([], False),
        ([SAID, SAID], False),
        ([SAID, compaction(None)], True),
        ([SAID, compaction("said")], False),
        ([SAID, compaction("before the cursor")], False),
        ([SAID, {**SAID, "id": "kept"}, compaction("kept")], True),
        ([NOTE, compaction(None), SAID], False),
        ([NOTE, SAID, compaction("said")], False),
        ([SAID, compaction(None), SAID, compaction("said")], True),
        ([SAID, {"type": "compaction"}], True),
        ([SAID, {"type": "branch_summary"}], False),
    ],
    ids=[
        "nothing",
        "no compaction",
        "nothing was kept",
        "everything was kept",
        "more than everything was kept",
        "a part was kept",
        "our own entry alone was lost",
        "our own entry before what was kept",
        "the second of two kept all",
        "one that says nothing of what it kept",
        "a summary of another branch",
    ],
)
def test_a_compaction_matters_when_it_took_a_message(entries: list[dict[str, Any]], lost: bool):  # noqa: FBT001 - a column of the table
    assert compacted_away(entries) is lost
