"""What has changed between two looks at the memory directory (IDX-7)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Fingerprint(Struct, frozen=True):
    """The identity of a file's content without reading it.

    `size` in bytes, times in nanoseconds since the epoch. `content` is a digest that counts within one
    process, 0 unless the file changed so recently that its times cannot tell two edits apart.
    """

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int
    content: int = 0

    @property
    def mtime_ms(self) -> float:
        """The modification time in milliseconds since the epoch, as JavaScript's `mtimeMs`."""
        return self.mtime_ns / 1_000_000  # exact; `/ 1e6` would round the nanoseconds first

    @property
    def tag(self) -> str:
        """The version as a text that can be kept beyond this process."""
        return f"{self.ino:x}-{self.size:x}-{self.mtime_ns:x}-{self.ctime_ns:x}"


class Changes(Struct, frozen=True):
    """Paths relative to the memory root, each tuple sorted; `renamed` holds (old, new)."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.deleted or self.renamed)

    @property
    def touched(self) -> frozenset[str]:
        """Every path whose content is not what it was: its read suppression is lifted."""
        moved = (path for pair in self.renamed for path in pair)
        return frozenset((*self.created, *self.changed, *self.deleted, *moved))


def diff(before: Mapping[str, Fingerprint], after: Mapping[str, Fingerprint]) -> Changes:
    """Return what turned `before` into `after`.

    A file that left one path and appeared at another with the same inode, size and time was renamed.
    """
    gone = {_identity(before[path]): path for path in sorted(before.keys() - after.keys(), reverse=True)}
    created: list[str] = []
    renamed: list[tuple[str, str]] = []
    for path in sorted(after.keys() - before.keys()):
        old = gone.pop(_identity(after[path]), None)
        if old is None:
            created.append(path)
        else:
            renamed.append((old, path))
    kept = before.keys() & after.keys()
    return Changes(
        created=tuple(created),
        changed=tuple(sorted(path for path in kept if before[path] != after[path])),
        deleted=tuple(sorted(before.keys() - after.keys() - {old for old, _ in renamed})),
        renamed=tuple(renamed),
    )


def _identity(file: Fingerprint) -> tuple[int, int, int, int]:
    """Return what a rename keeps; it moves the ctime."""
    return file.dev, file.ino, file.size, file.mtime_ns
