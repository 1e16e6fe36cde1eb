"""Who holds a lock, in terms that survive a step of the wall clock and a reused process id (LCK-2).

Our token: `ppm1.<boot id>.<pid namespace>.<start ticks>.<boot clock ms>.<random>`, `-` for what the system
does not tell. Boot id and namespace say from where the holder can be seen; the start ticks tell it from a
later process with its id; the boot clock (suspended time included) tells the age of the lock. None of them
moves with the wall clock.

A token from another boot or another pid namespace names a process that cannot be looked up here. Its id may
belong to nobody, or to an unrelated process, while the true holder works on in another container or on
another machine; or that container is long gone. Neither can be found out without its help, so such a holder
is `HIDDEN`: it counts as gone only after a whole stale time without a sign of life (see `lock_rules`). The
same goes for a holder from before a restart of this machine, which from here looks like another machine.

A foreign token tells nothing, so its process id is looked up here, as the documented rule has it: no such
process means gone, and so does one that started after `acquiredAt`, with `START_TOLERANCE_MS` for rounding
and small corrections of the wall clock.

Without a matching `/proc` only the existence of a process can be told, and a reused id looks alive. A
process that replaces its program through exec keeps id and start ticks; this one never does.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pi_project_memory.actors.core.lock_rules import Holder, LockRecord

START_TOLERANCE_MS = 5_000
UNKNOWN = "-"

_TOKEN = re.compile(
    r"ppm1\.(?P<boot_id>-|[0-9a-f-]{36})\.(?P<pid_namespace>-|\d{1,20})"
    r"\.(?P<start_ticks>-|\d{1,20})\.(?P<boot_ms>-|\d{1,20})\.[0-9a-f]{16}",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Vantage:
    """From where a process can be seen: its boot of a machine and its pid namespace."""

    boot_id: str
    pid_namespace: str


@dataclass(frozen=True, slots=True)
class Token:
    """What a token of ours says of its holder; times in clock ticks and milliseconds since boot."""

    vantage: Vantage
    start_ticks: int | None
    boot_ms: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a holder, and the age of its record in milliseconds."""

    holder: Holder
    age_ms: int


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A process that exists and runs; `start_ticks` is None where the system does not tell."""

    start_ticks: int | None


class Processes(Protocol):
    """What locks ask about processes."""

    def pid(self) -> int:
        """Return the id of this process."""
        ...

    def issue_token(self) -> str:
        """Return a token that no other call anywhere returns."""
        ...

    def judge(self, record: LockRecord, now_ms: int) -> Verdict:
        """Look up the holder that `record` names; `now_ms` is the wall clock."""
        ...


def parse_token(text: str) -> Token | None:
    """Return what a token of ours says, or None for a foreign one."""
    match = _TOKEN.fullmatch(text)
    if match is None:
        return None
    vantage = Vantage(match["boot_id"], match["pid_namespace"])
    return Token(vantage, _number(match["start_ticks"]), _number(match["boot_ms"]))


def format_token(token: Token, nonce: str) -> str:
    """Return `token` as text; `nonce` is 16 hexadecimal digits."""
    vantage = token.vantage
    parts = (vantage.boot_id, vantage.pid_namespace, token.start_ticks, token.boot_ms)
    return ".".join(("ppm1", *(UNKNOWN if part is None else str(part) for part in parts), nonce))


def _number(text: str) -> int | None:
    return None if text == UNKNOWN else int(text)


def system_boot_ms() -> int | None:
    """Return the milliseconds since boot, suspended time included, or None where nobody counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else time.clock_gettime_ns(clock) // 1_000_000


@dataclass(frozen=True, slots=True)
class SystemProcesses:
    """The processes of this machine, through `/proc` where it shows the caller's own namespace."""

    proc: Path = Path("/proc")
    pid: Callable[[], int] = os.getpid
    boot_ms: Callable[[], int | None] = system_boot_ms
    signal: Callable[[int, int], None] = os.kill
    ticks_per_second: int = field(default_factory=lambda: os.sysconf("SC_CLK_TCK"))

    def issue_token(self) -> str:
        """Return a fresh token that names this process from where it stands."""
        me = self.look_up(self.pid())
        start_ticks = None if me is None else me.start_ticks
        return format_token(Token(self.vantage(), start_ticks, self.boot_ms()), secrets.token_hex(8))

    def judge(self, record: LockRecord, now_ms: int) -> Verdict:
        """Tell whether the holder lives; the age goes by the boot clock where both share it."""
        token = parse_token(record.token)
        wall_age = now_ms - record.acquired_at
        if token is None:
            return Verdict(self._foreign_holder(record, now_ms), wall_age)
        if token.vantage != self.vantage():
            return Verdict(Holder.HIDDEN, wall_age)
        return Verdict(self._holder_in_sight(record.pid, token), self._age_ms(token, wall_age))

    def vantage(self) -> Vantage:
        """Tell from where this process sees others."""
        if not self._proc_is_ours():
            return Vantage(UNKNOWN, UNKNOWN)
        return Vantage(self._boot_id(), self._pid_namespace())

    def look_up(self, pid: int) -> LiveProcess | None:
        """Return the process, or None if there is none or it is a zombie whose last thread has ended."""
        if self._proc_is_ours():
            try:
                return _parse_stat((self.proc / str(pid) / "stat").read_text(errors="replace"))
            except (OSError, ValueError, IndexError):
                pass
        return LiveProcess(None) if self._exists(pid) else None

    def _age_ms(self, token: Token, wall_age: int) -> int:
        boot_ms = self.boot_ms()
        if boot_ms is None or token.boot_ms is None or token.vantage.boot_id == UNKNOWN:
            return wall_age
        return boot_ms - token.boot_ms

    def _holder_in_sight(self, pid: int, token: Token) -> Holder:
        process = self.look_up(pid)
        if process is None:
            return Holder.GONE
        told = None not in {process.start_ticks, token.start_ticks}
        return Holder.GONE if told and process.start_ticks != token.start_ticks else Holder.ALIVE

    def _foreign_holder(self, record: LockRecord, now_ms: int) -> Holder:
        process = self.look_up(record.pid)
        if process is None:
            return Holder.GONE
        age_ms = self._process_age_ms(process)
        if age_ms is None:
            # This process writes no foreign tokens, so its own id was another's before.
            return Holder.GONE if record.pid == self.pid() else Holder.ALIVE
        started_later = now_ms - age_ms > record.acquired_at + START_TOLERANCE_MS
        return Holder.GONE if started_later else Holder.ALIVE

    def _process_age_ms(self, process: LiveProcess) -> int | None:
        boot_ms = self.boot_ms()
        if boot_ms is None or process.start_ticks is None:
            return None
        age_ms = boot_ms - process.start_ticks * 1000 // self.ticks_per_second
        # A process from the future means two clocks that do not belong together (some containers).
        return age_ms if age_ms > -START_TOLERANCE_MS else None

    def _proc_is_ours(self) -> bool:
        try:
            return (self.proc / "self").readlink().name == str(self.pid())
        except OSError:
            return False

    def _boot_id(self) -> str:
        try:
            text = (self.proc / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return UNKNOWN
        return text if re.fullmatch(r"[0-9a-f-]{36}", text) else UNKNOWN

    def _pid_namespace(self) -> str:
        try:
            return re.sub(r"\D", "", str((self.proc / "self/ns/pid").readlink())) or UNKNOWN
        except OSError:
            return UNKNOWN

    def _exists(self, pid: int) -> bool:
        try:
            self.signal(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            return True
        return True


def _parse_stat(text: str) -> LiveProcess | None:
    # The command name may hold spaces and parentheses; a zombie's last threads may still be at work.
    fields = text[text.rindex(")") + 1 :].split()
    state, threads, start_ticks = fields[0], int(fields[17]), int(fields[19])
    return None if state in "ZXx" and threads <= 1 else LiveProcess(start_ticks)
