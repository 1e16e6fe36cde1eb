"""What a model request says, read the same way from both wires."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pi.scripting import Json, Request

_SYSTEM_ROLES = ("system", "developer")


def content_text(content: Any) -> str:
    """The text blocks of a message's content, joined by line breaks."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(text for block in content for text in _block_texts(block))


def _block_texts(block: Json) -> Iterable[str]:
    match block.get("type"):
        case "text":
            yield block["text"]
        case "tool_result":
            yield content_text(block.get("content"))


def system_text(request: Request) -> str:
    """Every system text of the request, in order, joined by line breaks."""
    top = content_text(request.body.get("system"))
    inside = [content_text(m["content"]) for m in request.body["messages"] if m["role"] in _SYSTEM_ROLES]
    return "\n".join(text for text in (top, *inside) if text)


def messages(request: Request) -> list[Json]:
    """The messages without the system ones, as they stood on the wire."""
    return [message for message in request.body["messages"] if message["role"] not in _SYSTEM_ROLES]


def message_texts(request: Request) -> list[str]:
    """The text of each message that `messages` gives."""
    return [content_text(message.get("content")) for message in messages(request)]


def conversation_text(request: Request) -> str:
    """All message texts in one string, for a plain `in`."""
    return "\n".join(message_texts(request))


def tools(request: Request) -> list[Json]:
    """The tool declarations as they stood on the wire."""
    return list(request.body.get("tools", []))


def tool_names(request: Request) -> list[str]:
    return [tool.get("function", tool)["name"] for tool in tools(request)]
