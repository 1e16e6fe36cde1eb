"""Proves what the installer of Pi says when it cannot install, and that it works only when it must."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from pi import install_pi


@pytest.fixture
def empty_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    target = tmp_path / "build" / "pi"
    monkeypatch.setattr(install_pi, "TARGET", target)
    monkeypatch.setattr(install_pi, "STAMP", target / "stamp.json")
    monkeypatch.setattr(install_pi, "CLI", target / "cli.js")
    monkeypatch.setattr(install_pi, "TSC", target / "tsc")
    return target


def use_npm(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(install_pi, "npm_command", lambda: [sys.executable, "-c", script])


def test_a_failing_npm_is_told_with_its_words_and_the_command(
    empty_target: Path, monkeypatch: pytest.MonkeyPatch
):
    use_npm(monkeypatch, "raise SystemExit('no registry in reach')")
    with pytest.raises(SystemExit, match=r"no registry in reach[\s\S]*tests/pi/install_pi\.py"):
        install_pi.main()
    assert not install_pi.is_installed()


def test_an_npm_that_installs_nothing_is_a_failure(empty_target: Path, monkeypatch: pytest.MonkeyPatch):
    use_npm(monkeypatch, "")
    with pytest.raises(SystemExit, match="exit code 0"):
        install_pi.main()


def test_npm_runs_once_and_again_after_a_change(
    empty_target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    manifest = tmp_path / "package.json"
    manifest.write_text("{}")
    monkeypatch.setattr(install_pi, "MANIFEST", manifest)
    use_npm(monkeypatch, "open('cli.js', 'w'); open('tsc', 'w')")
    install_pi.main()
    install_pi.main()
    manifest.write_text('{"private": true}')
    install_pi.main()
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["Installed", str(empty_target), "Installed"]


def test_a_missing_node_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SystemExit, match=r"pip install -e '\.\[dev\]'"):
        install_pi.node_root()
