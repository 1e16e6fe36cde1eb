"""Codemode in a background run: scripts that call the run's own tools (SUB-7).

A script runs in the host's sandbox; each of its calls is one of the toolbox, under the same checks. What it
stores is kept here, for the run alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
from anyio.abc import TaskGroup

from pi_project_memory.actors.mailbox import Reply
from pi_project_memory.actors.ports.codemode import (
    CODEMODE,
    CodemodeHost,
    CodemodeLoadout,
    CodemodeWanted,
    Script,
    ScriptOutcome,
)
from pi_project_memory.actors.ports.host import CodemodeSettings, HostError, JsonObject, ParentSnapshot
from pi_project_memory.actors.ports.tools import TOOL_NAMES, ToolOutcome
from pi_project_memory.actors.ports.trace import TURN, Trace, fault, in_turn
from pi_project_memory.actors.ports.worker import in_worker
from pi_project_memory.actors.subagent.overflow import adopt_files
from pi_project_memory.actors.subagent.toolbox import Toolbox, checked, unique


@dataclass(frozen=True, slots=True)
class Codemode:
    """Who runs scripts in this session, and the parent's settings as they were at its start."""

    host: CodemodeHost
    settings: CodemodeSettings


@dataclass(frozen=True, slots=True)
class Scripting:
    """Codemode as one run has it."""

    host: CodemodeHost
    wanted: CodemodeWanted
    loadout: CodemodeLoadout

    def declarations(self, native: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the tools to declare: those that are not hidden, each described for scripts, and codemode."""
        shown = [tool for tool in native if tool["name"] not in self.loadout.hidden_tools]
        described = self.loadout.descriptions
        declared = [
            {**tool, "description": described.get(tool["name"], tool["description"])} for tool in shown
        ]
        return [*declared, self.loadout.declaration]

    def toolbox(self, tools: Toolbox) -> ScriptingToolbox:
        """Return the run's tools with codemode among them."""
        return ScriptingToolbox(self.host, self.wanted, tools)


async def inherit_codemode(
    offered: Codemode | None, parent: ParentSnapshot | None, trace: Trace
) -> Scripting | None:
    """Give the run the parent's codemode as it is now; None where the parent or the host has none."""
    if offered is None:
        return None
    now = parent.codemode if parent is not None else None
    settings = now or offered.settings
    if not settings.active:
        return None
    wanted = CodemodeWanted(settings.mode, settings.inline_budget, TOOL_NAMES)
    try:
        loadout = await offered.host.codemode_loadout(wanted)
    except HostError as error:
        trace.event("codemode_unavailable", **fault(error))
        return None
    trace.event("codemode_ready", mode=settings.mode)
    return Scripting(offered.host, wanted, loadout)


@dataclass(frozen=True, slots=True)
class ScriptingToolbox:
    """The tools of a run whose model may also write scripts; `_stored` is what these have put aside."""

    host: CodemodeHost
    wanted: CodemodeWanted
    tools: Toolbox
    _stored: list[JsonObject] = field(default_factory=list)

    async def call(self, call_id: str, tool: str, arguments: object) -> ToolOutcome:
        """Run one call, of a script or of any other tool; raises what `Toolbox.call` raises."""
        if tool != CODEMODE:
            return await self.tools.call(call_id, tool, arguments)
        return await self.tools.watched(tool, arguments, partial(self._run, call_id, arguments))

    async def _run(self, call_id: str, arguments: object) -> ToolOutcome:
        wanted = self.wanted
        script = Script(
            mode=wanted.mode,
            inline_budget=wanted.inline_budget,
            tools=wanted.tools,
            call_id=unique(call_id),
            arguments=checked(arguments),
            stored=tuple(self._stored),
        )
        outcome = await self._to_its_end(script)
        self._stored.extend(outcome.stored)
        return await in_worker(adopt_files, outcome, self.tools.scratch)

    async def _to_its_end(self, script: Script) -> ScriptOutcome:
        """Run the script and all that it calls; the first call that ends the run ends the script too."""
        try:
            async with anyio.create_task_group() as group:
                calls = _Calls(group, replace(self.tools, structured=True), TURN.get())
                outcome = await self.host.run_script(script, calls.call)
                group.cancel_scope.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return outcome


@dataclass(frozen=True, slots=True)
class _Calls:
    """A script's calls, run among the script's own jobs whoever asks for them, so that none outlives it."""

    group: TaskGroup
    tools: Toolbox
    turn: str

    async def call(self, call_id: str, tool: str, arguments: object) -> ToolOutcome:
        """Run one call; cancelling the wait for it cancels it."""
        reply: Reply[ToolOutcome] = Reply()
        scope = anyio.CancelScope()
        self.group.start_soon(self._run, reply, scope, call_id, tool, arguments)
        try:
            return await reply.wait(math.inf)
        finally:
            scope.cancel()

    async def _run(
        self, reply: Reply[ToolOutcome], scope: anyio.CancelScope, call_id: str, tool: str, arguments: object
    ) -> None:
        try:
            with scope, in_turn(self.turn):
                reply.send(await self.tools.call(call_id, tool, arguments))
        finally:
            reply.fail(HostError("the script is over"))
