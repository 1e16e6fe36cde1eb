"""Which files a run has seen whole, and in which state (SUB-4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from pi_project_memory.actors.core.snapshots import Fingerprint


class SeenFile(Struct, frozen=True):
    """A file as one read found it; `lines` counts its parts between line feeds."""

    path: Path
    version: Fingerprint
    lines: int


class Baselines(Struct):
    """The versions that may be overwritten, by real path."""

    _versions: dict[Path, Fingerprint] = field(default_factory=dict)

    def of(self, path: Path) -> Fingerprint | None:
        """Return the version that the run knows whole."""
        return self._versions.get(path)

    def know(self, path: Path, version: Fingerprint) -> None:
        """Note a version that the run has read whole or written itself."""
        self._versions[path] = version

    def forget(self, path: Path) -> None:
        """Note that the run does not know the file whole any more."""
        self._versions.pop(path, None)

    def after_read(
        self, seen: SeenFile, arguments: Mapping[str, Any], *, truncated: bool, image: bool
    ) -> None:
        """Judge one `read`: a whole one grants, an automatic cut or an image revokes, a part changes nothing."""
        if truncated or image:
            self.forget(seen.path)
        elif is_whole(arguments, seen.lines):
            self.know(seen.path, seen.version)


def is_whole(arguments: Mapping[str, Any], lines: int) -> bool:
    """Whether a read with these arguments shows a file of `lines` lines from its first to its last.

    The empty part behind a final line feed is nothing to see. Numbers that are none count as a part: a host
    may have mended them into anything.
    """
    offset, limit = arguments.get("offset"), arguments.get("limit")
    from_start = offset is None or (_is_number(offset) and offset == 1)
    return from_start and (limit is None or (_is_number(limit) and limit >= lines))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def count_lines(data: bytes) -> int:
    """Return how many lines a reader has to show for all of `data` to be seen."""
    return max(len(data.removesuffix(b"\n").split(b"\n")), 1)
