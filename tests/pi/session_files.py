"""Pi's session files: one JSON object a line, a header first."""

from __future__ import annotations

import json
from pathlib import Path

from pi.scripting import Json


def records(session_file: Path) -> list[Json]:
    """Every line, the header included."""
    return [json.loads(line) for line in session_file.read_bytes().split(b"\n") if line]


def entries(session_file: Path, kind: str | None = None) -> list[Json]:
    """The entries after the header, all or those of one type."""
    body = [record for record in records(session_file) if record["type"] != "session"]
    return [entry for entry in body if kind in {None, entry["type"]}]


def header(session_file: Path) -> Json:
    first = records(session_file)[0]
    assert first["type"] == "session", f"{session_file} starts with {first}"
    return first


def roles(session_file: Path) -> list[str]:
    """The roles of the stored messages, in order."""
    return [entry["message"]["role"] for entry in entries(session_file, "message")]
