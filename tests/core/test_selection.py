"""What a selector's answer means: the tables of retry and no retry, the schema, the names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.selection import (
    FORCED_TOOL_PATCHES,
    NATIVE_PATCHES,
    SCHEMA,
    SCHEMA_JSON,
    Cancelled,
    Failed,
    Mode,
    Outcome,
    RetryWithTool,
    Selected,
    accepted_names,
    first_mode,
    judge,
    payload_patch,
    tool_declaration,
    unknown_names,
)

Json = dict[str, Any]

NINE = (
    "anthropic-messages",
    "openai-completions",
    "openai-responses",
    "openai-codex-responses",
    "azure-openai-responses",
    "google-generative-ai",
    "google-vertex",
    "mistral-conversations",
    "bedrock-converse-stream",
)
RETRIED = (400, 404, 405, 406, 415, 422)
FINAL = (401, 403, 408, 409, 423, 425, 429, 500, 502, 503, 504, 529)

ERROR_TEXTS = {
    "anthropic-messages": '{status} {{"type":"error","error":{{"message":"no"}}}}',
    "openai-completions": '{status}: {{"message":"no"}}',
    "openai-responses": 'OpenAI API error ({status}): {{"message":"no"}}',
    "azure-openai-responses": 'Azure OpenAI API error ({status}): {{"message":"no"}}',
    "google-generative-ai": '{{"error":{{"code":{status},"message":"no","status":"X"}}}}',
    "google-vertex": '{{\n  "error": {{\n    "code": {status},\n    "message": "no"\n  }}\n}}',
    "mistral-conversations": "Mistral API error ({status}): no",
    "bedrock-converse-stream": 'Validation error: {status}: {{"message":"no"}}',
}
"""How each API's adapter words a failure; the codex one names no status."""


def failure(text: str, **fields: object) -> Json:
    return {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": text, **fields}


def answer(text: str, **fields: object) -> Json:
    return {"content": [{"type": "text", "text": text}], "stopReason": "stop", **fields}


def called(arguments: object, name: str = "select_memories", **fields: object) -> Json:
    return {"content": [{"type": "toolCall", "id": "1", "name": name, "arguments": arguments, **fields}]}


def names(*chosen: object) -> str:
    return json.dumps({"selected_memories": list(chosen)})


@pytest.mark.req("SEL-4")
def test_the_schema_is_the_documented_one_byte_for_byte():
    documented = """{ "type": "object", "properties": { "selected_memories": { "type": "array",
        "items": { "type": "string" } } }, "required": ["selected_memories"], "additionalProperties": false }"""
    assert json.dumps(SCHEMA, separators=(",", ":")) == SCHEMA_JSON
    assert "".join(documented.split()) == SCHEMA_JSON
    assert tool_declaration("words") == {
        "name": "select_memories",
        "description": "words",
        "parameters": SCHEMA,
    }


@pytest.mark.req("SEL-5")
def test_the_nine_apis_begin_natively_and_every_other_one_with_the_tool():
    assert set(NATIVE_PATCHES) == set(FORCED_TOOL_PATCHES) == set(NINE)
    assert {first_mode(api, structured_output=True) for api in NINE} == {"native"}
    assert {first_mode(api, structured_output=False) for api in NINE} == {"tool"}
    assert first_mode("pi-messages", structured_output=True) == "tool"
    assert first_mode("my-own-api", structured_output=True) == "tool"


@pytest.mark.req("SEL-5")
@pytest.mark.parametrize("api", NINE)
def test_each_api_carries_the_schema_in_its_native_form_and_forces_the_tool_in_the_other(api: str):
    native, forced = payload_patch(api, "native", thinking=False), payload_patch(api, "tool", thinking=False)
    assert "additionalProperties" in json.dumps(native)
    assert "additionalProperties" not in json.dumps(forced)
    assert "hoice" in json.dumps(forced) or "functionCallingConfig" in json.dumps(forced)


@pytest.mark.req("SEL-5")
def test_an_unknown_api_is_asked_in_words_and_so_is_a_thinking_model_that_takes_no_forced_tool():
    assert payload_patch("my-own-api", "tool", thinking=False) is None
    unforced = [api for api in NINE if payload_patch(api, "tool", thinking=True) is None]
    assert unforced == ["anthropic-messages", "bedrock-converse-stream"]


@pytest.mark.req("SEL-5")
@pytest.mark.parametrize("status", RETRIED)
@pytest.mark.req("C40")
def test_a_client_error_is_retried_with_the_tool(status: int):
    assert judge("native", failure("no"), status) == RetryWithTool(f"HTTP {status}: no")


@pytest.mark.req("SEL-5", "SEL-7")
@pytest.mark.parametrize("status", FINAL)
def test_every_other_status_is_final_whatever_the_text_says(status: int):
    assert judge("native", failure("no"), status) == Failed(f"HTTP {status}: no")
    assert judge("native", failure("response_format"), status) == Failed(f"HTTP {status}: response_format")


@pytest.mark.req("SEL-5")
@pytest.mark.parametrize("word", ["structured_output", "json_schema", "response_format", "output_config"])
@pytest.mark.parametrize("status", [None, 200, 400, 402, 418])
@pytest.mark.req("C40")
def test_a_text_that_speaks_of_the_format_is_retried(word: str, status: int | None):
    outcome = judge("native", failure(f"unknown field '{word}'."), status)
    assert isinstance(outcome, RetryWithTool)


@pytest.mark.req("SEL-5")
@pytest.mark.parametrize("api", ERROR_TEXTS)
@pytest.mark.parametrize("status", [*RETRIED, *FINAL])
def test_without_a_status_the_text_of_each_api_tells_it(api: str, status: int):
    text = ERROR_TEXTS[api].format(status=status)
    expected: Outcome = RetryWithTool(text) if status in RETRIED else Failed(text)
    assert judge("native", failure(text), None) == expected
    assert judge("native", failure(text), 200) == expected


@pytest.mark.req("SEL-5")
def test_the_status_that_was_seen_counts_more_than_one_in_the_text():
    assert isinstance(judge("native", failure('429: {"message":"(400)"}'), 429), Failed)
    assert isinstance(judge("native", failure("the limit is (429)"), 400), RetryWithTool)


@pytest.mark.req("SEL-5", "SEL-7")
@pytest.mark.parametrize(
    "text",
    [
        "Connection error.: connect ECONNREFUSED 127.0.0.1:1",
        "fetch failed: getaddrinfo ENOTFOUND example.invalid",
        "terminated: other side closed",
        "Request timed out.",
        "AbortError: This operation was aborted",
        "Codex error: the server had an error",
        "Provider stopped with: SAFETY",
        "Provider finish_reason: content_filter",
        "the refusal was explained",
        "",
    ],
)
def test_network_errors_and_refusals_are_final(text: str):
    assert isinstance(judge("native", failure(text), None), Failed)
    assert isinstance(judge("native", failure(text), 200), Failed)


@pytest.mark.req("SEL-5")
@pytest.mark.parametrize("word", ["refusal", "content_filter", "safety", "SAFETY"])
@pytest.mark.req("C40")
def test_a_refusal_is_final_even_as_a_client_error(word: str):
    assert isinstance(judge("native", failure(f"blocked by {word}"), 400), Failed)
    explained = failure("I will not talk about json_schema", rawStopReason=f"incomplete.{word}")
    assert isinstance(judge("native", explained, 200), Failed)


@pytest.mark.req("SEL-5", "SEL-7")
@pytest.mark.parametrize("mode", ["native", "tool"])
def test_an_answer_that_was_cut_off_or_filtered_is_final(mode: Mode):
    cut = answer(names("a.md"), stopReason="length")
    refused = answer("I would rather not.", rawStopReason="content_filter")
    assert isinstance(judge(mode, cut, 200), Failed)
    assert judge(mode, refused, 200) == Failed("the model refused to answer (content_filter)")


@pytest.mark.req("SEL-7")
@pytest.mark.parametrize("mode", ["native", "tool"])
@pytest.mark.req("C40")
def test_a_cancelled_request_is_silent(mode: Mode):
    aborted = failure("Request was aborted", stopReason="aborted")
    assert judge(mode, aborted, 400) == Cancelled()


@pytest.mark.req("SEL-5")
@pytest.mark.parametrize("status", [*RETRIED, None])
def test_the_tool_form_is_never_tried_twice(status: int | None):
    assert isinstance(judge("tool", failure("unknown field response_format"), status), Failed)


@pytest.mark.req("SEL-4", "SEL-5")
def test_an_answer_in_form_is_taken_in_both_modes():
    assert judge("native", answer(names("a.md", "b.md")), 200) == Selected(("a.md", "b.md"))
    assert judge("native", answer(f"\n {names()}\ufeff"), 200) == Failed("the answer is not JSON")
    assert judge("native", answer(f"\n {names()} \t"), 200) == Selected(())
    assert judge("tool", called({"selected_memories": ["a.md"]}), 200) == Selected(("a.md",))


@pytest.mark.req("SEL-4")
def test_text_in_several_blocks_is_one_answer_and_thinking_is_none():
    whole = names("a.md")
    blocks: list[Json] = [
        {"type": "thinking", "thinking": '{"selected_memories": ["x.md"]}'},
        {"type": "text", "text": whole[:9]},
        {"type": "text", "text": whole[9:]},
    ]
    assert judge("native", {"content": blocks, "stopReason": "stop"}, 200) == Selected(("a.md",))


@pytest.mark.req("SEL-5", "SEL-7")
@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\ufeff",
        "Use a.md, I think.",
        f"Here you are: {names('a.md')}",
        f"```json\n{names('a.md')}\n```",
        f"{names('a.md')}{names('b.md')}",
        "null",
        "[]",
        '["a.md"]',
        '"a.md"',
        "{}",
        '{"selected_memories": null}',
        '{"selected_memories": "a.md"}',
        '{"selected_memories": {"a.md": true}}',
        '{"selected_memories": [1]}',
        '{"selected_memories": ["a.md", null]}',
        '{"selected_memories": [["a.md"]]}',
        '{"selected_memories": ["a.md"], "why": "it fits"}',
        '{"Selected_Memories": ["a.md"]}',
        '{"selected_memories": ["a.md"],}',
        '{"selected_memories": ["a.md"',
        "[" * 100_000,
    ],
    ids=lambda text: text[:45],
)
@pytest.mark.req("C40")
def test_a_success_in_another_form_is_final(text: str):
    """The second request is for an API that refused the form, not for a model that did not keep to it."""
    assert isinstance(judge("native", answer(text), 200), Failed)


@pytest.mark.req("SEL-5", "SEL-7")
@pytest.mark.parametrize(
    "message",
    [
        {"content": []},
        {"content": None},
        {},
        answer(names("a.md")),
        called({"selected_memories": ["a.md"]}, name="select_memory"),
        called({"selected_memories": [1]}),
        called({"selected_memories": ["a.md"], "why": ""}),
        called(names("a.md")),
        called(None),
        called({"selected_memories": ["a.md"]}, argumentsError="not JSON"),
    ],
    ids=lambda message: json.dumps(message)[:60],
)
def test_a_tool_answer_in_another_form_is_final(message: Json):
    assert isinstance(judge("tool", message, 200), Failed)


@pytest.mark.req("SEL-7")
@pytest.mark.parametrize("mode", ["native", "tool"])
@pytest.mark.parametrize(
    "content",
    [[{"type": "text"}], [{"type": "text", "text": 5}], ["text"], "text", [{"type": "toolCall"}], [None]],
    ids=repr,
)
def test_a_damaged_message_is_a_failed_one(mode: Mode, content: object):
    assert isinstance(judge(mode, {"content": content, "stopReason": "stop"}, None), Failed)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "stopReason": st.sampled_from(["stop", "error", "aborted", "length"]) | _JSON,
        "errorMessage": _JSON,
        "rawStopReason": _JSON,
        "content": _JSON
        | st.lists(
            st.fixed_dictionaries(
                {"type": st.sampled_from(["text", "toolCall"])},
                optional={"text": _JSON, "name": st.just("select_memories"), "arguments": _JSON},
            )
        ),
    },
)


@pytest.mark.req("SEL-7")
@given(st.sampled_from(["native", "tool"]), _MESSAGE, st.none() | st.integers(100, 599))
def test_whatever_a_host_says_gets_a_verdict(mode: Mode, message: Json, status: int | None):
    outcome = judge(mode, message, status)
    assert isinstance(outcome, Selected | RetryWithTool | Failed | Cancelled)
    assert mode == "native" or not isinstance(outcome, RetryWithTool)


CATALOGUE = {f"{letter}.md": f"{letter}.md" for letter in "abcdefg"} | {
    "sub/x.md": "sub/x.md",
    "shown as.md": "shown\nas.md",
    "[user] y.md": "[user] y.md",
}


@pytest.mark.req("SEL-4")
@pytest.mark.parametrize(
    ("given_names", "accepted", "unknown"),
    [
        ((), (), ()),
        (("b.md", "a.md"), ("b.md", "a.md"), ()),
        (("a.md", "a.md", "[user] a.md"), ("a.md",), ()),
        (("[project] a.md", "[reference]b.md", " [feedback]\u00a0c.md"), ("a.md", "b.md", "c.md"), ()),
        (("[user] y.md",), ("[user] y.md",), ()),
        (("[draft] a.md", "A.md", "./a.md", "a.md ", "../a.md"), (), None),
        (("", "MEMORY.md", "/etc/passwd"), (), None),
        (("sub/x.md", "x.md"), ("sub/x.md",), ("x.md",)),
        (("shown as.md",), ("shown\nas.md",), ()),
        (("a.md", "b.md", "c.md", "d.md", "e.md", "f.md"), ("a.md", "b.md", "c.md", "d.md", "e.md"), ()),
        (
            ("no.md", "a.md", "b.md", "a.md", "c.md", "d.md", "e.md", "f.md"),
            ("a.md", "b.md", "c.md", "d.md", "e.md"),
            ("no.md",),
        ),
    ],
)
def test_names_are_known_ones_each_once_and_five_at_most(
    given_names: tuple[str, ...], accepted: tuple[str, ...], unknown: tuple[str, ...] | None
):
    assert accepted_names(given_names, CATALOGUE) == accepted
    assert unknown_names(given_names, CATALOGUE) == (given_names if unknown is None else unknown)
