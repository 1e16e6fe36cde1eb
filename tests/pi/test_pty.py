"""Proves the terminal driver against the real Pi."""

from __future__ import annotations

import signal

import pytest

from pi.fake_provider import FakeProvider
from pi.pi_home import PiHome
from pi.processes import gone, mentioning
from pi.pty_driver import CONTROL_D, ENTER, ESCAPE, ROWS, pty_session
from pi.scripting import hang, text

pytestmark = pytest.mark.real_time


async def test_a_prompt_and_quit_in_the_terminal(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", text("Hello → there"))
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        await tui.submit("hello out there")
        await tui.shows("Hello → there")
        assert len(tui.lines()) == ROWS
        await tui.submit("/quit")
        assert await tui.wait() == 0
    await gone(lambda: mentioning(str(pi_home.root)))


async def test_escape_aborts_the_run(pi_home: PiHome, provider: FakeProvider):
    provider.script("main", hang())
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        await tui.submit("wait for ever")
        request = await provider.request("main")
        tui.send(ESCAPE)
        await provider.client_left(request)
        await tui.shows("aborted")
        tui.send(CONTROL_D)
        assert await tui.wait() == 0


async def test_a_closed_window_ends_pi_in_order(pi_home: PiHome):
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        tui.hang_up()
        assert await tui.wait() == 128 + signal.SIGHUP


async def test_a_screen_that_never_comes_is_told_with_what_is_shown(pi_home: PiHome):
    async with pty_session(pi_home) as tui:
        await tui.shows("(fake) main")
        with pytest.raises(pytest.fail.Exception, match=r"never[\s\S]*\(fake\) main"):
            await tui.until(lambda: False, "what never comes", bound=0.1)
        tui.send("/quit" + ENTER)
        await tui.wait()
