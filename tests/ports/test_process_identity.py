from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pi_project_memory.actors.core.lock_rules import Holder, LockRecord
from pi_project_memory.actors.ports.process_identity import (
    START_TOLERANCE_MS,
    LiveProcess,
    SystemProcesses,
    Token,
    Vantage,
    Verdict,
    format_token,
    parse_token,
)

BOOT = "11111111-2222-3333-4444-555555555555"
OTHER_BOOT = "99999999-2222-3333-4444-555555555555"
ME, OTHER, NOBODY = 500, 700, 900
HERE = Vantage(BOOT, "4026531836")
NONCE = "0123456789abcdef"
NOW = 1_796_048_090_000
BOOT_MS = 10_000_000
HOUR = 3_600_000


def stat_line(pid: int, start_ticks: int, *, name: str = "python", state: str = "S", threads: int = 1) -> str:
    middle = " ".join(["0"] * 16)
    return f"{pid} ({name}) {state} {middle} {threads} 0 {start_ticks} 0 0\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    root = tmp_path / "proc"
    for pid, start in ((ME, 900_000), (OTHER, 400_000)):
        (root / str(pid)).mkdir(parents=True)
        (root / str(pid) / "stat").write_text(stat_line(pid, start))
    (root / "self").symlink_to(str(ME))
    (root / str(ME) / "ns").mkdir()
    (root / str(ME) / "ns" / "pid").symlink_to("pid:[4026531836]")
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "sys/kernel/random/boot_id").write_text(f"{BOOT}\n")
    return root


def no_such_process(pid: int, number: int) -> None:
    raise ProcessLookupError(pid)


@pytest.fixture
def system(proc: Path) -> SystemProcesses:
    return SystemProcesses(
        proc, pid=lambda: ME, boot_ms=lambda: BOOT_MS, signal=no_such_process, ticks_per_second=100
    )


def ours(
    pid: int,
    start_ticks: int | None,
    vantage: Vantage = HERE,
    *,
    boot_ms: int | None = BOOT_MS - HOUR,
    acquired_at: int = NOW - HOUR,
) -> LockRecord:
    return LockRecord(pid, format_token(Token(vantage, start_ticks, boot_ms), NONCE), acquired_at)


def test_a_token_is_parsed_to_what_it_was_made_of() -> None:
    for token in (
        Token(HERE, 5, 9),
        Token(Vantage("-", "-"), None, None),
        Token(Vantage(BOOT, "-"), None, 7),
    ):
        assert parse_token(format_token(token, NONCE)) == token


@pytest.mark.parametrize(
    "text",
    [
        *("x", "", "ppm1", "ppm2.-.-.-.-.0123456789abcdef"),
        f"ppm1.{BOOT}.1.2.3.{NONCE}\n",
        f"ppm1.{BOOT}.1.2.٣.{NONCE}",
        f"ppm1.{BOOT}.1.2.3.{NONCE}0",
        f"ppm1.{BOOT}.1.{'9' * 30}.3.{NONCE}",
    ],
)
def test_anything_else_is_a_foreign_token(text: str) -> None:
    assert parse_token(text) is None


@pytest.mark.req("LCK-2")
def test_our_token_carries_boot_id_and_start_ticks_and_is_never_the_same_twice(
    system: SystemProcesses,
) -> None:
    first, second = system.issue_token(), system.issue_token()
    assert parse_token(first) == parse_token(second) == Token(HERE, 900_000, BOOT_MS)
    assert first != second


@pytest.mark.req("LCK-2", "C15")
@pytest.mark.parametrize(
    ("pid", "start_ticks", "expected"),
    [
        (OTHER, 400_000, Holder.ALIVE),
        (OTHER, 400_001, Holder.GONE),
        (OTHER, 399_999, Holder.GONE),
        (ME, 900_000, Holder.ALIVE),
        (ME, 123, Holder.GONE),
        (NOBODY, 400_000, Holder.GONE),
        (OTHER, None, Holder.ALIVE),
    ],
)
def test_a_reused_id_is_not_mistaken_for_our_kind_of_holder(
    system: SystemProcesses, pid: int, start_ticks: int | None, expected: Holder
) -> None:
    assert system.judge(ours(pid, start_ticks), NOW) == Verdict(expected, HOUR)


@pytest.mark.req("LCK-2")
@pytest.mark.parametrize("step", [-20 * 365 * 24 * HOUR, -HOUR, 0, HOUR, 20 * 365 * 24 * HOUR])
def test_a_step_of_the_wall_clock_changes_neither_holder_nor_age(system: SystemProcesses, step: int) -> None:
    assert system.judge(ours(OTHER, 400_000), NOW + step) == Verdict(Holder.ALIVE, HOUR)
    assert system.judge(ours(OTHER, 7), NOW + step) == Verdict(Holder.GONE, HOUR)


@pytest.mark.req("LCK-2")
@pytest.mark.parametrize("vantage", [Vantage(OTHER_BOOT, HERE.pid_namespace), Vantage(BOOT, "4026532999")])
@pytest.mark.parametrize(("pid", "start_ticks"), [(OTHER, 400_000), (OTHER, 1), (NOBODY, 1), (ME, 900_000)])
def test_a_holder_of_another_boot_or_pid_namespace_cannot_be_seen(
    system: SystemProcesses, vantage: Vantage, pid: int, start_ticks: int
) -> None:
    assert system.judge(ours(pid, start_ticks, vantage), NOW) == Verdict(Holder.HIDDEN, HOUR)


@pytest.mark.req("LCK-2")
@pytest.mark.parametrize(
    ("state", "threads", "expected"),
    [
        ("Z", 1, Holder.GONE),
        ("X", 0, Holder.GONE),
        ("Z", 2, Holder.ALIVE),
        ("T", 1, Holder.ALIVE),
        ("D", 1, Holder.ALIVE),
    ],
)
def test_a_zombie_is_gone_once_its_last_thread_is(
    system: SystemProcesses, proc: Path, state: str, threads: int, expected: Holder
) -> None:
    (proc / str(OTHER) / "stat").write_text(stat_line(OTHER, 400_000, state=state, threads=threads))
    assert system.judge(ours(OTHER, 400_000), NOW).holder is expected


def test_a_command_name_full_of_parentheses_confuses_nothing(system: SystemProcesses, proc: Path) -> None:
    (proc / str(OTHER) / "stat").write_text(stat_line(OTHER, 400_000, name="a) Z (b) 1 2 3"))
    assert system.look_up(OTHER) == LiveProcess(400_000)


def foreign(pid: int, acquired_at: int) -> LockRecord:
    return LockRecord(pid, "x", acquired_at)


STARTED = NOW - BOOT_MS + 4_000_000
"""When process OTHER started, on the wall clock."""


@pytest.mark.req("LCK-2", "C15")
@pytest.mark.parametrize(
    ("pid", "acquired_at", "expected"),
    [
        (NOBODY, NOW, Holder.GONE),
        (OTHER, STARTED - 3 * HOUR, Holder.GONE),
        (OTHER, STARTED - START_TOLERANCE_MS - 1, Holder.GONE),
        (OTHER, STARTED - START_TOLERANCE_MS, Holder.ALIVE),
        (OTHER, STARTED + 1, Holder.ALIVE),
        (OTHER, NOW + HOUR, Holder.ALIVE),
        (ME, NOW - 3 * HOUR, Holder.GONE),
    ],
)
def test_a_foreign_holder_that_started_after_the_lock_is_not_the_holder(
    system: SystemProcesses, pid: int, acquired_at: int, expected: Holder
) -> None:
    assert system.judge(foreign(pid, acquired_at), NOW) == Verdict(expected, NOW - acquired_at)


@pytest.mark.req("LCK-2", "C15")
@pytest.mark.parametrize(("acquired_at", "expected"), [(-1, Holder.GONE), (1, Holder.ALIVE)])
def test_process_one_is_a_process_like_any_other(
    system: SystemProcesses, proc: Path, acquired_at: int, expected: Holder
) -> None:
    (proc / "1").mkdir()
    (proc / "1" / "stat").write_text(stat_line(1, 2))
    booted = NOW - BOOT_MS + 20
    shift = acquired_at * (START_TOLERANCE_MS + 1)
    assert system.judge(foreign(1, booted + shift), NOW).holder is expected


@pytest.mark.req("LCK-2")
def test_a_process_that_seems_to_start_in_the_future_is_believed_alive(system: SystemProcesses) -> None:
    container = replace(system, boot_ms=lambda: 60_000)
    assert container.judge(foreign(OTHER, NOW - 3 * HOUR), NOW).holder is Holder.ALIVE


@pytest.mark.parametrize("missing", ["no proc", "the proc of another namespace"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, Holder.ALIVE),
        (PermissionError(), Holder.ALIVE),
        (ProcessLookupError(), Holder.GONE),
        (OverflowError(), Holder.GONE),
    ],
)
def test_without_a_matching_proc_the_kernel_tells_who_exists(
    system: SystemProcesses, proc: Path, missing: str, error: Exception | None, expected: Holder
) -> None:
    def signal(pid: int, number: int) -> None:
        assert number == 0
        if error is not None:
            raise error

    (proc / "self").unlink()
    if missing != "no proc":
        (proc / "self").symlink_to(str(OTHER))
    bare = replace(system, signal=signal, boot_ms=lambda: None)
    assert bare.vantage() == Vantage("-", "-")
    assert parse_token(bare.issue_token()) == Token(Vantage("-", "-"), None, None)
    assert bare.judge(foreign(OTHER, NOW - HOUR), NOW) == Verdict(expected, HOUR)
    own = ours(OTHER, None, Vantage("-", "-"), boot_ms=None)
    assert bare.judge(own, NOW) == Verdict(expected, HOUR)
    assert bare.judge(ours(OTHER, 400_000), NOW).holder is Holder.HIDDEN


@pytest.mark.req("LCK-2", "C15")
def test_our_own_id_with_a_foreign_token_is_not_us_even_without_proc(tmp_path: Path) -> None:
    bare = SystemProcesses(tmp_path, pid=lambda: ME, boot_ms=lambda: None, signal=lambda *_: None)
    assert bare.judge(foreign(ME, NOW), NOW).holder is Holder.GONE


def unreadable(proc: Path) -> None:
    (proc / str(OTHER) / "stat").unlink()


def torn(proc: Path) -> None:
    (proc / str(OTHER) / "stat").write_text("700 (pyth")


def foreign_form(proc: Path) -> None:
    (proc / str(OTHER) / "stat").write_text("700 (python) S a b c")


@pytest.mark.parametrize("damage", [unreadable, torn, foreign_form])
def test_a_process_whose_status_cannot_be_read_still_exists(
    system: SystemProcesses, proc: Path, damage: Callable[[Path], None]
) -> None:
    damage(proc)
    asked: list[int] = []
    seen = replace(system, signal=lambda pid, _: asked.append(pid))
    assert seen.judge(ours(OTHER, 5), NOW).holder is Holder.ALIVE
    assert asked == [OTHER]


@pytest.mark.parametrize("text", ["", "not a boot id", "11111111-2222-3333-4444-55555555555Z"])
def test_a_strange_boot_id_counts_as_none(system: SystemProcesses, proc: Path, text: str) -> None:
    (proc / "sys/kernel/random/boot_id").write_text(text)
    assert system.vantage() == Vantage("-", HERE.pid_namespace)


@pytest.mark.real_time
@pytest.mark.req("LCK-2")
def test_a_real_process_is_alive_until_it_ends_even_unreaped() -> None:
    system = SystemProcesses()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        mine = parse_token(system.issue_token())
        assert mine is not None
        process = system.look_up(child.pid)
        assert process is not None
        record = LockRecord(child.pid, format_token(replace(mine, start_ticks=process.start_ticks), NONCE), 0)
        reused = LockRecord(child.pid, format_token(mine, NONCE), 0)
        assert system.judge(record, 0).holder is Holder.ALIVE
        assert (system.judge(reused, 0).holder is Holder.GONE) == (mine.start_ticks != process.start_ticks)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert system.judge(record, 0).holder is Holder.GONE
    finally:
        child.kill()
        child.communicate()
    assert system.judge(record, 0).holder is Holder.GONE
