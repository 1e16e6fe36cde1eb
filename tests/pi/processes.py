"""Which processes are alive, read from /proc, so that a test can say that one is gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pi.waiting import BOUND, until

_DEAD_STATES = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    session: int
    command: str
    environment: str

    def mentions(self, marker: str) -> bool:
        """Whether the command line or the environment holds `marker`, such as the path of a test's folder."""
        return marker in self.command or marker in self.environment


def alive() -> list[Process]:
    """Every process but zombies, which are gone and only wait to be reaped."""
    return list(_read_all())


def _read_all() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                process = _read(entry)
                if process is not None:
                    yield process


def _read(entry: Path) -> Process | None:
    # The command name in parentheses may hold spaces and parentheses itself.
    state, parent, _, session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
    if state in _DEAD_STATES:
        return None
    return Process(
        int(entry.name), int(parent), int(session), _joined(entry / "cmdline"), _joined(entry / "environ")
    )


def _joined(path: Path) -> str:
    return path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


def descendants(pid: int) -> list[Process]:
    """The children of `pid`, their children and so on."""
    everyone = alive()
    found: list[Process] = []
    parents = {pid}
    while parents:
        generation = [process for process in everyone if process.parent in parents]
        found += generation
        parents = {process.pid for process in generation}
    return found


def mentioning(marker: str) -> list[Process]:
    return [process for process in alive() if process.mentions(marker)]


async def gone(look: Callable[[], list[Process]], bound: float = BOUND) -> None:
    """Wait until `look` finds no process; the failure names those that stay."""
    await until(
        lambda: not look(), lambda: f"processes to end: {[(p.pid, p.command) for p in look()]}", bound
    )
