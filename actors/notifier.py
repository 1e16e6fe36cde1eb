"""Telling the user something, in one place: traced, remembered, and never in anybody's way."""

from __future__ import annotations

from pi_project_memory.actors.ports.host import HostError, NoticeLevel, Notices
from pi_project_memory.actors.ports.trace import Private, Trace, fault


class Notifier:
    """Shows notices through the host; `last_warning` is the text of the newest warning or error."""

    def __init__(self, host: Notices, trace: Trace) -> None:
        self._host = host
        self._trace = trace
        self.last_warning = ""

    async def tell(self, level: NoticeLevel, text: str) -> None:
        """Show `text`; a host that cannot is no reason to fail."""
        self._trace.event("notice", level=level, text=Private(text))
        if level != "info":
            self.last_warning = text
        try:
            await self._host.notify(level, text)
        except HostError as error:
            self._trace.event("notice_unseen", level=level, **fault(error))
