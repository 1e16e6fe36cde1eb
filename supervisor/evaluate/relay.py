"""`python -m pi_project_memory.supervisor.evaluate.relay SOCKET`: stands where Pi starts a service.

It only carries bytes between its standard streams and the evaluation that listens on SOCKET.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Thread

CHUNK = 256 * 1024


def main(path: str) -> None:
    """Carry bytes until one side has ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        Thread(target=_carry_back, args=(line,), daemon=True).start()
        _copy(partial(os.read, 0, CHUNK), line.sendall)


def _carry_back(line: socket.socket) -> None:
    _copy(partial(line.recv, CHUNK), _write)
    os._exit(0)  # the main thread waits for an input that has lost its meaning


def _copy(read: Callable[[], bytes], write: Callable[[bytes], None]) -> None:
    with suppress(OSError):  # the other side is gone, as at the end of input
        while chunk := read():
            write(chunk)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main(sys.argv[1])
