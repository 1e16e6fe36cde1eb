"""`install` and `uninstall`: repeatable, interruptible, and touching nothing of others."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from pi_project_memory.supervisor import install as installing
from pi_project_memory.supervisor import installed
from pi_project_memory.supervisor.agent_dir import VARIABLE
from pi_project_memory.supervisor.cli import main
from pi_project_memory.supervisor.install import (
    SOURCE,
    InstallError,
    Removal,
    install_into,
    uninstall_from,
)
from pi_project_memory.supervisor.installed import ENTRY, LAUNCH_FILE, extension_directory, shipped_files
from pi_project_memory.supervisor.version import __version__

pytestmark = pytest.mark.req("HOST-10")

PYTHON = "/opt/memory/bin/python"
OTHERS = {
    "settings.json": "{}",
    "extensions/other.ts": "other",
    "extensions/other/index.ts": "other",
    "project-memory/config.json": '{"enabled": true}',
    "project-memory/projects/-w/memory/MEMORY.md": "- [A](a.md)\n",
}


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent directory with the files of others, and the environment that names it."""
    directory = tmp_path / "agent"
    for name, text in OTHERS.items():
        lay(directory / name, text)
    monkeypatch.setenv(VARIABLE, str(directory))
    return directory


def lay(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def tree(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a directory with inode, modification time and content."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(directory))] = (status.st_ino, status.st_mtime_ns, data)
    return found


def others(agent: Path) -> dict[str, bytes]:
    """What lies in the agent directory besides the extension."""
    target = extension_directory(agent)
    files = (path for path in agent.rglob("*") if path.is_file() and target not in path.parents)
    return {str(path.relative_to(agent)): path.read_bytes() for path in files}


def launch(agent: Path) -> dict[str, object]:
    return json.loads((extension_directory(agent) / LAUNCH_FILE).read_text())


def is_whole(agent: Path, python: str = PYTHON) -> bool:
    target = extension_directory(agent)
    held = {path.name: path.read_bytes() for path in target.iterdir() if path.name != LAUNCH_FILE}
    return held == shipped_files() and launch(agent)["command"][0] == python


def older_installation(agent: Path, extra: str = "legacy.ts") -> Path:
    """An installation of another version, with a file that is no longer shipped and other contents."""
    target = install_into(agent, "/old/python")
    (target / extra).write_text("// legacy")
    for path in target.glob("*.ts"):
        path.write_text("// pi-project-memory of old")
    (target / "service.ts").unlink()
    files = sorted(path.name for path in target.glob("*.ts"))
    description = launch(agent) | {"version": "0.0.1", "files": files}
    (target / LAUNCH_FILE).write_text(json.dumps(description))
    return target


def test_a_fresh_installation_is_complete_private_and_knows_its_interpreter(agent: Path) -> None:
    before = others(agent)
    target = install_into(agent, PYTHON)
    assert target == agent / "extensions" / "project-memory"
    assert is_whole(agent)
    assert ENTRY in shipped_files()
    assert launch(agent) == {
        "command": [PYTHON, "-I", "-X", "utf8", "-m", "pi_project_memory.supervisor.main", "serve"],
        "logFile": f"{agent}/project-memory/logs",
        "version": __version__,
        "files": sorted(shipped_files()),
    }
    assert target.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in target.iterdir()} == {0o600}
    assert others(agent) == before


def test_an_agent_directory_that_does_not_exist_yet_is_made(tmp_path: Path) -> None:
    install_into(tmp_path / "new" / "agent", PYTHON)
    assert is_whole(tmp_path / "new" / "agent")


def test_a_second_installation_writes_nothing(agent: Path) -> None:
    install_into(agent, PYTHON)
    before = tree(agent)
    install_into(agent, PYTHON)
    assert tree(agent) == before


def test_the_interpreter_is_absolute_and_a_link_to_one_stays_a_link(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    install_into(agent, "venv/bin/python")
    assert launch(agent)["command"][0] == str(link)


def test_a_package_in_the_users_own_folder_stays_within_reach(
    agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "getusersitepackages", lambda: str(SOURCE.parents[1]))
    install_into(agent, PYTHON)
    assert launch(agent)["command"][1:5] == ["-E", "-P", "-X", "utf8"]


def test_another_interpreter_changes_the_launch_file_alone(agent: Path) -> None:
    target = install_into(agent, "/old/python")
    before = tree(target)
    install_into(agent, PYTHON)
    after = tree(target)
    assert {name for name in after if after[name] != before[name]} == {LAUNCH_FILE}
    assert launch(agent)["command"][0] == PYTHON


def test_an_upgrade_replaces_what_was_installed_and_nothing_else(agent: Path) -> None:
    target = older_installation(agent)
    lay(target / "notes.txt", "mine")
    before = others(agent)
    install_into(agent, PYTHON)
    assert not (target / "legacy.ts").exists()
    assert (target / "notes.txt").read_text() == "mine"
    (target / "notes.txt").unlink()
    assert is_whole(agent)
    assert launch(agent)["version"] == __version__
    assert others(agent) == before


def test_a_file_of_another_under_a_name_of_ours_is_never_overwritten(agent: Path) -> None:
    target = install_into(agent, PYTHON)
    description = launch(agent)
    description["files"] = [name for name in description["files"] if name != "frames.ts"]
    (target / LAUNCH_FILE).write_text(json.dumps(description))
    lay(target / "frames.ts", "somebody's own")
    before = tree(agent)
    with pytest.raises(InstallError, match=r"frames\.ts was not installed by this tool\. Move it away"):
        install_into(agent, PYTHON)
    assert tree(agent) == before


def test_names_in_a_launch_file_lead_nowhere_else(agent: Path) -> None:
    target = install_into(agent, PYTHON)
    names = ["../other.ts", "../../settings.json", str(agent / "extensions/other/index.ts"), "notes.txt", ""]
    lay(target / "notes.txt", "mine")
    description = launch(agent)
    (target / LAUNCH_FILE).write_text(json.dumps(description | {"files": [*description["files"], *names]}))
    before = others(agent)
    assert uninstall_from(agent) == Removal(removed=True, left=("notes.txt",))
    assert others(agent) == before


def as_link(target: Path) -> None:
    lay(target.parents[2] / "checkout" / ENTRY, "a checkout")
    target.parent.mkdir(exist_ok=True)
    target.symlink_to(target.parents[2] / "checkout")


def as_dangling_link(target: Path) -> None:
    target.symlink_to(target.parents[2] / "nothing")


def as_file(target: Path) -> None:
    lay(target, "a file")


def as_foreign_extension(target: Path) -> None:
    lay(target / ENTRY, "export default () => {}")


def as_foreign_package(target: Path) -> None:
    lay(target / "package.json", '{"pi": {"extensions": ["./x.ts"]}}')


def as_foreign_launch_file(target: Path) -> None:
    lay(target / LAUNCH_FILE, '{"version": "0.2.0", "configurations": []}')


@pytest.mark.parametrize(
    ("occupy", "problem"),
    [
        (as_link, "it is a symbolic link to "),
        (as_dangling_link, "it is a symbolic link to "),
        (as_file, "it is a file"),
        (as_foreign_extension, r"not of this tool: index\.ts"),
        (as_foreign_package, r"not of this tool: package\.json"),
        (as_foreign_launch_file, r"not of this tool: launch\.json"),
    ],
)
def test_what_others_put_there_is_neither_overwritten_nor_removed(
    agent: Path, occupy: Callable[[Path], None], problem: str
) -> None:
    occupy(extension_directory(agent))
    before = tree(agent.parent)
    with pytest.raises(InstallError, match=rf"project-memory cannot be used: .*{problem}.*Move it away"):
        install_into(agent, PYTHON)
    assert uninstall_from(agent) == Removal(removed=False)
    assert tree(agent.parent) == before


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", '{"command": [], "logFile": "", "version": "", "files": []}']
)
def test_a_launch_file_that_is_lost_or_damaged_is_made_anew(agent: Path, content: str | None) -> None:
    target = install_into(agent, PYTHON)
    (target / ENTRY).write_text("// edited")
    (target / LAUNCH_FILE).unlink()
    if content is not None:
        (target / LAUNCH_FILE).write_text(content)
    install_into(agent, PYTHON)
    assert is_whole(agent)


def test_an_installation_without_its_launch_file_can_be_removed(agent: Path) -> None:
    (install_into(agent, PYTHON) / LAUNCH_FILE).write_text("{")
    assert uninstall_from(agent) == Removal(removed=True)
    assert not extension_directory(agent).exists()


class Interrupted(BaseException):
    """Stands for a process that ends in the middle."""


@contextmanager
def interrupted_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End the process before its effect `number` on the disk, counted from 1."""
    effects = itertools.count(1)
    publish, unlink = installing.publish_replace, Path.unlink

    def count() -> None:
        if next(effects) == number:
            raise Interrupted

    def counted_publish(path: str, data: bytes) -> None:
        count()
        publish(path, data)

    def counted_unlink(path: Path, *, missing_ok: bool = False) -> None:
        count()
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(installing, "publish_replace", counted_publish)
        patched.setattr(Path, "unlink", counted_unlink)
        yield


def nothing(agent: Path) -> None:
    """Begin without an installation."""


def installing_python(agent: Path) -> None:
    install_into(agent, PYTHON)


def loaded(agent: Path) -> dict[str, bytes] | None:
    """The sources that Pi would load, or None when it would load nothing."""
    target = extension_directory(agent)
    if not (target / ENTRY).exists():
        return None
    return {path.name: path.read_bytes() for path in target.glob("*.ts")}


@pytest.mark.parametrize(
    ("begin", "command"),
    [
        (nothing, installing_python),
        (older_installation, installing_python),
        (older_installation, uninstall_from),
        (installing_python, uninstall_from),
    ],
)
@pytest.mark.parametrize("afterwards", ["install", "uninstall"])
def test_an_interrupted_command_leaves_nothing_half_loaded_and_the_next_one_completes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    begin: Callable[[Path], object],
    command: Callable[[Path], object],
    afterwards: str,
) -> None:
    monkeypatch.setattr(installed, "SOURCE", tmp_path / "package")
    for name in (ENTRY, "launch.ts", "service.ts"):
        lay(tmp_path / "package" / name, f"// pi-project-memory: {name}")
    for number in itertools.count(1):
        agent = tmp_path / str(number)
        begin(agent)
        before = loaded(agent)
        try:
            with interrupted_at(number, monkeypatch):
                command(agent)
            break
        except Interrupted:
            assert loaded(agent) in (None, before, shipped_files())
        if afterwards == "install":
            install_into(agent, PYTHON)
            assert is_whole(agent)
        else:
            uninstall_from(agent)
            assert not extension_directory(agent).exists()
    assert number > len(shipped_files())


@pytest.mark.parametrize("command", [lambda agent: install_into(agent, PYTHON), uninstall_from])
def test_temporary_files_of_a_killed_command_are_swept(
    agent: Path, command: Callable[[Path], object]
) -> None:
    target = install_into(agent, PYTHON)
    ours = (f".{ENTRY}.4711.0123456789abcdef.tmp", f".{LAUNCH_FILE}.4711.0123456789abcdef.tmp")
    theirs = (".mine.4711.0123456789abcdef.tmp", "index.ts.tmp")
    for name in (*ours, *theirs):
        lay(target / name, "half")
    command(agent)
    assert sorted(path.name for path in target.glob("*.tmp")) == sorted(theirs)


def test_uninstalling_leaves_memories_settings_and_other_extensions(agent: Path) -> None:
    before = others(agent)
    install_into(agent, PYTHON)
    assert uninstall_from(agent) == Removal(removed=True)
    assert not extension_directory(agent).exists()
    assert others(agent) == before == {name: text.encode() for name, text in OTHERS.items()}
    unchanged = tree(agent)
    assert uninstall_from(agent) == Removal(removed=False)
    assert tree(agent) == unchanged


def test_files_of_others_stay_in_place_and_are_in_nobodys_way(agent: Path) -> None:
    target = install_into(agent, PYTHON)
    lay(target / "notes.txt", "mine")
    (target / "frames.ts").unlink()
    lay(target / "frames.ts" / "draft.ts", "a directory by now")
    assert uninstall_from(agent) == Removal(removed=True, left=("frames.ts", "notes.txt"))
    assert uninstall_from(agent) == Removal(removed=False)
    (target / "frames.ts" / "draft.ts").rename(target / "draft.ts")
    (target / "frames.ts").rmdir()
    install_into(agent, PYTHON)
    assert (target / "notes.txt").read_text() == "mine"


def test_a_link_in_the_place_of_a_file_of_ours_is_replaced_and_not_followed(agent: Path) -> None:
    target = install_into(agent, PYTHON)
    elsewhere = lay(agent / "elsewhere.ts", (target / "frames.ts").read_text())
    (target / "frames.ts").unlink()
    (target / "frames.ts").symlink_to(elsewhere)
    install_into(agent, PYTHON)
    assert not (target / "frames.ts").is_symlink()
    assert is_whole(agent)


def test_uninstalling_where_pi_never_was_creates_nothing(tmp_path: Path) -> None:
    assert uninstall_from(tmp_path / "agent") == Removal(removed=False)
    assert list(tmp_path.iterdir()) == []


def test_commands_at_the_same_time_leave_a_whole_installation(
    agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "LOCK_TRIES", 1_000)  # however slow the disk is
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: install_into(agent, f"/python/{number % 2}"), range(8)))
    assert is_whole(agent, launch(agent)["command"][0])
    assert not list(extension_directory(agent).glob(".*"))


def test_a_command_that_stays_at_work_is_told(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "LOCK_TRIES", 2)
    descriptor = os.open(agent / "extensions", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(InstallError, match=r"another command is at work in .*extensions"):
            install_into(agent, PYTHON)
    finally:
        os.close(descriptor)
    install_into(agent, PYTHON)


def test_a_file_system_without_locks_is_no_obstacle(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    install_into(agent, PYTHON)
    assert is_whole(agent)


def test_a_package_without_its_extension_is_told(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "shipped_files", dict)
    with pytest.raises(InstallError, match="is incomplete: install the package"):
        install_into(agent, PYTHON)


class TestCommands:
    def test_install_and_uninstall_say_what_they_did(
        self, agent: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        target = extension_directory(agent)
        assert main(["install"]) == 0
        assert f"Installed pi-project-memory {__version__} in {target}" in capsys.readouterr().out
        assert is_whole(agent, sys.executable)
        lay(target / "notes.txt", "mine")
        assert main(["uninstall"]) == 0
        told = capsys.readouterr().out
        assert f"Removed {target}\n" in told
        assert "did not install: notes.txt" in told
        assert f"stay in {agent}/project-memory" in told
        assert main(["uninstall"]) == 0
        assert f"Nothing to remove: {target}" in capsys.readouterr().out

    @pytest.mark.parametrize("value", ["~/given", "file://{home}/given", "given", "./x/../given"])
    def test_the_agent_directory_is_the_one_of_pi(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv(VARIABLE, value.format(home=tmp_path))
        assert main(["install"]) == 0
        assert is_whole(tmp_path / "given", sys.executable)
        assert main(["uninstall"]) == 0
        assert not extension_directory(tmp_path / "given").exists()

    @pytest.mark.parametrize("command", ["install", "uninstall"])
    def test_a_value_that_pi_cannot_use_is_told(
        self, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv(VARIABLE, "file://host/x")
        assert main([command]) == 1
        assert "PI_CODING_AGENT_DIR is set to 'file://host/x'" in capsys.readouterr().err

    def test_a_place_that_is_taken_is_told(self, agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
        as_file(extension_directory(agent))
        assert main(["install"]) == 1
        assert f"{extension_directory(agent)} cannot be used: it is a file" in capsys.readouterr().err
        assert main(["uninstall"]) == 0

    @pytest.mark.parametrize("command", ["install", "uninstall"])
    def test_a_directory_that_cannot_be_written_is_told_with_its_path(
        self, agent: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def refuse(path: object, *_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        if command == "uninstall":
            install_into(agent, PYTHON)
        monkeypatch.setattr(installing, "publish_replace", refuse)
        monkeypatch.setattr(Path, "unlink", refuse)
        assert main([command]) == 1
        told = capsys.readouterr().err
        assert f"pi-project-memory: {extension_directory(agent)}/" in told
        assert "Permission denied. Give yourself the right to read and write there" in told

    def test_an_extensions_directory_that_is_a_file_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lay(tmp_path / "extensions", "a file")
        monkeypatch.setenv(VARIABLE, str(tmp_path))
        assert main(["install"]) == 1
        assert f"{tmp_path}/extensions" in capsys.readouterr().err
        assert main(["uninstall"]) == 0


def test_every_source_of_the_extension_is_installed(agent: Path) -> None:
    install_into(agent, PYTHON)
    on_disk = sorted(path.name for path in SOURCE.glob("*.ts"))
    assert launch(agent)["files"] == on_disk
