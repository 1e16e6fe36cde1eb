"""What an examination takes from the world, so that tests can give it another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pi_project_memory.actors.ports.clock import Clock, SystemClock
from pi_project_memory.actors.ports.git import CommandGit, Git
from pi_project_memory.actors.ports.process_identity import Processes, SystemProcesses
from pi_project_memory.supervisor.agent_dir import current_agent_dir


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The agent directory, the directory whose project is examined, and whoever answers questions.

    `home` is what `~/` stands for in the configuration.
    """

    agent: Path
    cwd: str
    home: str
    environ: Mapping[str, str]
    clock: Clock
    git: Git
    processes: Processes

    @classmethod
    def real(cls, cwd: Path) -> Surroundings:
        """Return those of this process; raises AgentDirError."""
        agent, home = current_agent_dir(), str(Path.home())
        return cls(agent, str(cwd), home, os.environ, SystemClock(), CommandGit(), SystemProcesses())
