"""An installation and a project's memory for `doctor` to examine, and what it must leave as it is."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from memory_files import FULL
from pi_project_memory.actors.core.identity import ProjectPaths
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.git import InMemoryGit
from pi_project_memory.actors.ports.process_identity import SystemProcesses
from pi_project_memory.actors.ports.project_dirs import make_directories
from pi_project_memory.actors.ports.publish import publish_replace
from pi_project_memory.supervisor.doctor.observations import Finding, Observation
from pi_project_memory.supervisor.doctor.surroundings import Surroundings
from pi_project_memory.supervisor.install import install_into

NOW_MS = 1_900_000_000_000
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Clinic:
    """An agent directory and a project below one folder. Nothing is made before it is asked for."""

    root: Path
    git: InMemoryGit = field(default_factory=lambda: InMemoryGit({}))

    @property
    def agent(self) -> Path:
        return self.root / "agent"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def data(self) -> Path:
        return self.agent / "project-memory"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    def surroundings(self, **environ: str) -> Surroundings:
        return Surroundings(
            agent=self.agent,
            cwd=str(self.project),
            home=str(self.root / "home"),
            environ={"PATH": str(self.bin)} | environ,
            clock=ManualClock(NOW_MS),
            git=self.git,
            processes=SystemProcesses(),
        )

    def install(self) -> Path:
        return install_into(self.agent, sys.executable)

    def configure(self, text: str) -> Path:
        return self.write(self.data / "config.json", text)

    def remember(self, files: dict[str, str] | None = None, custom: str | None = None) -> ProjectPaths:
        """Make the project's directories as a session does, and publish files in its memory."""
        self.project.mkdir(exist_ok=True)
        home = str(self.root / "home")
        paths = make_directories(str(self.agent), os.path.realpath(self.project), custom, home)
        for name, text in (healthy(3) if files is None else files).items():
            self.write(Path(paths.memory_dir) / name, text)
        return paths

    @staticmethod
    def write(path: Path, text: str, age_ms: int = MINUTE_MS) -> Path:
        """Publish a private file that was written some time ago, by the clock of the clinic."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        publish_replace(str(path), text.encode())
        os.utime(path, ns=((NOW_MS - age_ms) * 10**6,) * 2)
        return path

    def program(self, name: str, script: str) -> Path:
        """Put a shell script on the PATH."""
        path = self.bin / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def tree(self) -> dict[str, tuple[int, ...] | bytes]:
        """Everything below the root: kind, mode, owner, times and content."""
        return {str(path): _state(path) for path in sorted(self.root.rglob("*"))}


def _state(path: Path) -> tuple[int, ...] | bytes:
    status = path.lstat()
    facts = (status.st_ino, status.st_mode, status.st_uid, status.st_mtime_ns, status.st_ctime_ns)
    return repr(facts).encode() + path.read_bytes() if stat.S_ISREG(status.st_mode) else facts


def healthy(count: int) -> dict[str, str]:
    """An index and the topics it points to."""
    topics = {f"topic-{number:03}.md": FULL for number in range(count)}
    index = "".join(f"- [Topic]({name}) — what it is about\n" for name in topics)
    return {"MEMORY.md": index, **topics}


def findings(observations: Iterable[Observation]) -> list[Finding]:
    return [observation for observation in observations if isinstance(observation, Finding)]


def texts(observations: Iterable[Observation]) -> str:
    """What is told beside the findings, a line for each."""
    return "\n".join(seen.text for seen in observations if not isinstance(seen, Finding))


Injury = Callable[[Clinic, ProjectPaths], object]
"""Something that goes wrong with a healthy memory."""
