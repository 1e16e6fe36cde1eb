"""From the entries of a branch to the messages of an independent request (EXT-5, EXT-6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

OWN_PREFIX = "project-memory-"
"""How the custom types of our own entries begin."""

_SPOKEN = frozenset({"user", "assistant"})
_SIGNATURES = frozenset({"textSignature", "thoughtSignature"})

ModelKey = tuple[str, str, str]
"""Provider, api and model id of one concrete model."""

Json = Mapping[str, Any]


def conversation(entries: Iterable[Json], model: ModelKey) -> list[dict[str, Any]]:
    """Return the messages that the entries hold, fit to be replayed to `model`; our own are left out.

    So are the results of calls that lie before the entries: providers refuse a result without its call.
    """
    messages = (_message(entry) for entry in entries)
    fit = [kept for message in messages if message is not None if (kept := for_model(message, model))]
    called = {str(block.get("id")) for message in fit for block in message["content"] if _is_call(block)}
    return [m for m in fit if m["role"] != "toolResult" or str(m.get("toolCallId")) in called]


def recent(messages: Sequence[dict[str, Any]], limit: int | None) -> list[dict[str, Any]]:
    """Return the end of a conversation with `limit` user or assistant messages and the results among them."""
    if limit is None:
        return list(messages)
    spoken = [position for position, message in enumerate(messages) if message["role"] in _SPOKEN]
    return list(messages[spoken[-limit] :] if len(spoken) > limit else messages)


def count_spoken(messages: Iterable[Json]) -> int:
    """Return how many of the messages are a user's or an assistant's."""
    return sum(message["role"] in _SPOKEN for message in messages)


def compacted_away(entries: Sequence[Json]) -> bool:
    """Whether a compaction among the entries took messages before it out of the model's sight."""
    ids = [entry.get("id") for entry in entries]
    for position, entry in enumerate(entries):
        if entry.get("type") == "compaction":
            kept = entry.get("firstKeptEntryId")
            # What is kept from before these entries on loses none of them.
            first = position if kept is None else ids.index(kept) if kept in ids else 0
            if any(other.get("type") == "message" for other in entries[:first]):
                return True
    return False


def for_model(message: Mapping[str, Any], model: ModelKey) -> dict[str, Any] | None:
    """Return an assistant message as `model` may see it, None when nothing is left; others are unchanged.

    Thinking and signatures belong to the model that made them and are refused by any other.
    """
    if message["role"] != "assistant":
        return dict(message)
    if model_key(message) == model:
        return dict(message)
    blocks = [_unsigned(block) for block in message["content"] if block.get("type") != "thinking"]
    return {**message, "content": blocks} if blocks else None


def model_key(message: Json) -> ModelKey:
    """Return which model made an assistant message."""
    return (str(message.get("provider")), str(message.get("api")), str(message.get("model")))


def _is_call(block: Json) -> bool:
    return block.get("type") == "toolCall"


def _unsigned(block: Json) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key not in _SIGNATURES}


def _message(entry: Json) -> dict[str, Any] | None:
    match entry:
        case {
            "type": "message",
            "message": {"role": "user" | "assistant" | "toolResult", "content": content} as message,
        }:
            return {**message, "content": _readable(content)}
        case {"type": "custom_message", "customType": str(kind), "content": content} if not kind.startswith(
            OWN_PREFIX
        ):
            return {"role": "user", "content": _readable(content), "timestamp": 0}
    return None


def _readable(content: object) -> list[dict[str, Any]]:
    """Return content as blocks; a picture, whose data stays with the host, leaves a word in its place."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = content if isinstance(content, list) else []
    return [
        {"type": "text", "text": "[image]"} if block.get("type") == "image" else dict(block)
        for block in blocks
        if isinstance(block, Mapping)
    ]
