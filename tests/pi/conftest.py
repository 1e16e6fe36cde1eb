"""Fixtures of the tests that run the real Pi. Each such test is marked `real_time`."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from pi.fake_provider import FakeProvider, fake_provider
from pi.pi_home import MakePiHome, PiHome
from pi.processes import gone, mentioning


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[FakeProvider]:
    """A running fake provider; the test fails at its end when a request was not scripted."""
    async with fake_provider() as running:
        yield running
    running.assert_clean()


@pytest_asyncio.fixture
async def make_pi_home(tmp_path: Path, provider: FakeProvider) -> AsyncIterator[MakePiHome]:
    """A maker of homes; the test fails at its end when a process that belongs to one of them lives on."""
    homes: list[PiHome] = []

    def make(name: str = "pi", **options: Any) -> PiHome:
        homes.append(PiHome.create(tmp_path / name, provider, **options))
        return homes[-1]

    yield make
    for home in homes:
        try:
            await gone(partial(mentioning, str(home.root)))
        finally:
            _kill_all(home)


def _kill_all(home: PiHome) -> None:
    for process in mentioning(str(home.root)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


@pytest.fixture
def pi_home(make_pi_home: MakePiHome) -> PiHome:
    """A fresh home with the default settings and a git repository as project."""
    return make_pi_home()
