"""Puts the extension in front of the scripted fake service, and reads what that service was told."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pi.pi_home import PiHome
from pi.processes import Process, mentioning
from pi.scripting import Json
from pi.waiting import until

EXTENSION = Path(__file__).resolve().parents[2] / "supervisor" / "pi_extension"
FAKE_SERVICE = Path(__file__).resolve().parent / "fake_service.py"


@dataclass(frozen=True, slots=True)
class ScriptedService:
    """The fake service of one home. Make it with `install_service`."""

    folder: Path

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def script(self) -> Path:
        return self.folder / "script.json"

    @property
    def log_file(self) -> Path:
        return self.folder / "service.log"

    def records(self) -> list[Json]:
        if not self.journal.exists():
            return []
        lines = self.journal.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def starts(self) -> list[Json]:
        return [record for record in self.records() if "started" in record]

    def frames(self, method: str | None = None, run: int | None = None) -> list[Json]:
        """The frames received, all or those of one method or one start."""
        found = [record for record in self.records() if "frame" in record and run in {None, record["run"]}]
        return [record["frame"] for record in found if method in {None, record["frame"].get("method")}]

    def params(self, method: str, run: int | None = None) -> list[Json]:
        return [frame["params"] for frame in self.frames(method, run)]

    def answers(self) -> list[Json]:
        """What the host answered, in order."""
        return [frame for frame in self.frames() if "method" not in frame]

    async def received(self, method: str, count: int = 1) -> Json:
        """The parameters of the frame number `count` with this method, waiting for it if need be."""
        await until(
            lambda: len(self.params(method)) >= count,
            lambda: f"the service to hear {method} for the {count}. time; it heard {self.frames()}",
        )
        return self.params(method)[count - 1]

    async def started(self, count: int) -> None:
        await until(
            lambda: len(self.starts()) >= count, lambda: f"start {count} of the service: {self.records()}"
        )

    def processes(self) -> list[Process]:
        """The service processes alive now, and whatever else was started with the script's path."""
        return mentioning(str(self.script))


def install_service(home: PiHome, *runs: Json, command: Sequence[str] | None = None) -> ScriptedService:
    """Install the extension in `home`; the fake service behaves as in `runs`, one per start."""
    service = ScriptedService(home.root / "service")
    service.folder.mkdir()
    script = {"journal": str(service.journal), "runs": runs or [{}]}
    service.script.write_text(json.dumps(script), "utf-8")
    launch = {
        "command": command or [sys.executable, str(FAKE_SERVICE), str(service.script)],
        "logFile": str(service.log_file),
    }
    (install_extension(home) / "launch.json").write_text(json.dumps(launch), "utf-8")
    return service


def install_extension(home: PiHome) -> Path:
    """Copy the extension to where Pi discovers it, without the launch.json of an installation."""
    target = home.agent_dir / "extensions" / "project-memory"
    target.mkdir(parents=True)
    for source in EXTENSION.glob("*.ts"):
        shutil.copy(source, target)
    return target
