"""One selection: the catalogue, at most two model requests, and what came of them (SEL-1 to SEL-7)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pi_project_memory.actors.core.branch import Pair
from pi_project_memory.actors.core.catalogue import Topic, catalogue_text, shown_name
from pi_project_memory.actors.core.config import SelectorModel, ThinkingLevel
from pi_project_memory.actors.core.jstext import utf16_prefix
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.core.selection import (
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
from pi_project_memory.actors.messages import Selection
from pi_project_memory.actors.ports.host import (
    HostError,
    JsonObject,
    ModelInfo,
    ModelRequest,
    Models,
    StreamOptions,
)
from pi_project_memory.actors.ports.store import MemoryStore
from pi_project_memory.actors.prompts import prompt
from pi_project_memory.actors.roles import RoleUnavailableError, resolve_role

REQUEST_SECONDS = 60.0
"""How long one selector request may take before it counts as failed."""

QUERY_UNITS = 8_000
"""A longer prompt is shown to the selector up to here; its subject stands at its beginning."""


class Selector(Struct, frozen=True):
    """Asks the configured model which topics matter; holds no state between calls."""

    models: Models
    store: MemoryStore
    configured: SelectorModel
    cache_id: str

    async def select(
        self, query: str, history: Sequence[Pair], session_level: ThinkingLevel | None
    ) -> Selection:
        """Return what the model chose for `query`; every failure ends as a warning in the result."""
        started = anyio.current_time()
        topics = await self.store.scan()
        scanned = anyio.current_time()
        found = Selection(offered=tuple(topic.path for topic in topics), scan_seconds=scanned - started)
        if not topics:
            return replace(found, note="the directory holds no topics")
        try:
            chosen = await self._ask_model(
                _Question(utf16_prefix(query, QUERY_UNITS), topics, history), session_level
            )
        except (RoleUnavailableError, HostError) as error:
            chosen = _Answer(Failed(str(error)))
        found = replace(
            found, select_seconds=anyio.current_time() - scanned, native_refused=chosen.native_refused
        )
        return _with_outcome(found, chosen.outcome, query, topics)

    async def _ask_model(self, question: _Question, session_level: ThinkingLevel | None) -> _Answer:
        model, level = await resolve_role(self.models, "selector", self.configured, session_level)
        mode = first_mode(model.api, structured_output=self.configured.structured_output)
        outcome = await self._request(question, model, level, mode)
        if not isinstance(outcome, RetryWithTool):
            return _Answer(outcome)
        return _Answer(await self._request(question, model, level, "tool"), native_refused=True)

    async def _request(
        self, question: _Question, model: ModelInfo, level: ThinkingLevel, mode: Mode
    ) -> Outcome:
        request = make_request(question, model, level, mode, self.configured.max_tokens, self.cache_id)
        with anyio.move_on_after(REQUEST_SECONDS):
            answer = await self.models.stream_model(request)
            return judge(mode, answer.message, answer.http_status)
        return Failed(f"{model.label} gave no answer within {REQUEST_SECONDS:g} s")


class _Question(Struct, frozen=True):
    query: str
    topics: Sequence[Topic]
    history: Sequence[Pair] = ()


class _Answer(Struct, frozen=True):
    outcome: Outcome
    native_refused: bool = False


def make_request(
    question: _Question,
    model: ModelInfo,
    level: ThinkingLevel,
    mode: Mode,
    max_tokens: int | None,
    cache_id: str,
) -> ModelRequest:
    """Return the request: the catalogue first, then each earlier query with its answer, then this query.

    What comes first changes least, so that providers can reuse it from their cache (SEL-6).
    """
    instructions = prompt("selector")
    tool = mode == "tool"
    return ModelRequest(
        provider=model.provider,
        model_id=model.id,
        system_prompt=f"{instructions}\n\n{prompt('selector_tool_mode')}" if tool else instructions,
        messages=_conversation(question, model),
        tools=[tool_declaration(prompt("selector_tool"))] if tool else [],
        payload_patch=payload_patch(model.api, mode, thinking=level != "off"),
        options=StreamOptions(
            max_tokens=max_tokens,
            reasoning=None if level == "off" else level,
            cache_retention="short",
            session_id=cache_id,
            timeout_ms=int(REQUEST_SECONDS * 1000),
            transport="sse",  # a WebSocket's refusal has no status to go by
        ),
    )


def _conversation(question: _Question, model: ModelInfo) -> list[JsonObject]:
    catalogue = f"Notes:\n\n{catalogue_text(question.topics)}"
    queries = [*(pair.query for pair in question.history), question.query]
    messages = [_user(f"Request:\n\n{utf16_prefix(query, QUERY_UNITS)}") for query in queries]
    messages[0]["content"].insert(0, {"type": "text", "text": catalogue})
    for position, pair in enumerate(question.history):
        messages.insert(2 * position + 1, _assistant(pair, model))
    return messages


def _user(text: str) -> JsonObject:
    return {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 0}


_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
_NO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": _NO_COST}


def _assistant(pair: Pair, model: ModelInfo) -> JsonObject:
    text = json.dumps({"selected_memories": list(pair.names)}, ensure_ascii=False)
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": model.api,
        "provider": model.provider,
        "model": model.id,
        "usage": _NO_USAGE,
        "stopReason": "stop",
        "timestamp": 0,
    }


def _with_outcome(found: Selection, outcome: Outcome, query: str, topics: Sequence[Topic]) -> Selection:
    match outcome:
        case Selected(names):
            catalogue = {shown_name(topic): topic.path for topic in reversed(topics)}
            paths = accepted_names(names, catalogue)
            unknown = unknown_names(names, catalogue)
            pair = Pair(utf16_prefix(query, QUERY_UNITS), tuple(sanitize_line(path) for path in paths))
            return replace(found, paths=paths, unknown=unknown, pair=pair)
        case Failed(reason) | RetryWithTool(reason):
            return replace(found, warnings=(f"Project memory: the selection failed: {reason}",), note=reason)
        case Cancelled():
            return replace(found, note="cancelled")
