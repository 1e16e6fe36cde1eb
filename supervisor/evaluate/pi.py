"""A real Pi as the host of an evaluation.

Pi runs in rpc mode, which lasts as long as its input is open. Of extensions it loads this project's own,
from a temporary folder, whose launch.json starts a relay in the place of the service: the evaluation is
the other end of the protocol. No session is kept, and the user's extensions are not loaded.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process

from pi_project_memory.supervisor.evaluate.hosts import Hosts
from pi_project_memory.supervisor.evaluate.loading import EvaluationError
from pi_project_memory.supervisor.evaluate.standin import StandIn
from pi_project_memory.supervisor.install import LAUNCH_FILE, SOURCE

START_SECONDS = 60.0
"""How long Pi may take until its extension has shaken hands."""

END_SECONDS = 10.0
"""How long Pi may take to end, after the end of its input and after each signal."""

SOCKET_BYTES = 100
"""A longer path than this is no address of a socket on every system."""

_LAST_WORDS = 2000
_RELAY = "pi_project_memory.supervisor.evaluate.relay"
_BUILTIN = "builtin:"
_MODE = ("--mode", "rpc", "--no-session", "--no-extensions")


@dataclass(frozen=True, slots=True)
class PiProgram:
    """Pi's program, by name or path, and the extensions that it needs, such as one that adds a provider."""

    program: str = "pi"
    extensions: Sequence[str] = ()

    def command(self, extension: Path) -> list[str]:
        """Return the command line that loads `extension`; raises EvaluationError without a program."""
        found = shutil.which(self.program)
        if found is None:
            raise EvaluationError(f"there is no program {self.program}; give the path of Pi with --pi")
        named = [str(extension / "index.ts"), *map(_absolute, self.extensions)]
        return [str(Path(found).absolute()), *_MODE, *(word for path in named for word in ("-e", path))]


def _absolute(extension: str) -> str:
    return extension if extension.startswith(_BUILTIN) else str(Path(extension).absolute())


@asynccontextmanager
async def open_pi(pi: PiProgram) -> AsyncIterator[Hosts]:
    """Give the host that is a Pi inside the block; raises EvaluationError when it does not start."""
    with tempfile.TemporaryDirectory(prefix="ppm-") as name:
        places = _Places(Path(name))
        places.lay_out()
        async with anyio.create_task_group() as group:
            stand_in = StandIn(group)
            server = await asyncio.start_unix_server(stand_in.accept, places.socket)
            async with server, _running(pi.command(places.extension), places) as process:
                group.start_soon(_watch, process, stand_in)
                hosts = await stand_in.hosts(START_SECONDS)
                if hosts is None:
                    raise EvaluationError(_never_began(process, places))
                yield hosts
            group.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class _Places:
    """The temporary folder of one run."""

    root: Path

    @property
    def extension(self) -> Path:
        return self.root / "extension"

    @property
    def project(self) -> Path:
        """Where Pi runs: an empty folder, so that no project's settings count."""
        return self.root / "project"

    @property
    def scratch(self) -> Path:
        """Pi's own temporary folder, where compiled extensions would stay behind otherwise."""
        return self.root / "scratch"

    @property
    def socket(self) -> Path:
        return self.root / "line"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def errors(self) -> Path:
        return self.root / "errors"

    def lay_out(self) -> None:
        if len(os.fsencode(self.socket)) > SOCKET_BYTES:
            raise EvaluationError(
                f"the temporary folder {self.root} has too long a path; set TMPDIR to a shorter one"
            )
        for folder in (self.extension, self.project, self.scratch):
            folder.mkdir()
        for source in SOURCE.glob("*.ts"):
            shutil.copy(source, self.extension)
        launch = {"command": [sys.executable, "-m", _RELAY, str(self.socket)], "logFile": str(self.errors)}
        (self.extension / LAUNCH_FILE).write_text(json.dumps(launch), encoding="utf-8")


@asynccontextmanager
async def _running(command: Sequence[str], places: _Places) -> AsyncIterator[Process]:
    """Run Pi inside the block, apart from the terminal, whose Ctrl+C is for the evaluation alone."""
    with places.output.open("wb") as output, places.errors.open("wb") as errors:
        try:
            process = await anyio.open_process(
                command,
                stdout=output,
                stderr=errors,
                cwd=places.project,
                env=os.environ | {"TMPDIR": str(places.scratch)},
                start_new_session=True,
            )
        except OSError as error:
            raise EvaluationError(f"{command[0]} cannot be started: {error.strerror}") from None
    async with process:
        try:
            yield process
        finally:
            await _end(process)


async def _watch(process: Process, stand_in: StandIn) -> None:
    await process.wait()
    stand_in.give_up()


async def _end(process: Process) -> None:
    """End Pi: by the end of its input, which lets it finish, then by signals to all that it has started."""
    with anyio.CancelScope(shield=True):
        if process.stdin is not None:
            await process.stdin.aclose()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                if number is not None:
                    os.killpg(process.pid, number)
            with anyio.move_on_after(END_SECONDS):
                await process.wait()
                return


def _never_began(process: Process, places: _Places) -> str:
    code = process.returncode
    how = "did not load its extension" if code is None else f"ended with {code}"
    notices = [text for line in places.output.read_bytes().split(b"\n") if (text := _notice(line))]
    errors = places.errors.read_text(encoding="utf-8", errors="replace")
    words = "\n".join([errors.strip(), *notices]).strip() or "It wrote nothing."
    return f"Pi {how} before the evaluation could begin. Its last words:\n{words[-_LAST_WORDS:]}"


def _notice(line: bytes) -> str:
    """Return the text of a notice that an extension has shown, or ""."""
    with suppress(ValueError):
        match json.loads(line):
            case {"method": "notify", "message": str(text)}:
                return text
    return ""
