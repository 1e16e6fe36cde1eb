"""The header of a topic file (IDX-6).

YAML is read as a stream of events from the C parser: nothing is constructed, resolved or expanded. A
header that the parser refuses, or that holds anchors, aliases or tags, is read again field by field, so
that one bad value does not cost the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pi_project_memory.actors.core.jstext import js_trim

if TYPE_CHECKING:
    from pi_project_memory.actors.core.plainyaml import Value

HEADER_LINES = 30
HEADER_BYTES = 65_536

MemoryType = Literal["user", "feedback", "project", "reference"]
MEMORY_TYPES: tuple[MemoryType, ...] = ("user", "feedback", "project", "reference")

Syntax = Literal["absent", "yaml", "lines"]
"""How a header was read: there is none, as YAML, or field by field because it is not plain YAML."""

_FIELDS = frozenset({"name", "description", "metadata", "type", "modified"})

_BREAK = re.compile(r"\r\n|\r|\n")
_FENCE = re.compile(r"---[ \t]*")
_KEY = re.compile(r"([A-Za-z]+)[ \t]*:(?=[ \t]|$)")
_INDENT = ("", " ", "\t")
_QUOTED = re.compile(r"(['\"])(.*)\1", re.DOTALL)
_BLOCK_MARK = re.compile(r"[|>][-+0-9]{0,2}(?=\s|$)")
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:(?:[Tt]|[ \t]+)(\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?[ \t]*([Zz]|[-+]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Header(Struct, frozen=True):
    """What a topic says of itself; text that is absent is empty.

    `type` is None unless it is one of the four. `modified_ms` is in milliseconds since the epoch, None
    when absent or invalid: the file's own time counts then.
    """

    name: str = ""
    description: str = ""
    type: MemoryType | None = None
    modified_ms: float | None = None
    syntax: Syntax = "absent"


def parse_header(text: str) -> Header:
    """Return the header at the start of `text`; an empty one when there are no fences around it.

    Only 30 lines and 65,536 characters are looked at. Never raises.
    """
    lines = _between_fences(text)
    if lines is None:
        return Header()
    fields, syntax = _fields(lines)
    nested = fields.get("metadata")
    metadata = nested if isinstance(nested, Mapping) else {}
    kind, modified = (_text(metadata.get(key) or fields.get(key)) for key in ("type", "modified"))
    return Header(
        name=_text(fields.get("name")),
        description=_text(fields.get("description")),
        type=next((known for known in MEMORY_TYPES if known == kind), None),
        modified_ms=_instant(modified),
        syntax=syntax,
    )


def _fields(lines: list[str]) -> tuple[Mapping[str, Value], Syntax]:
    try:
        return _mapping(lines), "yaml"
    except ValueError:
        return _field_by_field(lines), "lines"


def _between_fences(text: str) -> list[str] | None:
    window = text[:HEADER_BYTES].removeprefix("\ufeff")
    first, *rest = _BREAK.split(window, maxsplit=HEADER_LINES)[:HEADER_LINES]
    if not _FENCE.fullmatch(first):
        return None
    closing = next((at for at, line in enumerate(rest) if _FENCE.fullmatch(line)), None)
    return None if closing is None else rest[:closing]


def _text(value: Value) -> str:
    return js_trim(value) if isinstance(value, str) else ""


def _instant(text: str) -> float | None:
    """Return an ISO 8601 or YAML date in milliseconds since the epoch; without a zone it is UTC."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    day, minutes, seconds, fraction, zone = match.groups()
    clock = f"{minutes or '00:00'}:{seconds or '00'}.{(fraction or '0')[:6].ljust(6, '0')}"
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{(zone or 'Z').upper()}")
        return (moment.astimezone(UTC) - _EPOCH) / timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return None


def _mapping(lines: list[str]) -> Mapping[str, Value]:
    """Return the fields of a header that is plain YAML; ValueError for any other."""
    from pi_project_memory.actors.core.plainyaml import read_mapping

    return read_mapping("\n".join(lines))


def _field_by_field(lines: list[str]) -> dict[str, Value]:
    """Return what can be made of a header that is not plain YAML: each known field on its own."""
    fields: dict[str, Value] = {}
    for key, chunk in _chunks(lines).items():
        try:
            fields |= _mapping(chunk)
        except ValueError:
            fields[key] = _verbatim(key, chunk)
    return fields


def _chunks(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines of each known field: the one that names it, and the indented ones below."""
    chunks: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if line[:1] in _INDENT:
            current.append(line)
        elif match := _KEY.match(line):
            current = [line]
            if match[1] in _FIELDS:
                chunks[match[1]] = current
    return chunks


def _verbatim(key: str, chunk: list[str]) -> Value:
    """Return a field as its author wrote it: without quotes around it, on one line."""
    first, *rest = chunk
    if key == "metadata":
        return _field_by_field([js_trim(line) for line in rest])
    value = js_trim(_KEY.sub("", first, count=1))
    text = " ".join([_BLOCK_MARK.sub("", value), *(js_trim(line) for line in rest)])
    quoted = _QUOTED.fullmatch(js_trim(text))
    return quoted[2] if quoted else text
