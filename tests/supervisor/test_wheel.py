"""What is installed from the wheel: everything the service and the extension need, and it works from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pi_project_memory.supervisor.version import __version__

pytestmark = [pytest.mark.real_time, pytest.mark.req("HOST-10")]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@dataclass(frozen=True, slots=True)
class Machine:
    """An environment that has the wheel and, for its dependencies, the packages of this one."""

    root: Path

    @property
    def python(self) -> Path:
        return self.root / "venv/bin/python"

    @property
    def agent(self) -> Path:
        return self.root / "agent"

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": str(self.root), "PI_CODING_AGENT_DIR": str(self.agent), "PATH": os.defpath}

    def run(self, command: Sequence[str], **options: bytes) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            timeout=60,
            check=False,
            **options,
        )

    def tool(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """Run `pi-project-memory` as its console script does."""
        start = "import sys; from pi_project_memory.supervisor.main import run; sys.exit(run())"
        return self.run([str(self.python), "-c", start, *arguments])


@pytest.fixture(scope="module")
def machine(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    made = Machine(tmp_path_factory.mktemp("machine"))
    venv.create(made.root / "venv", symlinks=True)
    (site,) = (made.root / "venv/lib").glob("python*/site-packages")
    # The `.pth` files in there are not read again, so the sources of this checkout stay out of reach.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return made


def sources() -> set[str]:
    """Every file of the two source folders, as the wheel is to name it."""
    files = (
        path for folder in ("actors", "supervisor") for path in (ROOT / folder).rglob("*") if path.is_file()
    )
    kept = (path for path in files if path.suffix != ".pyc" and path.name != "_editable.py")
    return {f"pi_project_memory/{path.relative_to(ROOT)}" for path in kept}


def test_the_wheel_holds_every_source_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == sources()
    assert "pi_project_memory/supervisor/pi_extension/index.ts" in names
    assert "pi_project_memory/actors/prompts/extractor.txt" in names


def test_the_wheel_names_its_command_and_its_version(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        entry_points = archive.read(f"pi_project_memory-{__version__}.dist-info/entry_points.txt").decode()
    assert "pi-project-memory = pi_project_memory.supervisor.main:run" in entry_points


def test_from_the_wheel_it_installs_starts_and_is_healthy(machine: Machine) -> None:
    done = machine.tool("install")
    assert done.returncode == 0, done.stderr
    target = machine.agent / "extensions/project-memory"
    launch = json.loads((target / "launch.json").read_text())
    assert launch["command"][0] == str(machine.python)
    shipped = {path.name for path in (ROOT / "supervisor/pi_extension").glob("*.ts")}
    assert {path.name for path in target.glob("*.ts")} == shipped == set(launch["files"])

    checked = machine.tool("doctor", "--json")
    assert json.loads(checked.stdout)["findings"] == []
    assert checked.returncode == 0

    served = machine.run(launch["command"], input=b"")
    assert (served.returncode, served.stdout, served.stderr) == (0, b"", b"")

    assert machine.tool("uninstall").returncode == 0
    assert not target.exists()


def test_when_the_package_is_gone_the_doctor_of_another_says_so(machine: Machine, tmp_path: Path) -> None:
    """The extension outlives the environment that installed it."""
    moved = tmp_path / "agent"
    environment = machine.environment | {"PI_CODING_AGENT_DIR": str(moved)}
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    done = machine.tool("install")
    assert done.returncode == 0, done.stderr
    machine.agent.rename(moved)
    launch = moved / "extensions/project-memory/launch.json"
    launch.write_text(launch.read_text().replace(str(machine.python), str(bare / "bin/python")))
    start = "import sys; from pi_project_memory.supervisor.main import run; sys.exit(run())"
    command = [str(machine.python), "-c", start, "doctor", "--json"]
    checked = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False
    )
    problems = [found["problem"] for found in json.loads(checked.stdout)["findings"]]
    assert checked.returncode == 1
    assert "another place for its log" in problems[0]
    assert problems[1] == "the service cannot start: ModuleNotFoundError: No module named 'pi_project_memory'"
