"""Sends every frame of its input back on its output; run with an interpreter by the frame tests."""

from __future__ import annotations

import sys

from pi_project_memory.supervisor.host.frames import BadFrame, FrameDecoder, encode


def main() -> None:
    """Echo until the input ends, in chunks that respect neither frames nor characters."""
    decoder = FrameDecoder()
    while chunk := sys.stdin.buffer.read(3):
        for frame in decoder.feed(chunk):
            answer = {"bad": frame.reason} if isinstance(frame, BadFrame) else frame
            sys.stdout.buffer.write(encode(answer))
    sys.stdout.buffer.flush()


main()
