"""A memory directory, what lies outside of it, and what is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_files import SECRET
from pi_project_memory.actors.ports import topic_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text(SECRET)
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are opened from now on."""
    names: list[str] = []
    real = os.open

    def recording(path: Path, *args: int, **kwargs: int) -> int:
        names.append(Path(path).name)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(topic_files.os, "open", recording)
    return names
