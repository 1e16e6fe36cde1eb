"""Characters that a reader does not see, as regular expression classes (Unicode 17).

The tables are fixed here and not asked of `unicodedata`, so that a text is cleaned alike by every Python.
"""

from __future__ import annotations

REMOVED = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    r"\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufeff"
    r"\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d159\U0001d173-\U0001d17a\U0001fffe\U0001ffff\U0002fffe\U0002ffff\U0003fffe\U0003ffff"
    r"\U0004fffe\U0004ffff\U0005fffe\U0005ffff\U0006fffe\U0006ffff\U0007fffe\U0007ffff\U0008fffe\U0008ffff"
    r"\U0009fffe\U0009ffff\U000afffe\U000affff\U000bfffe\U000bffff\U000cfffe\U000cffff"
    r"\U000dfffe-\U000e00ff\U000e01f0-\U000e0fff\U000efffe-\U0010ffff"
)
"""Never shown: controls but TAB and LF, format characters (Cf), surrogates, private use, noncharacters, code
points that are default-ignorable for good (assigned or not), and one blank musical symbol."""

SELECTORS = r"\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
"""Variation selectors."""

JOINERS = r"\u200c\u200d"
"""ZERO WIDTH NON-JOINER and ZERO WIDTH JOINER."""

BLANKS = r"\u2028\u2029\u2800"
"""Line and paragraph separator, and the empty braille cell: each reads as a space."""

PICTOGRAPHS = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf\u23e9-\u23f3"
    r"\u23f8-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618"
    r"\u261d\u2620\u2622\u2623\u2626\u262a\u262e\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f\u2660"
    r"\u2663\u2665\u2666\u2668\u267b\u267e\u267f\u2692-\u2697\u2699\u269b\u269c\u26a0\u26a1\u26a7"
    r"\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8\u26ce\u26cf\u26d1\u26d3\u26d4\u26e9\u26ea"
    r"\u26f0-\u26f5\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712\u2714\u2716\u271d\u2721\u2728"
    r"\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764\u2795-\u2797\u27a1\u27b0\u27bf"
    r"\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f004"
    r"\U0001f02c-\U0001f02f\U0001f094-\U0001f09f\U0001f0af\U0001f0b0\U0001f0c0\U0001f0cf\U0001f0d0"
    r"\U0001f0f6-\U0001f0ff\U0001f170\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a"
    r"\U0001f1ae-\U0001f1e5\U0001f201-\U0001f20f\U0001f21a\U0001f22f\U0001f232-\U0001f23a"
    r"\U0001f23c-\U0001f23f\U0001f249-\U0001f25f\U0001f266-\U0001f321\U0001f324-\U0001f393"
    r"\U0001f396\U0001f397\U0001f399-\U0001f39b\U0001f39e-\U0001f3f0\U0001f3f3-\U0001f3f5"
    r"\U0001f3f7-\U0001f3fa\U0001f400-\U0001f4fd\U0001f4ff-\U0001f53d\U0001f549-\U0001f54e"
    r"\U0001f550-\U0001f567\U0001f56f\U0001f570\U0001f573-\U0001f57a\U0001f587\U0001f58a-\U0001f58d"
    r"\U0001f590\U0001f595\U0001f596\U0001f5a4\U0001f5a5\U0001f5a8\U0001f5b1\U0001f5b2\U0001f5bc"
    r"\U0001f5c2-\U0001f5c4\U0001f5d1-\U0001f5d3\U0001f5dc-\U0001f5de\U0001f5e1\U0001f5e3\U0001f5e8"
    r"\U0001f5ef\U0001f5f3\U0001f5fa-\U0001f64f\U0001f680-\U0001f6c5\U0001f6cb-\U0001f6d2"
    r"\U0001f6d5-\U0001f6e5\U0001f6e9\U0001f6eb-\U0001f6f0\U0001f6f3-\U0001f6ff\U0001f7da-\U0001f7ff"
    r"\U0001f80c-\U0001f80f\U0001f848-\U0001f84f\U0001f85a-\U0001f85f\U0001f888-\U0001f88f"
    r"\U0001f8ae\U0001f8af\U0001f8bc-\U0001f8bf\U0001f8c2-\U0001f8cf\U0001f8d9-\U0001f8ff"
    r"\U0001f90c-\U0001f93a\U0001f93c-\U0001f945\U0001f947-\U0001f9ff\U0001fa58-\U0001fa5f"
    r"\U0001fa6e-\U0001faff\U0001fc00-\U0001fffd"
)
"""Extended_Pictographic: emoji, and the code points kept free for later ones."""

SKIN_TONES = r"\U0001f3fb-\U0001f3ff"

SUBDIVISION_FLAGS = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
"""What follows U+1F3F4 in the flags of England, Scotland and Wales, the only tag sequences in general use."""

_IDEOGRAPHS = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_STANDARDIZED = (
    r"\x30\u1000\u1002\u1004\u1010\u1011\u1015\u1019\u101a\u101c\u101d\u1022\u1031\u1075\u1078\u107a\u1080"
    r"\u2018\u2019\u201c\u201d\u210b\u2110\u2112\u211b\u212c\u2130\u2131\u2133\u2205\u2229\u222a"
    r"\u2268\u2269\u2272\u2273\u228a\u228b\u2293-\u2295\u2297\u229c\u22da\u22db\u29b7\u2a3c\u2a3d"
    r"\u2a9d\u2a9e\u2aac\u2aad\u2acb\u2acc\u3001\u3002\ua856\ua85c\ua85e-\ua860\ua868\uaa60-\uaa66"
    r"\uaa6b\uaa6c\uaa6f\uaa7a\uff01\uff0c\uff0e\uff10\uff1a\uff1b\uff1f\U00010ac5\U00010ac6"
    r"\U00010ad6\U00010ad7\U00010ae1\U0001d49c\U0001d49e\U0001d49f\U0001d4a2\U0001d4a5\U0001d4a6"
    r"\U0001d4a9-\U0001d4ac\U0001d4ae-\U0001d4b5"
    r"\U00013000-\U000143ff"
)

SELECTED = (
    ("#*0-9" + PICTOGRAPHS, r"\ufe0e\ufe0f"),
    (_IDEOGRAPHS + _STANDARDIZED, r"\ufe00-\ufe06"),
    (_IDEOGRAPHS, r"\U000e0100-\U000e01ef"),
    (r"\u1820-\u18aa", r"\u180b-\u180d\u180f"),
)
"""Which base takes which selector: emoji and keycaps, standardized variants, ideographs, Mongolian."""

CURSIVE = (
    r"\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06df-\u06e8\u06ea-\u06ef\u06fa-\u06ff\u0710-\u074a"
    r"\u074d-\u077f\u07ca-\u07f3\u07fa\u0840-\u085b\u0860-\u088f\u0897-\u08e1\u08e3-\u08ff\u1820-\u18aa"
    r"\ua840-\ua872\U00010ac0-\U00010ae6\U00010b80-\U00010bae\U00010d00-\U00010d27\U00010ec2-\U00010ec7"
    r"\U00010f30-\U00010f54\U00010f70-\U00010fcb\U0001e900-\U0001e94b"
)
"""Letters and marks of the scripts whose letters join: Arabic, Syriac, N'Ko, Mongolian, Adlam and their kin."""

INDIC = r"\u0900-\u0dff\U00011000-\U00011fff"
"""The blocks of the Indic scripts in which a joiner may also stand before the virama."""

VIRAMAS = (
    r"\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u0e3a\u0eba\u0f84"
    r"\u1039\u103a\u1714\u1715\u1734\u17d2\u1a60\u1b44\u1baa\u1bab\u1bf2\u1bf3\u2d7f\ua806\ua82c\ua8c4"
    r"\ua953\ua9c0\uaaf6\uabed\U00010a3f\U00011046\U00011070\U0001107f\U000110b9\U00011133\U00011134"
    r"\U000111c0\U00011235\U000112ea\U0001134d\U000113ce-\U000113d0\U00011442\U000114c2\U000115bf"
    r"\U0001163f\U000116b6\U0001172b\U00011839\U0001193d\U0001193e\U000119e0\U00011a34\U00011a47\U00011a99"
    r"\U00011c3f\U00011d44\U00011d45\U00011d97\U00011f41\U00011f42\U0001612f"
)
"""Marks of combining class 9, which bind two consonants in the Indic scripts."""
