"""The four scopes of the contract, and a block that one of them guards."""

from __future__ import annotations

import anyio

from pi_project_memory.actors.scopes import AbortScope

LEVELS = ("session", "generation", "task", "request")


def nested() -> list[AbortScope]:
    """Return the four scopes of the contract, outermost first."""
    scopes = [AbortScope(LEVELS[0])]
    for name in LEVELS[1:]:
        scopes.append(scopes[-1].child(name))
    return scopes


async def sleep_in(scope: AbortScope) -> None:
    with scope.guard():
        await anyio.sleep_forever()
