r"""Text as JavaScript sees it: UTF-16 units, `\s`, `trim()` and `toISOString()`.

The windows, budgets and word rules of the contract are stated in JavaScript's terms. Python's own
`len`, `str.strip`, `str.split` and `\s` differ on emoji and on several spaces and are not used for them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

JS_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
r"""Every character that `\s` matches in JavaScript."""

_SPACES = re.compile(f"[{JS_SPACE}]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HIGH_SURROGATES = range(0xD8, 0xDC)
_LOW_SURROGATES = range(0xDC, 0xE0)


def _units(text: str) -> bytes:
    """Return two bytes for each unit, the high one second."""
    return text.encode("utf-16-le", "surrogatepass")


def utf16_len(text: str) -> int:
    """Return the length of `text` in UTF-16 units, as JavaScript's `.length`; a lone surrogate is one."""
    return len(text) if text.isascii() else len(_units(text)) // 2


def utf16_prefix(text: str, limit: int) -> str:
    """Return the longest prefix of at most `limit` units that splits no surrogate pair."""
    end = max(limit, 0)
    if text.isascii():
        return text[:end]
    units = _units(text)
    if len(units) <= 2 * end:
        return text
    if end and units[2 * end - 1] in _HIGH_SURROGATES and units[2 * end + 1] in _LOW_SURROGATES:
        end -= 1
    return units[: 2 * end].decode("utf-16-le", "surrogatepass")


def js_trim(text: str) -> str:
    """Return `text` as JavaScript's `trim()` leaves it."""
    return text.strip(JS_SPACE)


def js_words(text: str) -> list[str]:
    """Return the non-empty parts of `text` between runs of JS space."""
    return [word for word in _SPACES.split(text) if word]


def has_js_space(text: str) -> bool:
    r"""Tell whether `\s` matches anywhere in `text`."""
    return _SPACES.search(text) is not None


def iso_from_ms(milliseconds: float) -> str:
    """Return the instant in the form of `toISOString()`; `milliseconds` since the epoch, fraction dropped.

    Raises OverflowError for an instant outside the years 1 to 9999 and for infinity, ValueError for NaN.
    """
    moment = _EPOCH + timedelta(milliseconds=int(milliseconds))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
