"""Runs the real Pi in print and json mode, and holds any run of it so that a test can watch and signal it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pi.pi_home import PiHome
from pi.scripting import Json
from pi.waiting import BOUND, within

MAX_LINE_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class PiResult:
    """How a run of Pi ended; a negative exit code is the signal that ended it."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float


class PiProcess:
    """A running Pi. Its output is read all the time, so that no full pipe can stop it."""

    def __init__(
        self, home: PiHome, process: asyncio.subprocess.Process, on_line: Callable[[bytes], None] | None
    ) -> None:
        self.home = home
        self._process = process
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._started = asyncio.get_running_loop().time()
        assert process.stdout is not None
        assert process.stderr is not None
        self._pumps = asyncio.gather(
            self._pump(process.stdout, on_line or self._stdout.extend),
            self._pump(process.stderr, self._stderr.extend),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None, "this Pi was started without an open stdin"
        return self._process.stdin

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", "replace")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self, bound: float = BOUND) -> PiResult:
        """Wait until Pi has ended and nothing holds its output open any more."""
        code = await within(self._process.wait(), lambda: self.explain("Pi to exit"), bound)
        seconds = asyncio.get_running_loop().time() - self._started
        held = "whatever holds the output of the ended Pi open"
        await within(asyncio.shield(self._pumps), lambda: self.explain(held), bound)
        return PiResult(code, self._stdout.decode("utf-8", "replace"), self.stderr, seconds)

    async def end(self) -> None:
        """Kill Pi if it still runs, and stop reading."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._pumps.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pumps

    def explain(self, what: str) -> str:
        state = "still runs" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"{what}; Pi {state}\nstderr:\n{self.stderr}\n{self.home.provider.describe()}"

    @staticmethod
    async def _pump(stream: asyncio.StreamReader, consume: Callable[[bytes], object]) -> None:
        line = b"-"
        while line:
            line = await stream.readline()
            consume(line)


@asynccontextmanager
async def pi_process(
    home: PiHome,
    *args: str,
    extensions: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int = asyncio.subprocess.DEVNULL,
    on_line: Callable[[bytes], None] | None = None,
) -> AsyncIterator[PiProcess]:
    """Start Pi in the project; whatever happens, it has ended when the block ends.

    `on_line` gets each line of stdout and an empty one at its end, and then stdout is not in the result.
    """
    process = await asyncio.create_subprocess_exec(
        *home.command(*args, extensions=extensions),
        cwd=cwd or home.project,
        env=home.environment | dict(environment or {}),
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
        start_new_session=True,
    )
    pi = PiProcess(home, process, on_line)
    try:
        yield pi
    finally:
        await pi.end()


async def run_pi(
    home: PiHome,
    *args: str,
    extensions: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> PiResult:
    """Run Pi with these arguments to its end."""
    async with pi_process(home, *args, extensions=extensions, environment=environment, cwd=cwd) as pi:
        return await pi.wait()


async def run_print(
    home: PiHome, prompt: str, *args: str, extensions: Sequence[Path] = (), cwd: Path | None = None
) -> PiResult:
    """`pi -p`: one prompt, the answer on stdout."""
    return await run_pi(home, *args, "-p", prompt, extensions=extensions, cwd=cwd)


@dataclass(frozen=True, slots=True)
class JsonResult:
    """A json mode run: the session header, the events after it, and the plain result."""

    header: Json
    events: tuple[Json, ...]
    result: PiResult

    def of(self, kind: str) -> list[Json]:
        return [event for event in self.events if event["type"] == kind]


async def run_json(
    home: PiHome, prompt: str, *args: str, extensions: Sequence[Path] = (), cwd: Path | None = None
) -> JsonResult:
    """`pi --mode json`; fails when a line of stdout is anything but a JSON object."""
    result = await run_pi(home, *args, "--mode", "json", prompt, extensions=extensions, cwd=cwd)
    header, *events = [json_line(line) for line in result.stdout.split("\n")[:-1]] or [{}]
    assert header.get("type") == "session", f"no session header: {result}"
    return JsonResult(header, tuple(events), result)


def json_line(line: str | bytes) -> Json:
    """One record; fails the test when the line is not a JSON object."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        pytest.fail(f"stdout holds a line that is not a JSON object: {line!r}")
    return record
