"""Text in JavaScript's terms, with the real Node as the judge of every helper."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from node_oracle import ask_node
from pi_project_memory.actors.core.jstext import (
    JS_SPACE,
    has_js_space,
    iso_from_ms,
    js_trim,
    js_words,
    utf16_len,
    utf16_prefix,
)

HIGH, LOW, EMOJI = "\ud83d", "\ude00", "\U0001f600"
PYTHON_ONLY_SPACES = "\x1c\x1d\x1e\x1f\x85"
PIECES = [
    *(
        "a",
        "word",
        "é",
        "語",
        EMOJI,
        "\U0010ffff",
        "\U00010000",
        "\uffff",
        "\ue000",
        "\ud7ff",
        HIGH,
        LOW,
        "e\u0301",
    ),
    *JS_SPACE,
    *PYTHON_ONLY_SPACES,
    *("\u180e", "\u200b", "\u2060", "\x00"),
]


def sample_texts() -> list[str]:
    """Return a few hundred mixtures of `PIECES`, the same on every run, and each piece alone."""
    source = random.Random(20)
    return ["", *PIECES, *("".join(source.choices(PIECES, k=source.randrange(1, 14))) for _ in range(600))]


@pytest.mark.real_time
@pytest.mark.req("IDX-1", "RCL-3")
def test_length_is_that_of_javascript():
    texts = sample_texts()
    assert [utf16_len(text) for text in texts] == ask_node("text => text.length", texts)


@pytest.mark.real_time
@pytest.mark.req("SEL-2", "EXT-3")
def test_space_is_that_of_javascript_over_all_code_points():
    (spaces,) = ask_node(
        r"_ => Array.from({length: 0x110000}, (_, i) => i).filter(c => /^\s$/.test(String.fromCodePoint(c)))",
        [0],
    )
    codes = range(0x110000)
    assert [code for code in codes if has_js_space(chr(code))] == spaces
    assert [code for code in codes if js_trim(chr(code)) == ""] == spaces
    assert sorted(map(ord, JS_SPACE)) == spaces


def joined(text: str) -> str:
    """Return `text` with a high and a low surrogate side by side made one character, as Node's answer has them."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


@pytest.mark.real_time
@pytest.mark.req("SEL-2", "EXT-3")
def test_trim_words_and_space_are_those_of_javascript():
    texts = sample_texts()
    answers = ask_node(
        r"text => [text.trim(), text.split(/\s+/).filter(Boolean), /\s/.test(text.trim())]", texts
    )
    for text, (trimmed, words, space) in zip(texts, answers, strict=True):
        assert joined(js_trim(text)) == trimmed
        assert [joined(word) for word in js_words(text)] == words
        assert has_js_space(js_trim(text)) == space


@pytest.mark.real_time
@pytest.mark.req("IDX-1")
def test_prefix_is_the_longest_whole_one_of_javascript():
    cases = [[text, limit] for text in sample_texts()[:250] for limit in range(12)]
    whole = r"""([text, limit]) => {
        const cut = text.slice(0, limit);
        return /[\ud800-\udbff]$/.test(cut) && /^[\udc00-\udfff]/.test(text.slice(limit)) ? cut.length - 1 : cut.length;
    }"""
    assert [utf16_len(utf16_prefix(text, limit)) for text, limit in cases] == ask_node(whole, cases)


@pytest.mark.req("IDX-1")
@settings(deadline=None)
@given(st.lists(st.characters() | st.sampled_from(PIECES), max_size=20).map("".join), st.integers(-2, 45))
def test_a_prefix_fits_and_splits_no_pair(text: str, limit: int):
    units = text.encode("utf-16-le", "surrogatepass")
    prefix = utf16_prefix(text, limit).encode("utf-16-le", "surrogatepass")
    assert units.startswith(prefix)
    length = len(prefix) // 2
    assert length <= max(limit, 0)
    assert length >= min(limit, utf16_len(text)) - 1
    around = units[len(prefix) - 2 : len(prefix) + 2] if prefix else b""
    assert len(around.decode("utf-16-le", "surrogatepass")) == len(around) // 2


@pytest.mark.parametrize(
    ("text", "limit", "prefix"),
    [
        ("abc", 2, "ab"),
        ("abc", 0, ""),
        ("abc", -1, ""),
        ("é" + EMOJI, -1, ""),
        (EMOJI + EMOJI, 3, EMOJI),
        (EMOJI + EMOJI, 4, EMOJI + EMOJI),
        (EMOJI, 1, ""),
        (HIGH + "a", 1, HIGH),
        (LOW + "é", 1, LOW),
        ("a" + HIGH, 9, "a" + HIGH),
    ],
)
@pytest.mark.req("IDX-1")
def test_prefixes_by_example(text: str, limit: int, prefix: str):
    assert utf16_prefix(text, limit) == prefix


INSTANTS = [
    *(0, 1, -1, 999, 1000, -1000, 0.9, -0.9, 1.5, -1.5, 999.999, 1e-9, -1e-9, 1.7e12, 1700000000123.75),
    *(-62135596800000, -62135596799999, -30610224000000.5, 253402300799999, 253402300799999.5),
    *(951782400000, 951868799999, 4107542400000, -2208988800001, 1234567890123.4567, 86_400_000 * 365.25),
]


@pytest.mark.real_time
@pytest.mark.req("SEL-3")
def test_instants_are_written_as_javascript_writes_them():
    source = random.Random(3)
    instants = [
        *INSTANTS,
        *(source.randrange(-62135596800000, 253402300799999) for _ in range(500)),
        *(source.uniform(-62135596800000, 253402300799999) for _ in range(500)),
        *(source.uniform(-5, 5) for _ in range(100)),
    ]
    assert [iso_from_ms(ms) for ms in instants] == ask_node("ms => new Date(ms).toISOString()", instants)


@pytest.mark.req("SEL-3")
@pytest.mark.parametrize("ms", [-62135596800001, 253402300800000, 8.64e15, float("inf"), 1e300])
def test_an_instant_outside_the_calendar_is_an_overflow(ms: float):
    with pytest.raises(OverflowError):
        iso_from_ms(ms)
