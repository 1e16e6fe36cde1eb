"""What the actors need from whatever embeds them: models, the session, notices (HOST-1).

The types are the payloads of the wire protocol too, so a host in this process and one behind a pipe
speak the same language. Field names become camelCase on the wire. Messages and session entries stay
plain JSON objects here: they belong to the host, and each reader takes from them what it understands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from pi_project_memory.actors.core.config import ThinkingLevel

JsonObject = dict[str, Any]
"""One JSON object of the host's: a message, a session entry, a tool schema."""

NoticeLevel = Literal["info", "warning", "error"]


class ModelInfo(Struct, frozen=True, rename="camel"):
    """One concrete model of the host's registry; `context_window` and `max_tokens` in tokens."""

    provider: str
    id: str
    api: str
    reasoning: bool = False
    context_window: int = 0
    max_tokens: int = 0

    @property
    def label(self) -> str:
        """The `provider/model-id` form that configuration uses."""
        return f"{self.provider}/{self.id}"


class ModelQuery(Struct, frozen=True, rename="camel"):
    """Which model a role wants: a named one, or with neither name the session's own (CFG-7)."""

    thinking_level: ThinkingLevel
    provider: str | None = None
    model_id: str | None = None


class ResolvedModel(Struct, frozen=True, rename="camel"):
    """The host's answer: the model with the level clamped to what it supports, or why there is none."""

    status: Literal["ok", "no_active_model", "not_found", "no_credentials"]
    model: ModelInfo | None = None
    thinking_level: ThinkingLevel = "off"


class StreamOptions(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Options of one model request; what is left out is left to the host. `timeout_ms` in milliseconds.

    `transport` is for the APIs that have several; over "sse" each answer has an HTTP status.
    """

    max_tokens: int | None = None
    reasoning: ThinkingLevel | None = None
    cache_retention: Literal["none", "short", "long"] | None = None
    session_id: str | None = None
    disable_continuation: bool = False
    timeout_ms: int | None = None
    max_retries: int | None = None
    transport: Literal["sse"] | None = None


class ModelRequest(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One request to a model: its own context, or the parent's request with `messages` appended.

    `payload_patch` is merged into the provider's payload: objects key by key, anything else replaced.
    `parent` names a snapshot of the parent request; then `system_prompt` and `tools` are the parent's.
    """

    provider: str
    model_id: str
    messages: Sequence[JsonObject]
    options: StreamOptions = StreamOptions()
    system_prompt: str | None = None
    tools: Sequence[JsonObject] = ()
    payload_patch: JsonObject | None = None
    parent: str | None = None


class ModelAnswer(Struct, frozen=True, rename="camel"):
    """The assistant message as the host gives it, and the last HTTP status seen, if any."""

    message: JsonObject
    http_status: int | None = None


class HiddenMessage(Struct, frozen=True, rename="camel"):
    """A message for the model that the user does not see; `details` stays with the session."""

    custom_type: str
    content: str
    details: JsonObject | None = None
    display: bool = False


class HistoryHead(Struct, frozen=True, rename="camel"):
    """The end of the active branch: `length` entries can be asked for under `handle` (HOST-5)."""

    handle: str
    length: int


class CodemodeSettings(Struct, frozen=True, rename="camel"):
    """The parent session's codemode: whether it is active, its mode and its inline budget in tokens."""

    active: bool = False
    mode: Literal["on", "only"] = "on"
    inline_budget: int = 3000


class ParentSnapshot(Struct, frozen=True, rename="camel"):
    """The main agent's last request as the host can repeat it under `handle` (EXT-6).

    `model` made it, `system_text` and `tools` went with it; `requested` is false when this process has
    sent none yet. `section` is the memory section in it, if any. The flags name what makes the projection
    differ from the request: tools that were hidden from it, a prompt forced by somebody, images left out.
    `codemode` is how it is set now; without it the handshake's word holds.
    """

    handle: str
    requested: bool
    system_text: str
    model: ModelInfo | None = None
    section: str | None = None
    tools: Sequence[JsonObject] = ()
    hidden_tools: Sequence[str] = ()
    forced_prompt: bool = False
    images_blocked: bool = False
    codemode: CodemodeSettings | None = None


class HostError(Exception):
    """The host could not do what was asked; the text says what and why."""


class StaleHistoryError(HostError):
    """The handle belongs to a branch that is no longer active."""


class Models(Protocol):
    """The host's model registry."""

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        """Look a model up, without falling back to another (CFG-7, CFG-8)."""
        ...

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        """Run one request to its end; cancelling the call aborts it at the provider (HOST-7)."""
        ...


class Session(Protocol):
    """The host's session: its active branch, and what may be added to it."""

    async def read_history(
        self, handle: str, start: int, stop: int | None, types: Sequence[str] | None = None
    ) -> Sequence[JsonObject]:
        """Return the branch entries `start` to `stop`; raises StaleHistoryError for an old handle.

        Without `stop` they go to the end of the branch as it is now. With `types`, entries of any other type
        come as their id and type alone.
        """
        ...

    async def append_entry(self, custom_type: str, data: JsonObject) -> None:
        """Keep `data` on the branch, out of the model's sight."""
        ...

    async def send_message(self, message: HiddenMessage) -> None:
        """Hand a message to the next model call without forcing one (RCL-2)."""
        ...


class ParentRequests(Protocol):
    """The main agent's own request, kept by the host so that it need not cross over (HOST-5)."""

    async def capture_parent(self) -> ParentSnapshot:
        """Keep the request as it would be sent now, and describe it."""
        ...

    async def release_parent(self, handle: str) -> None:
        """Let go of a request that was kept."""
        ...


class Notices(Protocol):
    """How the host tells its user something."""

    async def notify(self, level: NoticeLevel, text: str) -> None:
        """Show `text` once, where the host shows such things."""
        ...

    async def show_status(self, text: str | None) -> None:
        """Set the status line, or clear it with None."""
        ...


class HostPorts(Models, Session, ParentRequests, Notices, Protocol):
    """Everything the actors ask of a host."""


def merge_payload(payload: Mapping[str, Any], patch: Mapping[str, Any]) -> JsonObject:
    """Return `payload` with `patch` merged in: objects key by key, anything else replaced."""
    merged = dict(payload)
    for key, value in patch.items():
        old = merged.get(key)
        both_objects = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_payload(old, value) if both_objects else value  # type: ignore[arg-type]
    return merged
