"""`doctor` on Pi, the extension, the interpreter that it starts, and the configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from doctor_kit import Clinic, findings, texts
from pi import install_pi
from pi_project_memory.actors.ports.programs import OUTPUT_LIMIT
from pi_project_memory.supervisor.agent_dir import VARIABLE
from pi_project_memory.supervisor.doctor import programs
from pi_project_memory.supervisor.doctor.checks_config import check_config
from pi_project_memory.supervisor.doctor.checks_extension import check_extension, check_interpreter
from pi_project_memory.supervisor.doctor.checks_pi import check_discovery, check_pi
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Note
from pi_project_memory.supervisor.doctor.programs import Answer, NoAnswer, ask
from pi_project_memory.supervisor.install import install_into
from pi_project_memory.supervisor.installed import LAUNCH_FILE, extension_directory, shipped_files
from pi_project_memory.supervisor.version import __version__

pytestmark = [pytest.mark.real_time, pytest.mark.req("HOST-10")]

INSTALL = "pi-project-memory install"


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


def change_launch(clinic: Clinic, **changes: object) -> None:
    path = extension_directory(clinic.agent) / LAUNCH_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class TestPi:
    async def test_the_version_that_memory_is_made_for_is_a_fact(self, clinic: Clinic) -> None:
        program = clinic.program("pi", "echo 1.6.12")
        assert await check_pi(clinic.surroundings()) == Fact(f"Pi 1.6.12: {program}")

    async def test_without_pi_on_path_there_is_a_note_and_no_alarm(self, clinic: Clinic) -> None:
        seen = await check_pi(clinic.surroundings())
        assert isinstance(seen, Note)
        assert "No `pi` is on PATH" in seen.text

    @pytest.mark.parametrize("version", ["1.5.9", "0.80.3"])
    async def test_an_older_pi_is_a_finding(self, clinic: Clinic, version: str) -> None:
        program = clinic.program("pi", f"echo {version}")
        seen = await check_pi(clinic.surroundings())
        assert seen == Finding(
            f"Pi {version} is too old: the extension needs 1.6", str(program), "pi update self"
        )

    @pytest.mark.parametrize("output", ["1.7.0", "2.0.0-beta.1"])
    async def test_a_newer_pi_is_a_note(self, clinic: Clinic, output: str) -> None:
        clinic.program("pi", f"echo {output}")
        seen = await check_pi(clinic.surroundings())
        assert isinstance(seen, Note)
        assert f"Pi {output} is newer than 1.6" in seen.text

    async def test_another_program_of_that_name_is_a_note(self, clinic: Clinic) -> None:
        clinic.program("pi", "echo 3.14159265358979323846")
        seen = await check_pi(clinic.surroundings())
        assert isinstance(seen, Note)
        assert "does not tell a version" in seen.text

    async def test_a_pi_that_does_not_start_is_told_in_its_own_words(self, clinic: Clinic) -> None:
        program = clinic.program("pi", "echo first >&2; echo 'node is too old' >&2; exit 3")
        seen = await check_pi(clinic.surroundings())
        assert seen == Finding("Pi does not start: node is too old", str(program), "pi --version")

    async def test_a_pi_that_hangs_is_left_alone_after_a_while(
        self, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ask, "__defaults__", (0.2,))
        clinic.program("pi", "exec /bin/sleep 60")
        (found,) = findings([await check_pi(clinic.surroundings())])
        assert "did not answer within 0.2 s" in found.problem

    async def test_the_real_pi_tells_its_version_and_writes_nothing(self, clinic: Clinic) -> None:
        clinic.bin.mkdir()
        (clinic.bin / "pi").symlink_to(install_pi.CLI)
        (clinic.bin / "node").symlink_to(install_pi.node_binary())
        empty = clinic.root / "empty"
        empty.mkdir()
        path = f"{clinic.bin}:/usr/bin:/bin"
        where = clinic.surroundings(
            PATH=path, HOME=str(empty), TMPDIR=str(empty), PI_CODING_AGENT_DIR=str(empty)
        )
        assert await check_pi(where) == Fact(f"Pi 1.6.0: {clinic.bin / 'pi'}")
        assert list(empty.iterdir()) == []


class TestAsking:
    async def test_what_is_kept_of_an_endless_answer_is_bounded(self, clinic: Clinic) -> None:
        program = clinic.program("talk", "/usr/bin/head -c 5000000 /dev/zero; echo end >&2; exit 4")
        answer = await ask([str(program)], "/", {})
        assert answer == Answer(4, "\0" * OUTPUT_LIMIT, "end")

    async def test_a_program_that_hangs_is_killed_with_its_children(self, clinic: Clinic) -> None:
        note = clinic.root / "pid"
        program = clinic.program(
            "hang", f"/bin/sleep 60 & echo $! > {note}.new; /bin/mv {note}.new {note}; wait"
        )
        async with anyio.create_task_group() as group:
            group.start_soon(ask, [str(program)], "/", {}, 60)
            while not note.exists():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        with anyio.fail_after(30):  # half the life of the child
            while alive(int(note.read_text())):
                await anyio.sleep(0.01)

    async def test_one_that_is_not_wanted_any_more_holds_nobody_up(self, clinic: Clinic) -> None:
        program = clinic.program("hang", "/bin/sleep 60 & wait")
        with anyio.fail_after(30):
            for turns in range(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, [str(program)], "/", {}, 60)
                    for _ in range(turns):
                        await anyio.sleep(0)
                    group.cancel_scope.cancel()

    @pytest.mark.parametrize("command", [["/no/such/program"], ["\0"]])
    async def test_a_program_that_cannot_be_started_is_told(self, command: list[str]) -> None:
        answer = await ask(command, "/", {})
        assert isinstance(answer, NoAnswer)
        assert "cannot be started" in answer.reason

    def test_the_bound_is_seconds_and_not_minutes(self) -> None:
        assert programs.TIME_LIMIT <= 10


def alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestDiscovery:
    def test_a_plain_installation_is_found(self, clinic: Clinic) -> None:
        clinic.install()
        clinic.write(clinic.agent / "extensions/other.ts", "another extension")
        clinic.write(clinic.agent / "extensions/package.json", '{"pi": {"skills": ["x"]}}')
        clinic.write(clinic.agent / "settings.json", '{"extensions": ["-extensions/other.ts", 7]}')
        assert list(check_discovery(clinic.surroundings())) == []

    @pytest.mark.parametrize("name", ["index.ts", "index.js"])
    def test_an_entry_beside_the_extensions_hides_them(self, clinic: Clinic, name: str) -> None:
        clinic.install()
        path = clinic.write(clinic.agent / "extensions" / name, "export default () => {}")
        (found,) = findings(check_discovery(clinic.surroundings()))
        assert (found.where, "does not look for the extension" in found.problem) == (str(path), True)

    @pytest.mark.parametrize("folder", ["extensions", "extensions/project-memory"])
    def test_a_package_that_names_its_extensions_hides_others(self, clinic: Clinic, folder: str) -> None:
        clinic.install()
        path = clinic.write(clinic.agent / folder / "package.json", '{"pi": {"extensions": ["x.ts"]}}')
        (found,) = findings(check_discovery(clinic.surroundings()))
        assert found.where == str(path)

    @pytest.mark.parametrize(
        "form",
        [
            "-extensions/project-memory/index.ts",
            "-./extensions/project-memory/index.ts",
            "-{agent}/extensions/project-memory/index.ts",
        ],
    )
    def test_an_extension_that_is_switched_off_is_told(self, clinic: Clinic, form: str) -> None:
        clinic.install()
        entry = form.format(agent=clinic.agent)
        path = clinic.write(clinic.agent / "settings.json", json.dumps({"extensions": [entry]}))
        (found,) = findings(check_discovery(clinic.surroundings()))
        assert (found.where, found.remedy) == (str(path), "pi config")

    @pytest.mark.parametrize("text", ["{", "[]", '{"extensions": 5}', '{"extensions": null}'])
    def test_settings_that_say_nothing_about_it_are_no_concern(self, clinic: Clinic, text: str) -> None:
        clinic.install()
        clinic.write(clinic.agent / "settings.json", text)
        assert list(check_discovery(clinic.surroundings())) == []

    def test_a_relative_agent_directory_is_told(self, clinic: Clinic) -> None:
        (found,) = findings(check_discovery(clinic.surroundings(**{VARIABLE: "some/agent"})))
        assert (found.where, found.remedy) == ("some/agent", f"export {VARIABLE}={clinic.agent}")


class TestExtension:
    def test_a_whole_installation_is_a_fact(self, clinic: Clinic) -> None:
        target = clinic.install()
        expected = f"Extension {__version__}, {len(shipped_files())} files: {target}"
        assert list(check_extension(clinic.surroundings())) == [Fact(expected)]

    def test_an_extension_that_is_not_there(self, clinic: Clinic) -> None:
        target = str(extension_directory(clinic.agent))
        expected = Finding("the extension is not installed", target, INSTALL)
        assert list(check_extension(clinic.surroundings())) == [expected]

    def test_files_of_another_in_its_place(self, clinic: Clinic) -> None:
        clinic.write(extension_directory(clinic.agent) / "index.ts", "another")
        (found,) = findings(check_extension(clinic.surroundings()))
        assert "not of this tool: index.ts" in found.problem
        assert found.remedy.startswith("mv ")
        assert found.remedy.endswith(f"&& {INSTALL}")

    @pytest.mark.parametrize("content", [None, "{"])
    def test_a_launch_file_that_is_lost_or_damaged(self, clinic: Clinic, content: str | None) -> None:
        launch = clinic.install() / LAUNCH_FILE
        launch.unlink()
        if content is not None:
            launch.write_text(content)
        (found,) = findings(check_extension(clinic.surroundings()))
        assert "missing or damaged" in found.problem
        assert (found.where, found.remedy) == (str(launch), INSTALL)

    def test_missing_and_edited_files_are_named(self, clinic: Clinic) -> None:
        target = clinic.install()
        (target / "peer.ts").unlink()
        (target / "frames.ts").write_text("// edited")
        missing, edited = findings(check_extension(clinic.surroundings()))
        assert missing == Finding("files of the extension are missing: peer.ts", str(target), INSTALL)
        assert "not as they were installed: frames.ts" in edited.problem

    def test_another_version(self, clinic: Clinic) -> None:
        clinic.install()
        change_launch(clinic, version="0.0.1")
        (found,) = findings(check_extension(clinic.surroundings()))
        assert found.problem == f"the extension is of version 0.0.1, and this is {__version__}"

    def test_an_agent_directory_that_was_moved(self, clinic: Clinic) -> None:
        clinic.install()
        change_launch(clinic, logFile="/old/agent/project-memory/logs")
        (found,) = findings(check_extension(clinic.surroundings()))
        assert "/old/agent/project-memory/logs" in found.problem


def fake_python(script: str) -> Callable[[Clinic], str]:
    return lambda clinic: str(clinic.program("python", script))


class TestInterpreter:
    async def test_the_one_that_installed_works(self, clinic: Clinic) -> None:
        clinic.install()
        expected = Fact(f"Service {__version__}, started by {sys.executable}")
        assert await check_interpreter(clinic.surroundings()) == [expected]

    @pytest.mark.parametrize(
        ("python", "problem"),
        [
            (lambda clinic: str(clinic.root / "gone/python"), "does not exist"),
            (lambda clinic: str(clinic.write(clinic.root / "plain", "no program")), "is not executable"),
            (lambda clinic: str(clinic.root), "is not executable"),
            (fake_python("echo 'No module named structlog' >&2; exit 1"), "cannot start: No module named"),
            (fake_python("exit 9"), "cannot start: exit code 9"),
            (fake_python("echo 0.0.1"), f"has version '0.0.1', and this is {__version__}"),
        ],
    )
    async def test_one_that_does_not_is_told(
        self, clinic: Clinic, python: Callable[[Clinic], str], problem: str
    ) -> None:
        program = python(clinic)
        install_into(clinic.agent, program)
        (found,) = findings(await check_interpreter(clinic.surroundings()))
        assert problem in found.problem
        assert found.where == program
        assert found.remedy.endswith("install")

    async def test_one_without_the_package_is_told(self, clinic: Clinic) -> None:
        clinic.install()
        change_launch(
            clinic, command=[sys.executable, "-I", "-S", "-m", "pi_project_memory.supervisor.main", "serve"]
        )
        (found,) = findings(await check_interpreter(clinic.surroundings()))
        assert "No module named 'pi_project_memory'" in found.problem

    async def test_one_that_hangs_is_told(self, clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ask, "__defaults__", (0.2,))
        install_into(clinic.agent, str(clinic.program("python", "exec /bin/sleep 60")))
        (found,) = findings(await check_interpreter(clinic.surroundings()))
        assert "did not answer" in found.problem

    async def test_a_relative_one_is_told_and_not_started(self, clinic: Clinic) -> None:
        clinic.install()
        change_launch(clinic, command=["python", "-m", "pi_project_memory.supervisor.main", "serve"])
        (found,) = findings(await check_interpreter(clinic.surroundings()))
        assert "is not named by an absolute path" in found.problem

    async def test_another_command_is_told_and_not_run(self, clinic: Clinic) -> None:
        clinic.install()
        change_launch(clinic, command=["/bin/touch", str(clinic.root / "touched")])
        (found,) = findings(await check_interpreter(clinic.surroundings()))
        assert "starts something else" in found.problem
        assert not (clinic.root / "touched").exists()

    async def test_what_the_service_starts_with_is_kept(self, clinic: Clinic) -> None:
        script = f'[ "$1$2$3$4$5" = -I-Xutf8-B-c ] && echo {__version__}'
        install_into(clinic.agent, str(clinic.program("python", script)))
        assert findings(await check_interpreter(clinic.surroundings())) == []


class TestConfiguration:
    def test_no_file_means_the_defaults(self, clinic: Clinic) -> None:
        config, seen = check_config(clinic.surroundings())
        assert config is not None
        assert findings(seen) == []
        assert "The defaults hold" in texts(seen)

    def test_each_value_that_is_not_used_is_told_with_what_it_must_be(self, clinic: Clinic) -> None:
        text = '{"dream": {"minimumHours": 0}, "models": [], "extraction": {"maxTurns": 3}}'
        path = clinic.configure(text)
        config, seen = check_config(clinic.surroundings())
        assert config is not None
        assert {found.problem for found in findings(seen)} == {
            "'dream.minimumHours' must be an integer of at least 1; its default is used",
            "'models' must be an object; its default is used",
        }
        assert {(found.where, found.remedy) for found in findings(seen)} == {
            (str(path), f"$EDITOR {path}, then /memory reload-config in Pi")
        }
        assert texts(seen) == ""

    def test_a_file_that_is_no_object(self, clinic: Clinic) -> None:
        clinic.configure("[]")
        (found,) = findings(check_config(clinic.surroundings())[1])
        assert found.problem == "the file must be an object; its default is used"

    def test_a_memory_directory_that_falls_back_is_told_with_the_reason(self, clinic: Clinic) -> None:
        clinic.configure('{"autoMemoryDirectory": "~/.git/memory"}')
        (found,) = findings(check_config(clinic.surroundings())[1])
        assert found.problem.startswith("'autoMemoryDirectory' is not used, the default directory is: ")
        assert "version control" in found.problem

    def test_a_file_that_is_not_json_is_told_with_line_and_column(self, clinic: Clinic) -> None:
        path = clinic.configure('{\n  "enabled": tru\n}')
        config, seen = check_config(clinic.surroundings())
        assert config is None
        (found,) = findings(seen)
        assert found.where.startswith(f"{path}:2:")
        assert found.problem.startswith("memory is off: it is not valid JSON")

    def test_a_file_that_cannot_be_read_is_told(self, clinic: Clinic) -> None:
        (clinic.data / "config.json").mkdir(parents=True)
        config, seen = check_config(clinic.surroundings())
        assert config is None
        assert "not a regular file" in findings(seen)[0].problem

    def test_switches_are_notes(self, clinic: Clinic) -> None:
        clinic.configure('{"extraction": {"enabled": false}, "dream": {"enabled": false}}')
        _, seen = check_config(clinic.surroundings())
        assert findings(seen) == []
        assert "extraction.enabled" in texts(seen)
        assert "dream.enabled" in texts(seen)
