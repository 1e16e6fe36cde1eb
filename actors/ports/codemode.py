"""Codemode as a host runs it for a background task: scripts that call the task's own tools (SUB-7).

The host has the sandbox, and shows its model what scripts are. Each call that a script makes comes back through
the function given with the script, and so do the values that it stores: the host keeps nothing of a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from pi_project_memory.actors.ports.host import JsonObject
from pi_project_memory.actors.ports.tools import ToolOutcome

CODEMODE = "codemode"
"""The tool that runs a script, by the name the host's model knows."""


class CodemodeWanted(Struct, frozen=True, rename="camel"):
    """Codemode in the parent's mode and with its budget in tokens, for scripts that may call `tools`."""

    mode: Literal["on", "only"]
    inline_budget: int
    tools: Sequence[str]


class CodemodeLoadout(Struct, frozen=True, rename="camel"):
    """How codemode is declared, and what that makes of the other tools: new descriptions, or no declaration."""

    declaration: JsonObject
    descriptions: Mapping[str, str] = {}
    hidden_tools: Sequence[str] = ()


class Script(CodemodeWanted, frozen=True, rename="camel"):
    """One call of codemode; `stored` is what the task's earlier scripts have put into their store."""

    call_id: str
    arguments: Any
    stored: Sequence[JsonObject]


class ScriptOutcome(ToolOutcome, frozen=True, rename="camel"):
    """What the script gave back, and what it has added to its store."""

    stored: Sequence[JsonObject] = ()


class ScriptCall(Struct, frozen=True, rename="camel"):
    """One call of the script `script_id`."""

    script_id: str
    call_id: str
    tool: str
    arguments: Any = None


ScriptTools = Callable[[str, str, object], Awaitable[ToolOutcome]]
"""Runs one call of a script: its id, the tool's name, its arguments."""


class CodemodeHost(Protocol):
    """The part of a host that runs scripts; one that has none raises HostError."""

    async def codemode_loadout(self, wanted: CodemodeWanted) -> CodemodeLoadout:
        """Say how the tools are to be declared beside codemode."""
        ...

    async def run_script(self, script: Script, call: ScriptTools) -> ScriptOutcome:
        """Run a script to its end; cancelling the call aborts it. A script's failure is an error outcome."""
        ...
