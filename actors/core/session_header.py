"""The header of a session file: who the session is, and where it was held (DRM-3).

The header is the first line that is a JSON object with `type` "session". Other lines may stand before it: a
fork may put a title there. Later lines are not looked at, so a first header without a valid id has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

LONGEST_ID = 255
"""Characters of an id at most, as of a file name, which Pi makes of it."""

_ID = re.compile("[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """What a header says: `id` and `cwd`, each None where it is missing or not of its form."""

    id: str | None
    cwd: str | None


class _Line(msgspec.Struct, frozen=True):
    type: object = None
    id: object = None
    cwd: object = None


def find_header(lines: Iterable[bytes]) -> SessionHeader | None:
    """Return the header among the complete lines of a file's beginning, None when there is none."""
    for raw in lines:
        line = _parsed(raw)
        if line is not None and line.type == "session":
            return SessionHeader(_valid_id(line.id), _absolute(line.cwd))
    return None


def _parsed(raw: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(raw, type=_Line)
    except (msgspec.DecodeError, RecursionError):
        return None


def _valid_id(value: object) -> str | None:
    if isinstance(value, str) and len(value) <= LONGEST_ID and _ID.fullmatch(value):
        return value
    return None


def _absolute(value: object) -> str | None:
    return value if isinstance(value, str) and value.startswith("/") and "\0" not in value else None
