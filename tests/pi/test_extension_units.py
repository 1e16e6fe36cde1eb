"""Runs the unit tests of the extension with Node's own test runner, and the TypeScript compiler over it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pi import install_pi

HERE = Path(__file__).resolve().parent
TIME_LIMIT = 120
"""Seconds for one run of Node. A guard against hanging."""


def node(*args: str) -> subprocess.CompletedProcess[str]:
    if not install_pi.is_installed():
        pytest.fail(f"Pi is not installed below {install_pi.TARGET}. Run: {install_pi.COMMAND}")
    command = [str(install_pi.node_binary()), *args]
    return subprocess.run(
        command,
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_the_extension_and_its_tests_pass_the_compiler() -> None:
    done = node(str(install_pi.TSC), "-p", str(HERE / "tsconfig.json"))
    assert done.returncode == 0, done.stdout


RULES = {
    "codemode": ("SUB-7",),
    "frames": ("HOST-6",),
    "peer": ("HOST-6", "HOST-7"),
    "decisions": ("HOST-5", "HOST-8"),
    "early": ("HOST-8", "HOST-9"),
    "models": ("HOST-2",),
    "session": ("HOST-4", "HOST-5", "HOST-8", "HOST-9", "HOST-12"),
    "supervision": ("HOST-4", "HOST-8", "HOST-9", "HOST-11"),
}
"""What each file of extension/ proves."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.req(*rules)) for name, rules in RULES.items()]
)
def test_units(name: str) -> None:
    done = node("--test", "--test-reporter=tap", str(HERE / "extension" / f"{name}.test.ts"))
    assert done.returncode == 0, done.stdout
    assert "\nok 1 " in done.stdout, f"no test has run:\n{done.stdout}{done.stderr}"


def test_no_unit_test_file_is_left_out() -> None:
    assert {path.name.removesuffix(".test.ts") for path in (HERE / "extension").glob("*.test.ts")} == set(
        RULES
    )
