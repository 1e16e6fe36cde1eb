"""What an evaluation needs of a host: models, its file tools, and a word on which model it got."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import anyio

from pi_project_memory.actors.core.config import ModelRef, RoleModel, ThinkingLevel, effective_thinking
from pi_project_memory.actors.ports.host import HostError, JsonObject, ModelQuery, Models
from pi_project_memory.actors.ports.tools import ToolHost
from pi_project_memory.supervisor.evaluate.loading import EvaluationError

ModelsFor = Callable[[str], Models]
"""Gives the models that answer one case, by its id; for a real host they are always the same."""


class EvaluatedHost(Models, ToolHost, Protocol):
    """The part of a host that is evaluated: its models, and the tools that they call."""


@dataclass(frozen=True, slots=True)
class Hosts:
    """Gives the host that answers one case, and declares the six tools as its models know them.

    `of` is told the case's id and the directory in which scripted tool calls find the memory.
    """

    of: Callable[[str, str], EvaluatedHost]
    tools: Sequence[JsonObject] = ()

    def __call__(self, case: str, memory: str = "") -> EvaluatedHost:
        """Return the host of a case."""
        return self.of(case, memory)


Evaluation = Callable[[Hosts], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Model:
    """The model that answers, as `provider/model-id`, and its thinking level as the host clamps it."""

    label: str
    thinking: ThinkingLevel


_WHY = {
    "no_active_model": "the host has no model of its own choice; name one with --model provider/model-id",
    "not_found": "the host does not know the model {name}; `pi --list-models` shows those that it knows",
    "no_credentials": "the host has no credentials for {name}; log in to its provider in Pi first",
    "ok": "the host did not say which model {name} is",
}


async def concrete_model(models: Models, configured: RoleModel) -> Model:
    """Look up the model to evaluate; raises EvaluationError when the host cannot use it."""
    level = effective_thinking(configured.thinking_level, None)
    wanted = configured.model
    query = (
        ModelQuery(level, wanted.provider, wanted.model_id)
        if isinstance(wanted, ModelRef)
        else ModelQuery(level)
    )
    try:
        answer = await models.resolve_model(query)
    except HostError as error:
        raise EvaluationError(f"the host could not look the model up: {error}") from None
    if answer.status != "ok" or answer.model is None:
        raise EvaluationError(_WHY[answer.status].format(name=f"{query.provider}/{query.model_id}"))
    return Model(answer.model.label, answer.thinking_level)


def run_to_end(host: AbstractAsyncContextManager[Hosts], evaluation: Evaluation) -> str:
    """Run `evaluation` while `host` is open; return why it was cut short, or ""."""

    async def run() -> None:
        async with host as hosts:
            await evaluation(hosts)

    try:
        anyio.run(run)
    except KeyboardInterrupt:
        return "interrupted; the numbers cover what was answered before"
    except (EvaluationError, ExceptionGroup) as error:
        cause = _first(error)
        if not isinstance(cause, EvaluationError):
            raise
        return str(cause)
    return ""


def _first(error: Exception) -> Exception:
    """Return the error inside the groups that task groups make of it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
