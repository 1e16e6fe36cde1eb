"""What text looks like: characters folded to the plain letters a reader takes them for.

The letters are those of the reserved tag names, after NFKD and the confusables of UTS #39 (Unicode 17). What
Unicode itself spells out in a character's name (`LATIN SMALL LETTER S WITH HOOK`) needs no table.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

OPENING_BRACKETS = (
    "<\xab\u02c2\u02f1\u2039\u226a\u226e\u227a\u22d6\u22d8\u2329\u276c\u276e\u2770\u27e8\u27ea\u2991\u2993"
    "\u29c0\u29fc\u2a79\u2a7b\u2aa1\u2aa6\u2aaa\u2abb\u2af7\u3008\u300a\ufe3d\ufe3f\ufe64\uff1c\u1438\u16b2\U0001d236"
)
"""Characters that pass for `<`: its compatibility forms, angle brackets and quotes, two runes of that shape."""

_CLOSING_BRACKETS = "\u1433\U0001d237\U00016f3f"
_SLASHES = (
    "\\\u1735\u2041\u2044\u2215\u2216\u2571\u2572\u27cb\u27cd\u29f5\u29f8\u29f9\u2cc6\u2cc7\u2f02\u2f03\u3033\u30ce"
    "\u31d3\u31d4\u4e36\u4e3f\U0001d20f\U0001d23a\U0001d23b\U0001f67c\U0001f67d"
)
_SEPARATORS = "_\u02d7\u06d4\u07fa\u1173\u2043\u2212\u2500\u2501\u2796\u2cba\u2cbb\u30fc\u3161\u4e00"
_LETTERS = {
    "a": (
        "\u0251\u03b1\u0430\u15c4\u15c5\u1e9a\u2200\u2376\u237a\ua4ee\ua4ef\uab7a\U000102a0\U00016f40"
        "\U0001ccd6\U0001d217"
    ),
    "c": (
        "\xa2\u037d\u03f2\u03f9\u0441\u04ab\u1004\u105a\u20a1\u22f4\u2ca5\ua4da\uabaf\U000102a2"
        "\U00010302\U0001043d\U0001051c\U000118e9\U000118f2\U0001ccd8\U0001f16e\U0001f74c"
    ),
    "d": "\xf0\u0501\u13e7\u146f\u15de\u15ea\u20ab\ua4d2\ua4d3\uab70\U0001ccd9",
    "e": (
        "\u01a9\u0259\u03a3\u03b5\u0435\u0437\u0454\u0499\u04bd\u04bf\u04d9\u0511\u20ac\u212e\u2203"
        "\u22ff\u2377\u2c89\u2d39\u2d3a\ua4f0\ua4f1\ua79d\uab7c\uab9b\U00010286\U00010429\U0001042a"
        "\U00010442\U000118c6\U000118ce\U00016f2d\U0001ccda\U0001d221"
    ),
    "i": "\u0269\u02db\u037a\u03b9\u0456\u0582\u1d7c\u2373\u2378\u2c93\ua647\uab75\U000118c3",
    "l": (
        "\u0196\u01c0\u0399\u0406\u04cf\u05c0\u05d5\u05df\u0627\u0661\u0673\u06f1\u07ca\u14aa\u16c1"
        "\u2223\u23fd\u2c92\u2cd1\u2d4f\ua4e1\ua4f2\uabae\uffe8\U0001028a\U00010309\U00010320"
        "\U00010443\U00010526\U000118a3\U000118b2\U00011dda\U00011de1\U00016eaa\U00016f16\U00016f28"
        "\U0001ccde\U0001cce1\U0001ccf1\U0001d22a\U0001e8c7"
    ),
    "m": ("\u039c\u03fa\u043c\u04ce\u057a\u1223\u15f0\u16d6\u2c99\ua4df\uab87\U000102b0\U00010311\U0001cce2"),
    "n": (
        "\u014b\u0377\u03b7\u03bd\u0438\u043f\u0572\u0578\u057c\u2c9b\ua4e0\U0001018e\U0001044d"
        "\U00010513\U0001cce3"
    ),
    "o": (
        "\u037b\u03b8\u03bf\u03c3\u03ed\u043e\u0473\u04e9\u0585\u05e1\u0647\u0665\u06be\u06c1\u06d5"
        "\u06f5\u06ff\u07c0\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c02\u0c66\u0c82\u0ce6\u0d02"
        "\u0d20\u0d66\u0d82\u0e50\u0ed0\u1010\u101d\u1040\u10d7\u10ff\u12d0\u17e0\u2183\u2296\u229d"
        "\u236c\u2c91\u2c9f\u2d31\u2d41\u2d54\u3007\ua4db\ua4f3\uab74\uab8e\uabbb\U00010292\U000102ab"
        "\U0001042c\U0001044b\U000104ea\U00010516\U000114d0\U000118c8\U000118d5\U000118d7\U000118e0"
        "\U00011de0\U0001cce4\U0001ccf0\U0001d21a\U0001f714"
    ),
    "r": (
        "\u01a6\u0433\u044f\u0493\u1587\u1d26\u2129\u2c85\ua4e3\uab47\uab71\uab81\uaba2\U000104b4"
        "\U00016f35\U0001cce7\U0001d216"
    ),
    "s": (
        "\u01bd\u03b2\u03c2\u0455\u054f\u0d1f\u13d5\u13f0\ua4e2\ua7b5\uabaa\U00010296\U00010448"
        "\U000118c1\U00016f3a\U0001cce8\U0001f12a"
    ),
    "t": (
        "\u03c4\u0442\u04ad\u10a0\u13bf\u20ae\u22a4\u2361\u27d9\u2ca7\ua4d4\uab72\U00010297\U000102b1"
        "\U00010315\U000118bc\U00016f0a\U0001cce9\U0001f768"
    ),
    "u": (
        "\u0244\u028b\u03c5\u045f\u057d\u1200\u144c\u222a\u22c3\ua4f4\ua79f\uab9c\U000104f6\U000118d8"
        "\U00016f42\U0001ccea"
    ),
    "y": (
        "\xa5\u0263\u03a5\u03b3\u0443\u04af\u04b1\u10e7\u13a9\u13bd\u1d8c\u2ca9\ua4ec\U000102b2"
        "\U000118c4\U000118dc\U00016f43\U0001ccee"
    ),
    "aa": "\ua733",
    "ae": "\xe6\u04d5",
    "ao": "\ua735",
    "ar": "\U0001f707",
    "au": "\ua737",
    "ay": "\ua73d",
    "eo": "\u1d14\uab41\uab42",
    "ll": "\u01c1\u05f0\u2016\u2225\U00010199",
    "lo": "\u042e\u23e8",
    "ls": "\u02aa",
    "lt": "\u20b6",
    "oe": "\u0153\u0276\uab62",
    "oo": "\u221e\ua699\ua74f",
    "rn": "\u20a5\U00011700\U000118e3",
    "tc": "\u02a8",
    "ts": "\u02a6",
    "ue": "\u1d6b",
    "uo": "\uab63",
    "lls": "\U00010198",
    "sss": "\U0001f75c",
}
_MERGED = str.maketrans({"i": "l", "1": "l", "0": "o", "m": "rn", "d": "cl"})
_CLASSES = {"Pd": "-", "Pc": "-", "Zs": " ", "Cc": " ", "Cf": "", "Mn": "", "Mc": "", "Me": ""}
_SPELLED_OUT = re.compile(
    "(?:LATIN (?:[A-Z]+ )*LETTER (?:[A-Z]+ )*|REGIONAL INDICATOR SYMBOL LETTER )([A-Z])(?: WITH .*)?$"
)


class _Skeletons(dict[int, str]):
    """From code point to skeleton: the table, and what is worked out where it has no entry."""

    def __missing__(self, code: int) -> str:
        return _worked_out(chr(code))


def _table() -> _Skeletons:
    plain = {code: chr(code).lower().translate(_MERGED) for code in range(0x21, 0x7F)}
    lookalikes = {ord(c): letters.translate(_MERGED) for letters, group in _LETTERS.items() for c in group}
    marks = ((">", _CLOSING_BRACKETS), ("/", _SLASHES), ("-", _SEPARATORS))
    return _Skeletons(plain | lookalikes | {ord(c): mark for mark, group in marks for c in group})


_SKELETONS = _table()


# A bounded cache: prose in any script stays fast, and a file of every character there is fills no memory.
@lru_cache(maxsize=4096)
def _worked_out(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character)
    return "".join(_part_skeleton(part) for part in parts.strip("()") or parts)


def _part_skeleton(part: str) -> str:
    for form in (part, part.lower(), part.upper()):
        if len(form) == 1 and ord(form) in _SKELETONS:
            return _SKELETONS[ord(form)]
    spelled_out = _SPELLED_OUT.search(unicodedata.name(part, ""))
    if spelled_out:
        return spelled_out[1].lower().translate(_MERGED)
    return _CLASSES.get(unicodedata.category(part), part)


def skeleton(text: str) -> str:
    """Return `text` with each character replaced by what it looks like.

    Case is folded; marks and invisible characters are dropped; dashes and underscores become `-`, slashes
    of either lean `/`, white space and controls a space. Letters that are told apart by nothing but the font are merged:
    `i`, `1` and `l` are `l`, `0` is `o`, `m` is `rn`, `d` is `cl`. Linear in the length of `text`.
    """
    return text.translate(_SKELETONS)
