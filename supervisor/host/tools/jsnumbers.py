"""Numbers as JavaScript writes and reads them, for arguments that arrive as the wrong JSON type."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from pi_project_memory.actors.core.jstext import js_trim

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_RADIX = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_LONGEST_PLAIN = 21
_MOST_LEADING_ZEROS = -6


def number_text(value: float) -> str:
    """Return a finite number as JavaScript's `String(value)` does."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent
    return "-" * sign + _place_point(text, point)


def _place_point(digits: str, point: int) -> str:
    if len(digits) <= point <= _LONGEST_PLAIN:
        return digits.ljust(point, "0")
    if 0 < point <= _LONGEST_PLAIN:
        return f"{digits[:point]}.{digits[point:]}"
    if _MOST_LEADING_ZEROS < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def parse_number(text: str) -> float | None:
    """Return what JavaScript's `Number(text)` gives, or None when that is not a finite number."""
    text = js_trim(text)
    if not text:
        return 0.0
    if _DECIMAL.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else None
    return float(int(text, 0)) if _RADIX.fullmatch(text) else None
