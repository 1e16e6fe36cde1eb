"""YAML mappings of text, read from the C parser's events (IDX-6).

Nothing is constructed, resolved or expanded, so no document can run code, grow in memory or be deeper
than the stack. Import this module where it is used: the parser costs about 40 ms to load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ruamel.yaml import events as yaml
from ruamel.yaml.cyaml import CBaseLoader
from ruamel.yaml.error import YAMLError

Value: TypeAlias = "str | Mapping[str, Value] | None"
"""Text, fields, or None for a null or a list."""

_MOST_EVENTS = 256
_DEEPEST = 8
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class NotPlainError(ValueError):
    """The text is no YAML mapping, or uses more of YAML than fields of text need."""


def read_mapping(text: str) -> Mapping[str, Value]:
    """Return the first document of `text`; scalars keep their spelling, of equal keys the last wins.

    Raises NotPlainError for invalid YAML, any other kind of document, anchors, aliases, tags, more than
    256 events or more than 8 levels, and UnicodeEncodeError, a ValueError as well, for a lone surrogate.
    """
    try:
        events = _events(text)
        first = next(events, None)
        value = {} if first is None else _value(first, events, 0)
    except YAMLError as error:
        raise NotPlainError(str(error)) from error
    if not isinstance(value, Mapping):
        raise NotPlainError("the document is no mapping")
    return value


def _events(text: str) -> Iterator[yaml.Event]:
    """Yield the node events of the first document, and the event that ends it."""
    parser = CBaseLoader(text)
    for _ in range(_MOST_EVENTS):
        event = parser.get_event()
        match event:
            case yaml.StreamStartEvent() | yaml.DocumentStartEvent():
                continue
            case yaml.StreamEndEvent() | yaml.DocumentEndEvent():
                return
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise NotPlainError("anchors, aliases and tags are not read")
        yield event
    raise NotPlainError("the document has too many parts")


def _value(event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Value:
    if isinstance(event, yaml.ScalarEvent):
        plain_null = not event.style and event.value in _NULLS
        return None if plain_null else str(event.value)
    if depth == _DEEPEST:
        raise NotPlainError("the document is nested too deeply")
    if isinstance(event, yaml.MappingStartEvent):
        return _fields(events, depth + 1)
    while not isinstance(item := next(events), yaml.SequenceEndEvent):
        _value(item, events, depth + 1)
    return None


def _fields(events: Iterator[yaml.Event], depth: int) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        name = _value(key, events, depth)
        value = _value(next(events), events, depth)
        if isinstance(name, str):
            fields[name] = value
    return fields
