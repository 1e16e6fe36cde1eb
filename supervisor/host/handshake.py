"""The handshake: answered before anything heavy is loaded (HOST-4)."""

from __future__ import annotations

import os

from pi_project_memory.supervisor.host.protocol import (
    PROTOCOL_VERSION,
    TOOL_RESULT_EVENTS,
    Initialize,
    Initialized,
    ServiceName,
)
from pi_project_memory.supervisor.version import __version__


class VersionMismatchError(Exception):
    """Host and service speak different versions of the protocol; the text names both."""


def answer_handshake(start: Initialize, log_file: str | None) -> Initialized:
    """Return the answer to a handshake; raises VersionMismatchError."""
    if start.protocol_version != PROTOCOL_VERSION:
        raise VersionMismatchError(
            f"{start.host.name} {start.host.version} speaks protocol {start.protocol_version}, "
            f"pi-project-memory {__version__} speaks protocol {PROTOCOL_VERSION}; "
            "run `pi-project-memory install` again so that both fit"
        )
    service = ServiceName("pi-project-memory", __version__, os.getpid())
    return Initialized(PROTOCOL_VERSION, service, log_file, TOOL_RESULT_EVENTS)
