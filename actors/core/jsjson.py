"""JSON as JavaScript's `JSON.parse` reads it (CFG-4).

Every number is a double: `5.0` and `1e3` are integers, `1e400` is infinite, and an integer beyond 2^53-1 is
no longer safe. A byte order mark, `NaN`, comments and trailing commas are syntax errors; a lone surrogate is
valid, and the last of several equal keys wins.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn, TypeAlias, cast

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | float | bool | None"
"""Any JSON value; the numbers that `loads` returns are all floats."""

MAX_DEPTH = 256
"""Nesting beyond this is refused. JavaScript knows no bound here, Python's recursion does."""

MAX_SAFE_INTEGER = 2**53 - 1

_TOKENS = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?|(?P<open>[\[{])|(?P<close>[\]}])|(?P<constant>NaN|-?Infinity)', re.DOTALL
)


class JsonSyntaxError(ValueError):
    """The text is not JSON; `line` and `column` count from 1, the column in characters."""

    def __init__(self, reason: str, text: str, position: int) -> None:
        self.reason = reason
        self.line = text.count("\n", 0, position) + 1
        self.column = position - text.rfind("\n", 0, position)
        super().__init__(f"line {self.line}, column {self.column}: {reason}")


class _ConstantError(ValueError):
    """One of the three constants that Python reads and JavaScript does not."""


def _refuse(constant: str) -> NoReturn:
    raise _ConstantError(constant)


_DECODER = json.JSONDecoder(parse_int=float, parse_constant=_refuse)


def loads(data: bytes) -> JsonValue:
    """Return the value that `JSON.parse` gives for `data` read as UTF-8; raises JsonSyntaxError.

    Bytes that are not UTF-8 become U+FFFD first, as when Node reads a text file.
    """
    text = data.decode("utf-8", "replace")
    if text.startswith("\ufeff"):
        raise JsonSyntaxError("it begins with a byte order mark, which is no part of JSON", text, 0)
    _check_depth(text)
    try:
        return cast("JsonValue", _DECODER.decode(text))
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(error.msg, text, error.pos) from None
    except _ConstantError as error:
        raise JsonSyntaxError(f"{error} is not JSON", text, _first_constant(text)) from None


def as_safe_integer(value: object) -> int | None:
    """Return `value` as an int if JavaScript's `Number.isSafeInteger` accepts it, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    in_range = -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    return int(value) if in_range and value == int(value) else None


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if depth > MAX_DEPTH:
            raise JsonSyntaxError(f"nested more than {MAX_DEPTH} levels deep", text, token.start())


def _first_constant(text: str) -> int:
    return next(token.start() for token in _TOKENS.finditer(text) if token.lastgroup == "constant")
