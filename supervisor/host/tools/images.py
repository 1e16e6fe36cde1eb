"""Recognising pictures by their first bytes, and their size in pixels."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import ceil

MAX_SIDE = 2000
"""Pixels; a larger picture would have to be scaled down, which this host does not do."""

MAX_BASE64 = 4.5 * 1024 * 1024

_SNIFFED = 4100
_PNG = b"\x89PNG\r\n\x1a\n"
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that start a frame, which tells its size."""

Size = tuple[int, int]


def mime_type(data: bytes) -> str | None:
    """Return the type of a picture, or None for anything else (animated PNG and lossless JPEG included)."""
    match data[:_SNIFFED]:
        case head if head.startswith(b"\xff\xd8\xff"):
            return None if head[3:4] == b"\xf7" else "image/jpeg"
        case head if head.startswith(_PNG):
            still = head[8:16] == b"\0\0\0\rIHDR" and not _is_animated(head)
            return "image/png" if still else None
        case head if head.startswith((b"GIF87a", b"GIF89a")):
            return "image/gif"
        case head if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return "image/webp"
    return None


def fits(data: bytes, mime: str) -> bool:
    """Tell whether a model accepts the picture as it is; False also for one whose header is damaged."""
    try:
        size = _SIZES[mime](data)
    except (struct.error, IndexError):
        return False
    return all(0 < side <= MAX_SIDE for side in size) and ceil(len(data) / 3) * 4 < MAX_BASE64


def _is_animated(head: bytes) -> bool:
    offset = len(_PNG)
    while offset + 8 <= len(head):
        length, kind = struct.unpack_from(">I4s", head, offset)
        if kind in {b"acTL", b"IDAT"}:
            return bool(kind == b"acTL")
        offset += length + 12
    return False


def _png_size(data: bytes) -> Size:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _gif_size(data: bytes) -> Size:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg_size(data: bytes) -> Size:
    offset = 2
    while True:
        marker, length = struct.unpack_from(">xBH", data, offset)
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, offset + 5)
            return width, height
        offset += 2 + length


def _webp_size(data: bytes) -> Size:
    match data[12:16]:
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
            return width, height
        case _:
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF


_SIZES: dict[str, Callable[[bytes], Size]] = {
    "image/png": _png_size,
    "image/gif": _gif_size,
    "image/jpeg": _jpeg_size,
    "image/webp": _webp_size,
}
