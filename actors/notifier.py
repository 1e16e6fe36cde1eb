"""Telling the user something, in one place: traced, remembered, and never in anybody's way.

What is told may quote a provider, a model or a file, whose control characters are not for a terminal.
"""

from __future__ import annotations

import anyio
from msgspec import Struct

from pi_project_memory.actors.core.sanitize import sanitize
from pi_project_memory.actors.ports.host import HostError, NoticeLevel, Notices
from pi_project_memory.actors.ports.trace import Private, Trace, fault


class Warned(Struct, frozen=True):
    """A warning or error that was told, and when, in seconds of the event loop's clock."""

    text: str
    at: float


class Notifier:
    """Shows notices through the host; `last_warning` is the newest warning or error."""

    def __init__(self, host: Notices, trace: Trace) -> None:
        self._host = host
        self._trace = trace
        self.last_warning: Warned | None = None

    async def tell(self, level: NoticeLevel, text: str) -> None:
        """Show `text`; a host that cannot is no reason to fail."""
        text = sanitize(text)
        self._trace.event("notice", level=level, text=Private(text))
        if level != "info":
            self.remember(text)
        try:
            await self._host.notify(level, text)
        except HostError as error:
            self._trace.event("notice_unseen", level=level, **fault(error))

    def remember(self, text: str) -> None:
        """Note a warning that is shown in another way."""
        self.last_warning = Warned(text, anyio.current_time())
