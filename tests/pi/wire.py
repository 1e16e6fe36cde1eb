"""How a reply looks on the two wires: server-sent events with the pauses of the script between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TypeAlias

from pi.scripting import Api, Json, Part, Pause, Reply, Stop, Text, Thinking, ToolCall, Usage

Frame: TypeAlias = bytes | Pause
Encoder: TypeAlias = Callable[[Reply, str, int], Iterator[Frame]]
"""(reply, model id, request number) to the frames of the response body."""

PIECES = 3

_OPENAI_STOP: dict[Stop, str] = {"length": "length", "refusal": "content_filter"}
_ANTHROPIC_STOP: dict[Stop, str] = {"length": "max_tokens", "refusal": "refusal"}


def pieces(content: str) -> list[str]:
    """Cut into at most three pieces of near equal length; an empty text gives none."""
    size = max(1, -(-len(content) // PIECES))
    return [content[start : start + size] for start in range(0, len(content), size)]


def argument_text(tool_call: ToolCall) -> str:
    if isinstance(tool_call.arguments, str):
        return tool_call.arguments
    return json.dumps(tool_call.arguments)


def openai_frames(reply: Reply, model: str, number: int) -> Iterator[Frame]:
    """Chunks of a streamed chat completion, the usage chunk and the closing mark."""

    def chunk(**fields: object) -> bytes:
        body = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": model}
        return b"data: " + json.dumps(body | fields).encode() + b"\n\n"

    def choice(delta: Json, finish: str | None = None) -> bytes:
        return chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])

    yield choice({"role": "assistant", "content": ""})
    tool_index = 0
    for step in reply.steps:
        match step:
            case Text() | Thinking() | ToolCall():
                yield from map(choice, _openai_deltas(step, tool_index, f"call_{number}_{tool_index}"))
                tool_index += isinstance(step, ToolCall)
            case _:
                yield step
    yield choice({}, _OPENAI_STOP.get(reply.stop, "tool_calls" if tool_index else "stop"))
    yield chunk(choices=[], usage=_openai_usage(reply.usage))
    yield b"data: [DONE]\n\n"


def _openai_deltas(part: Part, index: int, call_id: str) -> Iterator[Json]:
    match part:
        case Text(content):
            yield from ({"content": piece} for piece in pieces(content))
        case Thinking(content):
            yield from ({"reasoning_content": piece} for piece in pieces(content))
        case ToolCall(name, _, given_id):
            head = {"index": index, "id": given_id or call_id, "type": "function"}
            yield {"tool_calls": [head | {"function": {"name": name, "arguments": ""}}]}
            for piece in pieces(argument_text(part)):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _openai_usage(usage: Usage) -> Json:
    prompt = usage.input + usage.cache_read + usage.cache_write
    details = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": details,
    }


def anthropic_frames(reply: Reply, model: str, number: int) -> Iterator[Frame]:
    """Events of a streamed message, from message_start to message_stop."""
    yield _event("message_start", message=_anthropic_head(reply.usage, model, number))
    index = 0
    for step in reply.steps:
        match step:
            case Text() | Thinking() | ToolCall():
                start, deltas = _anthropic_block(step, f"toolu_{number}_{index}")
                yield _event("content_block_start", index=index, content_block=start)
                yield from (_event("content_block_delta", index=index, delta=delta) for delta in deltas)
                yield _event("content_block_stop", index=index)
                index += 1
            case _:
                yield step
    called = any(isinstance(step, ToolCall) for step in reply.steps)
    stop = _ANTHROPIC_STOP.get(reply.stop, "tool_use" if called else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield _event("message_delta", delta=delta, usage={"output_tokens": reply.usage.output})
    yield _event("message_stop")


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _anthropic_head(usage: Usage, model: str, number: int) -> Json:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input,
            "output_tokens": 0,
            "cache_read_input_tokens": usage.cache_read,
            "cache_creation_input_tokens": usage.cache_write,
        },
    }


def _anthropic_block(part: Part, call_id: str) -> tuple[Json, list[Json]]:
    match part:
        case Text(content):
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(content)]
            return {"type": "text", "text": ""}, deltas
        case Thinking(content, signature):
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(content)]
            deltas.append({"type": "signature_delta", "signature": signature})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case ToolCall(name, _, given_id):
            texts = pieces(argument_text(part))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in texts]
            return {"type": "tool_use", "id": given_id or call_id, "name": name, "input": {}}, deltas


ROUTES: dict[str, tuple[Api, Encoder]] = {
    "/v1/chat/completions": ("openai-completions", openai_frames),
    "/v1/messages": ("anthropic-messages", anthropic_frames),
}
