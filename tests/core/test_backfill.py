"""The first index of a memory that has none."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.backfill import backfill_index, link_pointer
from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.frontmatter import Header
from pi_project_memory.actors.core.jstext import utf16_len
from pi_project_memory.actors.core.lint import lint_index

POINTER = re.compile(r"- \[([^\[\]<>`\\]+)\]\(([A-Za-z0-9/._~%-]+)\)(?: — ([^\[\]<>`\\]+))?")


def topic(path: str, name: str = "", description: str = "") -> Topic:
    return Topic(path, 0.0, 1, Header(name=name, description=description))


@pytest.mark.req("IDX-2")
def test_a_pointer_is_title_link_and_hook():
    assert link_pointer(topic("sub/a.md", "Build", "how to build")) == "- [Build](sub/a.md) — how to build"
    assert link_pointer(topic("sub/a.md", "Build")) == "- [Build](sub/a.md)"
    assert link_pointer(topic("sub/a.md")) == "- [a](sub/a.md)"


@pytest.mark.req("IDX-2", "C07")
def test_at_most_160_lines_in_the_order_given():
    index = backfill_index([topic(f"{n}.md") for n in range(400)])
    assert index == "".join(f"- [{n}]({n}.md)\n" for n in range(160))


@pytest.mark.req("IDX-2")
@pytest.mark.parametrize("letter", ["x", "😀"])
@pytest.mark.req("C07")
def test_at_most_20000_units_in_lines_under_150(letter: str):
    index = backfill_index([topic(f"{n:03}.md", "t", letter * 180) for n in range(400)])
    lines = index.splitlines()
    width = {"x": 149, "😀": 148}[letter]
    assert {utf16_len(line) for line in lines} == {width}
    assert len(lines) == 20_000 // (width + 1)
    assert utf16_len(index) <= 20_000


@pytest.mark.req("IDX-2")
def test_without_a_linkable_topic_there_is_no_index():
    assert backfill_index([]) == ""
    assert backfill_index([topic("bad\udcff.md"), topic("x" * 150 + ".md")]) == ""


@pytest.mark.req("IDX-2")
@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("my notes.md", "my%20notes.md"),
        ("a(b)[c].md", "a%28b%29%5Bc%5D.md"),
        ("100%.md", "100%25.md"),
        ("日.md", "%E6%97%A5.md"),
        ("a\nb.md", "a%0Ab.md"),
        ("http:x.md", "http%3Ax.md"),
        ("a#b?c.md", "a%23b%3Fc.md"),
    ],
)
def test_unsafe_names_are_encoded(path: str, target: str):
    assert f"]({target})" in backfill_index([topic(path)])


@pytest.mark.req("IDX-2")
def test_titles_and_hooks_cannot_break_their_link():
    pointer = link_pointer(topic("a.md", "x](evil.md) `b` <i \\", "[more](evil.md)\n# Heading\t<b> `"))
    assert pointer == "- [x)(evil.md) 'b' i /](a.md) — (more)(evil.md) # Heading b '"


@pytest.mark.req("IDX-2")
def test_a_long_name_leaves_room_for_its_link():
    pointer = link_pointer(topic("d/" * 30 + "a.md", "T" * 300, "h"))
    assert pointer == f"- [{'T' * 60}]({'d/' * 30}a.md) — h"
    tight = link_pointer(topic("x" * 140 + ".md", "Title", "hook"))
    assert tight is None
    assert link_pointer(topic("x" * 138 + ".md", "Title", "hook")) == f"- [Ti]({'x' * 138}.md)"


@pytest.mark.req("IDX-2", "SAN-1")
def test_an_index_holds_no_hidden_text_and_no_empty_title():
    assert link_pointer(topic("a.md", "\u200b", "\u202eb\u200b")) == "- [topic](a.md) — b"
    assert backfill_index([topic(".md")]) == "- [topic](.md)\n"


NAMES = st.text(min_size=1, max_size=30).filter(lambda name: "/" not in name and "\0" not in name)


@pytest.mark.req("IDX-2")
@given(st.lists(st.builds(topic, NAMES.map(lambda name: f"{name}.md"), st.text(), st.text()), max_size=20))
def test_every_line_is_one_pointer_that_resolves_to_a_topic(topics: list[Topic]):
    paths = {topic.path for topic in topics}
    index = backfill_index(topics)
    for line in index.split("\n")[:-1]:
        pointer = POINTER.fullmatch(line)
        assert pointer is not None
        assert unquote(pointer[2]) in paths
        assert utf16_len(line) < 150
    assert not [finding for finding in lint_index(index, paths) if "no line points to" not in finding]
