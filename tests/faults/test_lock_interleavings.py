from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from faults.lock_model import Exploration, File, World, alone, forget, fresh, left_by_dead, walk
from pi_project_memory.actors.core.lock_rules import Busy, RecoverArbiter, decide
from pi_project_memory.actors.ports import lock_files
from pi_project_memory.actors.ports.lock_files import _Contender, arbiter_of
from pi_project_memory.actors.ports.lock_ops import FileSeen

LOCK, ARBITER, SECOND = "x.lock", "x.lock.recover", "x.lock.recover.recover"

STARTS = {
    "nothing": left_by_dead(),
    "a dead lock": left_by_dead(LOCK),
    "an arbiter alone": left_by_dead(ARBITER),
    "a crash within a takeover": left_by_dead(LOCK, ARBITER),
    "a crash within the takeover of an arbiter": left_by_dead(LOCK, ARBITER, SECOND),
    "an arbiter chain without its middle": left_by_dead(LOCK, SECOND),
    "an empty lock": left_by_dead(LOCK, raw=b""),
    "a half-written lock and an empty arbiter": left_by_dead(LOCK, raw=b'{"pid":12')
    | left_by_dead(ARBITER, raw=b""),
}


@pytest.fixture(autouse=True)
def one_round_per_try(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lock_files, "ROUNDS", 1)
    forget()
    yield
    forget()


def explore(files: frozenset[tuple[str, File]], *, tries: int, kills: int, links: bool = True) -> Exploration:
    exploration = Exploration(links)
    exploration.run(World(files, (fresh(1, tries), fresh(2, tries)), kills_left=kills))
    return exploration


def all_heal(exploration: Exploration) -> bool:
    """Whether, after each way in which all may end, one more process gets in and leaves nothing behind."""
    ends = [alone(end, links=exploration.links) for end in exploration.ends]
    return all(entered and not world.files for entered, world in ends)


@pytest.mark.req("LCK-1", "LCK-2", "LCK-3")
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_two_processes_killed_anywhere_never_hold_a_lock_at_once_nor_lose_it(
    start: frozenset[tuple[str, File]],
) -> None:
    exploration = explore(start, tries=2, kills=2)
    assert exploration.double == []
    assert any(world.inside for world in exploration.seen)
    assert all_heal(exploration)


@pytest.mark.req("LCK-2")
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_the_same_holds_where_the_disk_has_no_hard_links(start: frozenset[tuple[str, File]]) -> None:
    exploration = explore(start, tries=1, kills=1, links=False)
    assert exploration.double == []
    assert all_heal(exploration)


@pytest.mark.req("LCK-2")
@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("seed", range(8))
def test_four_processes_in_random_order_killed_anywhere(seed: int, *, links: bool) -> None:
    choice = Random(seed)
    for _ in range(30):
        start = choice.choice(list(STARTS.values()))
        processes = tuple(fresh(pid, tries=2) for pid in range(1, 5))
        double, end = walk(World(start, processes, kills_left=3), choice, links=links)
        entered, after = alone(end, links=links)
        assert (double, entered, after.files) == (False, True, frozenset())


def remove_without_a_second_look(self: _Contender, path: Path, seen: FileSeen | None) -> Busy | None:
    arbiter = arbiter_of(path)
    if self._create(arbiter):
        self.ops.unlink(path)
        self.ops.unlink(arbiter)
    return None


def remove_on_sight(self: _Contender, path: Path, seen: FileSeen | None) -> Busy | None:
    if self.ops.look(path) == seen:
        self.ops.unlink(path)
    return None


@pytest.mark.parametrize("careless", [remove_without_a_second_look, remove_on_sight])
def test_the_search_finds_the_holder_that_a_careless_takeover_robs(
    careless: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Contender, "_remove_spent", careless)
    assert explore(STARTS["a dead lock"], tries=2, kills=0).double != []


def test_the_search_finds_the_holder_that_a_careless_recovery_of_the_arbiter_robs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Contender, "_clear", clear_an_arbiter_on_sight)
    exploration = Exploration()
    start = STARTS["a crash within a takeover"]
    exploration.run(World(start, tuple(fresh(pid, tries=2) for pid in (1, 2))))
    assert exploration.double != []


def test_the_search_finds_the_lock_that_an_unrecoverable_arbiter_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Contender, "_clear", clear_but_never_an_arbiter)
    exploration = explore(STARTS["a dead lock"], tries=2, kills=1)
    assert not all(entered for entered, _ in map(alone, exploration.ends))


careful_clear = _Contender._clear


def clear_an_arbiter_on_sight(self: _Contender, path: Path) -> Busy | None:
    seen, arbiter = self.ops.look(path), self.ops.look(arbiter_of(path))
    match decide(self._judge(seen), self._judge(arbiter), self.spec.stale_ms):
        case RecoverArbiter():
            self.ops.unlink(arbiter_of(path))
            return None
        case _:
            return careful_clear(self, path)


def clear_but_never_an_arbiter(self: _Contender, path: Path) -> Busy | None:
    return None if path.name == ARBITER else careful_clear(self, path)
