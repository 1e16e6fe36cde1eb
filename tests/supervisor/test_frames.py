"""Frames on the wire: where they end, what they may hold, and what becomes of broken ones (HOST-6)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pi_project_memory.supervisor.host.frames import (
    INVALID_REQUEST,
    MAX_FRAME,
    PARSE_ERROR,
    BadFrame,
    Frame,
    FrameDecoder,
    decode,
    encode,
)

SURROGATES = [chr(code) for code in (0xD800, 0xD83D, 0xDBFF, 0xDC00, 0xDFFF)]

ODD_TEXTS = [
    "",
    "\u2028 and \u2029 are data",
    "\x85 \x1c \x1d \x1e \x0b \x0c are no line ends",
    "a\nb\r\nc\rd",
    "\x00\x01\x1f\x7f",
    "→ — 日本 😀 🏳️‍🌈 e\u0301",
    "\ufeffmark",
    "\ufffe\uffff\U0010ffff",
    '"quotes" and \\backslashes\\',
    "</script><!--",
]

TEXTS = st.text(st.characters(exclude_categories=[]) | st.sampled_from(SURROGATES))

# Whole numbers beyond 64 bits lose digits on their way in, as they do in JavaScript.
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def joined(value: Any) -> Any:
    """Return `value` as it is after a pair of surrogates that meet has become one character."""
    return json.loads(json.dumps(value))


def only(frames: list[Frame]) -> Frame:
    assert len(frames) == 1
    return frames[0]


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("text", ODD_TEXTS)
def test_an_odd_text_crosses_in_one_frame(text: str):
    frame = encode({"text": text})
    assert frame.count(b"\n") == 1
    assert only(FrameDecoder().feed(frame)) == {"text": text}


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\u2028\u2029" * 3])
def test_line_separators_are_data_raw_and_escaped(text: str):
    raw = b'{"text":"' + text.encode() + b'"}\n'
    assert FrameDecoder().feed(raw) == [{"text": text}]
    assert FrameDecoder().feed(json.dumps({"text": text}).encode() + b"\n") == [{"text": text}]


@pytest.mark.req("HOST-6", "C54")
@pytest.mark.parametrize("lone", SURROGATES)
def test_a_lone_surrogate_crosses_both_ways(lone: str):
    message = {"text": f"a{lone}b", lone: [lone]}
    escaped = json.dumps(message).encode() + b"\n"
    assert FrameDecoder().feed(escaped) == [message]
    frame = encode(message)
    assert frame.isascii()
    assert FrameDecoder().feed(frame) == [message]


@pytest.mark.req("HOST-6")
def test_an_escaped_pair_is_one_character():
    assert decode(rb'{"a":"\ud83d\ude00","b":"\ud83d"}') == {"a": "😀", "b": "\ud83d"}


STREAM = (
    encode({"id": 1, "text": "→ 日本 😀"})
    + b'{"half": \n'
    + b"\n"
    + encode({"text": "\u2028", "lone": "\ud83d"})
    + b"\xff\xfe\n[1]\n"
    + encode({"id": 2})
)


@pytest.mark.req("HOST-6")
def test_a_stream_means_the_same_wherever_it_is_cut():
    whole = FrameDecoder().feed(STREAM)
    assert [type(frame) for frame in whole] == [dict, BadFrame, dict, BadFrame, BadFrame, dict]
    for cut in range(len(STREAM) + 1):
        decoder = FrameDecoder()
        assert decoder.feed(STREAM[:cut]) + decoder.feed(STREAM[cut:]) == whole


@pytest.mark.req("HOST-6")
def test_a_stream_may_come_byte_by_byte():
    decoder = FrameDecoder()
    frames = [frame for byte in STREAM for frame in decoder.feed(bytes([byte]))]
    assert frames == FrameDecoder().feed(STREAM)


@pytest.mark.req("HOST-6")
def test_many_frames_in_one_chunk_come_out_in_order():
    chunk = b"".join(encode({"n": number}) for number in range(5000))
    assert [frame["n"] for frame in FrameDecoder().feed(chunk) if isinstance(frame, dict)] == list(
        range(5000)
    )


@pytest.mark.req("HOST-6", "C81")
def test_a_line_that_was_cut_off_is_no_frame():
    decoder = FrameDecoder()
    assert decoder.feed(b'{"a":1}\n{"complete":true}') == [{"a": 1}]
    assert decoder.feed(b"") == []


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \t\r \n"])
def test_space_around_a_frame_is_no_matter(end: bytes):
    assert FrameDecoder().feed(b' \t{"a": 1}' + end + b'{"b":2}' + end) == [{"a": 1}, {"b": 2}]


@pytest.mark.req("HOST-6")
def test_empty_lines_are_nothing():
    assert FrameDecoder().feed(b'\n\n{"a":1}\n\n\n') == [{"a": 1}]


@pytest.mark.req("HOST-6")
def test_a_carriage_return_alone_ends_no_frame():
    assert only(FrameDecoder().feed(b'{"a":1}\r{"b":2}\n')) == decode(b'{"a":1}\r{"b":2}')
    assert isinstance(decode(b'{"a":1}\r{"b":2}'), BadFrame)


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (b"\xff\xfe{}", PARSE_ERROR, "not UTF-8: byte 0 of 4"),
        (b'{"a":"\xe6\x97"}', PARSE_ERROR, "not UTF-8: byte 6 of 10"),
        (b'{"a":"\xed\xa0\xbd"}', PARSE_ERROR, "not UTF-8"),
        (b'{"a":"\xc0\xaf"}', PARSE_ERROR, "not UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', PARSE_ERROR, "not JSON"),
        (b'{"a":NaN}', PARSE_ERROR, "NaN is no JSON value"),
        (b'{"a":"\\ud83d","b":NaN}', PARSE_ERROR, "NaN is no JSON value"),
        (b'{"a":Infinity}', PARSE_ERROR, "Infinity is no JSON value"),
        (b'{"a":-Infinity}', PARSE_ERROR, "-Infinity is no JSON value"),
        (b'{"a":1,}', PARSE_ERROR, "not JSON"),
        (b"{'a':1}", PARSE_ERROR, "not JSON"),
        (b'{"a":1} {"b":2}', PARSE_ERROR, "not JSON"),
        (b'{"a":"\x01"}', PARSE_ERROR, "not JSON"),
        (b'{"a":01}', PARSE_ERROR, "not JSON"),
        (b'{"a":1', PARSE_ERROR, "not JSON"),
        (b"// no\x00thing", PARSE_ERROR, "not JSON"),
        (b"[]", INVALID_REQUEST, "not an object"),
        (b'[{"jsonrpc":"2.0","method":"a"}]', INVALID_REQUEST, "not an object"),
        (b"null", INVALID_REQUEST, "not an object"),
        (b"7", INVALID_REQUEST, "not an object"),
        (b'"\\ud83d"', INVALID_REQUEST, "not an object"),
    ],
)
def test_a_broken_frame_says_what_is_wrong_with_it(line: bytes, code: int, reason: str):
    frame = decode(line)
    assert isinstance(frame, BadFrame)
    assert frame.code == code
    assert reason in frame.reason
    assert len(frame.reason) < 300


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("depth", [100, 900, 1100, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("lone", [b"", b'"\\ud83d",'])
def test_deep_nesting_is_read_or_refused_but_never_raised(
    depth: int, opening: bytes, closing: bytes, lone: bytes
):
    line = b'{"deep":[' + lone + opening * depth + b"1" + closing * depth + b"]}"
    frame = FrameDecoder().feed(line + b"\n" + b'{"next":1}\n')
    assert frame[1] == {"next": 1}
    assert isinstance(frame[0], dict if depth == 100 else (dict, BadFrame))


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("digits", [20, 400, 4000, 5000, 100_000])
@pytest.mark.parametrize("lone", [b"", b'"b":"\\ud83d",'])
def test_a_huge_number_is_read_or_refused_but_never_raised(digits: int, lone: bytes):
    frame = only(FrameDecoder().feed(b"{" + lone + b'"a":' + b"9" * digits + b"}\n"))
    assert isinstance(frame, dict if digits == 20 else (dict, BadFrame))


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("size", [15, 16, 17, 18, 40])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_the_limit_counts_the_bytes_before_the_line_end(size: int, pieces: int):
    line = b'{"a":"' + b"x" * (size - 8) + b'"}'
    assert len(line) == size
    decoder, stream, frames = FrameDecoder(limit=16), line + b"\n" + b'{"b":1}\n', []
    step = -(-len(stream) // pieces)
    for start in range(0, len(stream), step):
        frames += decoder.feed(stream[start : start + step])
    if size <= 16:
        assert frames == [{"a": "x" * (size - 8)}, {"b": 1}]
    else:
        assert frames == [
            BadFrame(PARSE_ERROR, f"the frame has {size} bytes; at most 16 are taken"),
            {"b": 1},
        ]


@pytest.mark.req("HOST-6")
def test_an_oversized_frame_of_many_chunks_is_told_once_and_leaves_nothing():
    decoder = FrameDecoder(limit=1000)
    for _ in range(500):
        assert decoder.feed(b"x" * 1000) == []
        assert sum(map(len, decoder._parts)) <= 1000
    bad, good = decoder.feed(b'x\n{"a":1}\n')
    assert bad == BadFrame(PARSE_ERROR, "the frame has 500001 bytes; at most 1000 are taken")
    assert good == {"a": 1}


@pytest.mark.req("HOST-6")
def test_an_oversized_frame_is_not_kept_in_memory():
    decoder, chunk = FrameDecoder(limit=1_000_000), b"x" * 100_000
    tracemalloc.start()
    try:
        for _ in range(200):
            decoder.feed(chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000


@pytest.mark.req("HOST-6")
def test_a_real_frame_of_64_mib_is_taken_and_one_byte_more_is_not():
    head, tail = b'{"a":"', b'"}'
    body = b"x" * (MAX_FRAME - len(head) - len(tail))
    decoder = FrameDecoder()
    assert decoder.feed(head) == []
    assert decoder.feed(body) == []
    frame = only(decoder.feed(tail + b"\n"))
    assert isinstance(frame, dict)
    assert len(frame["a"]) == len(body)
    assert MAX_FRAME == 64 * 1024 * 1024
    for part in (head, body, b"x"):
        decoder.feed(part)
    bad, good = decoder.feed(tail + b'\n{"b":1}\n')
    assert bad == BadFrame(PARSE_ERROR, f"the frame has {MAX_FRAME + 1} bytes; at most {MAX_FRAME} are taken")
    assert good == {"b": 1}


class Inner(msgspec.Struct, frozen=True, rename="camel"):
    some_text: str


class Outer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    first_number: int
    inner: Inner
    nothing: int | None = None


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("text", ["plain", "日本", "lone \ud83d"])
def test_structs_are_written_with_their_wire_names(text: str):
    struct = Outer(7, Inner(text))
    wire = {"firstNumber": 7, "inner": {"someText": text}}
    assert decode(encode(struct).rstrip(b"\n")) == wire
    assert decode(encode({"params": [struct]}).rstrip(b"\n")) == {"params": [wire]}


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_in_json_is_never_written_as_one(number: float):
    """It becomes null, as in JavaScript; with text that needs the slower writer it is refused."""
    assert encode({"a": number}) == b'{"a":null}\n'
    with pytest.raises(ValueError):
        encode({"a": number, "b": "\ud83d"})


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("number", [2**53 + 1, 2**63, -(2**63), 2**64, -(2**70)])
def test_a_whole_number_is_written_with_all_its_digits(number: int):
    assert json.loads(encode({"a": number})) == {"a": number}


@pytest.mark.req("HOST-6")
@pytest.mark.parametrize("value", [object(), {"a": {1, 2}.__iter__()}, {"a": "\ud83d", "b": object()}])
def test_what_is_no_data_is_refused(value: object):
    with pytest.raises(TypeError):
        encode(value)


@pytest.mark.req("HOST-6")
@given(message=st.dictionaries(TEXTS, JSON, max_size=5), cut=st.integers(0, 200))
@example(message={"\ud83d\ude00": "\ud83d"}, cut=3)
def test_whatever_is_written_is_read_again(message: dict[str, Any], cut: int):
    frame = encode(message)
    assert frame.index(b"\n") == len(frame) - 1
    decoder = FrameDecoder()
    assert decoder.feed(frame[:cut]) + decoder.feed(frame[cut:]) == [joined(message)]


@pytest.mark.req("HOST-6")
@given(
    chunks=st.lists(st.binary(max_size=40) | st.sampled_from([b"\n", b'{"a":', b"[" * 30, b"\xf0\x9f"])),
    limit=st.integers(0, 60),
)
def test_no_bytes_raise_and_the_next_line_is_understood(chunks: list[bytes], limit: int):
    decoder = FrameDecoder(limit + 7)
    for chunk in chunks:
        for frame in decoder.feed(chunk):
            assert isinstance(frame, dict | BadFrame)
    decoder.feed(b"\n")
    assert decoder.feed(b'{"a":1}\n') == [{"a": 1}]


@pytest.mark.req("HOST-6")
@given(line=st.binary(max_size=30) | JSON.map(lambda value: json.dumps(value).encode()[:-1]))
def test_the_verdict_on_a_line_does_not_depend_on_its_neighbours(line: bytes):
    alone = FrameDecoder().feed(line + b"\n")
    assert FrameDecoder().feed(b'{"x":1}\n' + line + b"\n" + b'{"y":2}\n') == [{"x": 1}, *alone, {"y": 2}]


@pytest.mark.req("HOST-6", "C54")
@pytest.mark.real_time
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii:strict"},
    ],
    ids=["C", "cp1252", "ascii"],
)
def test_the_locale_of_the_process_changes_no_byte(locale: dict[str, str]):
    messages = [{"text": text} for text in [*ODD_TEXTS, "→ — 日本 😀"]]
    sent = b"".join(encode(message) for message in messages)
    raw = b'{"text":"\xe2\x86\x92 \xe2\x80\x94 \xf0\x9f\x98\x80","lone":"\\ud83d"}\n\xff\n'
    child = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("_frames_child.py"))],
        input=sent + raw,
        capture_output=True,
        env={**os.environ, **locale},
        timeout=60,
        check=True,
    )
    assert child.stderr == b""
    assert child.stdout.startswith(sent)
    *_, lone, bad = FrameDecoder().feed(child.stdout)
    assert lone == {"text": "→ — 😀", "lone": "\ud83d"}
    assert bad == {"bad": "the frame is not UTF-8: byte 0 of 1"}
