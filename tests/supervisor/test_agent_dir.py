"""Where the agent directory is, held against what the real Pi makes of the same environment."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from node_oracle import ask_node
from pi import install_pi
from pi_project_memory.supervisor.agent_dir import (
    VARIABLE,
    AgentDirError,
    agent_dir,
    current_agent_dir,
    depends_on_cwd,
    home_directory,
)

pytestmark = pytest.mark.req("HOST-10")

CONFIG = install_pi.TARGET / "node_modules/@earendil-works/pi-coding-agent/dist/config.js"
HOME = "/home/u"

ASK_PI = f"""
(() => {{
    const {{ getAgentDir }} = require({str(CONFIG)!r});
    const {{ join, resolve }} = require("node:path");
    return ([home, value]) => {{
        process.env.HOME = home;
        process.env.PI_CODING_AGENT_DIR = value;
        try {{ return resolve(join(getAgentDir(), "extensions")); }}
        catch {{ return null; }}
    }};
}})()
"""

KNOWN = (
    "",
    "~",
    "~/",
    "~/x",
    "~//x",
    "~/../y",
    "~/x/./y/",
    "~user",
    "~user/x",
    "/a/b",
    "/a/../b/",
    "/a//b",
    "//a/b",
    " /a",
    "rel/x",
    "./rel",
    "../up",
    "..",
    ".",
    "file:///a/b",
    "file:///a%20b",
    "file:///a%2Fb",
    "file:///a%2fb",
    "file://localhost/a",
    "file://LocalHost/a",
    "file://%6cocalhost/a",
    "file://host/a",
    "file://~/a",
    "file://a",
    "file://",
    "file:///",
    "file:////a//b",
    "file:///a?x=1#y",
    "file:///a#y?x",
    "file:///a b",
    "file:///ä/日本/😀",
    "file:///%C3%A4",
    "file:///%E4",
    "file:///a%zz",
    "file:///a%",
    "file:///a/../b",
    "file:///a//../b",
    "file:///../../b",
    "file:///a/%2e%2E/b/%2e/c",
    "file:///a/.%2e/b",
    "file:///a%252e",
    "file:///a\\b",
    "file:///a\tb\n",
    "file:///a/ ",
    "file:/a",
    "FILE:///a",
    "https://a/b",
)

URL_PIECES = (
    "a",
    "B",
    "/",
    "//",
    ".",
    "..",
    "%2e",
    "%20",
    "%25",
    "%41",
    "%2F",
    "%",
    "%c3%a4",
    "%ff",
    "?",
    "#",
    " ",
)


def ours(home: str, value: str) -> str | None:
    environ = {"HOME": home, VARIABLE: value}
    try:
        return str(agent_dir(environ, home_directory(environ)) / "extensions")
    except AgentDirError:
        return None


def test_every_form_means_what_it_means_to_pi() -> None:
    cases = [(home, value) for value in KNOWN for home in (HOME, "rel/home", "/h/../k/")]
    cases += [("", ""), ("", "~"), ("", "~/x")]
    expected = ask_node(ASK_PI, cases)
    assert [ours(*case) for case in cases] == expected
    assert expected.count(None) >= 5


def test_any_file_url_means_what_it_means_to_pi() -> None:
    dice = random.Random(6)
    urls = ("".join(dice.choices(URL_PIECES, k=dice.randrange(9))) for _ in range(4_000))
    cases = [(HOME, f"file:///{url}") for url in urls]
    expected = ask_node(ASK_PI, cases)
    assert [ours(*case) for case in cases] == expected
    assert expected.count(None) > 1_000


def test_without_home_the_account_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    expected = ask_node("() => require('node:os').homedir()", [0])
    assert [str(home_directory(os.environ))] == expected


def test_the_environment_of_the_process_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    assert current_agent_dir() == tmp_path / ".pi/agent"
    monkeypatch.setenv(VARIABLE, "~/elsewhere")
    assert current_agent_dir() == tmp_path / "elsewhere"


def test_a_relative_path_starts_at_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert agent_dir({VARIABLE: "../rel/./x"}, Path(HOME)) == tmp_path.parent / "rel/x"


@pytest.mark.parametrize(
    "value", ["file://host/a", "file:///a%2fb", "file:///a%zz", "file:///%ff", "file:///%00"]
)
def test_what_pi_cannot_use_is_told_with_the_remedy(value: str) -> None:
    with pytest.raises(
        AgentDirError, match=r"PI_CODING_AGENT_DIR is set to .*cannot use: .*Set it to an absolute"
    ):
        agent_dir({VARIABLE: value}, Path(HOME))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", False),
        ("~", False),
        ("~/x", False),
        ("/x", False),
        ("file:///x", False),
        ("x", True),
        ("~u/x", True),
    ],
)
def test_only_a_relative_path_depends_on_where_pi_is_started(value: str, expected: bool) -> None:  # noqa: FBT001
    assert depends_on_cwd({VARIABLE: value}) is expected
