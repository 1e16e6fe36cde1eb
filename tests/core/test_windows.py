"""The index window and the topic window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.jstext import utf16_len, utf16_prefix
from pi_project_memory.actors.core.windows import (
    INDEX_LINES,
    INDEX_UNITS,
    INDEX_WARNING,
    TOPIC_BYTES,
    TOPIC_LINES,
    index_window,
    topic_window,
)

LINES = st.lists(
    st.tuples(
        st.text(st.sampled_from("ab é日😀\ud83d"), max_size=6),
        st.sampled_from([1, 1, 1, 40, 700, 5_000]),
        st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    ),
    max_size=260,
)


def kept_text(text: str) -> str:
    return text.partition(INDEX_WARNING)[0]


@pytest.mark.req("IDX-1")
@pytest.mark.parametrize("line", ["x" * 147, "😀" * 73 + "x"])
@pytest.mark.req("C02")
def test_the_unit_limit_counts_line_breaks_and_surrogates_and_keeps_whole_lines(line: str):
    window = index_window((line + "\n") * 180)
    assert (window.lines_kept, window.units_kept) == (168, 24_864)
    assert (window.lines_total, window.units_total, window.truncated) == (180, 26_640, True)
    assert kept_text(window.text) == (line + "\n") * 168


@pytest.mark.req("IDX-1")
@pytest.mark.parametrize(("units", "kept"), [(24_999, 24_999), (25_000, 25_000), (25_001, 24_900)])
@pytest.mark.req("C02")
def test_the_limit_is_exactly_25000_units(units: int, kept: int):
    text = ("y" * 299 + "\n") * 83 + "z" * (units - 24_900)
    window = index_window(text)
    assert (window.units_kept, window.truncated) == (kept, units > 25_000)
    assert kept_text(window.text) == text[:kept]


@pytest.mark.req("IDX-1")
def test_the_limit_is_exactly_200_lines():
    assert not index_window("a\n" * 200).truncated
    window = index_window("a\n" * 200 + "b")
    assert (window.lines_kept, window.lines_total, window.truncated) == (200, 201, True)
    assert kept_text(window.text) == "a\n" * 200


@pytest.mark.req("IDX-1")
def test_the_warning_closes_a_truncated_index_on_a_line_of_its_own_and_no_other():
    last = index_window("a\n" * 201).text.splitlines()[-1]
    assert last.startswith("WARNING: MEMORY.md was truncated")
    assert index_window("x" * 30_000).text.splitlines()[1].startswith("WARNING: MEMORY.md was truncated")
    assert index_window("a\nb").text == "a\nb"


@pytest.mark.req("IDX-1")
@pytest.mark.parametrize(("lead", "kept"), [("", 25_000), ("x", 24_999)])
def test_one_line_longer_than_the_window_is_cut_outside_surrogate_pairs(lead: str, kept: int):
    window = index_window(lead + "😀" * 20_000)
    assert (window.units_kept, window.lines_kept, window.truncated) == (kept, 1, True)
    assert window.text.partition("\n")[0] == lead + "😀" * 12_499 + ("" if lead else "😀")


@pytest.mark.req("IDX-1")
def test_a_huge_later_line_is_left_out_whole():
    assert kept_text(index_window("# Title\n" + "x" * 30_000).text) == "# Title\n"


@pytest.mark.req("IDX-1")
def test_an_empty_index_is_an_empty_window():
    window = index_window("")
    assert (window.text, window.lines_total, window.truncated) == ("", 0, False)


@pytest.mark.req("IDX-1")
@given(LINES)
def test_the_index_window_is_a_prefix_at_a_line_break_within_both_limits(parts: list[tuple[str, int, str]]):
    text = "".join(piece * times + end for piece, times, end in parts)
    window = index_window(text)
    kept = utf16_prefix(text, window.units_kept)
    assert window.text.startswith(kept)
    assert window.units_kept == utf16_len(kept) <= INDEX_UNITS
    assert kept_text(window.text).removesuffix("\n") == kept.removesuffix("\n")
    assert window.lines_kept <= INDEX_LINES
    assert window.truncated == (kept != text)
    assert kept in {"", text} or kept.endswith(("\n", "\r")) or window.lines_kept == 1


@pytest.mark.req("RCL-1")
def test_the_topic_window_is_exactly_200_lines():
    assert not topic_window(b"line\n" * 200).truncated
    window = topic_window(b"line\n" * 250)
    assert (window.text, window.lines, window.bytes, window.truncated) == ("line\n" * 200, 200, 1_000, True)


@pytest.mark.req("RCL-1")
@pytest.mark.parametrize(("size", "lines"), [(4_095, 2), (4_096, 2), (4_097, 1)])
@pytest.mark.req("C44")
def test_the_topic_window_is_exactly_4096_bytes(size: int, lines: int):
    data = b"first\n" + b"x" * (size - 6)
    window = topic_window(data)
    assert (window.lines, window.truncated) == (lines, size > 4_096)
    assert window.text == (data.decode() if size <= 4_096 else "first\n")


@pytest.mark.req("RCL-1")
def test_the_line_break_belongs_to_its_line():
    assert topic_window(b"x" * 4_095 + b"\n").bytes == 4_096
    assert topic_window(b"x" * 4_096 + b"\n").bytes == 0
    assert topic_window(b"a\r\n" + b"x" * 4_092 + b"\r\n").bytes == 3


@pytest.mark.req("RCL-1", "C44")
def test_a_first_line_that_is_too_long_leaves_an_empty_body():
    window = topic_window(b"x" * 5_000)
    assert (window.text, window.lines, window.truncated) == ("", 0, True)


@pytest.mark.req("RCL-1", "C44")
def test_it_stops_at_the_first_line_that_does_not_fit_even_if_a_later_one_would():
    window = topic_window(b"short\n" * 199 + b"x" * 4_000 + b"\nshort\n")
    assert (window.text, window.lines) == ("short\n" * 199, 199)


@pytest.mark.req("RCL-1")
@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.req("C44")
def test_a_character_over_the_byte_limit_is_never_split(shift: int):
    data = ("ok\n" + "." * shift + "日" * 1_400).encode()
    window = topic_window(data)
    assert (window.text, window.truncated) == ("ok\n", True)


@pytest.mark.req("RCL-1")
def test_frontmatter_counts_from_the_start_of_the_file():
    header = b"---\nname: a\n---\n"
    assert topic_window(header + b"x\n" * 300).text == header.decode() + "x\n" * 197


@pytest.mark.req("RCL-1")
def test_bytes_that_are_no_utf8_are_replaced_not_refused():
    assert topic_window(b"a\xff\nb\n").text == "a\ufffd\nb\n"


@pytest.mark.req("RCL-1")
@given(LINES, st.binary(max_size=20))
def test_the_topic_window_is_whole_lines_within_both_limits(parts: list[tuple[str, int, str]], tail: bytes):
    text = "".join(piece * times + end for piece, times, end in parts)
    data = text.encode("utf-8", "replace") + tail
    window = topic_window(data)
    kept = data[: window.bytes]
    assert window.text == kept.decode("utf-8", "replace")
    assert window.bytes <= TOPIC_BYTES
    assert window.lines <= TOPIC_LINES
    assert kept in {b"", data} or kept.endswith((b"\n", b"\r"))
    assert topic_window(data[: TOPIC_BYTES + 1]).text == window.text
    rest = data[window.bytes :].splitlines(keepends=True)
    assert not rest or window.lines == TOPIC_LINES or window.bytes + len(rest[0]) > TOPIC_BYTES
