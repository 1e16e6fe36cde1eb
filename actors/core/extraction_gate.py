"""Whether there is anything to extract from a part of the branch (EXT-2, EXT-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pi_project_memory.actors.core.jstext import js_words

FEWEST_WORDS = 3

Verdict = Literal["run", "no message", "main agent wrote", "too few words"]

_WRITERS = frozenset({"write", "edit"})

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
    """Return the paths of the main agent's successful `write` and `edit` calls, nested ones included."""
    entries = list(entries)
    calls = {call["id"]: call for message in _messages(entries) for call in _tool_calls(message)}
    paths: list[str] = []
    for message in _messages(entries):
        if message["role"] != "toolResult":
            continue
        done = calls.get(str(message.get("toolCallId")))
        if done is not None and not message.get("isError"):
            paths.extend(_path(done.get("name"), done.get("arguments")))
        for nested in message.get("nestedCalls") or ():
            if isinstance(nested, Mapping) and not nested.get("isError"):
                paths.extend(_path(nested.get("name"), nested.get("arguments")))
    return tuple(dict.fromkeys(paths))


def _messages(entries: Iterable[Json]) -> Iterator[Json]:
    for entry in entries:
        message = entry.get("message")
        if entry.get("type") == "message" and isinstance(message, Mapping) and "role" in message:
            yield message


def _tool_calls(message: Json) -> Iterator[Json]:
    content = message.get("content")
    if message["role"] == "assistant" and isinstance(content, list):
        yield from (block for block in content if block.get("type") == "toolCall" and "id" in block)


def _path(tool: object, arguments: object) -> Iterator[str]:
    if tool in _WRITERS and isinstance(arguments, Mapping) and isinstance(arguments.get("path"), str):
        yield arguments["path"]


def _has_enough_words(message: Json) -> bool:
    """Whether one text of a user's message has three words by itself; texts are not added up."""
    if message["role"] != "user":
        return False
    return any(len(js_words(text)) >= FEWEST_WORDS for text in _texts(message.get("content")))


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        yield from (block["text"] for block in content if block.get("type") == "text")
