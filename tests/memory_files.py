"""Real memory directories for tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.ports import file_watch, store
from pi_project_memory.actors.ports.publish import publish_new
from pi_project_memory.actors.ports.store import DiskStore

FULL = "---\nname: n\ndescription: d\nmetadata:\n  type: user\n---\nbody\n"
SECRET = "the secret outside"
HOUR_NS = 3_600 * 10**9


def put(path: Path, text: str = FULL, mtime_s: float | None = None) -> Path:
    """Write a file, with the directories above it, and give it a modification time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if mtime_s is not None:
        os.utime(path, ns=(round(mtime_s * 1_000) * 10**6,) * 2)
    return path


async def scanned(root: Path) -> list[str]:
    """Return the paths of a scan."""
    return [topic.path for topic in await DiskStore(root).scan()]


def store_at(root: Path, now_ns: int) -> DiskStore:
    """Return a store whose clock stands still; in a far year every file has been at rest for long."""
    return DiskStore(root, publish_new, lambda: now_ns)


FAR_NS = 4 * 10**18


def freeze_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every file the same times, as a file system does within one tick of its clock."""

    def frozen(status: os.stat_result, content: int = 0) -> Fingerprint:
        return Fingerprint(status.st_dev, status.st_ino, status.st_size, 500, 500, content)

    for module in (store, file_watch):
        monkeypatch.setattr(module, "fingerprint", frozen)
