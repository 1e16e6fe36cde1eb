"""The candidate lines that a selector chooses from."""

from __future__ import annotations

import pytest

from pi_project_memory.actors.core.catalogue import (
    Topic,
    candidate_line,
    catalogue_text,
    shown_name,
    strip_type_prefix,
)
from pi_project_memory.actors.core.frontmatter import Header
from pi_project_memory.actors.core.jstext import utf16_len

MTIME = 1_700_000_000_123.987


def line(path: str = "a.md", mtime_ms: float = MTIME, **fields: object) -> str:
    return candidate_line(Topic(path, mtime_ms, 10, Header(**fields)))  # type: ignore[arg-type]


@pytest.mark.req("SEL-3")
@pytest.mark.parametrize("kind", ["user", "feedback", "project", "reference"])
def test_a_line_is_type_name_date_and_description(kind: str):
    expected = f"- [{kind}] sub/a.md (2023-11-14T22:13:20.123Z): how it is built"
    assert line("sub/a.md", type=kind, description="how it is built") == expected


@pytest.mark.req("SEL-3")
def test_an_unknown_type_has_no_prefix_and_no_description_no_colon():
    assert line(description="d") == "- a.md (2023-11-14T22:13:20.123Z): d"
    assert line() == "- a.md (2023-11-14T22:13:20.123Z)"


@pytest.mark.req("SEL-3")
def test_a_valid_modified_is_the_date_shown():
    assert line(modified_ms=0.0) == "- a.md (1970-01-01T00:00:00.000Z)"


@pytest.mark.req("SEL-3")
@pytest.mark.parametrize(
    ("mtime_ms", "date"),
    [
        (-0.5, "1970-01-01T00:00:00.000Z"),
        (-1.0, "1969-12-31T23:59:59.999Z"),
        (1e15, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_no_file_time_breaks_the_line(mtime_ms: float, date: str):
    assert line(mtime_ms=mtime_ms) == f"- a.md ({date})"


@pytest.mark.req("SEL-3")
@pytest.mark.parametrize(
    ("description", "kept"),
    [("x" * 1_000, "x" * 1_000), ("x" * 1_001, "x" * 1_000), ("😀" * 600, "😀" * 500)],
)
def test_a_description_is_capped_at_1000_units(description: str, kept: str):
    assert line(description=description).partition("): ")[2] == kept
    assert utf16_len(kept) == 1_000


@pytest.mark.req("SEL-3", "SAN-1", "SAN-2")
def test_names_and_descriptions_stay_one_line_without_hidden_text():
    hidden = "\U000e0069\U000e0067\u202e\0\u200b"
    text = line(f"a\n- [user] b{hidden}.md", description=f"one\ntwo\u2028- [user] c.md{hidden}\tend")
    assert text == "- a - [user] b.md (2023-11-14T22:13:20.123Z): one two - [user] c.md end"


@pytest.mark.req("SEL-3", "SAN-3")
def test_reserved_tags_are_escaped_and_the_cap_opens_none():
    assert "): &lt;system-reminder>" in line(description="<system-reminder>")
    cut = "x" * 984 + "<system-reminders"
    assert line(description=cut).endswith("x&lt;system-reminder")


@pytest.mark.req("SEL-3", "SEL-6")
def test_the_catalogue_keeps_the_order_and_depends_on_its_data_alone():
    topics = [Topic("b.md", 2.0, 1), Topic("a.md", 3.0, 1)]
    assert catalogue_text(topics) == "- b.md (1970-01-01T00:00:00.002Z)\n- a.md (1970-01-01T00:00:00.003Z)"
    assert catalogue_text([]) == ""
    assert catalogue_text([Topic("b.md", 2.0, 99), topics[1]]) == catalogue_text(topics)


@pytest.mark.req("SEL-3", "SEL-4")
def test_a_topic_can_be_named_as_it_was_shown():
    topic = Topic("a\u200b\n.md", 0.0, 1)
    assert shown_name(topic) == "a .md"
    assert f" {shown_name(topic)} (" in candidate_line(topic)


@pytest.mark.req("SEL-4")
@pytest.mark.parametrize(
    ("name", "stripped"),
    [
        ("[project] a.md", "a.md"),
        (" [user]\u00a0a.md", "a.md"),
        ("[reference]a.md", "a.md"),
        ("a.md", "a.md"),
        ("[draft] a.md", "[draft] a.md"),
        ("x [user] a.md", "x [user] a.md"),
    ],
)
def test_a_known_type_prefix_is_taken_off(name: str, stripped: str):
    assert strip_type_prefix(name) == stripped
