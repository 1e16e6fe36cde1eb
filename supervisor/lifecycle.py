"""The life of one session's memory: set up, on or off, reloaded, retired, closed (CFG-6, LIFE-5, PATH-6)."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.activity import ActivitySink, NoActivity
from pi_project_memory.actors.ports.config_file import ConfigError
from pi_project_memory.actors.ports.host import HistoryHead
from pi_project_memory.actors.ports.trace import TraceValue
from pi_project_memory.supervisor.host.protocol import CommandAnswer, Host, Initialize, RunContext
from pi_project_memory.supervisor.memory import Helpers, Memory
from pi_project_memory.supervisor.setup import (
    Environment,
    Off,
    Prepared,
    Settings,
    prepare,
    read_settings,
    why_off,
)
from pi_project_memory.supervisor.status_line import StatusLine
from pi_project_memory.supervisor.version import __version__

NEXT_SESSION = "autoMemoryDirectory has changed; the new directory is used from the next session on."
TRUST_CHANGED = "the project's trust has changed"


class Lifecycle:
    """Owns the memory while it is on and takes new work, and the reason while it does not."""

    def __init__(self, host: Host, environment: Environment, group: TaskGroup) -> None:
        self.memory: Memory | None = None
        self.off: Off | None = None
        self.settings: Settings | None = None
        self.log_file: str | None = None
        self.notifier = Notifier(host, environment.trace)
        self._host = host
        self._environment = environment
        self._group = group
        self._start: Initialize | None = None
        self._activity: ActivitySink = NoActivity()
        self._changing = anyio.Lock()
        self._set_up = anyio.Event()
        self._retired: Memory | None = None
        self._ending = False
        self._close_asked = False
        self._closed = anyio.Event()

    def greet(self, start: Initialize) -> None:
        """Take the handshake; from now on the events of the session are followed."""
        self._start = start
        if start.capabilities.status:
            self._activity = StatusLine(self._host, self._group)

    async def begin(self, start: Initialize) -> None:
        """Set the memory up for the session that was greeted."""
        started = anyio.current_time()
        async with self._changing:
            try:
                self.settings = await read_settings(start.agent_dir)
                await self._open(start, self.settings)
            except ConfigError as error:
                self.off = Off("failed", str(error))
        self._environment.trace.event(
            "session_begun",
            version=__version__,
            host=f"{start.host.name} {start.host.version}",
            mode=start.mode,
            **self._standing(),
            ms=round((anyio.current_time() - started) * 1000, 1),
        )
        if self.off is not None and self.off.state == "failed":
            text = f"Project memory is off for this session: {self.off.reason}"
            await self.notifier.tell("error", text)
        self._set_up.set()

    async def ready(self, seconds: float) -> Memory | None:
        """Wait for the set-up, `seconds` at most, and return the memory if it is on."""
        with anyio.move_on_after(max(seconds, 0.0)):
            await self._set_up.wait()
        return self.memory

    def follow(self, head: HistoryHead) -> None:
        """Note where the active branch ends."""
        if self._start is not None:
            self._start = replace(self._start, history=head)
        if self.memory is not None:
            self.memory.head = head

    def heed(self, context: RunContext) -> None:
        """Follow what the host says holds now; a change of trust ends at once what runs (SUB-5)."""
        self.follow(context.history)
        if self._start is None or context.trusted == self._start.trusted:
            return
        self._start = replace(self._start, trusted=context.trusted)
        if self.settings is None or self._ending:
            return
        memory, self.memory = self.memory, None
        self.off = why_off(self._start, self.settings)
        if memory is not None:
            memory.scope.abort(TRUST_CHANGED)
        self._group.start_soon(self._change_trust, memory)

    async def reload(self) -> CommandAnswer:
        """Read the configuration anew and let it take effect; a broken one changes nothing (CFG-2, CFG-6)."""
        if self._start is None or not self._set_up.is_set():
            return CommandAnswer("Memory is still starting and nothing was reloaded; try again.", "warning")
        async with self._changing:
            try:
                fresh = await read_settings(self._start.agent_dir)
            except ConfigError as error:
                kept = "the last valid configuration stays in force" if self.settings else "memory stays off"
                return self._refused(f"{error} Until then {kept}.")
            if self._ending:
                return CommandAnswer("The session is ending; nothing was reloaded.", "warning")
            return await self._reloaded(self._start, fresh)

    def retire(self, reason: str) -> Memory | None:
        """Take no new work from now on; return the memory for what is left to be finished (LIFE-5)."""
        if not self._ending:
            self._ending = True
            self._retired, self.memory = self.memory, None
            self.off = Off("ended", reason)
        return self._retired

    async def close(self, reason: str) -> None:
        """Close once, whoever asks and whatever becomes of the asker; every asker sees it done."""
        memory = self.retire(reason)
        if self._close_asked:
            await self._closed.wait()
            return
        self._close_asked = True
        with anyio.CancelScope(shield=True):
            await self._stop(memory, reason)
        self._set_up.set()
        self._closed.set()

    def _refused(self, text: str) -> CommandAnswer:
        self.notifier.remember(text)
        return CommandAnswer(text, "error")

    async def _reloaded(self, start: Initialize, fresh: Settings) -> CommandAnswer:
        old, self.settings = self.settings, fresh.with_directory_of(self.settings)
        notes = [NEXT_SESSION] if old and old.directory != fresh.config.auto_memory_directory else []
        # Half of it would leave actors that nobody can stop.
        with anyio.CancelScope(shield=True):
            await self._apply(start, self.settings)
        self._environment.trace.event("config_reloaded", **self._standing())
        lines = [self._state(), *notes, *self.settings.unused]
        return CommandAnswer("\n".join(lines), "warning" if self._failed() else "info")

    async def _change_trust(self, stopped: Memory | None) -> None:
        async with self._changing:
            if stopped is not None:
                await self._stop(stopped, TRUST_CHANGED)
            if self._start is not None and self.settings is not None and not self._ending:
                await self._apply(self._start, self.settings)

    async def _apply(self, start: Initialize, settings: Settings) -> None:
        """Bring the memory to what settings and trust ask for now."""
        off = why_off(start, settings)
        if self.memory is None:
            self.off = None
            await self._open(start, settings)
        elif off is None:
            self.memory.reconfigure(settings)
        else:
            memory, self.memory, self.off = self.memory, None, off
            await self._stop(memory, off.reason)

    def _standing(self) -> dict[str, TraceValue]:
        """Return how the memory stands, as the fields of an event."""
        if self.off is not None:
            return {"state": self.off.state, "reason": self.off.reason}
        memory = self.memory
        return {
            "state": "on" if memory else "starting",
            "directory": memory.directory if memory else "",
            "generation": memory.generations.current if memory else 0,
        }

    def _state(self) -> str:
        if self.off is not None:
            return f"Configuration reloaded; memory is off: {self.off.reason}"
        return "Configuration reloaded; memory is on, and background work under way has been stopped."

    def _failed(self) -> bool:
        return self.off is not None and self.off.state == "failed"

    async def _open(self, start: Initialize, settings: Settings) -> None:
        """Turn the memory on, or find why not."""
        match await prepare(start, settings, self._environment):
            case Off() as off:
                self.off = off
            case Prepared() as prepared:
                await self._turn_on(start, prepared)

    async def _turn_on(self, start: Initialize, prepared: Prepared) -> None:
        helpers = Helpers(self.notifier, self._activity)
        memory = Memory(start, prepared, self._host, self._environment, helpers, self._give_up)
        await memory.start(self._group)
        if self._ending:
            await memory.stop("the session has ended")
            return
        self.memory = memory
        if self._start is not None:
            memory.head = self._start.history  # the session may have gone on meanwhile

    async def _stop(self, memory: Memory | None, reason: str) -> None:
        late = await memory.stop(reason) if memory is not None else []
        self._environment.trace.event("shut_down", reason=reason, late=", ".join(late))

    def _give_up(self, actor: str, error: Exception) -> None:
        text = (
            f"Project memory: the {actor} part failed too often and is off for this session ({error}). "
            "Pi and the rest of the memory go on."
        )
        self._group.start_soon(self.notifier.tell, "warning", text)
