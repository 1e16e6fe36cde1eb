"""The header of a topic file: what is read, and what can never hurt."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core import plainyaml
from pi_project_memory.actors.core.frontmatter import HEADER_LINES, Header, parse_header

FULL = "---\nname: a\ndescription: d\nmetadata:\n  type: user\n---\nbody\n"
READ = Header("a", "d", "user", None, "yaml")


def ms(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp() * 1000  # type: ignore[misc, arg-type]


def header(*lines: str) -> Header:
    return parse_header("\n".join(["---", *lines, "---", ""]))


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize(
    "text",
    [
        FULL,
        "\ufeff" + FULL,
        FULL.replace("\n", "\r\n"),
        FULL.replace("\n", "\r"),
        "\ufeff" + FULL.replace("\n", "\r\n"),
        FULL.replace("---", "--- \t"),
        FULL.removesuffix("\nbody\n"),
        FULL.replace(": ", ":\t"),
        FULL.replace("  type", "\ttype").replace("metadata:\n\ttype: user", "type: user"),
    ],
    ids=["plain", "bom", "crlf", "cr", "bom+crlf", "trailing space", "fence at end", "tabs", "top level"],
)
@pytest.mark.req("C48", "C49")
def test_every_spelling_of_the_fences_gives_the_same_header(text: str):
    assert parse_header(text) == READ


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "body alone",
        "\n" + FULL,
        FULL.replace("\n---\n", "\n"),
        "----\nname: a\n---\n",
        " " + FULL,
        "---\n" + "x: y\n" * 40 + "name: a\n---\n",
        "---\nname: " + "a" * 1_000_000 + "\n---\n",
    ],
    ids=["empty", "no fence", "late", "unclosed", "four dashes", "indented", "long", "1 MB"],
)
def test_without_fences_around_it_there_is_no_header(text: str):
    assert parse_header(text) == Header()


@pytest.mark.req("IDX-6")
def test_the_closing_fence_must_be_within_thirty_lines():
    inside = ["---", "name: a", *["#"] * (HEADER_LINES - 3), "---"]
    assert parse_header("\n".join(inside)).name == "a"
    assert parse_header("\n".join(["---", "#", *inside[1:]])) == Header()


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize("kind", ["user", "feedback", "project", "reference"])
def test_the_four_types_are_known(kind: str):
    assert header("metadata:", f"  type: {kind}").type == kind


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize(
    "lines",
    [
        ("type: note",),
        ("type: User",),
        ("type: [user]",),
        ("metadata: user",),
        ("metadata:", "  - type: user"),
        ("metadata:", "  kind: {type: user}"),
    ],
)
def test_anything_else_is_an_unknown_type(lines: tuple[str, ...]):
    assert header("name: a", *lines) == Header(name="a", syntax="yaml")


@pytest.mark.req("IDX-6")
def test_top_level_fields_move_into_metadata_and_explicit_metadata_wins():
    assert header("type: user", "modified: 2024-01-02") == Header("", "", "user", ms(2024, 1, 2), "yaml")
    both = header(
        "type: user", "modified: 2024-01-02", "metadata:", "  type: project", "  modified: 2023-01-01"
    )
    assert (both.type, both.modified_ms) == ("project", ms(2023, 1, 1))
    wrong = header("type: user", "modified: 2024-01-02", "metadata: {type: nonsense, modified: soon}")
    assert (wrong.type, wrong.modified_ms) == (None, None)
    empty = header("type: user", "metadata:", "  type:")
    assert empty.type == "user"


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-06", ms(2024, 5, 6)),
        ('"2024-05-06"', ms(2024, 5, 6)),
        ("2024-05-06T07:08:09Z", ms(2024, 5, 6, 7, 8, 9)),
        ("2024-05-06T07:08:09.123456789Z", ms(2024, 5, 6, 7, 8, 9, 123_456)),
        ("2024-05-06 07:08", ms(2024, 5, 6, 7, 8)),
        ("2024-05-06t07:08:09.5 +02:30", ms(2024, 5, 6, 4, 38, 9, 500_000)),
        ("2024-05-06T07:08:09-05", ms(2024, 5, 6, 12, 8, 9)),
        ("2024-13-45", None),
        ("2023-02-29", None),
        ("2024-05-06T25:00:00Z", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-14:00", None),
        ("yesterday", None),
        ("1715000000000", None),
        ("٢٠٢٤-٠٥-٠٦", None),
        ("~", None),
        ("[2024-05-06]", None),
    ],
)
def test_modified_is_an_iso_or_yaml_date_or_nothing(text: str, expected: float | None):
    assert header(f"modified: {text}").modified_ms == expected


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize(
    ("line", "description"),
    [
        ("description: Writing specs (REQ): read x", "Writing specs (REQ): read x"),
        ("description: Writing specs (REQ/DESIGN): read x.md", "Writing specs (REQ/DESIGN): read x.md"),
        ('description: "abc "def" ghi"', 'abc "def" ghi'),
        ("description: 'it's here'", "it's here"),
        ("description: *everything", "*everything"),
        ("description: &anchor text", "&anchor text"),
        ("description: !important thing", "!important thing"),
        ("description: !!python/object/apply:os.system [id]", "!!python/object/apply:os.system [id]"),
        ("description: [draft] notes", "[draft] notes"),
        ("description: @team and `code`", "@team and `code`"),
        ("description: a: b", "a: b"),
        ("description: nul \0 inside", "nul \0 inside"),
        ("description: lone \ud83d surrogate", "lone \ud83d surrogate"),
        ("description: > folded: one\n  two: three", "folded: one two: three"),
        ("description: first: part\n  second: part", "first: part second: part"),
    ],
)
@pytest.mark.req("C50")
def test_a_value_that_is_no_plain_yaml_is_taken_as_written_and_hides_no_other(line: str, description: str):
    expected = Header("a", description, "project", ms(2024, 1, 1), "lines")
    assert header("name: 'a'", line, "metadata: {type: project}", "modified: 2024-01-01") == expected


@pytest.mark.req("IDX-6")
def test_broken_metadata_is_read_field_by_field():
    lines = ("name: a", "metadata:", "  source: see: there", "\ttype: feedback", "  modified: 2024-01-01")
    assert header(*lines) == Header("a", "", "feedback", ms(2024, 1, 1), "lines")


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize(
    ("lines", "description"),
    [
        (("description: |", "  one", "  two"), "one\ntwo"),
        (("description: >-", "  one", "  two"), "one two"),
        (('description: "a \\"quoted\\" b"',), 'a "quoted" b'),
        (("description: one", "  two"), "one two"),
        (("description: text # comment",), "text"),
        (("description: ~",), ""),
        (("description: 'null'",), "null"),
        (("description: 2024-01-01",), "2024-01-01"),
        (("description: yes",), "yes"),
        (("description: 012",), "012"),
        (("description: one", "description: two"), "two"),
        (("description: {a: b}",), ""),
        (("? [a, b]", ": c", "description: d"), "d"),
    ],
)
def test_yaml_is_read_as_yaml_and_keeps_the_spelling_of_scalars(lines: tuple[str, ...], description: str):
    assert header(*lines) == Header(description=description, syntax="yaml")


BOMB = [f"b{n}: &b{n} [{', '.join(f'*b{n - 1}' for _ in range(9))}]" for n in range(1, 20)]
HOSTILE = {
    "alias bomb": ["b0: &b0 [x]", *BOMB],
    "deep flow": ["x: " + "[" * 60_000],
    "deep flow mapping": ["x: " + "{a: " * 15_000],
    "deep block": ["- " * 30_000],
    "deep keys": ["? " * 30_000],
    "many anchors": ["x: [" + "&a b, " * 10_000 + "]"],
    "wide flow": ["x: [" + "1," * 30_000 + "]"],
    "wide known fields": ["description: [" + "1," * 10_000, "metadata: [" + "1," * 10_000],
    "merge": ["base: &x {name: stolen}", "<<: *x"],
    "tags": ["x: !!python/object/apply:os.system ['true']"],
    "directive": ["%TAG ! tag:x,2000:", "%YAML 1.1"],
    "binary": ["x: !!binary aGVsbG8="],
    "long line": ["x: " + "word " * 13_000],
    "colons": ["a:" * 30_000],
    "quotes": ['x: "' * 10_000],
    "spaces": ["name" + " " * 60_000 + "x"],
}


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize("lines", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.req("C50")
def test_hostile_headers_are_harmless_and_read_with_little_work(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
):
    work = 0
    documents = 0
    real = plainyaml.CBaseLoader

    class Counting(real):
        def __init__(self, text: str) -> None:
            nonlocal documents
            documents += 1
            super().__init__(text)

        def get_event(self) -> object:
            nonlocal work
            work += 1
            return super().get_event()

    monkeypatch.setattr(plainyaml, "CBaseLoader", Counting)
    text = "\n".join(["---", "name: a", *lines, "---"])
    assert parse_header(text).name in {"a", ""}
    assert documents <= 11
    assert work <= 1_500


@pytest.mark.req("IDX-6")
@pytest.mark.parametrize(("levels", "syntax"), [(8, "yaml"), (9, "lines")])
def test_nesting_beyond_eight_levels_is_not_followed(levels: int, syntax: str):
    assert header("name: n", "x: " + "[" * (levels - 1) + "]" * (levels - 1)) == Header("n", syntax=syntax)


@pytest.mark.req("IDX-6", "C50")
def test_values_of_a_yaml_bomb_are_not_expanded():
    assert header("x: &x [a]", "description: *x", "name: n") == Header("n", "*x", syntax="lines")


@pytest.mark.req("IDX-6")
@given(st.text())
def test_arbitrary_text_never_raises(text: str):
    assert isinstance(parse_header(text), Header)
    assert isinstance(parse_header(f"---\n{text}\n---\n"), Header)


@pytest.mark.req("IDX-6")
@given(st.binary())
def test_arbitrary_bytes_never_raise(data: bytes):
    assert isinstance(parse_header((b"---\n" + data + b"\n---\n").decode("utf-8", "replace")), Header)


YAML_WORDS = [
    "name",
    "description",
    "metadata",
    "type",
    "modified",
    "user",
    "2024-01-01",
    "~",
    "<<",
    "---",
    "...",
    "%YAML",
]
YAML_MARKS = [
    *":[]{},\"'|#\n\t\r\0\ufeff\x85\u2028😀\ud800",
    ": ",
    "\n  ",
    "- ",
    "? ",
    "&a ",
    "*a",
    "!!x ",
    ">-",
]


@pytest.mark.req("IDX-6")
@given(st.lists(st.sampled_from([*YAML_WORDS, *YAML_MARKS]), max_size=40))
def test_arbitrary_yaml_never_raises(pieces: list[str]):
    parsed = parse_header("---\n" + "".join(pieces) + "\n---\n")
    assert parsed.type in {None, "user"}


@pytest.mark.req("IDX-6")
def test_the_yaml_library_is_loaded_only_when_a_header_is_read():
    code = (
        "import sys; from pi_project_memory.actors.core.frontmatter import parse_header\n"
        "parse_header('no header'); assert 'ruamel.yaml' not in sys.modules\n"
        "parse_header('---\\nname: a\\n---\\n'); assert 'ruamel.yaml' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
