"""What a writer of memory is told about a file: its form after a write, its age at a recall (IDX-8).

Findings are sentences a model can act on. They never block a write and nothing is repaired here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from urllib.parse import unquote

from pi_project_memory.actors.core.frontmatter import HEADER_BYTES, MEMORY_TYPES, Header, parse_header
from pi_project_memory.actors.core.jstext import js_trim, utf16_len
from pi_project_memory.actors.core.sanitize import sanitize_line
from pi_project_memory.actors.core.windows import index_window, topic_window

POINTER_LIMIT = 150
"""UTF-16 units that an index line has to stay under."""

_DAY_MS = 86_400_000
_MOST_NAMED = 8
_LONGEST_NAME = 120

_FORM = "- [Title](file.md) — what it is about"
_BREAK = re.compile(r"\r\n|\r|\n")
_POINTER = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+\[[^\]]*\]\([^)]+\)")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_TARGET = re.compile(r"\]\(<?([^()<>]+)>?\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#")


def staleness_days(mtime_ms: float, now_ms: float) -> int:
    """Return the whole days since a file was modified; both in milliseconds since the epoch."""
    return math.floor((now_ms - mtime_ms) / _DAY_MS)


def staleness_note(mtime_ms: float, now_ms: float) -> str:
    """Return the reminder for a topic last modified two days ago or earlier, else ""."""
    days = staleness_days(mtime_ms, now_ms)
    if days <= 1:
        return ""
    return (
        f"Last changed {days} days ago, so it may no longer hold. "
        "Check it against the current code and files before you rely on it."
    )


def lint_topic(path: str, data: bytes) -> tuple[str, ...]:
    """Return what is wrong with a topic; `data` is the file, or its first 65,536 bytes at least."""
    header = parse_header(data[:HEADER_BYTES].decode("utf-8", "replace"))
    findings = list(_header_findings(header))
    window = topic_window(data)
    if window.truncated:
        findings.append(
            f"only its first {window.lines} lines ({window.bytes} bytes) are recalled; "
            "shorten it or move a part into a topic of its own"
        )
    return tuple(sanitize_line(f"{path}: {finding}.") for finding in findings)


def _header_findings(header: Header) -> Iterator[str]:
    if header.syntax == "absent":
        yield "it has no frontmatter; start it with name, description and metadata.type between --- lines"
        return
    if header.syntax == "lines":
        yield "its frontmatter is not plain YAML; put values that hold a colon, quotes or other marks in quotes"
    for field, value in (("name", header.name), ("description", header.description)):
        if not value:
            yield f"its frontmatter has no {field}, by which the topic is found; add one"
    if header.type is None:
        yield f"its metadata.type is not one of {', '.join(MEMORY_TYPES)}; set it"


def lint_index(text: str, topics: Collection[str]) -> tuple[str, ...]:
    """Return what is wrong with an index; `topics` are the paths of all topic files that exist."""
    findings = (*_line_findings(_lines(text)), *_window_findings(text), *_link_findings(text, topics))
    return tuple(sanitize_line(f"MEMORY.md: {finding}.") for finding in findings)


def linked_paths(text: str) -> frozenset[str]:
    """Return the Markdown files that an index links to, as paths relative to the memory root."""
    targets = [target for line in _lines(text) for target in _TARGET.findall(line)]
    paths = {_path(target) for target in targets if not _SCHEME.match(target)}
    return frozenset(path for path in paths if path.endswith(".md"))


def _line_findings(lines: list[str]) -> Iterator[str]:
    if prose := [number for number, line in enumerate(lines, start=1) if _is_prose(line)]:
        yield (
            f"lines that are no link pointers: {_ranges(prose)}; move what they say into topic files "
            f"and leave one line for each: {_FORM}"
        )
    if long := [number for number, line in enumerate(lines, start=1) if utf16_len(line) >= POINTER_LIMIT]:
        yield f"lines of {POINTER_LIMIT} characters or more: {_ranges(long)}; shorten them"


def _window_findings(text: str) -> Iterator[str]:
    window = index_window(text)
    if window.truncated:
        yield (
            f"only its first {window.lines_kept} of {window.lines_total} lines are loaded; "
            "merge or remove lines until all of it is"
        )


def _link_findings(text: str, topics: Collection[str]) -> Iterator[str]:
    linked, existing = linked_paths(text), frozenset(topics)
    if broken := sorted(linked - existing):
        yield f"no file stands behind {_names(broken)}; correct or remove these links"
    if missing := sorted(existing - linked - {"MEMORY.md"}):
        yield f"no line points to {_names(missing)}; add one for each: {_FORM}"


def _is_prose(line: str) -> bool:
    return bool(js_trim(line)) and not _POINTER.match(line) and not _HEADING.match(line)


def _lines(text: str) -> list[str]:
    return _BREAK.split(text.removeprefix("\ufeff"))


def _path(target: str) -> str:
    return unquote(target.partition("#")[0]).removeprefix("./")


def _ranges(numbers: list[int]) -> str:
    """Return ascending line numbers as `2-31, 35`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return _listed(["-".join(map(str, run)) for run in runs])


def _names(paths: list[str]) -> str:
    return _listed(
        [path if utf16_len(path) <= _LONGEST_NAME else f"{path[:_LONGEST_NAME]}…" for path in paths]
    )


def _listed(items: list[str]) -> str:
    more = len(items) - _MOST_NAMED
    return ", ".join(items[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
