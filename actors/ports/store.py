"""Reading the memory directory (IDX-2, IDX-3, IDX-5, IDX-7, RCL-1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import anyio.to_thread
from msgspec import Struct

from pi_project_memory.actors.core.backfill import backfill_index
from pi_project_memory.actors.core.catalogue import Topic
from pi_project_memory.actors.core.frontmatter import HEADER_BYTES, Header, parse_header
from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.ports.file_watch import FileWatch, is_settled
from pi_project_memory.actors.ports.publish import publish_new
from pi_project_memory.actors.ports.topic_files import (
    INDEX_NAME,
    Found,
    UnsafeFileError,
    fingerprint,
    is_topic_path,
    memory_file,
    read_regular_file,
    walk_topics,
)
from pi_project_memory.actors.ports.worker import in_worker

T = TypeVar("T")
Publish = Callable[[str, bytes], None]
"""Creates a file with its whole content or raises FileExistsError."""

MOST_TOPICS = 200
INDEX_BYTES = 4 * 1024 * 1024
"""How much of an index is read; its window is a small part of that."""

Operation = Literal["read_index", "scan", "read_topic", "snapshot"]


class TopicRead(Struct, frozen=True):
    """The start of a topic, at most 65,536 bytes, and the fingerprint of the file it was read from."""

    path: str
    data: bytes
    fingerprint: Fingerprint

    @property
    def mtime_ms(self) -> float:
        """The modification time in milliseconds since the epoch."""
        return self.fingerprint.mtime_ms


class MemoryStore(Protocol):
    """A memory directory as its readers see it."""

    async def read_index(self) -> str:
        """Return the text of MEMORY.md, made from the topics when it is missing; "" on any failure."""
        ...

    async def scan(self) -> tuple[Topic, ...]:
        """Return at most 200 topics, newest first, equal times by path; () when nothing can be listed."""
        ...

    async def read_topic(self, path: str) -> TopicRead:
        """Return the start of a topic by its path relative to the root; raises OSError."""
        ...

    async def locate(self, path: str) -> str | None:
        """Return which memory file an absolute path leads to, relative to the root; None for any other."""
        ...

    async def read_file(self, path: str) -> TopicRead:
        """Return the start of a topic or of the index by its path relative to the root; raises OSError."""
        ...

    async def snapshot(self) -> dict[str, Fingerprint]:
        """Return the fingerprints of MEMORY.md and of every topic by path.

        Raises OSError when the directory exists and cannot be listed: that is no deletion.
        """
        ...


class DiskStore:
    """The memory directory `root` on disk; every call is one hop to a worker thread.

    Headers of unchanged files are kept from one scan to the next. `publish` creates the backfilled
    index, `clock_ns` is the wall clock in nanoseconds.
    """

    def __init__(
        self, root: Path, publish: Publish = publish_new, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._root = root
        self._publish = publish
        self._clock_ns = clock_ns
        self._headers: Mapping[Fingerprint, Header] = {}
        self._watch = FileWatch(root, clock_ns)

    async def read_index(self) -> str:
        """Return the index, at most 4 MiB of it."""
        return await in_worker(self._index_or_nothing)  # it may create the file, which is not to be abandoned

    async def scan(self) -> tuple[Topic, ...]:
        """Return the newest topics; one that cannot be read is left out."""
        return await _in_thread(self._topics_or_none)

    async def read_topic(self, path: str) -> TopicRead:
        """Return the start of a topic; raises UnsafeFileError for a path that names none."""
        return await _in_thread(lambda: self._read_topic(path))

    async def locate(self, path: str) -> str | None:
        """Follow the path's links; what lies outside the real root is no memory file."""
        return await _in_thread(lambda: memory_file(self._root, path))

    async def read_file(self, path: str) -> TopicRead:
        """Return the start of a topic or of the index."""
        return await _in_thread(lambda: self._read_file(path))

    async def snapshot(self) -> dict[str, Fingerprint]:
        """Return the fingerprints; a file that vanishes meanwhile is left out."""
        return await _in_thread(self._watch.snapshot)

    def read_index_file(self) -> str:
        """Return MEMORY.md as it is on disk; raises OSError."""
        data, _ = read_regular_file(self._root, INDEX_NAME, INDEX_BYTES)
        return data.decode("utf-8", "replace")

    def backfill(self) -> str:
        """Create MEMORY.md from the topics and return it, or "" when there is nothing to link.

        Raises FileExistsError when there is an index already, and any other OSError.
        """
        text = backfill_index(self._topics())
        if text:
            self._publish(str(self._root / INDEX_NAME), text.encode())
        return text

    def _index_or_nothing(self) -> str:
        try:
            return self._index_or_backfill()
        except (OSError, ValueError):
            return ""

    def _index_or_backfill(self) -> str:
        with suppress(FileNotFoundError):
            return self.read_index_file()
        with suppress(FileExistsError):
            return self.backfill()
        return self.read_index_file()

    def _topics_or_none(self) -> tuple[Topic, ...]:
        try:
            return self._topics()
        except (OSError, ValueError):
            return ()

    def _topics(self) -> tuple[Topic, ...]:
        now = self._clock_ns()
        newest_first = sorted(
            walk_topics(self._root).topics, key=lambda file: (-file.status.st_mtime_ns, file.path)
        )
        topics: list[Topic] = []
        headers: dict[Fingerprint, Header] = {}
        for file in newest_first:
            if len(topics) == MOST_TOPICS:
                break
            try:
                header, version = self._header(file)
            except OSError:
                continue
            topics.append(Topic(file.path, version.mtime_ms, version.size, header))
            if is_settled(version, now):
                headers[version] = header
        self._headers = headers
        return tuple(topics)

    def _header(self, file: Found) -> tuple[Header, Fingerprint]:
        version = fingerprint(file.status)
        known = self._headers.get(version)
        if known is not None:
            return known, version
        data, status = read_regular_file(self._root, file.path, HEADER_BYTES)
        return parse_header(data.decode("utf-8", "replace")), fingerprint(status)

    def _read_topic(self, path: str) -> TopicRead:
        if not is_topic_path(path):
            raise UnsafeFileError(
                f"{self._root / path} is no topic; name a .md file inside the memory directory"
            )
        return self._read_file(path)

    def _read_file(self, path: str) -> TopicRead:
        try:
            data, status = read_regular_file(self._root, path, HEADER_BYTES)
        except UnicodeEncodeError as error:
            raise FileNotFoundError(f"{path!r} is no file name; take a name from the catalogue") from error
        return TopicRead(path, data, fingerprint(status))


async def _in_thread(work: Callable[[], T]) -> T:
    """Do `work` in one worker thread; a cancelled caller does not wait for it."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


class InMemoryStore:
    """A memory directory without a disk, for tests.

    `fail` makes one of the four operations fail as the disk would; `calls` lists the operations asked for.
    """

    def __init__(self, files: Mapping[str, str | bytes] | None = None) -> None:
        self.calls: list[Operation] = []
        self._files: dict[str, tuple[bytes, Fingerprint]] = {}
        self._failures: dict[Operation, OSError] = {}
        self._edits = 0
        for path, content in (files or {}).items():
            self.put(path, content)

    def put(self, path: str, content: str | bytes, mtime_ms: float = 0.0) -> None:
        """Create or overwrite a file."""
        data = content if isinstance(content, bytes) else content.encode()
        self._edits += 1
        known = self._files.get(path)
        inode = known[1].ino if known else self._edits
        self._files[path] = data, Fingerprint(1, inode, len(data), int(mtime_ms * 1e6), self._edits)

    def rename(self, old: str, new: str) -> None:
        """Move a file."""
        self._files[new] = self._files.pop(old)

    def delete(self, path: str) -> None:
        """Remove a file."""
        del self._files[path]

    def fail(self, operation: Operation, error: OSError | None) -> None:
        """Let every call of `operation` fail with `error`, or work again with None."""
        self._failures.pop(operation, None)
        if error is not None:
            self._failures[operation] = error

    async def read_index(self) -> str:
        """Return the index; a missing one is made from the topics and kept."""
        try:
            self._called("read_index")
        except OSError:
            return ""
        if INDEX_NAME not in self._files and (text := backfill_index(self._newest_topics())):
            self.put(INDEX_NAME, text)
        data, _ = self._files.get(INDEX_NAME, (b"", None))
        return data.decode("utf-8", "replace")

    async def scan(self) -> tuple[Topic, ...]:
        """Return the newest topics."""
        try:
            self._called("scan")
        except OSError:
            return ()
        return self._newest_topics()

    async def read_topic(self, path: str) -> TopicRead:
        """Return the start of a topic."""
        self._called("read_topic")
        if not is_topic_path(path) or path not in self._files:
            raise FileNotFoundError(f"{path} is no topic of this memory; take a name from the catalogue")
        data, version = self._files[path]
        return TopicRead(path, data[:HEADER_BYTES], version)

    async def locate(self, path: str) -> str | None:
        """Return the path if a file of that name is kept; the root has no place of its own."""
        name = path.removeprefix("/")
        return name if name in self._files and _is_watched(name) else None

    async def read_file(self, path: str) -> TopicRead:
        """Return the start of a topic or of the index."""
        self._called("read_topic")
        if path not in self._files:
            raise FileNotFoundError(f"{path} is not in this memory")
        data, version = self._files[path]
        return TopicRead(path, data[:HEADER_BYTES], version)

    async def snapshot(self) -> dict[str, Fingerprint]:
        """Return the fingerprints of the index and the topics."""
        self._called("snapshot")
        return {path: version for path, (_, version) in self._files.items() if _is_watched(path)}

    def _called(self, operation: Operation) -> None:
        self.calls.append(operation)
        if operation in self._failures:
            raise self._failures[operation]

    def _newest_topics(self) -> tuple[Topic, ...]:
        topics = [
            Topic(
                path,
                version.mtime_ms,
                version.size,
                parse_header(data[:HEADER_BYTES].decode("utf-8", "replace")),
            )
            for path, (data, version) in self._files.items()
            if is_topic_path(path)
        ]
        return tuple(sorted(topics, key=lambda topic: (-topic.mtime_ms, topic.path)))[:MOST_TOPICS]


def _is_watched(path: str) -> bool:
    return path == INDEX_NAME or is_topic_path(path)
