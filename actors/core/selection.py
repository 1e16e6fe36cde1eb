"""The selector's requests and the reading of its answers (SEL-3 to SEL-7).

One selection is at most two requests. The first is native where the API can constrain output to a JSON
schema and configuration allows it; a client error that speaks of the format leads to one more request to
the same model, in which the answer is the arguments of a tool. Everything else ends the selection. The
two tables below, `CLIENT_ERRORS` and `_FINAL`, are the whole decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from pi_project_memory.actors.core.catalogue import strip_type_prefix
from pi_project_memory.actors.core.jsjson import JsonSyntaxError, loads
from pi_project_memory.actors.core.jstext import js_trim

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"selected_memories": {"type": "array", "items": {"type": "string"}}},
    "required": ["selected_memories"],
    "additionalProperties": False,
}
"""The output schema, as the reference has it (SEL-4)."""

SCHEMA_JSON = (
    '{"type":"object","properties":{"selected_memories":{"type":"array","items":{"type":"string"}}},'
    '"required":["selected_memories"],"additionalProperties":false}'
)
TOOL_NAME = "select_memories"
MOST_NAMES = 5

Mode = Literal["native", "tool"]

_NAMED: dict[str, Any] = {"name": TOOL_NAME, "schema": SCHEMA, "strict": True}
_RESPONSES_NATIVE: dict[str, Any] = {"text": {"format": {"type": "json_schema", **_NAMED}}}
_GOOGLE_NATIVE: dict[str, Any] = {
    "config": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
}
_BEDROCK_SCHEMA: dict[str, Any] = {"jsonSchema": {"name": TOOL_NAME, "schema": SCHEMA_JSON}}

NATIVE_PATCHES: dict[str, dict[str, Any]] = {
    "anthropic-messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "openai-completions": {"response_format": {"type": "json_schema", "json_schema": _NAMED}},
    "openai-responses": _RESPONSES_NATIVE,
    "openai-codex-responses": _RESPONSES_NATIVE,
    "azure-openai-responses": _RESPONSES_NATIVE,
    "google-generative-ai": _GOOGLE_NATIVE,
    "google-vertex": _GOOGLE_NATIVE,
    "mistral-conversations": {
        "responseFormat": {
            "type": "json_schema",
            "jsonSchema": {"name": TOOL_NAME, "schemaDefinition": SCHEMA, "strict": True},
        }
    },
    "bedrock-converse-stream": {
        "outputConfig": {"textFormat": {"type": "json_schema", "structure": _BEDROCK_SCHEMA}}
    },
}
"""What each API's payload needs to constrain the output to the schema."""

_RESPONSES_FORCED: dict[str, Any] = {"tool_choice": {"type": "function", "name": TOOL_NAME}}
_GOOGLE_FORCED: dict[str, Any] = {"config": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}}

FORCED_TOOL_PATCHES: dict[str, dict[str, Any]] = {
    "anthropic-messages": {"tool_choice": {"type": "tool", "name": TOOL_NAME}},
    "openai-completions": {"tool_choice": {"type": "function", "function": {"name": TOOL_NAME}}},
    "openai-responses": _RESPONSES_FORCED,
    "openai-codex-responses": {"tool_choice": "required"},
    "azure-openai-responses": _RESPONSES_FORCED,
    "google-generative-ai": _GOOGLE_FORCED,
    "google-vertex": _GOOGLE_FORCED,
    "mistral-conversations": {"toolChoice": "required"},
    "bedrock-converse-stream": {"toolConfig": {"toolChoice": {"tool": {"name": TOOL_NAME}}}},
}
"""What makes each API call the one tool; other APIs are asked in words alone."""

_NO_FORCE_WHILE_THINKING = frozenset({"anthropic-messages", "bedrock-converse-stream"})

CLIENT_ERRORS = frozenset({400, 404, 405, 406, 415, 422})
"""HTTP statuses after which the tool form is tried once."""

_FINAL = frozenset({401, 403, 408, 409, 423, 425, 429})
_FORMAT_WORDS = re.compile(r"structured_output|json_schema|response_format|output_config")
_REFUSAL_WORDS = re.compile(r"\b(refusal|content_filter|safety)\b", re.IGNORECASE)
_STATUS_IN_TEXT = re.compile(r'^(\d{3})\b|\((\d{3})\)|"code":\s*(\d{3})\b|error: (\d{3}):')


class Selected(Struct, frozen=True):
    """The model has answered in form; the names are still to be checked."""

    names: tuple[str, ...]


class RetryWithTool(Struct, frozen=True):
    """The model's API refused the native form; ask the same model once more in the tool form."""

    reason: str


class Failed(Struct, frozen=True):
    """Nothing is selected and the user is warned with the reason."""

    reason: str


class Cancelled(Struct, frozen=True):
    """Nothing is selected, in silence."""


Outcome = Selected | RetryWithTool | Failed | Cancelled


def first_mode(api: str, *, structured_output: bool) -> Mode:
    """Return the form of the first request to a model of `api` (SEL-5)."""
    return "native" if structured_output and api in NATIVE_PATCHES else "tool"


def payload_patch(api: str, mode: Mode, *, thinking: bool) -> dict[str, Any] | None:
    """Return what the payload of a request in `mode` needs, if the API is known.

    Two APIs refuse a forced tool while the model thinks, so there the words of the prompt must do.
    """
    if mode == "native":
        return NATIVE_PATCHES[api]
    if thinking and api in _NO_FORCE_WHILE_THINKING:
        return None
    return FORCED_TOOL_PATCHES.get(api)


def tool_declaration(description: str) -> dict[str, Any]:
    """Return the one tool of the tool form; `description` is prompt text."""
    return {"name": TOOL_NAME, "description": description, "parameters": SCHEMA}


def judge(mode: Mode, message: Mapping[str, Any], http_status: int | None) -> Outcome:
    """Decide what one answer means; `message` is the host's assistant message (SEL-5, SEL-7)."""
    stop = message.get("stopReason")
    if stop == "aborted":
        return Cancelled()
    if _REFUSAL_WORDS.search(str(message.get("rawStopReason") or "")):
        return Failed(f"the model refused to answer ({message['rawStopReason']})")
    if stop == "error":
        return _judge_error(mode, str(message.get("errorMessage") or "unknown error"), http_status)
    if stop == "length":
        return Failed("the answer was cut off at the output limit (models.selector.maxTokens)")
    return _read_text(message) if mode == "native" else _read_tool_call(message)


def accepted_names(names: Iterable[str], catalogue: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topic paths that `names` stand for: known ones, each once, at most five (SEL-4).

    `catalogue` maps each name as it was shown to the topic's path.
    """
    paths = dict.fromkeys(
        catalogue[name] for name in map(partial(_as_shown, catalogue), names) if name in catalogue
    )
    return tuple(paths)[:MOST_NAMES]


def unknown_names(names: Iterable[str], catalogue: Mapping[str, str]) -> tuple[str, ...]:
    """Return those of `names` that the catalogue does not hold."""
    return tuple(name for name in names if _as_shown(catalogue, name) not in catalogue)


def _as_shown(catalogue: Mapping[str, str], name: str) -> str:
    return name if name in catalogue else strip_type_prefix(name)


def _judge_error(mode: Mode, text: str, http_status: int | None) -> Outcome:
    status = http_status if http_status is not None and http_status >= 400 else _status_in(text)  # noqa: PLR2004
    told = text if status is None or str(status) in text else f"HTTP {status}: {text}"
    if mode == "tool" or status in _FINAL or (status or 0) >= 500 or _REFUSAL_WORDS.search(text):  # noqa: PLR2004
        return Failed(told)
    if status in CLIENT_ERRORS or _FORMAT_WORDS.search(text):
        return RetryWithTool(told)
    return Failed(told)


def _status_in(text: str) -> int | None:
    match = _STATUS_IN_TEXT.search(text)
    return int(next(group for group in match.groups() if group)) if match else None


def _read_text(message: Mapping[str, Any]) -> Outcome:
    texts = [block.get("text") for block in _blocks(message) if block.get("type") == "text"]
    text = "".join(text for text in texts if isinstance(text, str))
    if not js_trim(text):
        return Failed("the answer holds no text")
    try:
        return _validated(loads(text.encode("utf-8", "surrogatepass")))
    except JsonSyntaxError:
        return Failed("the answer is not JSON")


def _read_tool_call(message: Mapping[str, Any]) -> Outcome:
    calls = [block for block in _blocks(message) if block.get("type") == "toolCall"]
    call = next((call for call in calls if call.get("name") == TOOL_NAME), None)
    if call is None:
        return Failed(f"the answer does not call {TOOL_NAME}")
    if call.get("argumentsError"):
        return Failed(f"the arguments of {TOOL_NAME} are not JSON")
    return _validated(call.get("arguments"))


def _validated(value: object) -> Outcome:
    """Hold `value` against the schema; there is little enough of it to do so by hand."""
    match value:
        case {"selected_memories": [*names], **rest} if not rest and all(isinstance(n, str) for n in names):
            return Selected(tuple(names))
    return Failed('the answer is not {"selected_memories": [file names]}')


def _blocks(message: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else ()
