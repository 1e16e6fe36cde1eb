"""What the model requests of one role have cost, counted on their way to the host (EXT-8)."""

from __future__ import annotations

from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.ports.host import ModelAnswer, ModelQuery, ModelRequest, Models, ResolvedModel


class MeteredModels:
    """Passes everything on to another `Models` and adds up what the answers report."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self.usage = Usage()

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        """Look a model up."""
        return await self._models.resolve_model(query)

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        """Run one request and count it."""
        answer = await self._models.stream_model(request)
        self.usage = self.usage.plus(answer.message.get("usage"))
        return answer
