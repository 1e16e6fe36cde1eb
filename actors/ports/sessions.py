"""Which other sessions of the project have news: a look at the host's session files (DRM-3, DRM-4).

The files are read in place and never written. Whatever cannot be read as a session is passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pi_project_memory.actors.core.session_header import SessionHeader, find_header
from pi_project_memory.actors.ports.git import Git, resolve_project_root
from pi_project_memory.actors.ports.worker import in_worker

SUFFIX = ".jsonl"

HEADER_BYTES = 16 * 1024
"""How far into a file its header is looked for."""

FIRST_BYTES = 1024
"""What is read first; nearly every header ends within it."""

MOST_QUESTIONS = 50
"""New directories that one scan asks git about; sessions in further ones count from a later scan on."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SessionSeen:
    """A session by its id, and when its file was last changed, in milliseconds since the epoch."""

    id: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class _Found:
    id: str
    cwd: str | None
    modified_ms: int


class Sessions(Protocol):
    """The sessions of the project, the own one left out."""

    async def updated_since(self, since_ms: int | None) -> Sequence[SessionSeen]:
        """Return those changed later than `since_ms`, all for None: each once, newest first."""
        ...


@dataclass(slots=True)
class MemorySessions:
    """Sessions for tests; `scans` are the times that it was asked with."""

    sessions: Sequence[SessionSeen] = ()
    scans: list[int | None] = field(default_factory=list)

    async def updated_since(self, since_ms: int | None) -> Sequence[SessionSeen]:
        """Return the prepared sessions that are newer."""
        self.scans.append(since_ms)
        return [seen for seen in self.sessions if since_ms is None or seen.modified_ms > since_ms]


@dataclass(slots=True)
class ProjectMembership:
    """Tells whether a session was held in a project, for a directory that several projects share.

    A working directory belongs to the project whose root git gives for it. One that is gone belongs to the
    project if it lay inside its root or inside the worktree of this session. Answers are kept.
    """

    root: str
    worktree: str
    git: Git
    _known: dict[str, bool] = field(default_factory=dict)

    async def members(self, found: Sequence[_Found]) -> list[_Found]:
        """Return what belongs to the project; asks about the directories of the first ones first."""
        wanted = dict.fromkeys(session.cwd for session in found if session.cwd is not None)
        new = [cwd for cwd in wanted if cwd not in self._known]
        for cwd in new[:MOST_QUESTIONS]:
            self._known[cwd] = await self._holds(cwd)
        return [session for session in found if session.cwd and self._known.get(session.cwd)]

    async def _holds(self, cwd: str) -> bool:
        if await in_worker(os.path.isdir, cwd):
            return (await resolve_project_root(cwd, self.git)).path == self.root
        real = Path(await in_worker(os.path.realpath, cwd))
        return any(real.is_relative_to(place) for place in (self.root, self.worktree))


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """The files of a session directory; None stands for a session that is not kept and has no others.

    `membership` is needed where the directory is shared, None where it is the project's own.
    """

    directory: Path | None
    own_id: str
    membership: ProjectMembership | None = None

    async def updated_since(self, since_ms: int | None) -> Sequence[SessionSeen]:
        """Walk the directory once, in one worker hop, with one file open at a time."""
        if self.directory is None:
            return ()
        found = await in_worker(_scan, self.directory, since_ms, self.own_id)
        if self.membership is not None:
            found = await self.membership.members(found)
        newest: dict[str, SessionSeen] = {}
        for session in found:
            newest.setdefault(session.id, SessionSeen(session.id, session.modified_ms))
        return list(newest.values())


def _scan(directory: Path, since_ms: int | None, own_id: str) -> list[_Found]:
    """Return the other sessions, newest first; one may be in several files."""
    found = []
    for path, modified_ns in _changed_files(directory, since_ms):
        header = _read_header(path)
        if header is not None and header.id is not None and header.id != own_id:
            found.append(_Found(header.id, header.cwd, modified_ns // 1_000_000))
    return sorted(found, key=lambda session: session.modified_ms, reverse=True)


def _changed_files(directory: Path, since_ms: int | None) -> Iterator[tuple[str, int]]:
    """Yield path and modification time, in nanoseconds, of the regular files that are new enough."""
    try:
        with os.scandir(directory) as entries:
            for entry in _session_names(entries):
                modified_ns = _modified_ns(entry)
                if modified_ns is not None and (since_ms is None or modified_ns > since_ms * 1_000_000):
                    yield entry.path, modified_ns
    except OSError:
        return  # a directory that is not there, or that has gone meanwhile, holds no more sessions


def _session_names(entries: Iterable[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
    return (entry for entry in entries if entry.name.endswith(SUFFIX))


def _modified_ns(entry: os.DirEntry[str]) -> int | None:
    """Return when a regular file was changed, None for anything else."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_mtime_ns if stat.S_ISREG(status.st_mode) else None


def _read_header(path: str) -> SessionHeader | None:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        return _header(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _header(descriptor: int) -> SessionHeader | None:
    header = None
    for size in (FIRST_BYTES, HEADER_BYTES):
        # One byte more than is wanted tells whether the last line goes on.
        data = os.pread(descriptor, size + 1, 0)
        cut = len(data) > size
        lines = data.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
        header = find_header(lines[:-1] if cut else lines)
        if header is not None or not cut:
            break
    return header
