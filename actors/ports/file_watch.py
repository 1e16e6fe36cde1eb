"""Fingerprints that also tell apart two edits within one tick of the file system's clock (IDX-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.ports.topic_files import Found, fingerprint, read_regular_file, walk_topics

SETTLED_NS = 2_000_000_000
"""A file changed less than this ago may change again without any of its times moving."""

_CONTENT_BYTES = 1024 * 1024


def is_settled(version: Fingerprint, now_ns: int) -> bool:
    """Whether an edit from now on is sure to give the file another fingerprint."""
    return now_ns - version.ctime_ns > SETTLED_NS


class FileWatch:
    """Takes snapshots of one memory root.

    A snapshot is made of statuses alone, but for files changed within the last two seconds: those are
    read as well, and once more when they have settled. Their digest then stays part of the fingerprint
    for as long as the status is the same.
    """

    def __init__(self, root: Path, clock_ns: Callable[[], int]) -> None:
        self._root = root
        self._clock_ns = clock_ns
        self._digests: Mapping[Fingerprint, tuple[int, bool]] = {}

    def snapshot(self) -> dict[str, Fingerprint]:
        """Return the fingerprints of MEMORY.md and all topics; of a root that does not exist, none.

        Raises OSError when the root cannot be listed.
        """
        now = self._clock_ns()
        snapshot: dict[str, Fingerprint] = {}
        digests: dict[Fingerprint, tuple[int, bool]] = {}
        for file in self._files():
            version = fingerprint(file.status)
            try:
                digests[version] = self._digest(file, version, now)
            except OSError:
                continue
            snapshot[file.path] = fingerprint(file.status, digests[version][0])
        self._digests = digests
        return snapshot

    def _files(self) -> tuple[Found, ...]:
        try:
            walk = walk_topics(self._root)
        except FileNotFoundError:
            return ()
        return walk.topics if walk.index is None else (walk.index, *walk.topics)

    def _digest(self, file: Found, version: Fingerprint, now: int) -> tuple[int, bool]:
        """Return the digest of a file, 0 where its status is enough, and whether it is final."""
        settled = is_settled(version, now)
        known = self._digests.get(version)
        if known is None and settled:
            return 0, True
        if known is not None and known[1]:
            return known
        data, _ = read_regular_file(self._root, file.path, _CONTENT_BYTES)
        return hash(data), settled
