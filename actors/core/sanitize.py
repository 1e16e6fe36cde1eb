"""Cleaning of memory text on its way to a model (SAN-1 to SAN-4); what is on disk is never touched.

A text passes through a few substitutions in order, each of them linear. Invisible characters go first, so
that a tag split by them is whole again when the reserved tags are looked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from pi_project_memory.actors.core.confusables import OPENING_BRACKETS, skeleton
from pi_project_memory.actors.core.invisibles import (
    BLANKS,
    CURSIVE,
    INDIC,
    JOINERS,
    PICTOGRAPHS,
    REMOVED,
    SELECTED,
    SELECTORS,
    SKIN_TONES,
    SUBDIVISION_FLAGS,
    VIRAMAS,
)

RESERVED_TAGS = frozenset({"system-reminder", "auto_memory", "memory-recall", "memory-notice"})
"""Tags by which the host and this project mark their own words."""

_HIDDEN = f"[{SELECTORS}{JOINERS}]"
_SELECTOR = "|".join(f"(?<=[{bases}])[{selectors}]" for bases, selectors in SELECTED)
_JOINER = "|".join(
    (
        rf"(?:(?<=[{PICTOGRAPHS}])|(?<=[{PICTOGRAPHS}]\ufe0f)|(?<=[{SKIN_TONES}]))\u200d(?={_HIDDEN}*+[{PICTOGRAPHS}])",
        rf"(?<=[{CURSIVE}])(?:\u200d|\u200c(?={_HIDDEN}*+[{CURSIVE}]))",
        rf"(?<=[{VIRAMAS}])[{JOINERS}]",
        rf"(?<=[{INDIC}])[{JOINERS}](?={_HIDDEN}*+[{VIRAMAS}])",
    )
)


def _shape(name: str) -> str:
    """Return the pattern of a name's skeleton: a bar may stand for an `l`, gaps may stand anywhere."""
    letters = skeleton(name).replace("-", "")
    return "[ -]*+".join(letters).replace("l", "[l|]")


@cache
def _reserved() -> re.Pattern[str]:
    # A longer name (`<memory-recalls>`, `<memory-recall-log>`) is another tag. The hyphen may be missing
    # altogether: a soft hyphen in its place is gone by then.
    return re.compile(rf"[ /]*+(?:{'|'.join(map(_shape, sorted(RESERVED_TAGS)))})(?!-*\w)")


def _escaped(match: re.Match[str]) -> str:
    return f"&lt;{match[1]}" if _reserved().match(skeleton(match[1])) else match[0]


_SUSPECT_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f<]")


@cache
def _suspect() -> re.Pattern[str]:
    """Return what a text without it needs no cleaning; compiled late, since a session waits for it."""
    return re.compile(f"[{REMOVED}{SELECTORS}{JOINERS}{BLANKS}{OPENING_BRACKETS}]")


@cache
def _steps() -> tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]:
    """Return the substitutions in order."""
    return (
        (re.compile(r"\r\n?"), "\n"),
        (re.compile(f"[{BLANKS}]"), " "),
        (re.compile(rf"((?<=\U0001f3f4)(?:{'|'.join(SUBDIVISION_FLAGS)}))|[{REMOVED}]+"), r"\1"),
        (re.compile(f"(?={_HIDDEN})({_SELECTOR}|)({_JOINER}|){_HIDDEN}*+"), r"\1\2"),
        (re.compile(f"[{OPENING_BRACKETS}]([^{OPENING_BRACKETS}]*+)"), _escaped),
    )


def sanitize(text: str) -> str:
    """Return `text` fit for a prompt: nothing invisible in it, no reserved tag opened or closed.

    Line breaks become LF; TAB and LF stay. Emoji sequences, flags, one variation selector after a base that
    takes it, and joiners that shape Arabic and Indic words stay. A bracket that begins a reserved tag, or
    passes for one, becomes `&lt;`. Idempotent, linear, never adds U+FFFD; a clean text comes back as it is.
    """
    suspect = _SUSPECT_ASCII if text.isascii() else _suspect()
    if suspect.search(text) is None:
        return text
    for pattern, replacement in _steps():
        text = pattern.sub(replacement, text)
    return text


def sanitize_line(text: str) -> str:
    """Return `text` as `sanitize` does, for a place of one line: each TAB and LF becomes a space."""
    return sanitize(text).translate({0x09: " ", 0x0A: " "})
