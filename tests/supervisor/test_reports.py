"""What `/memory` shows, as text for a person (CMD-1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from pi_project_memory.actors.background_messages import (
    Activity,
    DreamDone,
    DreamStatus,
    ExtractionDone,
    ExtractorStatus,
)
from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.config import DEFAULT_CONFIG, Fallback
from pi_project_memory.actors.core.dream_gate import DISABLED, Closed
from pi_project_memory.actors.core.frontmatter import Header
from pi_project_memory.actors.core.recall import Verdict
from pi_project_memory.actors.core.usage import Usage
from pi_project_memory.actors.messages import PrefetchStatus, RecallReport, Section, Selection, TopicList
from pi_project_memory.actors.notifier import Warned
from pi_project_memory.actors.subagent.attempt import Attempt
from pi_project_memory.actors.subagent.loop import LoopResult
from pi_project_memory.actors.subagent.run import Report
from pi_project_memory.supervisor.facts import MemoryFacts, RoleFacts, StatusFacts
from pi_project_memory.supervisor.outcomes import dream_outcome, extraction_outcome
from pi_project_memory.supervisor.reports import status_text
from pi_project_memory.supervisor.setup import Off, Settings
from pi_project_memory.supervisor.topic_table import topic_table

NOW = 1_000.0
DAY = 86_400_000
SETTINGS = Settings(DEFAULT_CONFIG, "/agent/project-memory/config.json", found=True, directory=None)
RESTING = ExtractorStatus(None, 0, None, None)
DREAM = DreamStatus(
    activity=None, last=None, last_dream_at=None, ahead_of_clock=False, problem="", closed=None
)
MEMORY = MemoryFacts(
    directory="/memory",
    custom=False,
    project="/project",
    generation=3,
    automatic=True,
    section=Section("text", 12, 480, truncated=False),
    recall=PrefetchStatus(0, 0, 0, None),
    extractor=RESTING,
    dream=DREAM,
    roles=(),
)
FACTS = StatusFacts(off=None, settings=SETTINGS, memory=MEMORY, now=NOW)


def attempt(finish: Any = "done", turns: int = 2, error: str = "", **changes: Any) -> Attempt:
    return Attempt("returned", Report(LoopResult(finish, turns, error), changes, ""))


def lines(**memory: Any) -> list[str]:
    """Return the status of a memory that is on, line by line."""
    return status_text(replace(FACTS, memory=replace(MEMORY, **memory))).splitlines()


@pytest.mark.req("CMD-1")
def test_the_status_of_a_memory_at_rest():
    assert lines() == [
        "Auto-memory: on",
        "Memory directory: /memory (the default of this project)",
        "Project: /project",
        "Index: 12 of 200 lines, 480 of 25,000 characters",
        "Recall: 0 of 61,440 units used on this branch",
        "Extraction: none yet in this session",
        "Last dream: never",
        "Generation: 3",
        "Configuration: /agent/project-memory/config.json",
    ]


@pytest.mark.req("CMD-1", "CMD-2")
@pytest.mark.parametrize("state", ["disabled", "untrusted", "failed", "ended"])
def test_the_status_of_a_memory_that_is_off(state: Any):
    facts = StatusFacts(Off(state, "the reason"), settings=None, memory=None, now=NOW)
    assert status_text(facts).splitlines() == [
        f"Auto-memory: {state}",
        "Memory directory: not initialized",
        "Reason: the reason",
    ]


@pytest.mark.req("CMD-1")
def test_the_status_of_a_memory_that_is_starting():
    facts = StatusFacts(off=None, settings=None, memory=None, now=NOW)
    assert status_text(facts) == "Auto-memory: starting\nMemory directory: not initialized"


@pytest.mark.req("CMD-1", "CFG-3")
def test_where_the_configuration_comes_from_the_last_warning_and_the_log():
    fallbacks = (
        Fallback("dream.maxTurns", "must be an integer of at least 1"),
        Fallback("", "must be an object"),
    )
    facts = replace(
        FACTS,
        settings=structs.replace(SETTINGS, found=False, fallbacks=fallbacks),
        last_warning=Warned("the extractor failed: 401", NOW - 185),
        log_file="/logs/x.jsonl",
    )
    assert status_text(facts).splitlines()[-5:] == [
        "Configuration: the defaults (there is no /agent/project-memory/config.json)",
        "Not used: dream.maxTurns must be an integer of at least 1; the default holds",
        "Not used: the file must be an object; the default holds",
        "Last warning, 3 min 5 s ago: the extractor failed: 401",
        "Log: /logs/x.jsonl",
    ]


@pytest.mark.req("CMD-1")
def test_a_directory_of_ones_own_choice_and_an_index_that_is_too_long():
    shown = lines(custom=True, section=Section("", 412, 31_000, truncated=True))
    assert shown[1] == "Memory directory: /memory (chosen by autoMemoryDirectory)"
    assert shown[3] == (
        "Index: 412 of 200 lines, 31,000 of 25,000 characters; "
        "what lies beyond is not shown to the model, shorten MEMORY.md"
    )


@pytest.mark.req("CMD-1", "LIFE-4")
def test_parts_that_do_not_answer_are_named():
    shown = lines(section=None, recall=None, extractor=None, dream=None)
    silent = "no answer; this part is busy, or off after failures"
    assert shown[3:7] == [f"{part}: {silent}" for part in ("Index", "Recall", "Extraction", "Dream")]


@pytest.mark.req("CMD-1", "SEL-7", "RCL-3")
def test_recall_tells_what_the_last_one_came_to():
    verdicts = (Verdict("a.md", "recalled"), Verdict("b.md", "unknown name"))
    selection = Selection(("a.md", "c.md"), ("a.md",), scan_seconds=0.2, select_seconds=1.05, note="a note")
    recall = PrefetchStatus(6_144, 2, 3, RecallReport(selection, verdicts, late=True))
    shown = lines(recall=recall)
    assert shown[4:7] == [
        "Recall: 6,144 of 61,440 units used on this branch, 2 selecting now",
        "Last recall: 1 of 2 topics chosen, 1 recalled in 1.25 s, late, a note",
        (
            "Hint: the selector's model refused structured output 3 times in a row; "
            "set models.selector.structuredOutput to false to save that request"
        ),
    ]


@pytest.mark.req("CMD-1", "CMD-3")
@pytest.mark.parametrize(
    ("status", "automatic", "expected"),
    [
        (RESTING, False, ["Extraction: by /memory extract alone, extraction.enabled is false"]),
        (
            ExtractorStatus(Activity(2, 5, NOW - 75), 4, "settled", None),
            True,
            ["Extraction: running, turn 2 of 5, for 1 min 15 s"],
        ),
        (
            ExtractorStatus(Activity(0, 5, NOW - 3), 4, "settled", None),
            True,
            ["Extraction: running, starting, for 3 s"],
        ),
        (
            ExtractorStatus(None, 0, "settled", attempt(a="created")),
            True,
            ["Last extraction: done, 2 turns, 1 file changed"],
        ),
        (
            ExtractorStatus(None, 0, "settled", attempt("api error", 1, "401 no")),
            True,
            ["Last extraction: 401 no, 1 turn, 0 files changed"],
        ),
        (
            ExtractorStatus(Activity(1, 5, NOW), 4, "manual", Attempt("skipped", note="too few words")),
            False,
            ["Extraction: running, turn 1 of 5, for 0 s", "Last extraction: skipped (too few words)"],
        ),
    ],
)
def test_extraction_tells_what_runs_and_how_the_last_one_ended(
    status: ExtractorStatus,
    automatic: bool,  # noqa: FBT001 - a column of the table
    expected: list[str],
):
    shown = lines(extractor=status, automatic=automatic)
    assert [line for line in shown if "xtraction" in line] == expected


@pytest.mark.req("CMD-1", "DRM-1", "DRM-5")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"last_dream_at": 0}, ["Last dream: 1970-01-01T00:00:00.000Z"]),
        (
            {"last_dream_at": 0, "last": attempt(a="updated", b="deleted")},
            ["Last dream: 1970-01-01T00:00:00.000Z; done, 2 turns, 2 files changed"],
        ),
        (
            {"closed": Closed("enabled", DISABLED)},
            [f"Next dream: not yet; {DISABLED}", "Last dream: never"],
        ),
        ({"problem": "state.json is broken"}, ["Dream: stopped: state.json is broken", "Last dream: never"]),
        (
            {"ahead_of_clock": True, "last_dream_at": 5},
            ["Last dream: its recorded time lies in the future, so it counts as never"],
        ),
        (
            {"activity": Activity(7, 50, NOW - 4_000)},
            ["Dream: running, turn 7 of 50, for 1 h 6 min", "Last dream: never"],
        ),
    ],
)
def test_dream_tells_when_it_ran_and_what_holds_it_off(fields: dict[str, Any], expected: list[str]):
    shown = lines(
        dream=DreamStatus(**{name: getattr(DREAM, name) for name in DREAM.__struct_fields__} | fields)
    )
    assert [line for line in shown if "ream" in line] == expected


@pytest.mark.req("CMD-1", "EXT-8", "CFG-7")
def test_each_role_tells_its_model_and_what_it_has_cost():
    roles = (
        RoleFacts("selector", "x/small, thinking off", Usage(2, 3_000, 20, 1_500, 0, 0.00123)),
        RoleFacts("extractor", "none: the model x/y is not known", Usage()),
        RoleFacts("dream", "x/big, thinking high", Usage(1, 100, 10, 0, 0, 0.5)),
    )
    assert lines(roles=roles)[7:11] == [
        "Selector model: x/small, thinking off; 2 requests, 3,000 tokens in (1,500 cached), 20 out, $0.0012",
        "Extractor model: none: the model x/y is not known; not used yet",
        "Dream model: x/big, thinking high; 1 request, 100 tokens in, 10 out, $0.5000",
        "Spent in this session: 3 requests, 3,100 tokens in (1,500 cached), 30 out, $0.5012",
    ]


# The table of topics.


def topic(path: str, description: str = "", days: float = 0, kind: Any = None) -> Topic:
    return Topic(path, 10 * DAY - days * DAY, 100, Header(description=description, type=kind))


def table(*topics: Topic, index: str = "") -> list[str]:
    return topic_table(TopicList(topics, index), "/memory", 10 * DAY).splitlines()


@pytest.mark.req("CMD-1")
def test_topics_stand_in_aligned_columns():
    index = "- [Tabs](tabs.md) — indentation\n"
    assert table(
        topic("tabs.md", "uses tabs", 0.9, "user"), topic("deep/deploy.md", days=1), index=index
    ) == [
        "2 topics, newest first, in /memory",
        "",
        "type  file            changed  in index  description",
        "user  tabs.md         today    yes       uses tabs",
        "-     deep/deploy.md  1 day    no        (none)",
    ]


@pytest.mark.req("CMD-1")
def test_one_topic_is_one_and_none_says_what_to_do():
    assert table(topic("a.md"))[0] == "1 topic, newest first, in /memory"
    assert table() == ["No topics in /memory yet. /memory extract saves now what is worth keeping."]


@pytest.mark.req("CMD-1", "SAN-2")
def test_what_a_topic_says_of_itself_breaks_no_table():
    odd = topic("e\u202evil\x1b[2J.md", "one\ntwo\x1b[31m \u2028three")
    rows = table(odd, topic("日本.md", "wide"), topic("plain.md", "narrow"))
    assert len(rows) == 6
    assert "\x1b" not in "".join(rows)
    assert "one two" in rows[3]
    assert rows[4].index("today") + 2 == rows[5].index("today"), (
        "each of the two wide characters takes two columns"
    )


@pytest.mark.req("CMD-1")
@pytest.mark.parametrize("character", ["x", "界"])
def test_a_long_description_is_cut_where_the_table_would_grow_too_wide(character: str):
    rows = table(topic("a.md", character * 70_000), topic("b.md", "short"))
    cut = rows[3]
    assert cut.endswith("…")
    columns = len(cut) + cut.count("界")
    assert 108 <= columns <= 110
    assert len(rows[4]) < 60


@pytest.mark.req("CMD-1")
def test_a_very_long_name_leaves_room_for_a_description():
    rows = table(topic(f"{'n' * 200}.md", "d" * 100))
    assert rows[3].endswith(f"{'d' * 29}…")


# Outcomes of manual runs.


@pytest.mark.req("CMD-1", "CMD-4")
@pytest.mark.parametrize(
    ("done", "level", "text"),
    [
        (None, "info", "Nothing to extract: everything said so far has been dealt with."),
        (Attempt("empty", note="no message"), "info", "No extraction: there was nothing new to read."),
        (
            Attempt("skipped", note="too few words"),
            "info",
            "No extraction: no message of yours since the last time has three words.",
        ),
        (
            Attempt("skipped", note="main agent wrote"),
            "info",
            "No extraction: the main agent has saved to memory itself since the last time.",
        ),
        (
            Attempt("busy", note="another session is extracting into this memory"),
            "warning",
            "No extraction now: another session is extracting into this memory. It will be tried again.",
        ),
        (
            Attempt("aborted", note="trust or configuration has changed"),
            "warning",
            "The extraction was stopped: trust or configuration has changed.",
        ),
        (
            Attempt("raised", note="the disk is full"),
            "error",
            "The extraction failed: the disk is full. Nothing was lost; it will be tried again.",
        ),
        (attempt(), "info", "The extraction is done (2 turns): nothing was worth changing."),
        (
            attempt(turns=1, **{"b.md": "updated", "a.md": "created"}),
            "info",
            "The extraction is done (1 turn). In /memory:\n  created a.md\n  updated b.md",
        ),
        (
            attempt("api error", 2, "529 overloaded", **{"a.md": "created"}),
            "warning",
            "The extraction ended early, after 2 turns: 529 overloaded\n  created a.md",
        ),
    ],
)
def test_the_outcome_of_an_extraction(done: Attempt | None, level: str, text: str):
    answer = extraction_outcome(ExtractionDone(done.ending if done else None, done), "/memory")
    assert (answer.level, answer.text) == (level, text)


@pytest.mark.req("CMD-1", "CMD-4", "DRM-1")
@pytest.mark.parametrize(
    ("done", "level", "text"),
    [
        (DreamDone(None, "the session is ending"), "warning", "No dream: the session is ending."),
        (
            DreamDone(attempt(**{"a.md": "deleted"})),
            "info",
            "The dream is done (2 turns). In /memory:\n  deleted a.md",
        ),
    ],
)
def test_the_outcome_of_a_dream(done: DreamDone, level: str, text: str):
    answer = dream_outcome(done, "/memory")
    assert (answer.level, answer.text) == (level, text)
