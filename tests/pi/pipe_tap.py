"""Looks at what crosses the pipe between Pi and the real service, without standing in its way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pi.pi_home import PiHome
from pi.scripting import Json
from pi_project_memory.supervisor.installed import LAUNCH_FILE, extension_directory

_SCRIPT = 'tee "$0/$$.in" | "$@" | tee "$0/$$.out"'


@dataclass(frozen=True, slots=True)
class Read:
    """One answered range of the history: its branch, and the messages that crossed with their content, by id."""

    handle: str
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tap:
    """Copies of both directions, a pair of files for each service process."""

    folder: Path

    def sent(self) -> list[bytes]:
        """The frames from Pi, those of the oldest process first."""
        return [frame for path in self._files("in") for frame in path.read_bytes().splitlines()]

    def methods(self) -> list[str]:
        """What Pi has called, answers left out."""
        calls = (json.loads(frame) for frame in self.sent())
        return [call["method"] for call in calls if "method" in call]

    def reads(self) -> list[Read]:
        """Every range of the history that Pi has answered."""
        return [read for path in self._files("in") for read in self._reads_of(path)]

    def _reads_of(self, path: Path) -> list[Read]:
        asked: dict[object, Json] = {}
        for line in path.with_suffix(".out").read_bytes().splitlines():
            frame = json.loads(line)
            if frame.get("method") == "history/read":
                asked[frame["id"]] = frame["params"]
        answers = (json.loads(line) for line in path.read_bytes().splitlines())
        return [
            Read(asked[frame["id"]]["handle"], _messages(frame["result"]["entries"]))
            for frame in answers
            if "result" in frame and "method" not in frame and frame["id"] in asked
        ]

    def _files(self, suffix: str) -> list[Path]:
        return sorted(self.folder.glob(f"*.{suffix}"), key=lambda path: path.stat().st_ctime_ns)


def _messages(entries: list[Json]) -> tuple[str, ...]:
    return tuple(entry["id"] for entry in entries if "message" in entry)


def tap(home: PiHome) -> Tap:
    """Put a tap into the installed extension's pipe."""
    folder = home.root / "tap"
    folder.mkdir()
    path = extension_directory(home.agent_dir) / LAUNCH_FILE
    launch = json.loads(path.read_text("utf-8"))
    launch["command"] = ["/bin/sh", "-c", _SCRIPT, str(folder), *launch["command"]]
    path.write_text(json.dumps(launch), "utf-8")
    return Tap(folder)
