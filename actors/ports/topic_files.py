"""Finding and opening the files of a memory root, synchronously (IDX-5).

Symbolic links are followed only while their real path stays inside the real root. Nothing but regular
files is opened, and an opened file is checked again before it is read.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from pi_project_memory.actors.core.snapshots import Fingerprint

INDEX_NAME = "MEMORY.md"
RESERVED = frozenset({".git", "agents", "skills", "node_modules"})
"""Directories that hold no topics, at any depth."""

DEEPEST = 32
MOST_DIRECTORIES = 4_096
MOST_ENTRIES = 65_536
"""The bounds of one walk: levels below the root, directories listed, and entries looked at.

Directories nearer to the root come first, links to directories last; what lies beyond is not seen.
"""

_READ_ONLY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class UnsafeFileError(OSError):
    """A path that is not read although something is there: no regular file, or outside the root."""


class Found(Struct, frozen=True):
    """A topic file: its path relative to the root with `/`, and its status, links followed."""

    path: str
    status: os.stat_result


class Walk(Struct, frozen=True):
    """What a walk saw: topics, the index if there is one, links that leave the root, bounds kept or not."""

    topics: tuple[Found, ...]
    index: Found | None
    outside: tuple[str, ...]
    complete: bool


class _Directory(Struct, frozen=True):
    """A directory to list: its path as topics are named by, with `/` at the end, and its real path."""

    prefix: str
    real: str
    depth: int


def is_topic_path(path: str) -> bool:
    """Whether a relative path with `/` may name a topic: plain parts, `.md`, not reserved, not the index."""
    *parents, name = path.split("/")
    plain = all(part not in {"", ".", ".."} for part in (*parents, name)) and "\0" not in path
    return plain and name.endswith(".md") and path != INDEX_NAME and RESERVED.isdisjoint(parents)


def memory_file(root: Path, path: str) -> str | None:
    """Return which memory file an absolute path leads to, relative to the root, or None.

    It need not exist; links are followed on the way to it and at its end.
    """
    inside = _relative(os.path.realpath(path), os.path.realpath(root))
    return inside if inside == INDEX_NAME or (inside and is_topic_path(inside)) else None


def fingerprint(status: os.stat_result, content: int = 0) -> Fingerprint:
    """Return the fingerprint of a file with this status."""
    return Fingerprint(
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, content
    )


def read_regular_file(root: Path, path: str, limit: int) -> tuple[bytes, os.stat_result]:
    """Return at most `limit` bytes from the start of `root/path`, and the status of the file read.

    Raises FileNotFoundError, UnsafeFileError for anything but a regular file inside the real root, and
    any other OSError of the system.
    """
    full = root / path
    _require_regular(full, full.stat())
    with os.fdopen(os.open(full, _READ_ONLY), "rb") as file:
        status = os.fstat(file.fileno())
        _require_regular(full, status)
        _require_inside(root, full, status)
        return file.read(limit), status


def _require_regular(full: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeFileError(f"{full} is not a regular file; move it out of the memory directory")


def _require_inside(root: Path, full: Path, opened: os.stat_result) -> None:
    """Raise unless the opened file is the one that the real path names now, inside the root."""
    real = os.path.realpath(full, strict=True)
    inside = _relative(real, os.path.realpath(root, strict=True))
    if inside is None or not os.path.samestat(os.lstat(real), opened):
        raise UnsafeFileError(
            f"{full} leads out of the memory directory to {real}; replace the link by a file"
        )
    if not RESERVED.isdisjoint(inside.split("/")):
        raise UnsafeFileError(f"{full} leads to {real} in a reserved directory; replace the link by a file")


def _relative(real: str, real_root: str) -> str | None:
    """Return a real path relative to the root, "" for the root itself, None when it lies outside."""
    if real == real_root:
        return ""
    base = real_root.rstrip("/") + "/"
    return real.removeprefix(base) if real.startswith(base) else None


def walk_topics(root: Path) -> Walk:
    """Find every topic below `root` within the bounds.

    Raises OSError when the root itself cannot be listed; what fails further down is left out.
    """
    return _Walker(os.path.realpath(root, strict=True)).run()


class _Walker:
    """One walk, breadth first and without recursion."""

    def __init__(self, real_root: str) -> None:
        self._root = real_root
        self._real = deque([_Directory("", real_root, 0)])
        self._linked: deque[_Directory] = deque()
        self._entered_by_link: set[str] = set()
        self._directories = self._entries = 0
        self._topics: list[Found] = []
        self._index: Found | None = None
        self._outside: list[str] = []
        self._complete = True

    def run(self) -> Walk:
        self._list(self._real.popleft())
        while directory := self._next():
            with suppress(OSError):
                self._list(directory)
        return Walk(tuple(self._topics), self._index, tuple(self._outside), self._complete)

    def _next(self) -> _Directory | None:
        """Return the next directory: links wait, so that a file is found under its own path first."""
        queue = self._real or self._linked
        if queue and (self._directories == MOST_DIRECTORIES or self._entries == MOST_ENTRIES):
            self._complete = False
            return None
        return queue.popleft() if queue else None

    def _list(self, directory: _Directory) -> None:
        self._directories += 1
        with os.scandir(directory.real) as entries:
            listed = list(islice(entries, MOST_ENTRIES - self._entries))
            self._complete &= next(entries, None) is None
        self._entries += len(listed)
        for entry in sorted(listed, key=lambda entry: entry.name):
            with suppress(OSError):
                self._visit(entry, directory)

    def _visit(self, entry: os.DirEntry[str], directory: _Directory) -> None:
        path = directory.prefix + entry.name
        if entry.is_symlink():
            self._visit_link(path, entry.path, directory)
        elif entry.is_dir(follow_symlinks=False):
            self._enter(self._real, path, entry.path, directory)
        elif entry.name.endswith(".md"):
            self._take(path, entry.stat(follow_symlinks=False))

    def _visit_link(self, path: str, link: str, directory: _Directory) -> None:
        real = os.path.realpath(link, strict=True)
        status = os.lstat(real)
        is_directory = stat.S_ISDIR(status.st_mode)
        inside = _relative(real, self._root)
        if inside is None:
            if is_directory or path.endswith(".md"):
                self._outside.append(path)
        elif not RESERVED.isdisjoint(inside.split("/")) or inside == INDEX_NAME:
            return
        elif not is_directory:
            self._take(path, status)
        elif _relative(directory.real, real) is None and real not in self._entered_by_link:
            self._entered_by_link.add(real)
            self._enter(self._linked, path, real, directory)

    def _enter(self, queue: deque[_Directory], path: str, real: str, parent: _Directory) -> None:
        if path.rpartition("/")[2] in RESERVED:
            return
        if parent.depth == DEEPEST:
            self._complete = False
            return
        queue.append(_Directory(f"{path}/", real, parent.depth + 1))

    def _take(self, path: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            return
        if path == INDEX_NAME:
            self._index = Found(path, status)
        elif is_topic_path(path):
            self._topics.append(Found(path, status))
