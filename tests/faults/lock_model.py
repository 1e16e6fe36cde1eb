"""Every interleaving of a few processes that run the lock protocol, each killed at any step.

The protocol's own code runs, over a disk that is a value. A process is its program and the answers that it
has had so far: replaying them leads to its next request, so that a state can be stored, compared and left in
every possible way. Time is an opponent: whatever a killed process left counts as old at once.

A try is cut down to one round, and a process that was overtaken tries again from the start. Between two
rounds the protocol remembers nothing, so this loses no behaviour and lets equal states meet.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from pi_project_memory.actors.core.lock_rules import (
    Busy,
    BusyReason,
    Holder,
    LockRecord,
    LockSpec,
    render_record,
)
from pi_project_memory.actors.ports.lock_files import give_back, take
from pi_project_memory.actors.ports.lock_ops import FileSeen, LockOps
from pi_project_memory.actors.ports.process_identity import Verdict

SPEC = LockSpec("x.lock", 1_000)
FOLDER = Path("/locks")
LONG_AGO = -1_000_000
DEAD_PID = 99
KILL_CHANCE = 0.05

Request = tuple[Any, ...]
Ask = Callable[..., Any]
OVERTAKEN = ("overtaken",)
"""What a process asks for when its one round did not decide."""


@dataclass(frozen=True)
class File:
    raw: bytes
    inode: int
    modified_ms: int
    writer: int


@dataclass(frozen=True)
class Process:
    """`history` numbers the answers of the present try; None when the process has ended."""

    pid: int
    tries_left: int
    history: int | None


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
    answers: list[Any]
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
    ask: Ask

    def pid(self) -> int:
        return self.own_pid

    def issue_token(self) -> str:
        return f"token of {self.own_pid}"

    def judge(self, record: LockRecord, now_ms: int) -> Verdict:
        alive = self.ask("is alive", record.pid)
        return Verdict(Holder.ALIVE, 0) if alive else Verdict(Holder.GONE, -LONG_AGO)


def contend(pid: int, ask: Ask) -> None:
    """Try for the lock, be inside for a while, give it back."""
    ops = LockOps(
        create=lambda path, data: create(ask, path.name, data),
        link=lambda source, target: ask("link", source.name, target.name),
        look=lambda path: ask("look", path.name),
        unlink=lambda path: ask("unlink", path.name),
        touch=lambda path: ask("touch", path.name),
        names=lambda _: list(ask("names")),
        now_ms=lambda: 0,
        nonce=lambda: f"{pid}",
    )
    outcome = take(FOLDER, SPEC, ModelProcesses(pid, ask), ops)
    if isinstance(outcome, Busy):
        if outcome.reason is BusyReason.CONTENDED:
            ask(*OVERTAKEN)
        return
    ask("enter")
    ask("leave")
    give_back(outcome, ops)


def create(ask: Ask, name: str, data: bytes) -> None:
    ask("create", name)
    ask("fill", name, data)


@dataclass
class Histories:
    """Answers so far, as numbers that are equal when all the answers are."""

    numbers: dict[tuple[int, int | None, Any], int] = field(default_factory=dict)
    entries: list[tuple[int, int | None, Any]] = field(default_factory=list)

    def begin(self, pid: int) -> int:
        return self._number((pid, None, None))

    def extend(self, history: int, answer: Any) -> int:
        value = (type(answer), str(answer)) if isinstance(answer, OSError) else answer
        return self._number((self.entries[history][0], history, value), answer)

    def replay(self, history: int) -> tuple[int, list[Any]]:
        answers: list[Any] = []
        pid, previous, answer = self.entries[history]
        while previous is not None:
            answers.append(answer)
            pid, previous, answer = self.entries[previous]
        return pid, answers[::-1]

    def _number(self, key: tuple[int, int | None, Any], answer: Any = None) -> int:
        if key not in self.numbers:
            self.numbers[key] = len(self.entries)
            self.entries.append((key[0], key[1], answer))
        return self.numbers[key]


HISTORIES = Histories()


def forget() -> None:
    """Drop what was learned of the program, which a test is about to change."""
    HISTORIES.numbers.clear()
    HISTORIES.entries.clear()
    next_request.cache_clear()


def fresh(pid: int, tries: int = 1) -> Process:
    return Process(pid, tries, HISTORIES.begin(pid))


@cache
def next_request(history: int) -> Request | None:
    """Return what a process with these answers asks for next, or None when it has ended."""
    pid, answers = HISTORIES.replay(history)
    replay = Replay(answers)
    try:
        contend(pid, replay.ask)
    except Pause:
        return replay.request
    return None


def is_private(process: Process) -> bool:
    """Whether the next step concerns nobody else, so that its place among the steps of others is the same."""
    assert process.history is not None
    request = next_request(process.history)
    if request is None or request == OVERTAKEN:
        return True
    own_candidate = f".{SPEC.name}.{process.pid}.{process.pid}.tmp"
    return request[0] != "link" and request[1:2] == (own_candidate,)


def answer(world: World, process: Process, request: Request, *, links: bool) -> tuple[World, Any]:
    """Carry out one request; return the world after it and the answer, an OSError to be raised."""
    kind, *arguments = request
    if kind == "link" and not links:
        return world, PermissionError(errno.EPERM, "Operation not permitted")
    if kind in {"link", "create"} and arguments[-1] in dict(world.files):
        return world, FileExistsError(errno.EEXIST, "File exists")
    if kind in ANSWERS:
        return world, ANSWERS[kind](world, *arguments)
    return CHANGES[kind](world, process, *arguments), None


def look(world: World, name: str) -> FileSeen | None:
    file = dict(world.files).get(name)
    return None if file is None else FileSeen(file.raw, (0, file.inode), file.modified_ms)


ANSWERS: dict[str, Callable[..., Any]] = {
    "look": look,
    "names": lambda world: tuple(sorted(dict(world.files))),
    "is alive": lambda world, pid: pid not in world.dead,
}


def create_empty(world: World, process: Process, name: str) -> World:
    return _with_file(world, name, File(b"", process.history or 0, 0, process.pid))


def fill(world: World, _: Process, name: str, data: bytes) -> World:
    file = dict(world.files).get(name)
    return world if file is None else _with_file(world, name, replace(file, raw=data))


CHANGES: dict[str, Callable[..., World]] = {
    "create": create_empty,
    "fill": fill,
    "link": lambda world, _, source, name: _with_file(world, name, dict(world.files)[source]),
    "unlink": lambda world, _, name: _with_file(world, name, None),
    "enter": lambda world, process: replace(world, inside=world.inside | {process.pid}),
    "leave": lambda world, process: replace(world, inside=world.inside - {process.pid}),
}


def _with_file(world: World, name: str, file: File | None) -> World:
    files = dict(world.files)
    files.pop(name, None)
    if file is not None:
        files[name] = file
    return replace(world, files=frozenset(files.items()))


def step(world: World, index: int, *, links: bool = True) -> World:
    """Let one process carry out its next request."""
    process = world.processes[index]
    assert process.history is not None
    request = next_request(process.history)
    if request == OVERTAKEN and process.tries_left > 1:
        return _with(world, index, fresh(process.pid, process.tries_left - 1))
    if request is None or request == OVERTAKEN:
        return _with(world, index, replace(process, tries_left=0, history=None))
    world, reply = answer(world, process, request, links=links)
    return _with(world, index, replace(process, history=HISTORIES.extend(process.history, reply)))


def kill(world: World, index: int) -> World:
    """End one process between two of its steps; what it wrote counts as old from now on."""
    process = world.processes[index]
    files = {
        (name, replace(file, modified_ms=LONG_AGO) if file.writer == process.pid else file)
        for name, file in world.files
    }
    world = _with(world, index, replace(process, tries_left=0, history=None))
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

    def run(self, start: World) -> None:
        pending = [start]
        while pending:
            world = pending.pop()
            if world in self.seen:
                continue
            self.seen.add(world)
            if len(world.inside) > 1:
                self.double.append(world)
            following = list(self._following(world))
            if not following:
                self.ends.add(replace(world, processes=()))
            pending.extend(following)

    def _following(self, world: World) -> Iterator[World]:
        running = running_in(world)
        private = [index for index in running if is_private(world.processes[index])]
        for index in private[:1] or running:
            yield step(world, index, links=self.links)
            if world.kills_left:
                yield kill(world, index)


def running_in(world: World) -> list[int]:
    return [index for index, process in enumerate(world.processes) if process.history is not None]


def walk(start: World, choice: Random, *, links: bool = True) -> tuple[bool, World]:
    """Follow one random interleaving to its end; return whether two were ever inside, and the end."""
    world, double = start, False
    while running := running_in(world):
        index = choice.choice(running)
        if world.kills_left and choice.random() < KILL_CHANCE:
            world = kill(world, index)
        else:
            world = step(world, index, links=links)
        double |= len(world.inside) > 1
    return double, replace(world, processes=())


def alone(world: World, *, links: bool = True) -> tuple[bool, World]:
    """Let one fresh process run by itself; return whether it got in, and the world afterwards."""
    world = replace(world, processes=(fresh(77, tries=8),))
    entered = False
    while world.processes[0].history is not None:
        world = step(world, 0, links=links)
        entered |= bool(world.inside)
    return entered, world


def left_by_dead(*names: str, raw: bytes | None = None) -> frozenset[tuple[str, File]]:
    """Return files that a dead process left long ago; with `raw`, of that content."""
    return frozenset(
        (name, File(raw if raw is not None else _record(number), -number, LONG_AGO, DEAD_PID))
        for number, name in enumerate(names, start=1)
    )


def _record(number: int) -> bytes:
    return render_record(LockRecord(DEAD_PID, f"left {number}", LONG_AGO))
