"""What a host offers the service, and what it tells it (HOST-1).

A host implements `Host` and calls the typed event methods of `MemoryService`. The structs here are the
events' payloads, in this process and on the wire alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pi_project_memory.actors.core.config import ThinkingLevel
from pi_project_memory.actors.ports.codemode import CodemodeHost
from pi_project_memory.actors.ports.host import (
    CodemodeSettings,
    HiddenMessage,
    HistoryHead,
    HostPorts,
    JsonObject,
    ModelInfo,
    NoticeLevel,
)
from pi_project_memory.actors.ports.tools import ToolHost

PROTOCOL_VERSION = 1

SECTION_NAME = "auto_memory"
"""The name under which the host renders the memory section of the system prompt."""

TOOL_RESULT_EVENTS = ("read", "write", "edit", "bash")
"""The main agent's tools whose results are looked at."""

SessionReason = Literal["startup", "reload", "new", "resume", "fork"]
ShutdownReason = Literal["quit", "reload", "new", "resume", "fork"]
HostMode = Literal["tui", "rpc", "json", "print", "embedded"]


class HostName(Struct, frozen=True, rename="camel"):
    """Name and version of the program that embeds the memory."""

    name: str
    version: str


class SessionIdentity(Struct, frozen=True, rename="camel"):
    """Which session this is; `directory` is empty for a session that is not kept."""

    id: str
    directory: str
    uses_default_directory: bool
    reason: SessionReason = "startup"
    restarted: bool = False


class Capabilities(Struct, frozen=True, rename="camel"):
    """What the host can show: notices to a person, and a status line."""

    notify: bool = True
    status: bool = False


class Initialize(Struct, frozen=True, rename="camel"):
    """The handshake (HOST-4)."""

    protocol_version: int
    host: HostName
    mode: HostMode
    agent_dir: str
    cwd: str
    trusted: bool
    session: SessionIdentity
    history: HistoryHead
    capabilities: Capabilities = Capabilities()
    model: ModelInfo | None = None
    thinking_level: ThinkingLevel | None = None
    tools: Sequence[JsonObject] = ()
    codemode: CodemodeSettings = CodemodeSettings()


class ServiceName(Struct, frozen=True, rename="camel"):
    """Who answered the handshake."""

    name: str
    version: str
    pid: int


class Initialized(Struct, frozen=True, rename="camel"):
    """The answer to the handshake; tool results of the named tools are wanted as events."""

    protocol_version: int
    service: ServiceName
    log_file: str | None
    tool_result_events: Sequence[str]


class RunContext(Struct, frozen=True, rename="camel"):
    """What holds at the moment of an event: branch end, active model, thinking level, trust."""

    history: HistoryHead
    trusted: bool
    model: ModelInfo | None = None
    thinking_level: ThinkingLevel | None = None


class BeforeAgentStart(Struct, frozen=True, rename="camel"):
    """A run is about to start, from a submitted prompt or from another extension's message.

    The host waits `within_ms` milliseconds for the answer, and not at all after that.
    """

    context: RunContext
    message_type: Literal["user", "custom"]
    prompt: str | None = None
    within_ms: int = 2500


class PromptSection(Struct, frozen=True, rename="camel"):
    """A named section of the system prompt."""

    name: str
    text: str


class AgentStartAnswer(Struct, frozen=True, rename="camel"):
    """The section to set for this run, and the recall to put behind the prompt.

    While `pending`, memory could not say yet: the host keeps the section that it has.
    """

    section: PromptSection | None = None
    message: HiddenMessage | None = None
    pending: bool = False


class UserMessage(Struct, frozen=True, rename="camel"):
    """A user message has entered the session, submitted, queued or streamed."""

    text: str
    history: HistoryHead


class ToolResult(Struct, frozen=True, rename="camel"):
    """A tool call of the main agent has ended; `nested` when a script made the call."""

    tool_name: str
    tool_call_id: str
    input: JsonObject
    is_error: bool
    truncated: bool = False
    has_image: bool = False
    nested: bool = False


class ToolResultAnswer(Struct, frozen=True, rename="camel"):
    """Text to append to the tool's result, if any."""

    append: str | None = None


class AgentSettled(Struct, frozen=True, rename="camel"):
    """A run has ended for good."""

    context: RunContext
    aborted: bool


class HistoryChanged(Struct, frozen=True, rename="camel"):
    """The active branch is another one, or what the model sees of it has changed."""

    reason: Literal["compact", "tree"]
    history: HistoryHead


class BeforeCompact(Struct, frozen=True, rename="camel"):
    """Compaction waits for this event to be answered."""

    context: RunContext
    reason: Literal["manual", "threshold", "overflow"]


class Command(Struct, frozen=True, rename="camel"):
    """What stood behind `/memory`; `wait` where nothing can be shown after the command has returned."""

    arguments: str
    context: RunContext
    wait: bool = False


class CommandAnswer(Struct, frozen=True, rename="camel"):
    """What to show for a command."""

    text: str
    level: NoticeLevel = "info"


class Completion(Struct, frozen=True, rename="camel"):
    """One completion of a command's argument."""

    value: str
    label: str
    description: str


class Complete(Struct, frozen=True, rename="camel"):
    """The argument text typed so far."""

    prefix: str


class Completions(Struct, frozen=True, rename="camel"):
    """What the typed text can become."""

    items: Sequence[Completion]


class Shutdown(Struct, frozen=True, rename="camel"):
    """The session ends, or is replaced."""

    reason: ShutdownReason


class Empty(Struct, frozen=True, rename="camel"):
    """An answer that says no more than that it was done."""


class Host(HostPorts, ToolHost, CodemodeHost, Protocol):
    """The whole of what a host implements."""
