"""How long a normal request waits for its recall, through the whole service on virtual time."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from pi_project_memory.supervisor.host.player import open_session
from pi_project_memory.supervisor.host.protocol import AgentStartAnswer
from pi_project_memory.supervisor.host.scenario import Reply, Scenario, UserTurn, Wait
from reader_kit import TOPICS


def scenario(delay: float) -> Scenario:
    reply = Reply(choose=["a.md"], delay=delay)
    models = {"sim/selector": [reply], "sim/extractor": [Reply(text="")]}
    config = {"extraction": {"enabled": False}, "dream": {"enabled": False}}
    return Scenario("waiting", [], memory=TOPICS, config=config, models=models)


@pytest.mark.req("RCL-2")
@pytest.mark.parametrize(("delay", "in_time"), [(0.0, True), (1.999, True), (2.001, False), (30.0, False)])
async def test_a_request_waits_two_seconds_for_its_recall_and_no_longer(
    delay: float,
    in_time: bool,  # noqa: FBT001 - a column of the table
    tmp_path: Path,
):
    async with open_session(scenario(delay), tmp_path) as session:
        started = anyio.current_time()
        answer = await session.step(UserTurn("how is a built?"))
        assert isinstance(answer, AgentStartAnswer)
        assert anyio.current_time() - started == pytest.approx(min(delay, 2.0))
        assert (answer.message is not None) is in_time
        assert answer.section is not None
        assert session.host.sent == []
        await session.step(Wait(40.0))
        assert len(session.host.sent) == (not in_time)
        await session.step(UserTurn("and again, how is a built?"))
        await session.step(Wait(40.0))
        assert len(session.host.sent) == (not in_time), "it is told once"
