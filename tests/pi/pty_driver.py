"""Runs the real Pi's terminal interface in a pseudo-terminal of 120 by 40 and reads its screen."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pyte

from pi.pi_home import PiHome
from pi.waiting import BOUND, within

COLUMNS, ROWS = 120, 40
ENTER, ESCAPE, TAB, CONTROL_C, CONTROL_D = "\r", "\x1b", "\t", "\x03", "\x04"

_READ_BYTES = 1 << 16
_KEYBOARD_RESET = b"\x1b[<u"
"""Leaves the extended keyboard mode; pyte does not know it and would show a letter."""

# The child must make the terminal its controlling one before it becomes Pi: only then does closing the
# terminal send SIGHUP, as a real terminal's window does. Doing it here spares a preexec_fn.
_TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class PtySession:
    """A running terminal Pi. Open it with `pty_session`."""

    def __init__(self, home: PiHome, process: asyncio.subprocess.Process, terminal: int) -> None:
        self._home = home
        self._process = process
        self._terminal = terminal
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = asyncio.Event()
        self._output = bytearray()
        self._open = True
        asyncio.get_running_loop().add_reader(terminal, self._read)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> bytes:
        """Everything that came out of the terminal, escape sequences included."""
        return bytes(self._output)

    def lines(self) -> list[str]:
        """The rows of the screen without trailing spaces."""
        return [row.rstrip() for row in self._screen.display]

    def screen(self) -> str:
        return "\n".join(self.lines())

    def send(self, keys: str) -> None:
        """Type; ENTER, ESCAPE, TAB and the control keys are constants of this module."""
        os.write(self._terminal, keys.encode())

    async def submit(self, line: str) -> None:
        """Type a line, wait until the editor shows it, and press Enter."""
        self.send(line)
        await self.shows(line)
        self.send(ENTER)

    async def shows(self, part: str) -> str:
        """Wait until `part` stands on the screen, within one row, and return that row."""
        await self.until(lambda: part in self.screen(), f"{part!r} on the screen")
        return next(row for row in self.lines() if part in row)

    async def hides(self, part: str) -> None:
        await self.until(lambda: part not in self.screen(), f"{part!r} gone from the screen")

    async def until(self, condition: Callable[[], bool], what: str, bound: float = BOUND) -> None:
        """Wait until `condition` holds; it is looked at after every change of the screen."""

        async def watch() -> None:
            while not condition():
                assert self._open, self.explain(what)
                await self._changed.wait()

        await within(watch(), lambda: self.explain(what), bound)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self, bound: float = BOUND) -> int:
        """The exit code; a negative one is the signal that ended Pi."""
        return await within(self._process.wait(), lambda: self.explain("Pi to exit"), bound)

    def hang_up(self) -> None:
        """Close the terminal, as closing its window does."""
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._terminal)
            os.close(self._terminal)
            self._wake()

    async def end(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self.hang_up()

    def explain(self, what: str) -> str:
        frame = "\n".join(f"|{row}" for row in self.lines() if row)
        return f"{what}; the screen shows\n{frame}\n{self._home.provider.describe()}"

    def _read(self) -> None:
        try:
            data = os.read(self._terminal, _READ_BYTES)
        except OSError:
            # Linux answers EIO once every process has closed the other side.
            data = b""
        if not data:
            self.hang_up()
            return
        self._output += data
        self._stream.feed(data.replace(_KEYBOARD_RESET, b""))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@asynccontextmanager
async def pty_session(
    home: PiHome,
    *args: str,
    extensions: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[PtySession]:
    """Start Pi's terminal interface in the project; whatever happens, it has ended when the block ends."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", _TAKE_TERMINAL, *home.command(*args, extensions=extensions)),
            cwd=home.project,
            env=home.environment | dict(environment or {}),
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
    finally:
        os.close(inside)
    session = PtySession(home, process, terminal)
    try:
        yield session
    finally:
        await session.end()
