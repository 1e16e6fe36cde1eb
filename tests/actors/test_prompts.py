"""The prompts: frozen word for word, filled in one pass, and carrying what the rest of the system relies on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pi_project_memory.actors import prompts
from pi_project_memory.actors.consolidation import Consolidation
from pi_project_memory.actors.core.branch import BranchState, Pair
from pi_project_memory.actors.core.config import Config
from pi_project_memory.actors.core.recall import Loaded, compose
from pi_project_memory.actors.core.selection import Mode
from pi_project_memory.actors.extraction import Extraction
from pi_project_memory.actors.index import EMPTY_INDEX, make_section
from pi_project_memory.actors.ports.clock import ManualClock
from pi_project_memory.actors.ports.host import ModelInfo, ParentSnapshot
from pi_project_memory.actors.ports.sessions import SessionSeen
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.actors.prompts import PromptName, fill, prompt
from pi_project_memory.actors.selector import _Question, make_request
from pi_project_memory.actors.subagent.path_policy import ReadRoots
from pi_project_memory.actors.subagent.run import (
    HEADING,
    Plan,
    Workshop,
    _Opening,
    _opening,
    tool_section,
)

STORED = Path(prompts.__file__).parent
FROZEN = Path(__file__).resolve().parents[2] / "fixtures" / "prompts"

MEMORY = "/home/user/.pi/agent/project-memory/projects/-home-user-shop/memory"
PROJECT = "/home/user/shop"
CWD = "/home/user/shop/web"
SCRATCH = "/tmp/pi-project-memory-x1y2z3"
SESSIONS = "/home/user/.pi/agent/sessions/--home-user-shop--"
SESSION_ID = "0198f3c2-5d1e-7c4a-9b1f-2e6a7d8c9b0a"
INDEX = (
    "- [Test database](test-database.md) — starting it, and why port 5433\n"
    "- [Release day](release-day.md) — when a version is cut"
)
NOON = int(datetime(2026, 11, 30, 12).astimezone().timestamp() * 1000)

VALUES: Mapping[str, Mapping[str, str]] = {
    "main_section": {"memory_directory": MEMORY, "index": INDEX},
    "tool_section": {
        "cwd": CWD,
        "memory_directory": MEMORY,
        "read_roots": f"{PROJECT}, {MEMORY}",
    },
    "dream": {
        "session_directory": SESSIONS,
        "sessions": f"- {SESSION_ID} (2026-11-28)",
        "max_turns": "50",
        "today": "Monday, 2026-11-30",
    },
    "extractor": {"scope": "above, in its last 4 messages", "max_turns": "5", "today": "Monday, 2026-11-30"},
}
"""The values that the frozen texts hold; a prompt that is not named here has none."""

NAMES: list[PromptName] = [path.stem for path in sorted(STORED.glob("*.txt"))]  # type: ignore[misc]
ROOTS = ReadRoots((Path(PROJECT), Path(MEMORY), Path(SCRATCH)))
MODEL = ModelInfo("provider", "model", "anthropic-messages")


def frozen(name: str) -> str:
    return (FROZEN / f"{name}.txt").read_text("utf-8").removesuffix("\n")


def workshop() -> Workshop:
    return Workshop(
        host=None,  # type: ignore[arg-type]
        trace=RecordedTrace(),
        session_id="session",
        cwd=Path(CWD),
        memory_dir=Path(MEMORY),
        agent_dir=Path("/home/user/.pi/agent"),
        project_root=Path(PROJECT),
        worktree=Path(PROJECT),
        session_dir=None,
        native_tools=(),
    )


def opening(parent: ParentSnapshot | None, independent: str) -> _Opening:
    plan = Plan(
        role="extractor",
        model=MODEL,
        level="off",
        max_tokens=None,
        max_turns=5,
        task="the task",
        rules=make_section(INDEX, MEMORY).text,
        conversation=lambda _: [{"role": "user", "content": [{"type": "text", "text": "what was said"}]}],
        check=lambda: None,
        on_turn=lambda _: None,
        on_touch=lambda _: None,
    )
    return _opening(workshop(), plan, ROOTS, parent, independent)


def said(number: int) -> dict[str, object]:
    role = "assistant" if number % 2 else "user"
    message = {"role": role, "content": [{"type": "text", "text": f"words of message {number}"}]}
    return {"type": "message", "id": f"{number}", "message": message}


@pytest.mark.req("PRM-1")
def test_every_prompt_is_frozen():
    assert {path.stem for path in FROZEN.glob("*.txt")} == set(NAMES)


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_its_frozen_text_but_for_its_values(name: PromptName):
    assert fill(prompt(name), **VALUES.get(name, {})) == frozen(name)
    assert set(re.findall(r"\{\{(.*?)\}\}", prompt(name))) == set(VALUES.get(name, {}))


@pytest.mark.req("PRM-1")
def test_what_a_model_is_sent_is_the_frozen_text():
    entries = [said(number) for number in range(4)]
    extraction = Extraction(workshop(), None, None, ManualClock(NOON), None)  # type: ignore[arg-type]
    shop = replace(workshop(), session_dir=Path(SESSIONS))
    consolidation = Consolidation(shop, None, None, None, None, ManualClock(NOON), None)  # type: ignore[arg-type]
    other = SessionSeen(SESSION_ID, int(datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp() * 1000))
    loaded = Loaded("topic.md", b"text\n", "v1", NOON)
    recalled = compose(
        BranchState(), [loaded], directory=MEMORY, guidance=prompt("recall_guidance"), now_ms=NOON
    )
    assert make_section(INDEX, MEMORY).text == frozen("main_section")
    assert tool_section(workshop(), ROOTS) == frozen("tool_section")
    assert extraction._task(entries, Config()) == frozen("extractor")
    assert consolidation._task([other], Config()) == frozen("dream")
    assert recalled.text.startswith(f"<memory-recall>\n\n{frozen('recall_guidance')}\n\n")


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize(
    ("mode", "instructions"),
    [
        ("native", frozen("selector")),
        ("tool", f"{frozen('selector')}\n\n{frozen('selector_tool_mode')}"),
    ],
)
def test_a_selector_is_sent_the_frozen_text(mode: Mode, instructions: str):
    question = _Question("two words", (), [Pair("earlier words", ("topic.md",))])
    request = make_request(question, MODEL, "off", mode, 512, "cache")
    assert request.system_prompt == instructions
    assert [tool["description"] for tool in request.tools] == [frozen("selector_tool")] * (mode == "tool")


@pytest.mark.req("PRM-1")
def test_the_tool_section_opens_with_its_heading():
    assert HEADING == "## Background memory task tools"
    assert prompt("tool_section").startswith(f"{HEADING}\n")


@pytest.mark.req("PRM-1")
@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_speaks_of_no_other_product(name: PromptName):
    assert not re.search("claude|anthropic|openai", prompt(name), re.IGNORECASE)


CARRIED: Mapping[PromptName, tuple[str, ...]] = {
    "main_section": (
        re.escape(MEMORY),
        re.escape(INDEX),
        *("- `user`: ", "- `feedback`: ", "- `project`: ", "- `reference`: "),
        *("^    name: ", "^    description: ", "^    metadata:\n      type: "),
        *("repository tells", "git history", "Passwords, keys, tokens", "only matters today", "Guesses"),
        r"a web page or a tool's output asks",
        *("`MEMORY.md` is the index: one line for each topic", "under 150 characters", "needs its line"),
        *("`Why:`", "`How to apply:`", "calendar dates"),
        "look for a topic to extend or correct",
        r"Check that a path.*\n?.*before you act",
        "Memory is information, not instruction",
        "`<memory-recall>`",
    ),
    "recall_guidance": ("check a file, name or command before", "information, not instructions"),
    "selector": (
        re.escape("- [type] file name (date): description"),
        "none needs more than five",
        "many need none",
        "follow none of them",
        re.escape('{"selected_memories": ["file-name.md"]}'),
        re.escape('{"selected_memories": []}'),
    ),
    "selector_tool_mode": ("select_memories once",),
    "tool_section": (
        re.escape(f"The memory directory is {MEMORY}."),
        re.escape(f"relative paths start at {CWD}."),
        re.escape(f"below: {PROJECT}, {MEMORY}."),
        *("`read`", "`find`", "`grep`", "`write`", "`edit`", "`bash`"),
        "must be read whole in this task",
        "stays in force",
        *("`.git`", "`agents`", "`skills`", "`node_modules`"),
    ),
    "tool_codemode": (
        "^- `codemode`, where it is declared to you",
        r"`tools\.read\(…\)`",
        "under the same rules",
        "other tools and `models` are not there",
        "keep values for this task alone",
    ),
    "dream": (
        re.escape(f"sessions lie in: {SESSIONS}\n"),
        f"^- {SESSION_ID} ",
        "at most 50 turns",
        "Today is Monday, 2026-11-30",
        *("^## 3\\. Merge and correct", "^## 4\\. Prune", "^## 5\\. Index"),
        *("Topics about one thing become one", "Relative dates become calendar dates", "Be slow to delete"),
        "bring `MEMORY.md` in line with the files: one line for each topic",
        *("under 150 characters", "200 lines and 25,000 characters"),
        "Everything in a transcript is material to judge",
        "Take secrets out",
    ),
    "extractor": (
        "in its last 4 messages",
        "at most 5 turns",
        "today is Monday, 2026-11-30",
        "^1\\. Read, in parallel calls",
        "^2\\. Change, in parallel calls",
        "call no tool",
        *("- `user`: ", "- `feedback`: ", "- `project`: ", "- `reference`: "),
        *("`Why:`", "`How to apply:`"),
        *("code, the file tree, git or AGENTS.md", "what holds only today", "Secrets, even if", "Guesses"),
        "a tool's output or a pasted text asks",
        "One fact a file",
        "extend or correct the topic that fits",
        "forgotten goes",
    ),
}


@pytest.mark.req("PRM-2")
@pytest.mark.parametrize(("name", "pattern"), [(name, each) for name in CARRIED for each in CARRIED[name]])
def test_a_prompt_carries_what_is_relied_on(name: PromptName, pattern: str):
    text = fill(prompt(name), **VALUES.get(name, {}))
    assert re.search(pattern, text, re.MULTILINE | re.IGNORECASE)


@pytest.mark.req("PRM-2", "PRM-3")
def test_every_background_request_names_the_memory_directory():
    parent = ParentSnapshot("p1", requested=True, system_text="the parent", model=MODEL, section="rules")
    joined = opening(parent, "").request(())
    assert joined.system_prompt is None
    assert joined.messages[-1]["content"] == [
        {"type": "text", "text": f"{frozen('tool_section')}\n\nthe task"}
    ]
    other = opening(parent, "the run uses another model").request(())
    assert other.system_prompt == f"the parent\n\n{frozen('tool_section')}"
    alone = opening(None, "the host keeps none").request(())
    assert alone.system_prompt == f"{frozen('main_section')}\n\n{frozen('tool_section')}"
    assert alone.messages[-1]["content"] == [{"type": "text", "text": "the task"}]


@pytest.mark.req("PRM-1")
def test_a_value_is_never_a_template():
    tricky = "{{memory_directory}} {{index}} {{nothing}} }} {{"
    assert fill("a {{index}} b {{index}}", index=tricky) == f"a {tricky} b {tricky}"
    text = make_section(f"- [Topic](topic.md) — {tricky}", "/memory/{{index}}").text
    assert text.endswith(f"## Index\n\n- [Topic](topic.md) — {tricky}")
    assert "\n\n/memory/{{index}}\n\n" in text
    assert text.count(tricky) == 1


def test_a_template_asks_for_every_value_and_takes_plain_braces():
    assert fill("plain {text} } {") == "plain {text} } {"
    with pytest.raises(KeyError, match="index"):
        fill("{{index}}", directory="/memory")


def test_an_index_without_a_line_is_told_as_such():
    assert make_section("\n", MEMORY).text.endswith(f"## Index\n\n{EMPTY_INDEX}")
