"""Many real processes fight for one lock and are killed at any instant; what came of it goes to stdout.

Usage: lock_torture.py FOLDER SECONDS SEED

Whoever gets the lock must also get a kernel lock on a witness file that the protocol knows nothing of, which
the kernel takes back when its holder dies. Workers die by the parent's SIGKILL at a random time, and by
their own before or after a random step of the protocol, more often while they hold an arbiter.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from pi_project_memory.actors.core.lock_rules import Busy, LockSpec
from pi_project_memory.actors.ports.lock_files import Claim, give_back, take
from pi_project_memory.actors.ports.lock_ops import DISK, LockOps
from pi_project_memory.actors.ports.process_identity import SystemProcesses

SPEC = LockSpec("x.lock", 40)
STALE_S = SPEC.stale_ms / 1000
WORKERS = 4
FINAL_TRIES = 100
DEATH_PER_STEP = 0.005
DEATH_WITH_ARBITER = 0.1


@dataclass
class Worker:
    folder: Path
    choice: Random
    arbiters: int = 0

    def run(self) -> NoReturn:
        ops = self.deadly(DISK)
        while True:
            outcome = take(self.folder / "locks", SPEC, SystemProcesses(), ops)
            if isinstance(outcome, Busy):
                time.sleep(self.choice.uniform(0.001, 0.005))
                continue
            self.be_inside()
            give_back(outcome, ops)

    def be_inside(self) -> None:
        with (self.folder / "witness").open("wb") as witness:
            try:
                fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.note("two holders")
            self.note("acquired")
            time.sleep(self.choice.uniform(0, 0.002))

    def note(self, event: str) -> None:
        descriptor = os.open(self.folder / "events", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{event}\n".encode())
        os.close(descriptor)

    def deadly(self, ops: LockOps) -> LockOps:
        return LockOps(
            create=self.may_die(ops.create),
            link=self.may_die(self.counting_link(ops)),
            look=self.may_die(ops.look),
            unlink=self.may_die(self.counting_unlink(ops)),
            touch=ops.touch,
            names=self.may_die(ops.names),
            now_ms=ops.now_ms,
            nonce=ops.nonce,
        )

    def may_die(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        def risky(*arguments: Any) -> Any:
            self.perhaps_die()
            answer = effect(*arguments)
            self.perhaps_die()
            return answer

        return risky

    def perhaps_die(self) -> None:
        if self.choice.random() < (DEATH_WITH_ARBITER if self.arbiters else DEATH_PER_STEP):
            os.kill(os.getpid(), signal.SIGKILL)

    def counting_link(self, ops: LockOps) -> Callable[[Path, Path], None]:
        def link(source: Path, target: Path) -> None:
            ops.link(source, target)
            if target.name != SPEC.name:
                self.arbiters += 1
                self.note("takeover" if target.name == f"{SPEC.name}.recover" else "arbiter recovery")

        return link

    def counting_unlink(self, ops: LockOps) -> Callable[[Path], None]:
        def unlink(path: Path) -> None:
            ops.unlink(path)
            self.arbiters -= path.name.startswith(f"{SPEC.name}.recover") and self.arbiters > 0

        return unlink


def spawn(folder: Path, seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            Worker(folder, Random(seed)).run()
        except Exception:  # noqa: BLE001 - whatever it is, a child must not run on in its parent's code
            traceback.print_exc()
            os._exit(1)
    return pid


def fight(folder: Path, seconds: float, choice: Random) -> int:
    """Keep the workers coming until the time is over; return how many died."""
    deaths = 0
    running = {spawn(folder, choice.getrandbits(64)) for _ in range(WORKERS)}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(choice.uniform(0.002, 0.02))
        with suppress(ProcessLookupError):
            os.kill(choice.choice(sorted(running)), signal.SIGKILL)
        for pid in [pid for pid in running if os.waitpid(pid, os.WNOHANG)[0]]:
            running.remove(pid)
            deaths += 1
            running.add(spawn(folder, choice.getrandbits(64)))
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return deaths + len(running)


def take_at_last(folder: Path) -> Claim | None:
    """Take the lock once everybody is dead; every try clears at least one level of what they left."""
    for _ in range(FINAL_TRIES):
        time.sleep(2 * STALE_S)
        outcome = take(folder / "locks", SPEC, SystemProcesses(), DISK)
        if isinstance(outcome, Claim):
            return outcome
    return None


def main(folder: Path, seconds: float, seed: int) -> None:
    (folder / "locks").mkdir()
    deaths = fight(folder, seconds, Random(seed))
    claim = take_at_last(folder)
    returned = claim is not None and give_back(claim, DISK)
    events = Counter((folder / "events").read_text().splitlines())
    left = sorted(path.name for path in (folder / "locks").iterdir())
    print(json.dumps({**events, "deaths": deaths, "taken at last": returned, "left": left}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
