"""JSON the way JavaScript reads it, with the real JSON.parse as the judge."""

from __future__ import annotations

import base64
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_oracle import ask_node
from pi_project_memory.actors.core.jsjson import (
    MAX_DEPTH,
    JsonSyntaxError,
    as_safe_integer,
    loads,
)

DOCUMENTS: list[bytes] = [
    *(
        b"5",
        b"5.0",
        b"1e3",
        b"-0",
        b"0",
        b"1e400",
        b"-1e400",
        b"5e-324",
        b"1e-400",
        b"0.1",
        b"123456789012345678",
    ),
    *(b"9007199254740991", b"9007199254740992", b"9007199254740993", b"-9007199254740991", b"9" * 5000),
    *(b"4503599627370497.5", b"0.99999999999999999999", b"1E+2", b"1e-2", b"64.000"),
    *(b"01", b"-01", b"1.", b".5", b"+1", b"1e", b"1e+", b"-", b"--1", b"0x10", b"1_000", b"1n"),
    *(b"NaN", b"Infinity", b"-Infinity", b"[NaN]", b'{"a":Infinity}', b"undefined", b"nan", b"True", b"null"),
    *(
        b"true",
        b"false",
        b"tru",
        b"nullx",
        b"",
        b" ",
        b"\n",
        b"\t\r\n 1 \t\r\n",
        b"\x0b1",
        b"\x0c1",
        b"\x001",
    ),
    *(b"\xef\xbb\xbf{}", b"{}\xef\xbb\xbf", b"\xc2\xa01", b"\xe2\x80\xa81", b"\xef\xbb\xbf"),
    *(b"// c\n1", b"1 // c", b"/* c */ 1", b"# c\n1", b"{} {}", b"1 2", b"[1]]"),
    *(
        b"[1,]",
        b"[,1]",
        b"[1,,2]",
        b'{"a":1,}',
        b"{,}",
        b"{a:1}",
        b"{'a':1}",
        b'{"a" 1}',
        b'{"a":}',
        b"[",
        b"{",
        b"]",
    ),
    *(
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'"\\ud83d\\ude00"',
        b'"\\uD83D"',
        b'"\\u12"',
        b'"\\u12G4"',
        b'"\\u+123"',
    ),
    *(
        b'"\\x41"',
        b'"\\\'"',
        b'"\\v"',
        b'"\\0"',
        b'"\\b\\f\\n\\r\\t\\/\\\\\\""',
        b'"a\nb"',
        b'"a\tb"',
        b'"a\x00b"',
    ),
    *(b'"a\x7fb"', b'"\xe2\x80\xa8"', b'"\xe2\x80\xa9"', b"'a'", b'"', b'"\\', b'"a', b'"\\"', b"`a`"),
    *(
        b'{"a":1,"a":2}',
        b'{"__proto__":{"x":1},"b":2}',
        b'{"":0}',
        b'{"a":{"b":[1,{"c":null}]}}',
        b"[]",
        b"{}",
    ),
    *(
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\xc3"',
        b'"\xf0\x9f\x98"',
        b'"\xf0\x9f\x98\x80"',
        b"\xff",
        b'{"\xfe":1}',
    ),
    *(b'"NaN"', b'{"NaN":NaN}', b'["\\"",-Infinity]', b"\xd9\xa1", b"1\xd9\xa1", b"[1.\xd9\xa1]"),
]

SHAPE = """(document) => {
  const shape = (value) => {
    if (typeof value === 'number') {
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleBE(value);
      return ['number', bytes.toString('hex'), Number.isSafeInteger(value)];
    }
    if (typeof value === 'string') return ['string', Buffer.from(value, 'utf16le').toString('hex')];
    if (Array.isArray(value)) return ['array', value.map(shape)];
    if (value !== null && typeof value === 'object')
      return ['object', Object.keys(value).map((key) => [key, shape(value[key])]).sort()];
    return ['literal', value];
  };
  try { return shape(JSON.parse(Buffer.from(document, 'base64').toString('utf8'))); }
  catch (error) { return error.name; }
}"""


def shape(value: Any) -> Any:
    match value:
        case bool() | None:
            return ["literal", value]
        case int() | float():
            return ["number", struct.pack(">d", value).hex(), as_safe_integer(value) is not None]
        case str():
            return ["string", value.encode("utf-16-le", "surrogatepass").hex()]
        case list():
            return ["array", [shape(item) for item in value]]
        case _:
            return ["object", sorted([key, shape(item)] for key, item in value.items())]


def our_answer(document: bytes) -> Any:
    try:
        return shape(loads(document))
    except JsonSyntaxError:
        return "SyntaxError"


@pytest.mark.req("CFG-4")
@pytest.mark.real_time
def test_accepts_and_reads_exactly_what_json_parse_does():
    asked = [base64.b64encode(document).decode() for document in DOCUMENTS]
    answers = ask_node(SHAPE, asked)
    assert [our_answer(document) for document in DOCUMENTS] == answers


@pytest.mark.req("CFG-4")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(
            (5.0, 5),
            (1e3, 1000),
            (64, 64),
            (-0.0, 0),
            (2.0**53 - 1, 2**53 - 1),
            (-(2.0**53) + 1, -(2**53) + 1),
        ),
        *(
            (2.0**53, None),
            (2**53, None),
            pytest.param(10**400, None, id="huge"),
            (float("inf"), None),
            (float("nan"), None),
            (1.5, None),
        ),
        *((True, None), (False, None), ("5", None), (None, None), ([5], None)),
    ],
)
def test_safe_integers(value: object, expected: int | None):
    assert as_safe_integer(value) == expected


@pytest.mark.req("CFG-4")
@pytest.mark.parametrize(
    ("document", "line", "column"),
    [
        (b"", 1, 1),
        (b'{\n  "a": NaN\n}', 2, 8),
        (b'["NaN", -Infinity]', 1, 9),
        (b'{\n "a": 1,\n "b" 2}', 3, 6),
        ('{"é😀": x}'.encode(), 1, 8),
        (b"[" * 100_000, 1, MAX_DEPTH + 1),
        (b"[" * 100_000 + b"]" * 100_000, 1, MAX_DEPTH + 1),
        (b'{"a":' * 100_000, 1, MAX_DEPTH * 5 + 1),
        (b"\xef\xbb\xbf{}", 1, 1),
    ],
)
def test_an_error_tells_where(document: bytes, line: int, column: int):
    with pytest.raises(JsonSyntaxError) as caught:
        loads(document)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert str(caught.value) == f"line {line}, column {column}: {caught.value.reason}"


@pytest.mark.req("CFG-4")
def test_brackets_in_strings_and_beside_each_other_are_not_depth():
    flat = b"[" + b",".join([b'["[{\\"[[", {}]'] * 1000) + b"]"
    assert loads(flat) == [['[{"[[', {}]] * 1000
    at_the_bound = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert isinstance(loads(at_the_bound), list)


@pytest.mark.req("CFG-4")
@given(
    st.binary()
    | st.text(alphabet='[]{}",:\\ \n0123456789.eE+-truefalsnIiNy\ud800\ufeff').map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_any_bytes_give_a_value_or_the_one_error(document: bytes):
    with suppress(JsonSyntaxError):
        shape(loads(document))
