"""The page of a turn as a browser shows it: whole by itself, light and dark, wide and narrow (OBS-2)."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import zlib
from html import escape, unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pi_project_memory.supervisor.traces.events import Event
from pi_project_memory.supervisor.traces.page import page
from pi_project_memory.supervisor.traces.timeline import make_timeline
from trace_kit import a_turn, event, record

pytestmark = pytest.mark.real_time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
DARK = "--blink-settings=preferredColorScheme=0"

MEASURE = """<script>
const bars = [...document.querySelectorAll('.bar')].map(bar => bar.getBoundingClientRect());
const seen = selector => [...document.querySelectorAll(selector)].filter(one => one.checkVisibility()).length;
const ticks = [...document.querySelectorAll('.tick')].filter(tick => tick.checkVisibility())
  .map(tick => tick.getBoundingClientRect());
document.body.dataset.measured = JSON.stringify({
  width: innerWidth,
  scroll: document.documentElement.scrollWidth,
  bars: bars.length,
  thinnest: Math.min(...bars.map(bar => bar.width)),
  rightmost: Math.max(...bars.map(bar => bar.right)),
  crowded: ticks.some((tick, n) => n && tick.left < ticks[n - 1].right),
  events: seen('.events > li'),
  points: seen('.point'),
  paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.body).color,
});
</script></body>"""


FRAME = """<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<body onload="document.body.dataset.found =
  document.getElementById('frame').contentDocument.body.dataset.measured">
<iframe id="frame" style="border: 0; width: {width}px; height: 900px" srcdoc="{copy}"></iframe></body>"""


class Browser:
    """A headless Chromium with a profile of its own."""

    def __init__(self, program: str, profile: Path) -> None:
        self._command = [program, *FLAGS, f"--user-data-dir={profile}"]

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, timeout=120, check=True)
        return done.stdout.decode()

    def dom(self, file: Path, width: int, *flags: str) -> str:
        return self._run("--dump-dom", f"--window-size={width},900", *flags, file.as_uri())

    def screenshot(self, file: Path, width: int, picture: Path) -> bytes:
        self._run(f"--screenshot={picture}", f"--window-size={width},900", file.as_uri())
        return picture.read_bytes()

    def measured(self, html: str, width: int, file: Path, *flags: str) -> dict[str, Any]:
        """Return what a script finds that is added to a copy of the page, which itself allows none.

        The copy lies in a frame of the wanted width, since a window has a least width of its own.
        """
        copy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html).replace(
            "</body>", MEASURE
        )
        file.write_text(FRAME.format(width=width, copy=escape(copy)), encoding="utf-8")
        found = re.search(r'data-found="([^"]*)"', self.dom(file, width, *flags))
        assert found is not None
        measured: dict[str, Any] = json.loads(unescape(found[1]))
        return measured


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.fail("Chromium is missing: install it, for example with 'apt-get install chromium'")
    return Browser(program, tmp_path / "profile")


def events_of(records: list[dict[str, Any]]) -> list[Event]:
    return [
        event(0, one["event"], None, **{key: value for key, value in one.items() if key != "event"})
        for one in records
    ]


HOSTILE = '</style><script>alert("x")</script><img src=x onerror=alert(1)>'


def rich_page() -> str:
    """Return a page with everything in it: parallel work, long pauses, failures, texts, odd names."""
    extra = [
        record(400, "received", "t1", actor="prefetch", message="UserMessageSeen", generation=0),
        record(2000, "stale_dropped", "t1", actor="prefetch", message="SelectionReady", reason="too late"),
        record(10_460, "tool_called", "t1", actor="extractor", tool="bash", failed=True, ms=150),
        record(10_460, "published", "t1", actor="extractor", path=HOSTILE, change="created"),
        record(10_470, HOSTILE, "t1", actor=HOSTILE, texts={HOSTILE: HOSTILE}),
        record(60_000, "notice", "t1", level="warning", texts={"text": "word " * 500}),
        record(60_000, "published", "t1", path="long/" * 200, change="created"),
    ]
    return page(make_timeline(1, events_of([*a_turn(), *extra])), ["1 line was passed over."])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    file = tmp_path / "turn.html"
    file.write_text(rich_page(), encoding="utf-8")
    return file


class Tags(HTMLParser):
    """Collects the names and the attributes of all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs


@pytest.mark.req("OBS-2")
def test_the_page_fetches_nothing_and_runs_nothing():
    html = rich_page()
    tags = Tags()
    tags.feed(html)
    assert tags.names.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    assert not [name for name, _ in tags.attributes if name == "src" or name.startswith("on")]
    links = [value for name, value in tags.attributes if name == "href"]
    assert links
    assert all(str(link).startswith("#e") for link in links)
    assert "url(" not in html
    assert "@import" not in html
    assert "default-src 'none'" in html


@pytest.mark.req("OBS-2")
def test_every_mark_leads_to_its_event():
    html = rich_page()
    targets = re.findall(r'<li id="(e\d+)"', html)
    assert len(targets) == len(set(targets))
    assert set(re.findall(r'href="#(e\d+)"', html)) == set(targets)


@pytest.mark.req("OBS-2")
def test_the_browser_shows_what_the_log_says_and_nothing_of_it_as_markup(browser: Browser, written: Path):
    dom = browser.dom(written, 1200)
    assert "<title>Turn 1, project memory trace</title>" in dom
    assert "sim/extractor answered" in dom
    assert "<script" not in dom
    assert "<img" not in dom
    assert f"{HOSTILE.replace('<', '&lt;').replace('>', '&gt;')} created" in dom
    assert "SelectionReady dropped as stale: too late" in dom


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_fits_a_wide_and_a_narrow_window(width: int, browser: Browser, tmp_path: Path):
    html = rich_page()
    found = browser.measured(html, width, tmp_path / "measured.html")
    assert found["width"] == width
    assert found["scroll"] <= width
    assert found["rightmost"] <= width
    assert found["bars"] == html.count('class="bar ')
    assert found["thinnest"] >= 4
    assert not found["crowded"]


@pytest.mark.req("OBS-2")
def test_messages_between_actors_are_shown_on_demand(browser: Browser, tmp_path: Path):
    html = rich_page()
    quiet = browser.measured(html, 1200, tmp_path / "quiet.html")
    told = browser.measured(
        html.replace('id="messages"', 'id="messages" checked'), 1200, tmp_path / "all.html"
    )
    received = 3
    assert told["events"] - quiet["events"] == told["points"] - quiet["points"] == received
    assert quiet["events"] == html.count('<li id="e') - received


def brightness(colour: str) -> float:
    channels = [float(number) for number in re.findall(r"[\d.]+", colour)[:3]]
    return sum(channels) / 3


@pytest.mark.req("OBS-2")
def test_the_page_is_light_or_dark_as_the_reader_likes(browser: Browser, tmp_path: Path):
    light = browser.measured(rich_page(), 1200, tmp_path / "light.html")
    dark = browser.measured(rich_page(), 1200, tmp_path / "dark.html", DARK)
    assert brightness(light["paper"]) - brightness(light["ink"]) > 150
    assert brightness(dark["ink"]) - brightness(dark["paper"]) > 150


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Return the width, the height and the filtered rows of a picture."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    data, position = b"", 8
    width, height = struct.unpack(">II", png[16:24])
    while position < len(png):
        length, kind = struct.unpack(">I4s", png[position : position + 8])
        if kind == b"IDAT":
            data += png[position + 8 : position + 8 + length]
        position += length + 12
    return width, height, zlib.decompress(data)


@pytest.mark.req("OBS-2")
@pytest.mark.parametrize("width", [1200, 400])
def test_a_picture_of_the_page_is_not_blank(width: int, browser: Browser, written: Path, tmp_path: Path):
    wide, high, rows = pixels(browser.screenshot(written, width, tmp_path / "page.png"))
    assert (wide, high) == (width, 900)
    assert len(set(rows)) > 100
    assert rows.count(0) < 0.98 * len(rows)
