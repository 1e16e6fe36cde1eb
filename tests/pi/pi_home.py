"""A home for the real Pi: agent folder, project, settings and environment of one test, nothing shared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from pi import install_pi
from pi.fake_provider import FakeProvider
from pi.scripting import Json


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model of both providers: `fake/<id>` (openai-completions) and `fakea/<id>` (anthropic-messages).

    Window and output limit are in tokens.
    """

    id: str
    reasoning: bool = False
    context_window: int = 200_000
    max_tokens: int = 8_192

    def as_json(self) -> Json:
        return {
            "id": self.id,
            "reasoning": self.reasoning,
            "contextWindow": self.context_window,
            "maxTokens": self.max_tokens,
            "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25},
        }


MODELS = (ModelSpec("main"), ModelSpec("small"), ModelSpec("big"), ModelSpec("thinker", reasoning=True))

SETTINGS: Json = {
    "defaultProvider": "fake",
    "defaultModel": "main",
    "defaultThinkingLevel": "off",
    "enableInstallTelemetry": False,
    # A provider error ends the run at once: the delays of Pi's own retries are not under test.
    "retry": {"enabled": False},
}

_WHO = ("AUTHOR", "COMMITTER")
_FOLDERS = ("agent", "project", "home", "bin", "tmp")


@dataclass(frozen=True, slots=True)
class PiHome:
    """Where one test's Pi lives. Make it with `create`."""

    root: Path
    provider: FakeProvider

    @classmethod
    def create(
        cls,
        root: Path,
        provider: FakeProvider,
        *,
        settings: Mapping[str, Any] | None = None,
        models: Sequence[ModelSpec] = MODELS,
        git: bool = True,
    ) -> PiHome:
        """Lay the folders out under `root`; `settings` are merged over SETTINGS at the top level."""
        home = cls(root.resolve(), provider)
        for name in _FOLDERS:
            (home.root / name).mkdir(parents=True)
        home._link_tools()
        home.write_settings(**(settings or {}))
        home.write_models(models)
        if git:
            home.git("init", "--quiet", "--initial-branch=main")
        return home

    @property
    def agent_dir(self) -> Path:
        return self.root / "agent"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def user_home(self) -> Path:
        return self.root / "home"

    @property
    def temp_dir(self) -> Path:
        """What Pi and its children see as the system's temp folder."""
        return self.root / "tmp"

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of Pi: nothing of the test run's own gets in."""
        return {
            "HOME": str(self.user_home),
            "LANG": "C.UTF-8",
            # Node keeps compiled code in the temp folder otherwise, and a fresh one would slow each start.
            "NODE_COMPILE_CACHE": str(install_pi.TARGET / "compile-cache"),
            "PATH": f"{self.root / 'bin'}:/usr/bin:/bin",
            "PI_CODING_AGENT_DIR": str(self.agent_dir),
            "PI_OFFLINE": "1",
            "PI_SKIP_VERSION_CHECK": "1",
            "PI_TELEMETRY": "0",
            "TERM": "xterm-256color",
            "TMPDIR": str(self.temp_dir),
        }

    def command(self, *args: str, extensions: Sequence[Path] = ()) -> list[str]:
        """The command line of Pi; `extensions` are given with -e, beside those that Pi discovers."""
        named = [word for path in extensions for word in ("-e", str(path))]
        return [str(self.root / "bin" / "node"), str(install_pi.CLI), *named, *args]

    def install_extension(self, source: Path) -> Path:
        """Copy a TypeScript file or an extension folder to where Pi discovers it."""
        target = self.agent_dir / "extensions" / source.name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
        return target

    def write_settings(self, **changes: Any) -> None:
        self._write_json("settings.json", SETTINGS | changes)

    def write_models(self, models: Sequence[ModelSpec]) -> None:
        listed = [model.as_json() for model in models]
        origin = self.provider.origin
        shared = {"apiKey": "fake-key", "models": listed}
        providers = {
            "fake": shared | {"baseUrl": f"{origin}/v1", "api": "openai-completions"},
            "fakea": shared | {"baseUrl": origin, "api": "anthropic-messages"},
        }
        self._write_json("models.json", {"providers": providers})

    def session_files(self) -> list[Path]:
        """Every session file below the agent folder, oldest first."""
        found = (self.agent_dir / "sessions").rglob("*.jsonl")
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def git(self, *args: str) -> str:
        """Run git in the project with a clean configuration and return what it printed."""
        identity = {f"GIT_{who}_{what}": "test@example.invalid" for who in _WHO for what in ("NAME", "EMAIL")}
        environment = self.environment | identity | {"GIT_CONFIG_GLOBAL": "/dev/null"}
        done = subprocess.run(
            ["git", *args], cwd=self.project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
        return done.stdout

    def _write_json(self, name: str, value: Json) -> None:
        (self.agent_dir / name).write_text(json.dumps(value, indent=2), "utf-8")

    def _link_tools(self) -> None:
        if not install_pi.is_installed():
            pytest.fail(f"Pi is not installed below {install_pi.TARGET}. Run: {install_pi.COMMAND}")
        ripgrep = Path(sys.executable).parent / "rg"
        assert ripgrep.is_file(), f"{ripgrep} is missing; the development dependencies bring it"
        (self.root / "bin" / "node").symlink_to(install_pi.node_binary())
        (self.root / "bin" / "rg").symlink_to(ripgrep)


class MakePiHome(Protocol):
    """Makes a home below the test's folder, with the options of `PiHome.create`."""

    def __call__(self, name: str = "pi", **options: Any) -> PiHome: ...
