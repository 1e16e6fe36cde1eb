"""The model of a role, looked up at the start of each task (CFG-7, CFG-8)."""

from __future__ import annotations

from typing import assert_never

from pi_project_memory.actors.core.config import Inherit, Role, RoleModel, ThinkingLevel, effective_thinking
from pi_project_memory.actors.ports.host import ModelInfo, ModelQuery, Models, ResolvedModel


class RoleUnavailableError(Exception):
    """A role has no usable model now; the text says why and what to change."""


async def resolve_role(
    models: Models, role: Role, configured: RoleModel, session_level: ThinkingLevel | None
) -> tuple[ModelInfo, ThinkingLevel]:
    """Return the concrete model and clamped level of `role`; never another model than the configured one."""
    level = effective_thinking(configured.thinking_level, session_level)
    wanted = configured.model
    query = (
        ModelQuery(level)
        if isinstance(wanted, Inherit)
        else ModelQuery(level, provider=wanted.provider, model_id=wanted.model_id)
    )
    answer = await models.resolve_model(query)
    if answer.status == "ok" and answer.model is not None:
        return answer.model, answer.thinking_level
    raise RoleUnavailableError(_why(role, query, answer))


def _why(role: Role, query: ModelQuery, answer: ResolvedModel) -> str:
    name = f"{query.provider}/{query.model_id}"
    field = f"models.{role}.model"
    match answer.status:
        case "no_active_model":
            return f"the session has no active model; choose one, or set {field} in the configuration"
        case "no_credentials":
            return (
                f"there are no credentials for {name}; log in to it, or change {field} in the configuration"
            )
        case "not_found" | "ok":
            return f"the model {name} is not known; correct {field} in the configuration"
        case _:
            assert_never(answer.status)
