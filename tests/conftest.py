"""What every test shares: virtual time unless a test is marked `real_time`, and no silent skips."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import anyio.to_thread
import pytest
import pytest_asyncio
from hypothesis import settings

from virtual_clock import VirtualClockLoop

# Machines are noisy: how long an example takes is never a verdict.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

ALLOWED_SKIPS: frozenset[str] = frozenset()
"""The reasons for which a test may be skipped; any other skip fails the run."""

UNEXPECTED_SKIPS = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[UNEXPECTED_SKIPS] = []


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.get_closest_marker("real_time"):
        return {"real": asyncio.SelectorEventLoop}
    return {"virtual": VirtualClockLoop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and pytest_asyncio.is_async_test(item):
            item.fixturenames.append("threads_hold_the_clock")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.skipped:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if reason.removeprefix("Skipped: ") not in ALLOWED_SKIPS:
            item.config.stash[UNEXPECTED_SKIPS].append(f"{item.nodeid}: {reason}")
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if session.config.stash[UNEXPECTED_SKIPS] and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for skip in config.stash[UNEXPECTED_SKIPS]:
        terminalreporter.write_line(f"SKIPPED WITHOUT LEAVE {skip}", red=True)


@pytest_asyncio.fixture
async def threads_hold_the_clock() -> None:
    """Keep virtual time still while an anyio worker thread is at work."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualClockLoop):
        loop.watch(anyio.to_thread.current_default_thread_limiter())
