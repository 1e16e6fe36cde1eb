"""Checking the arguments of a tool call against its schema, after mending what models often get wrong.

A number may come as text, a text as a number, a single value in place of a list, a null for an optional field;
each is turned into what was most likely meant. What still does not fit is refused with the field named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pi_project_memory.supervisor.host.tools.base import ToolError
from pi_project_memory.supervisor.host.tools.jsnumbers import number_text, parse_number

_TYPE_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
_WORDS = {"true": True, "1": True, "false": False, "0": False}

Schema = Mapping[str, Any]


def checked_arguments(tool: str, schema: Schema, arguments: Any) -> dict[str, Any]:
    """Return `arguments` as the tool gets them. Raises ToolError naming every field that does not fit."""
    mended = _mend(schema, arguments)
    problems = [
        f"  - {'.'.join(place) or 'arguments'}: {problem}" for place, problem in _check(schema, mended)
    ]
    if problems:
        given = json.dumps(arguments, ensure_ascii=False, indent=2)
        raise ToolError(
            "\n".join([f"The tool {tool} cannot use these arguments:", *problems, "", "Given:", given])
        )
    assert isinstance(mended, dict)
    return mended


def _mend(schema: Schema, value: Any) -> Any:
    match schema["type"]:
        case "object":
            return _mend_object(schema, value)
        case "array":
            items = value if isinstance(value, list) else [value]
            return [_mend(schema["items"], item) for item in items]
        case "string":
            return _mend_string(value)
        case "number":
            return _mend_number(value)
        case _:
            return _mend_boolean(value)


def _mend_object(schema: Schema, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    fields, required = schema["properties"], schema["required"]
    return {
        name: _mend(fields[name], item) if name in fields else item
        for name, item in value.items()
        if item is not None or name not in fields or name in required
    }


def _mend_string(value: Any) -> Any:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float() if math.isfinite(value):
            return number_text(value)
        case _:
            return value


def _mend_number(value: Any) -> Any:
    if isinstance(value, str):
        number = parse_number(value)
        value = _WORDS.get(value.lower(), value) if number is None else number
    if value is None or isinstance(value, bool):
        return int(bool(value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _mend_boolean(value: Any) -> Any:
    if value is None:
        return False
    if isinstance(value, str):
        return _WORDS.get(value.lower(), value)
    return bool(value) if value in (0, 1) else value


def _check(schema: Schema, value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    found = _TYPE_NAMES.get(type(value), "null")
    if found != schema["type"] or (isinstance(value, float) and not math.isfinite(value)):
        yield place, f"must be of type {schema['type']}, not {found}"
    elif isinstance(value, dict):
        for name in schema["required"]:
            if name not in value:
                yield (*place, name), "missing"
        for name, field in schema["properties"].items():
            if name in value:
                yield from _check(field, value[name], (*place, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check(schema["items"], item, (*place, str(index)))
