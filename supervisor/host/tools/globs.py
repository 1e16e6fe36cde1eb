"""Glob patterns as regular expressions, in the dialect that fd and ripgrep share.

`*` and `?` stay inside one path component, `**` as a whole component crosses them, `[...]` is a class,
`{a,b}` a choice, and a backslash takes the next character literally.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<escape>\\.)
    | (?P<class>\[[!^]?\]?[^\]]*\])
    | (?P<leading>^\*\*/)
    | (?P<trailing>/\*\*$)
    | (?P<middle>/\*\*/)
    | (?P<everything>^\*\*$)
    | (?P<stars>\*+)
    | (?P<one>\?)
    | (?P<open>\{)
    | (?P<close>\})
    | (?P<comma>,)
    | (?P<bad>[\\\[])
    | (?P<literal>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_REPEATED = re.compile(r"(?<![^/])(?:\*\*/){2,}")
_FIXED = {
    "leading": "(?:.*/)?",
    "trailing": "/.*",
    "middle": "/(?:.*/)?",
    "everything": ".*",
    "stars": "[^/]*",
    "one": "[^/]",
    "open": "(?:",
    "close": ")",
}


class GlobError(ValueError):
    """A pattern that cannot be understood; the message says why."""


def compile_glob(pattern: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Return an expression whose `fullmatch` is the pattern's match. Raises GlobError."""
    try:
        expression = "".join(_parts(_REPEATED.sub("**/", pattern)))
        return re.compile(expression, re.DOTALL | (re.IGNORECASE if ignore_case else re.NOFLAG))
    except re.error as error:
        raise GlobError(f"the glob pattern {pattern!r} is malformed: {error}") from error


def _parts(pattern: str) -> Iterator[str]:
    depth = 0
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup or "", token.group()
        if kind == "bad":
            raise GlobError(f"the glob pattern {pattern!r} does not close or finish its {text!r}")
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            break
        yield _translated(kind, text, in_choice=depth > 0)
    if depth:
        raise GlobError(f"the braces of the glob pattern {pattern!r} do not match")


def _translated(kind: str, text: str, *, in_choice: bool) -> str:
    match kind:
        case "class":
            return _class(text[1:-1])
        case "comma" if in_choice:
            return "|"
        case "escape":
            return re.escape(text[1])
        case _:
            return _FIXED.get(kind) or re.escape(text)


def _class(body: str) -> str:
    negated = body[:1] in {"!", "^"}
    members = re.sub(r"([\\\[\]&~|^])", r"\\\1", body[negated:])
    return f"[{'^' * negated}{members}]"
