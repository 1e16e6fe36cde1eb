"""Scripted models for an evaluation: replies in YAML, by the id of the case that they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from msgspec import Struct, field

from pi_project_memory.actors.ports.host import ModelInfo
from pi_project_memory.supervisor.evaluate.hosts import Hosts
from pi_project_memory.supervisor.evaluate.loading import load_yaml, refuse
from pi_project_memory.supervisor.host.scenario import Reply
from pi_project_memory.supervisor.host.simulated import ScriptedModels, SimulatedHost
from pi_project_memory.supervisor.host.tools.schemas import DECLARATIONS


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """Replies by case, in the order of its requests; `otherwise` answers the cases that are not named."""

    replies: dict[str, list[Reply]] = field(default_factory=dict)
    otherwise: list[Reply] = field(default_factory=lambda: [Reply(choose=[])])
    provider: str = "scripted"
    model: str = "model"
    api: str = "anthropic-messages"


def load_script(path: Path, cases: Collection[str]) -> Script:
    """Return the script in a YAML file for these cases; raises EvaluationError."""
    script = load_yaml(path, Script)
    refuse(path, (f"there is no case {name}" for name in script.replies if name not in cases))
    return script


@asynccontextmanager
async def open_script(script: Script) -> AsyncIterator[Hosts]:
    """Give each case models of its own, so that the order in which cases run does not matter."""
    active = ModelInfo(script.provider, script.model, script.api)

    def host_of(case: str, memory: str) -> SimulatedHost:
        replies = script.replies.get(case, script.otherwise)
        return SimulatedHost(ScriptedModels({active.label: replies}, script.api, active, memory))

    yield Hosts(host_of, [asdict(declaration) for declaration in DECLARATIONS])
