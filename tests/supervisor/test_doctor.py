"""`doctor` as a whole: what it says, its exit codes, and that it leaves everything as it is."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from doctor_kit import Clinic, findings, healthy, texts
from pi_project_memory.supervisor.agent_dir import VARIABLE
from pi_project_memory.supervisor.cli import main
from pi_project_memory.supervisor.doctor import examination as examining
from pi_project_memory.supervisor.doctor.examination import examine
from pi_project_memory.supervisor.doctor.observations import (
    Examination,
    Fact,
    Finding,
    Note,
    Section,
    counted,
    duration,
    named,
)
from pi_project_memory.supervisor.doctor.report import as_json, as_text
from pi_project_memory.supervisor.install import install_into
from pi_project_memory.supervisor.version import __version__

pytestmark = [pytest.mark.real_time, pytest.mark.req("HOST-10")]


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    made = Clinic(tmp_path)
    made.project.mkdir()
    made.program("pi", "echo 1.6.0")
    return made


def section(examination: Examination, title: str) -> Section:
    return next(section for section in examination.sections if section.title.startswith(title))


async def test_a_healthy_memory_of_200_topics_raises_no_alarm(clinic: Clinic) -> None:
    clinic.install()
    clinic.configure("{}")
    clinic.remember(healthy(200))
    before = clinic.tree()
    examination = await examine(clinic.surroundings())
    assert examination.findings == ()
    told = as_text(examination)
    assert "Pi 1.6.0" in told
    assert f"Extension {__version__}" in told
    assert f"Service {__version__}, started by {sys.executable}" in told
    assert "MEMORY.md: 200 of 200 lines" in told
    assert "200 topics" in told
    assert "No lock is held" in told
    assert told.endswith("\n\nNothing is wrong.")
    assert clinic.tree() == before


@pytest.mark.req("PATH-6")
async def test_where_memory_was_never_used_nothing_is_made(clinic: Clinic) -> None:
    clinic.install()
    before = clinic.tree()
    examination = await examine(clinic.surroundings())
    assert examination.findings == ()
    memory = section(examination, f"Memory of {clinic.project}")
    assert "Memory was never used here" in texts(memory.observations)
    assert clinic.tree() == before


@pytest.mark.req("PATH-6")
async def test_without_an_agent_directory_the_missing_extension_is_the_finding(clinic: Clinic) -> None:
    before = clinic.tree()
    examination = await examine(clinic.surroundings())
    target = f"{clinic.agent}/extensions/project-memory"
    assert examination.findings == (
        Finding("the extension is not installed", target, "pi-project-memory install"),
    )
    assert clinic.tree() == before


@pytest.mark.req("PATH-6")
async def test_with_memory_switched_off_no_project_is_looked_for(clinic: Clinic) -> None:
    clinic.install()
    clinic.configure('{"enabled": false}')
    before = clinic.tree()
    examination = await examine(clinic.surroundings())
    assert examination.findings == ()
    assert examination.project is None
    assert "switched off" in texts(section(examination, "Configuration").observations)
    assert clinic.git.asked == []
    assert clinic.tree() == before


async def test_a_broken_configuration_is_told_and_no_project_is_guessed(clinic: Clinic) -> None:
    clinic.install()
    clinic.configure('{"enabled": tru}')
    examination = await examine(clinic.surroundings())
    assert len(examination.findings) == 1
    assert examination.project is None


async def test_a_check_that_fails_becomes_a_finding_and_the_others_go_on(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/some/path")

    clinic.install()
    clinic.remember()
    monkeypatch.setattr(examining, "check_directories", fail)
    examination = await examine(clinic.surroundings())
    (found,) = examination.findings
    assert (found.problem, found.where) == ("this could not be examined: Permission denied", "/some/path")
    assert "right to read" in found.remedy
    assert "3 topics" in as_text(examination)


async def test_a_marker_that_cannot_be_read_is_told(clinic: Clinic) -> None:
    clinic.install()
    marker = Path(clinic.remember().namespace_dir) / ".project-root"
    marker.unlink()
    marker.mkdir()
    (found,) = (await examine(clinic.surroundings())).findings
    assert "could not be examined" in found.problem
    assert "not a regular file" in found.problem


class TestReport:
    EXAMINATION = Examination(
        "/home/u/.pi/agent",
        "/w/x",
        (
            Section(
                "Installation", (Fact("Pi 1.6.0"), Finding("it is gone", "/p", "pi-project-memory install"))
            ),
            Section("Last\nwarnings", (Note("bell \a and <system-reminder> told"),)),
        ),
    )

    def test_the_text_is_grouped_and_aligned(self) -> None:
        assert as_text(self.EXAMINATION).split("\n") == [
            f"pi-project-memory {__version__} in /home/u/.pi/agent",
            "",
            "Installation",
            "  ok     Pi 1.6.0",
            "  WRONG  It is gone",
            "         where:  /p",
            "         remedy: pi-project-memory install",
            "",
            "Last warnings",
            "  note   bell  and &lt;system-reminder> told",
            "",
            "1 finding.",
        ]

    def test_the_json_holds_the_same(self) -> None:
        value = json.loads(as_json(self.EXAMINATION))
        found = {"problem": "it is gone", "where": "/p", "remedy": "pi-project-memory install"}
        assert value == {
            "version": __version__,
            "agentDir": "/home/u/.pi/agent",
            "project": "/w/x",
            "findings": [found],
            "sections": [
                {
                    "title": "Installation",
                    "observations": [{"kind": "fact", "text": "Pi 1.6.0"}, {"kind": "finding", **found}],
                },
                {
                    "title": "Last\nwarnings",
                    "observations": [{"kind": "note", "text": "bell \a and <system-reminder> told"}],
                },
            ],
        }

    def test_a_name_that_is_not_utf8_can_be_printed_as_json(self) -> None:
        name = os.fsdecode(b"/w/\xff")
        assert json.loads(as_json(Examination(name, None, ())).encode("ascii"))["agentDir"] == name


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 seconds"),
        (1_000, "1 second"),
        (119_000, "119 seconds"),
        (120_000, "2 minutes"),
        (-3 * 3_600_000, "3 hours"),
        (47 * 3_600_000, "47 hours"),
        (50 * 3_600_000, "2 days"),
    ],
)
def test_a_duration_is_told_in_a_unit_that_says_enough(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_long_lists_are_cut_and_counted() -> None:
    assert named([str(number) for number in range(12)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 4 more"
    assert named(["a", "b"]) == "a, b"
    assert (counted(1, "topic"), counted(1_200, "topic")) == ("1 topic", "1,200 topics")


class TestCommand:
    @pytest.fixture(autouse=True)
    def environment(self, clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VARIABLE, str(clinic.agent))
        monkeypatch.setenv("PATH", f"{clinic.bin}:/usr/bin:/bin")

    def test_the_exit_code_tells_whether_there_are_findings(
        self, clinic: Clinic, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["doctor", "--cwd", str(clinic.project)]) == 1
        assert "The extension is not installed" in capsys.readouterr().out
        clinic.install()
        assert main(["doctor", "--cwd", str(clinic.project)]) == 0
        assert "Nothing is wrong." in capsys.readouterr().out

    def test_the_current_directory_is_examined_unless_another_is_given(
        self, clinic: Clinic, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        install_into(clinic.agent, sys.executable)
        monkeypatch.chdir(clinic.project)
        assert main(["doctor", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["project"] == str(clinic.project)
        (clinic.root / "else").mkdir()
        assert main(["doctor", "--json", "--cwd", "../else"]) == 0
        assert json.loads(capsys.readouterr().out)["project"] == str(clinic.root / "else")

    def test_a_directory_that_is_none_is_an_error_of_usage(
        self, clinic: Clinic, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["doctor", "--cwd", str(clinic.root / "none")])
        assert ended.value.code == 2
        assert "none is not a directory" in capsys.readouterr().err

    def test_a_variable_that_pi_cannot_use_is_the_finding(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv(VARIABLE, "file://host/x")
        assert main(["doctor", "--json"]) == 1
        (found,) = json.loads(capsys.readouterr().out)["findings"]
        assert "PI_CODING_AGENT_DIR is set to 'file://host/x'" in found["problem"]
        assert found["remedy"] == "unset PI_CODING_AGENT_DIR"


def test_findings_are_in_the_order_of_the_sections() -> None:
    first, second = Finding("a", "/a", "x"), Finding("b", "/b", "y")
    examination = Examination("/", None, (Section("1", (Fact("f"), first)), Section("2", (second,))))
    assert list(examination.findings) == findings([first, second])
