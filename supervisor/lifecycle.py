"""The life of one session's memory: set up, on or off, reloaded, closed (CFG-6, LIFE-5, PATH-6)."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.activity import ActivitySink, NoActivity
from pi_project_memory.actors.ports.config_file import ConfigError
from pi_project_memory.actors.ports.trace import TraceValue
from pi_project_memory.supervisor.host.protocol import CommandAnswer, Host, Initialize
from pi_project_memory.supervisor.memory import Helpers, Memory
from pi_project_memory.supervisor.setup import Environment, Off, Prepared, Settings, prepare, read_settings
from pi_project_memory.supervisor.status_line import StatusLine
from pi_project_memory.supervisor.version import __version__

NEXT_SESSION = "autoMemoryDirectory has changed; the new directory is used from the next session on."


class Lifecycle:
    """Owns the memory while it is on, and the reason while it is off."""

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
        self._reloading = anyio.Lock()
        self._set_up = anyio.Event()
        self._close_asked = anyio.Event()
        self._closed = anyio.Event()

    @property
    def start(self) -> Initialize | None:
        """The handshake this session began with."""
        return self._start

    async def begin(self, start: Initialize) -> None:
        """Set the memory up for a session that has just begun."""
        self._start = start
        started = anyio.current_time()
        if start.capabilities.status:
            self._activity = StatusLine(self._host, self._group)
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

    async def reload(self) -> CommandAnswer:
        """Read the configuration anew and let it take effect; a broken one changes nothing (CFG-2, CFG-6)."""
        async with self._reloading:
            if self._start is None or self._close_asked.is_set():
                return CommandAnswer("The session is ending; nothing was reloaded.", "warning")
            try:
                fresh = await read_settings(self._start.agent_dir)
            except ConfigError as error:
                kept = "the last valid configuration stays in force" if self.settings else "memory stays off"
                return CommandAnswer(f"{error} Until then {kept}.", "error")
            return await self._apply(self._start, fresh)

    async def close(self, reason: str) -> None:
        """Close once, whoever asks and whatever becomes of the asker; every asker sees it done."""
        if self._close_asked.is_set():
            await self._closed.wait()
            return
        self._close_asked.set()
        with anyio.CancelScope(shield=True):
            await self._stop(Off("failed", reason))
        self._set_up.set()
        self._closed.set()

    async def _apply(self, start: Initialize, fresh: Settings) -> CommandAnswer:
        old, self.settings = self.settings, fresh.with_directory_of(self.settings)
        notes = [NEXT_SESSION] if old and old.directory != fresh.config.auto_memory_directory else []
        if self.memory is None:
            self.off = None
            await self._open(start, self.settings)
        elif fresh.config.enabled:
            self.memory.reconfigure(fresh)
        else:
            await self._stop(Off("disabled", f"`enabled` is false in {fresh.path}"))
        self._environment.trace.event("config_reloaded", **self._standing())
        return CommandAnswer("\n".join([self._state(), *notes]), "warning" if self._failed() else "info")

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
        return "Configuration reloaded; memory is on, and what was running has been stopped."

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
        if self._close_asked.is_set():
            await memory.stop("the session has ended")
            return
        self.memory = memory

    async def _stop(self, off: Off) -> None:
        memory, self.memory, self.off = self.memory, None, off
        late = await memory.stop(off.reason) if memory is not None else []
        self._environment.trace.event("shut_down", reason=off.reason, late=", ".join(late))

    def _give_up(self, actor: str, error: Exception) -> None:
        text = (
            f"Project memory: the {actor} part failed too often and is off for this session ({error}). "
            "Pi and the rest of the memory go on."
        )
        self._group.start_soon(self.notifier.tell, "warning", text)
