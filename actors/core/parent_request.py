"""Whether the parent's request can be continued by a background run (EXT-6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pi_project_memory.actors.core.replay import ModelKey

Json = Mapping[str, Any]


def obstacle(
    *,
    requested: bool,
    parent_model: ModelKey | None,
    model: ModelKey,
    recent_messages: int | None,
    compacted: bool,
    images_blocked: bool,
    forced_prompt: bool,
    hidden_tools: Sequence[str],
    parent_tools: Sequence[Json],
    native_tools: Sequence[Json],
) -> str:
    """Return why an independent request is needed, or "" when the parent's prefix can be kept."""
    reasons = (
        (not requested, "the main agent has sent no request yet"),
        (parent_model != model, "the run uses another model than the main agent"),
        (recent_messages is not None, "extraction.recentMessages limits the conversation"),
        (compacted, "a compaction took unprocessed messages from the main agent's request"),
        (images_blocked, "images are left out of the main agent's requests"),
        (forced_prompt, "the main agent's system prompt was replaced as a whole"),
        (bool(hidden_tools), "tools are hidden from the main agent's requests"),
        (not _tools_fit(parent_tools, native_tools), "the main agent's tools do not fit"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _tools_fit(parent: Sequence[Json], native: Sequence[Json]) -> bool:
    """Whether the parent declares enough of the six tools, each with the host's own schema."""
    own = {tool["name"]: tool.get("parameters") for tool in native}
    shared = {tool["name"]: tool.get("parameters") for tool in parent if tool.get("name") in own}
    writes = "write" in shared or "edit" in shared
    return "read" in shared and writes and all(own[name] == schema for name, schema in shared.items())
