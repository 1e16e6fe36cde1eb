"""What the six tools are called and which arguments they take: Pi's names and fields (SUB-1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as a model is told about it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def _field(kind: str, description: str) -> dict[str, Any]:
    return {"type": kind, "description": description}


def _object(required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **(optional or {})}}


_SEARCHED = _field("string", "Where to search; the working directory when left out.")
_FILE = _field("string", "The file, absolute or from the working directory.")

DECLARATIONS = (
    ToolDeclaration(
        "read",
        "Show a text file, or a png, jpeg, gif or webp picture. At most 2000 lines or 50KB come at once; "
        "go on with offset.",
        _object(
            {"path": _FILE},
            {
                "offset": _field("number", "The first line to show, counted from 1."),
                "limit": _field("number", "How many lines to show at most."),
            },
        ),
    ),
    ToolDeclaration(
        "find",
        "List the paths below a directory that match a glob pattern, without git-ignored ones.",
        _object(
            {"pattern": _field("string", "A glob; without a slash it matches names at any depth.")},
            {
                "path": _SEARCHED,
                "limit": _field("number", "How many paths to list at most; 1000 by default."),
            },
        ),
    ),
    ToolDeclaration(
        "grep",
        "Show the lines that match a pattern, with file and line number, without git-ignored files.",
        _object(
            {"pattern": _field("string", "A regular expression, or plain text with literal.")},
            {
                "path": _SEARCHED,
                "glob": _field("string", "Only files that match this glob."),
                "ignoreCase": _field("boolean", "Whether upper and lower case count as equal."),
                "literal": _field("boolean", "Whether the pattern is plain text."),
                "context": _field("number", "How many lines to show around each match; none by default."),
                "limit": _field("number", "How many matches to show at most; 100 by default."),
            },
        ),
    ),
    ToolDeclaration(
        "write",
        "Create a file, or replace the whole of one; missing directories are made.",
        _object({"path": _FILE, "content": _field("string", "All of the new content.")}),
    ),
    ToolDeclaration(
        "edit",
        "Replace pieces of one file. Every oldText must occur exactly once in it, and no two may overlap.",
        _object(
            {
                "path": _FILE,
                "edits": {
                    "type": "array",
                    "description": "The replacements, all matched against the file as it is now.",
                    "items": _object(
                        {
                            "oldText": _field("string", "The text to replace, exactly as it stands."),
                            "newText": _field("string", "What comes in its place."),
                        }
                    ),
                },
            }
        ),
    ),
    ToolDeclaration(
        "bash",
        "Run a shell command in the working directory and show what it prints, the last 2000 lines or 50KB; "
        "longer output is kept whole in a file.",
        _object(
            {"command": _field("string", "The command.")},
            {"timeout": _field("number", "Seconds after which the command is ended; no limit by default.")},
        ),
    ),
)
