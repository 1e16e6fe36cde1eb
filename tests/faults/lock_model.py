"""Every interleaving of a few processes that run the lock protocol, each killed at any step.

The protocol's own code runs, over a disk that is a value. A process is its program and the answers that it
has had so far: replaying them leads to its next request, so that a state can be stored, compared and left in
every possible way. Time is an opponent: whatever a killed process left counts as old at once.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pi_project_memory.actors.core.lock_rules import Busy, Holder, LockRecord, LockSpec, render_record
from pi_project_memory.actors.ports.lock_files import give_back, take
from pi_project_memory.actors.ports.lock_ops import FileSeen, LockOps
from pi_project_memory.actors.ports.process_identity import Verdict

SPEC = LockSpec("x.lock", 1_000)
FOLDER = Path("/locks")
LONG_AGO = -1_000_000
DEAD_PID = 99

Request = tuple[Any, ...]


@dataclass(frozen=True)
class File:
    raw: bytes
    inode: int
    modified_ms: int
    writer: int


@dataclass(frozen=True)
class Process:
    pid: int
    answers: tuple[Any, ...] = ()
    running: bool = True


@dataclass(frozen=True)
class World:
    files: frozenset[tuple[str, File]]
    processes: tuple[Process, ...]
    dead: frozenset[int] = frozenset({DEAD_PID})
    inside: frozenset[int] = frozenset()
    kills_left: int = 0


class Pause(BaseException):
    """The process waits for the answer to its next request."""


@dataclass
class Replay:
    answers: tuple[Any, ...]
    used: int = 0
    request: Request | None = None

    def ask(self, *request: Any) -> Any:
        if self.used == len(self.answers) or self.request is not None:
            # Cleanup asks further things on the way out; the first request is the one that counts.
            self.request = self.request or request
            raise Pause
        answer = self.answers[self.used]
        self.used += 1
        if isinstance(answer, OSError):
            raise answer
        return answer


@dataclass(frozen=True)
class ModelProcesses:
    own_pid: int
    ask: Callable[..., Any]

    def pid(self) -> int:
        return self.own_pid

    def issue_token(self) -> str:
        return f"token of {self.own_pid}"

    def judge(self, record: LockRecord, now_ms: int) -> Verdict:
        alive = self.ask("is alive", record.pid)
        return Verdict(Holder.ALIVE, 0) if alive else Verdict(Holder.GONE, -LONG_AGO)


def contend(pid: int, ask: Callable[..., Any]) -> None:
    """Try for the lock once, be inside for a while, give it back."""
    ops = LockOps(
        create=lambda path, data: create(ask, path.name, data),
        link=lambda source, target: ask("link", source.name, target.name),
        look=lambda path: ask("look", path.name),
        unlink=lambda path: ask("unlink", path.name),
        touch=lambda path: None,
        names=lambda path: list(ask("names")),
        now_ms=lambda: 0,
        nonce=lambda: f"{pid}",
    )
    outcome = take(FOLDER, SPEC, ModelProcesses(pid, ask), ops)
    if isinstance(outcome, Busy):
        return
    ask("enter")
    ask("leave")
    give_back(outcome, ops)


def create(ask: Callable[..., Any], name: str, data: bytes) -> None:
    ask("create", name)
    ask("fill", name, data)


def next_request(process: Process, program: Callable[..., None] = contend) -> Request | None:
    """Return what the process asks for next, or None when it has ended."""
    replay = Replay(process.answers)
    try:
        program(process.pid, replay.ask)
    except Pause:
        return replay.request
    return None


def is_private(process: Process) -> bool:
    """Whether the next step concerns nobody else, so that its place among the steps of others is the same."""
    request = next_request(process)
    if request is None:
        return True
    own_candidate = f".{SPEC.name}.{process.pid}.{process.pid}.tmp"
    return request[0] != "link" and request[1:2] == (own_candidate,)


def answer(world: World, process: Process, request: Request, *, links: bool) -> tuple[World, Any]:
    """Carry out one request; return the world after it and the answer, an OSError to be raised."""
    pid, inode = process.pid, process.pid * 1_000 + len(process.answers)
    files = dict(world.files)
    match request:
        case ("create", name) | ("link", _, name) if name in files:
            return world, FileExistsError(errno.EEXIST, "File exists", name)
        case ("create", name):
            files[name] = File(b"", inode, 0, pid)
        case ("fill", name, data):
            if name in files:
                files[name] = replace(files[name], raw=data)
        case ("link", source, name):
            if not links:
                return world, PermissionError(errno.EPERM, "Operation not permitted", name)
            files[name] = files[source]
        case ("look", name):
            file = files.get(name)
            return world, None if file is None else FileSeen(file.raw, (0, file.inode), file.modified_ms)
        case ("unlink", name):
            files.pop(name, None)
        case ("names",):
            return world, tuple(sorted(files))
        case ("is alive", other):
            return world, other not in world.dead
        case ("enter",):
            return replace(world, inside=world.inside | {pid}), None
        case ("leave",):
            return replace(world, inside=world.inside - {pid}), None
        case _:
            raise AssertionError(request)
    return replace(world, files=frozenset(files.items())), None


def step(world: World, index: int, *, links: bool = True) -> World:
    """Let one process carry out its next request."""
    process = world.processes[index]
    request = next_request(process)
    if request is None:
        return _with(world, index, Process(process.pid, running=False))
    world, reply = answer(world, process, request, links=links)
    return _with(world, index, replace(process, answers=(*process.answers, reply)))


def kill(world: World, index: int) -> World:
    """End one process between two of its steps; what it wrote counts as old from now on."""
    process = world.processes[index]
    files = {
        (name, replace(file, modified_ms=LONG_AGO) if file.writer == process.pid else file)
        for name, file in world.files
    }
    world = _with(world, index, Process(process.pid, running=False))
    return replace(
        world,
        files=frozenset(files),
        dead=world.dead | {process.pid},
        inside=world.inside - {process.pid},
        kills_left=world.kills_left - 1,
    )


def _with(world: World, index: int, process: Process) -> World:
    processes = (*world.processes[:index], process, *world.processes[index + 1 :])
    return replace(world, processes=processes)


@dataclass
class Exploration:
    """What was met on the way through all states."""

    links: bool = True
    seen: set[World] = field(default_factory=set)
    double: list[World] = field(default_factory=list)
    ends: set[World] = field(default_factory=set)
    entered: int = 0

    def run(self, start: World) -> None:
        pending = [start]
        while pending:
            world = pending.pop()
            if world in self.seen:
                continue
            self.seen.add(world)
            self.entered += bool(world.inside)
            if len(world.inside) > 1:
                self.double.append(world)
            following = list(self._following(world))
            if not following:
                self.ends.add(replace(world, processes=()))
            pending.extend(following)

    def _following(self, world: World) -> Iterator[World]:
        running = [index for index, process in enumerate(world.processes) if process.running]
        private = [index for index in running if is_private(world.processes[index])]
        for index in private[:1] or running:
            yield step(world, index, links=self.links)
            if world.kills_left:
                yield kill(world, index)


def alone(world: World, *, links: bool = True) -> tuple[bool, World]:
    """Let one fresh process run by itself; return whether it got in, and the world afterwards."""
    world = replace(world, processes=(Process(77),))
    entered = False
    while world.processes[0].running:
        world = step(world, 0, links=links)
        entered |= bool(world.inside)
    return entered, world


def left_by_dead(*names: str, raw: bytes | None = None) -> frozenset[tuple[str, File]]:
    """Return files that a dead process left long ago; with `raw`, of that content."""
    return frozenset(
        (name, File(raw if raw is not None else _record(number), number, LONG_AGO, DEAD_PID))
        for number, name in enumerate(names, start=1)
    )


def _record(number: int) -> bytes:
    return render_record(LockRecord(DEAD_PID, f"left {number}", LONG_AGO))
