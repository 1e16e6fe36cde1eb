"""What the model requests of one role have cost, counted and traced on their way to the host (EXT-8, OBS-1)."""

from __future__ import annotations

import anyio

from pi_project_memory.actors.core.config import Role
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.ports.host import ModelAnswer, ModelQuery, ModelRequest, Models, ResolvedModel
from pi_project_memory.actors.ports.trace import Private, Trace, TraceValue, fault


class MeteredModels:
    """Passes everything on to another `Models` and adds up what the answers report."""

    def __init__(self, models: Models, role: Role, trace: Trace) -> None:
        self._models = models
        self._role = role
        self._trace = trace
        self.usage = Usage()

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        """Look a model up."""
        return await self._models.resolve_model(query)

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        """Run one request and count it."""
        started = anyio.current_time()
        try:
            answer = await self._models.stream_model(request)
        except BaseException as error:
            self._trace.event("model_unanswered", **self._facts(request, started), **fault(error))
            raise
        spent = Usage().plus(answer.message.get("usage"))
        self.usage += spent
        self._trace.event(
            "model_answered",
            **self._facts(request, started),
            stop=str(answer.message.get("stopReason")),
            status=answer.http_status,
            input=spent.input,
            output=spent.output,
            cache_read=spent.cache_read,
            cost=spent.cost,
            answer=Private(answer.message.get("content")),
            words=Private(answer.message.get("errorMessage", "")),
        )
        return answer

    def _facts(self, request: ModelRequest, started: float) -> dict[str, TraceValue]:
        return {
            "actor": self._role,
            "model": f"{request.provider}/{request.model_id}",
            "continued": request.parent is not None,
            "ms": round((anyio.current_time() - started) * 1000, 1),
            "system": Private(request.system_prompt or ""),
            "asked": Private(request.messages),
        }
