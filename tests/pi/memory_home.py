"""A Pi home with the memory extension installed as a user installs it, and a memory directory to fill."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pi.pi_home import PiHome
from pi_project_memory.actors.core.identity import data_directory, plain_namespace
from pi_project_memory.supervisor.install import install_into

SELECTOR = "small"
"""The selector's model; the main agent's is `main`."""

CONFIG: dict[str, Any] = {
    "models": {"selector": {"model": f"fake/{SELECTOR}"}},
    "extraction": {"enabled": False},
    "dream": {"enabled": False},
}
"""Recall alone; a test of background work turns it on."""

DEPLOY = """---
name: Deployment
description: How the service is deployed and rolled back
metadata:
  type: project
---
Deploy with `make ship`; roll back with `make unship`.
"""
INDEX = "- [Deployment](deploy.md) — how it is deployed and rolled back\n"


def install(home: PiHome, interpreter: str = sys.executable) -> Path:
    """Install the extension into the home's agent directory."""
    return install_into(home.agent_dir, interpreter)


def configure(home: PiHome, config: Mapping[str, Any] | str | None = None) -> Path:
    """Write config.json; a text goes in as it is."""
    path = Path(data_directory(str(home.agent_dir))) / "config.json"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else json.dumps(config or CONFIG), encoding="utf-8")
    return path


def memory_directory(home: PiHome) -> Path:
    """Return where the default memory of the home's project lies."""
    return Path(plain_namespace(str(home.agent_dir), str(home.project))) / "memory"


def remember(home: PiHome, files: Mapping[str, str]) -> Path:
    """Put files into the memory of the home's project before any session has made it."""
    directory = memory_directory(home)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory


def with_memory(home: PiHome, files: Mapping[str, str] | None = None) -> PiHome:
    """Install, configure and fill the home; return it."""
    install(home)
    configure(home)
    remember(home, {"MEMORY.md": INDEX, "deploy.md": DEPLOY} if files is None else files)
    return home


def chosen(*names: str) -> str:
    """Return a selector's answer."""
    return json.dumps({"selected_memories": list(names)})
