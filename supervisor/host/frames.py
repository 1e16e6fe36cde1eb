"""Frames on the wire: one JSON object a line, up to 64 MiB, ended by byte 0x0A alone (HOST-6)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import orjson
from msgspec import Struct

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of one frame, its line end not counted."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


class BadFrame(Struct, frozen=True):
    """A frame that cannot be understood: what to answer it with."""

    code: int
    reason: str


Frame = dict[str, Any] | BadFrame


class FrameDecoder:
    """Cuts a byte stream into frames; an oversized one is skipped to its end without being kept."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take the next bytes and return the frames that they complete."""
        frames: list[Frame] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._keep(end)
            frames.extend(self._finish())
        self._keep(rest)
        return frames

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
        else:
            self._parts.clear()

    def _finish(self) -> list[Frame]:
        size, line = self._size, b"".join(self._parts)
        self._size = 0
        self._parts.clear()
        if size > self._limit:
            return [BadFrame(PARSE_ERROR, f"the frame has {size} bytes; at most {self._limit} are taken")]
        return [decode(line)] if line else []


def decode(line: bytes) -> Frame:
    """Return the object that one line holds, or why it holds none."""
    try:
        value = _parse(line)
    except UnicodeDecodeError as error:
        return BadFrame(PARSE_ERROR, f"the frame is not UTF-8: byte {error.start} of {len(line)}")
    except (ValueError, RecursionError) as error:
        return BadFrame(PARSE_ERROR, f"the frame is not JSON: {str(error)[:200]}")
    if isinstance(value, dict):
        return value
    return BadFrame(INVALID_REQUEST, "the frame is JSON, but not an object")


def encode(message: object) -> bytes:
    """Return the frame of a struct or of plain JSON values, with its line end."""
    try:
        return orjson.dumps(message, default=msgspec.to_builtins) + b"\n"
    except (TypeError, ValueError):
        # A lone surrogate is data of the user's and must cross the pipe; orjson takes none.
        plain = msgspec.to_builtins(message)
        return json.dumps(plain, ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"


def _parse(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        # Lone surrogates and integers beyond 64 bits are JSON all the same.
        return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON value")
