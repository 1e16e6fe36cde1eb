"""`doctor` on what runs leave behind: locks, the state of dream, temporary files, warnings in the log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor_kit import MINUTE_MS, NOW_MS, Clinic, findings, texts
from pi_project_memory.actors.core.identity import ProjectPaths
from pi_project_memory.actors.core.lock_rules import LockRecord, render_record
from pi_project_memory.actors.ports.process_identity import SystemProcesses
from pi_project_memory.actors.ports.trace import Private, TraceValue
from pi_project_memory.supervisor.doctor.checks_dream import check_dream
from pi_project_memory.supervisor.doctor.checks_leftovers import check_leftovers
from pi_project_memory.supervisor.doctor.checks_locks import check_locks
from pi_project_memory.supervisor.doctor.checks_log import LONGEST_LINE, MOST_SHOWN, check_log
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Note, Observation
from pi_project_memory.supervisor.log import VARIABLE, SessionLog

pytestmark = [pytest.mark.real_time, pytest.mark.req("HOST-10")]

HOUR_MS = 60 * MINUTE_MS


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


@pytest.fixture
def paths(clinic: Clinic) -> ProjectPaths:
    return clinic.remember()


@pytest.fixture
def dead_pid() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def lock(clinic: Clinic, paths: ProjectPaths, name: str, content: str | LockRecord, age_ms: int) -> Path:
    text = content if isinstance(content, str) else render_record(content).decode()
    return clinic.write(Path(paths.locks_dir) / name, text, age_ms)


def ours(pid: int, age_ms: int) -> LockRecord:
    """A record of a holder in another boot, whose age goes by the wall clock."""
    token = f"ppm1.{'0' * 8}-0000-0000-0000-{'0' * 12}.1.1.1.{'0' * 16}"
    return LockRecord(pid, token, NOW_MS - age_ms)


def foreign(pid: int, age_ms: int) -> LockRecord:
    return LockRecord(pid, "some-uuid", NOW_MS - age_ms)


def judged(clinic: Clinic, paths: ProjectPaths) -> list[Observation]:
    before = clinic.tree()
    seen = list(check_locks(Path(paths.locks_dir), SystemProcesses(), NOW_MS))
    assert clinic.tree() == before
    return seen


class TestLocks:
    def test_without_a_lock_there_is_nothing_to_tell(self, clinic: Clinic, paths: ProjectPaths) -> None:
        assert judged(clinic, paths) == [Fact("No lock is held")]
        Path(paths.locks_dir).rmdir()
        assert judged(clinic, paths) == []

    @pytest.mark.parametrize(
        ("name", "stale_ms"),
        [("extract.lock", 15 * MINUTE_MS), ("dream.lock", HOUR_MS), ("last-dream-at.lock", MINUTE_MS)],
    )
    def test_a_lock_of_a_dead_process_is_a_finding_once_it_is_stale(
        self, clinic: Clinic, paths: ProjectPaths, dead_pid: int, name: str, stale_ms: int
    ) -> None:
        young = stale_ms - 1_000
        lock(clinic, paths, name, foreign(dead_pid, young), young)
        (seen,) = judged(clinic, paths)
        assert isinstance(seen, Note)
        assert f"{name} waits: its process {dead_pid} is gone" in seen.text
        old = stale_ms + 1_000
        path = lock(clinic, paths, name, foreign(dead_pid, old), old)
        (found,) = findings(judged(clinic, paths))
        assert found.problem.startswith(f"a lock was left behind: its process {dead_pid} is gone")
        assert found.where == str(path)
        assert "the next run takes it over" in found.remedy
        assert found.remedy.endswith(f"rm {path}")

    @pytest.mark.parametrize("name", ["extract.lock.recover", "dream.lock.recover.recover"])
    def test_a_takeover_that_was_cut_short_is_a_finding(
        self, clinic: Clinic, paths: ProjectPaths, dead_pid: int, name: str
    ) -> None:
        lock(clinic, paths, name, foreign(dead_pid, 2 * HOUR_MS), 2 * HOUR_MS)
        (found,) = findings(judged(clinic, paths))
        assert found.problem.startswith("the takeover of a lock was cut short: ")

    @pytest.mark.parametrize("content", ["", '{"pid":12', '{"pid":"abc"}', "somebody's notes"])
    def test_content_that_names_nobody_ages_by_the_file(
        self, clinic: Clinic, paths: ProjectPaths, content: str
    ) -> None:
        lock(clinic, paths, "extract.lock", content, 14 * MINUTE_MS)
        (seen,) = judged(clinic, paths)
        assert isinstance(seen, Note)
        lock(clinic, paths, "extract.lock", content, 16 * MINUTE_MS)
        (found,) = findings(judged(clinic, paths))
        assert "its content names no holder, and it was written 16 minutes ago" in found.problem

    def test_a_lock_of_a_live_process_is_a_fact_however_old_it_is(
        self, clinic: Clinic, paths: ProjectPaths
    ) -> None:
        me = SystemProcesses()
        record = LockRecord(me.pid(), me.issue_token(), NOW_MS - 3 * HOUR_MS)
        lock(clinic, paths, "extract.lock", record, 3 * HOUR_MS)
        (seen,) = judged(clinic, paths)
        assert isinstance(seen, Fact)
        assert f"extract.lock is held by process {me.pid()}" in seen.text

    def test_a_live_holder_of_another_program_is_a_note(self, clinic: Clinic, paths: ProjectPaths) -> None:
        record = LockRecord(os.getppid(), "some-uuid", 2**53 - 1)
        lock(clinic, paths, "extract.lock", record, MINUTE_MS)
        (seen,) = judged(clinic, paths)
        assert isinstance(seen, Note)
        assert "not a lock of this tool" in seen.text

    def test_a_holder_from_another_machine_counts_by_its_last_sign(
        self, clinic: Clinic, paths: ProjectPaths
    ) -> None:
        lock(clinic, paths, "extract.lock", ours(4711, HOUR_MS), 14 * MINUTE_MS)
        (seen,) = judged(clinic, paths)
        assert isinstance(seen, Note)
        lock(clinic, paths, "extract.lock", ours(4711, HOUR_MS), 20 * MINUTE_MS)
        (found,) = findings(judged(clinic, paths))
        assert (
            "its process 4711 cannot be seen from here and gave its last sign 20 minutes ago" in found.problem
        )

    def test_other_files_are_no_locks(self, clinic: Clinic, paths: ProjectPaths) -> None:
        lock(clinic, paths, "README", "what is this?", 2 * HOUR_MS)
        assert judged(clinic, paths) == [Fact("No lock is held")]


class TestDream:
    def test_without_a_state_dream_has_not_run(self, paths: ProjectPaths) -> None:
        assert check_dream(paths, NOW_MS) == Fact("Dream has not run yet")

    def test_the_last_time_is_a_fact(self, clinic: Clinic, paths: ProjectPaths) -> None:
        state = {"schemaVersion": 1, "lastDreamAt": NOW_MS - 3 * HOUR_MS}
        clinic.write(Path(paths.dream_state_file), json.dumps(state))
        assert check_dream(paths, NOW_MS) == Fact("Last dream: 2030-03-17T14:46:40.000Z, 3 hours ago")

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("{bad", "malformed"),
            ("", ""),
            ('{"schemaVersion": 1}', "lastDreamAt is missing"),
            ('{"schemaVersion": 1, "lastDreamAt": "yesterday"}', "lastDreamAt"),
            ('{"schemaVersion": 2, "lastDreamAt": 5}', "schemaVersion is 2"),
        ],
    )
    def test_a_state_that_stops_dream_is_a_finding(
        self, clinic: Clinic, paths: ProjectPaths, content: str, reason: str
    ) -> None:
        path = clinic.write(Path(paths.dream_state_file), content)
        found = check_dream(paths, NOW_MS)
        assert isinstance(found, Finding)
        assert found.problem.startswith("dream is stopped, the state cannot be used: ")
        assert reason in found.problem
        assert (found.where, found.remedy) == (str(path), f"mend it, or start anew: rm {path}")
        assert path.read_text() == content

    def test_a_state_that_cannot_be_read_is_a_finding(self, paths: ProjectPaths) -> None:
        Path(paths.dream_state_file).mkdir()
        found = check_dream(paths, NOW_MS)
        assert isinstance(found, Finding)
        assert "not a regular file" in found.problem

    @pytest.mark.parametrize("recorded", [NOW_MS + HOUR_MS, 2**53 - 1])
    def test_a_time_in_the_future_is_a_finding(
        self, clinic: Clinic, paths: ProjectPaths, recorded: int
    ) -> None:
        state = {"schemaVersion": 1, "lastDreamAt": recorded}
        clinic.write(Path(paths.dream_state_file), json.dumps(state))
        found = check_dream(paths, NOW_MS)
        assert isinstance(found, Finding)
        assert "in the future, and counts as never" in found.problem

    def test_the_file_of_an_older_version_counts_while_there_is_no_other(
        self, clinic: Clinic, paths: ProjectPaths
    ) -> None:
        older = {"schemaVersion": 1, "lastSuccessfulDreamAt": NOW_MS - 2 * HOUR_MS}
        clinic.write(Path(paths.state_file), json.dumps(older))
        assert "2 hours ago" in texts([check_dream(paths, NOW_MS)])
        clinic.write(Path(paths.state_file), "{bad")
        assert findings([check_dream(paths, NOW_MS)])[0].where == paths.state_file
        newer = {"schemaVersion": 1, "lastDreamAt": NOW_MS - HOUR_MS * 5}
        clinic.write(Path(paths.dream_state_file), json.dumps(newer))
        assert "5 hours ago" in texts([check_dream(paths, NOW_MS)])


class TestLeftovers:
    NAME = ".topic.md.4711.0123456789abcdef.tmp"

    def left(self, clinic: Clinic, paths: ProjectPaths) -> list[Finding]:
        return findings(check_leftovers(paths, clinic.agent / "extensions/project-memory", NOW_MS))

    @pytest.mark.parametrize(
        "place", ["memory_dir", "namespace_dir", "memory_root_dir", "locks_dir", "data_dir"]
    )
    def test_an_old_temporary_file_is_a_finding(
        self, clinic: Clinic, paths: ProjectPaths, place: str
    ) -> None:
        folder = Path(getattr(paths, place))
        path = clinic.write(folder / self.NAME, "half", HOUR_MS + 1_000)
        (found,) = self.left(clinic, paths)
        assert found.problem == f"1 temporary file of writes that were cut short: {self.NAME}"
        assert (found.where, found.remedy) == (str(folder), f"rm {path}")
        assert path.exists()

    def test_those_of_locks_and_of_subdirectories_and_of_the_extension_count_too(
        self, clinic: Clinic, paths: ProjectPaths
    ) -> None:
        target = clinic.install()
        for path in (
            Path(paths.locks_dir) / ".extract.lock.12.0123456789ab.tmp",
            Path(paths.memory_dir) / "deep/er" / self.NAME,
            target / ".index.ts.12.0123456789abcdef.tmp",
        ):
            clinic.write(path, "half", 2 * HOUR_MS)
        assert {found.where for found in self.left(clinic, paths)} == {
            paths.locks_dir,
            f"{paths.memory_dir}/deep/er",
            str(target),
        }

    def test_young_ones_and_files_of_others_are_left_alone(self, clinic: Clinic, paths: ProjectPaths) -> None:
        clinic.write(Path(paths.memory_dir) / self.NAME, "being written", HOUR_MS - 1_000)
        for name in ("draft.tmp", ".draft.tmp", ".a.b.tmp", "topic.md.4711.0123456789abcdef.tmp"):
            clinic.write(Path(paths.memory_dir) / name, "mine", 2 * HOUR_MS)
        (Path(paths.memory_dir) / ".d.1.0123456789abcdef.tmp").mkdir()
        os.utime(Path(paths.memory_dir) / ".d.1.0123456789abcdef.tmp", ns=(0, 0))
        assert self.left(clinic, paths) == []

    def test_many_are_counted_and_the_command_stays_short(self, clinic: Clinic, paths: ProjectPaths) -> None:
        for number in range(10):
            clinic.write(Path(paths.memory_dir) / f".a b.md.{number}.0123456789abcdef.tmp", "", 2 * HOUR_MS)
        (found,) = self.left(clinic, paths)
        assert found.problem.startswith("10 temporary files of writes")
        assert found.problem.endswith("and 2 more")
        assert found.remedy.count("'") == 16


class TestLog:
    @pytest.fixture
    def logs(self, tmp_path: Path) -> Path:
        return tmp_path / "project-memory" / "logs"

    def session(
        self,
        logs: Path,
        name: str,
        *events: tuple[str, dict[str, TraceValue]],
        age_ms: int = 0,
        level: str = "debug",
    ) -> Path:
        """A log as the service writes it, under a name that sorts as given."""
        log = SessionLog.of({VARIABLE: level})
        path = log.locate(logs, name)
        for event, fields in events:
            log.event(event, **fields)
        log.open()
        log.close()
        renamed = path.rename(logs / f"{name}.jsonl")
        os.utime(renamed, ns=((NOW_MS - age_ms) * 10**6,) * 2)
        return renamed

    def test_the_newest_warnings_are_notes_oldest_first(self, logs: Path) -> None:
        info = ("notice", {"level": "info", "text": Private("saved")})
        self.session(logs, "1", ("notice", {"level": "warning", "text": Private("first")}))
        self.session(
            logs,
            "2",
            info,
            ("actor_failed", {"actor": "index", "error": "ValueError('x')"}),
            ("received", {"message": "notice of something"}),
            ("notice", {"level": "error", "text": Private("last")}),
        )
        seen = list(check_log(logs, NOW_MS))
        assert all(isinstance(note, Note) for note in seen)
        assert [note.text.partition(" ")[2] for note in seen] == [
            "first",
            "index failed: ValueError('x')",
            "last",
        ]
        assert seen[0].text.startswith("20")

    def test_a_log_without_the_words_tells_how_to_have_them(self, logs: Path) -> None:
        self.session(logs, "1", ("notice", {"level": "warning", "text": Private("secret")}), level="")
        (note,) = check_log(logs, NOW_MS)
        assert (
            note.text.partition(" ")[2] == "warning shown; PI_PROJECT_MEMORY_LOG=debug logs the words as well"
        )

    def test_only_the_last_few_of_the_last_days_are_told(self, logs: Path) -> None:
        many = [("notice", {"level": "warning", "text": Private(str(number))}) for number in range(9)]
        self.session(logs, "1", ("notice", {"level": "warning", "text": Private("older")}))
        self.session(logs, "2", *many)
        told = [note.text.partition(" ")[2] for note in check_log(logs, NOW_MS)]
        assert told == [str(number) for number in range(9)][-MOST_SHOWN:]
        eight_days = 8 * 24 * HOUR_MS
        self.session(logs, "2", *many, age_ms=eight_days)
        assert [note.text.partition(" ")[2] for note in check_log(logs, NOW_MS)] == ["older"]

    def test_without_a_warning_or_a_log_there_is_a_fact(self, logs: Path) -> None:
        assert list(check_log(logs, NOW_MS)) == [Fact("No warning in the last seven days")]
        self.session(logs, "1", ("received", {"message": "x"}))
        assert list(check_log(logs, NOW_MS)) == [Fact("No warning in the last seven days")]

    def test_what_is_no_log_line_is_passed_over(self, logs: Path) -> None:
        path = self.session(logs, "1", ("notice", {"level": "warning", "text": Private("told")}))
        path.write_bytes(
            b'{"event": "notice", \n\xff"notice"\n[]\n{"event": "notice", "level": 5}\n' + path.read_bytes()
        )
        os.utime(path, ns=(NOW_MS * 10**6,) * 2)
        (logs / "2.jsonl").mkdir()
        (note,) = check_log(logs, NOW_MS)
        assert note.text.endswith(" told")

    def test_a_log_of_any_size_is_read_in_constant_memory(self, logs: Path) -> None:
        path = self.session(logs, "1", ("notice", {"level": "warning", "text": Private("told")}))
        with path.open("ab") as file:
            file.write(b'{"event": "notice", "texts": {"text": "' + b"x" * 8_000_000 + b'"}}\n')
            file.writelines(self.lines())
        os.utime(path, ns=(NOW_MS * 10**6,) * 2)
        tracemalloc.start()
        try:
            (note,) = check_log(logs, NOW_MS)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert note.text.endswith(" told")
        assert peak < 8 * LONGEST_LINE

    @staticmethod
    def lines() -> Iterator[bytes]:
        return (b'{"event": "notice", "level": "info", "text": Private("saved")}\n' for _ in range(20_000))
