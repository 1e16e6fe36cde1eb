"""Whether there is anything to extract from a part of the branch (EXT-2, EXT-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pi_project_memory.actors.core.jstext import js_words

FEWEST_WORDS = 3

Verdict = Literal["run", "no message", "main agent wrote", "too few words"]

Json = Mapping[str, Any]


def judge(entries: Sequence[Json], written: frozenset[str]) -> Verdict:
    """Return what to do with the unprocessed entries.

    `written` are the paths, as the calls gave them, that lie in the memory directory.
    """
    messages = list(_messages(entries))
    if not messages:
        return "no message"
    if any(path in written for path in written_paths(entries)):
        return "main agent wrote"
    return "run" if any(map(_has_enough_words, messages)) else "too few words"


def written_paths(entries: Iterable[Json]) -> tuple[str, ...]:
    """Return the paths of the main agent's successful `write` and `edit` calls, those of scripts included."""
    messages = list(_messages(entries))
    calls = {str(call.get("id")): call for message in messages for call in _tool_calls(message)}
    paths = (path for message in messages for path in _written_by(message, calls))
    return tuple(dict.fromkeys(paths))


def _messages(entries: Iterable[Json]) -> Iterator[Json]:
    for entry in entries:
        message = entry.get("message")
        if entry.get("type") == "message" and isinstance(message, Mapping) and "role" in message:
            yield message


def _tool_calls(message: Json) -> Iterator[Json]:
    return _blocks(message.get("content"), "toolCall") if message["role"] == "assistant" else iter(())


def _written_by(result: Json, calls: Json) -> Iterator[str]:
    """Return what the call behind a tool's result has written, and what a script made it write."""
    if result["role"] != "toolResult":
        return
    if not result.get("isError"):
        yield from _path(calls.get(str(result.get("toolCallId"))))
    match result.get("nestedCalls"):
        case {"calls": [*nested]}:
            for call in nested:
                if isinstance(call, Mapping) and call.get("status") == "ok":
                    yield from _path(call)


def _path(call: object) -> Iterator[str]:
    match call:
        case {"name": "write" | "edit", "arguments": {"path": str(path)}}:
            yield path


def _has_enough_words(message: Json) -> bool:
    """Whether one text of a user's message has three words by itself; texts are not added up."""
    if message["role"] != "user":
        return False
    return any(len(js_words(text)) >= FEWEST_WORDS for text in _texts(message.get("content")))


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    yield from (block["text"] for block in _blocks(content, "text") if isinstance(block.get("text"), str))


def _blocks(content: object, kind: str) -> Iterator[Json]:
    blocks = content if isinstance(content, list) else []
    return (block for block in blocks if isinstance(block, Mapping) and block.get("type") == kind)
