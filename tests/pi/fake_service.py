"""A service that misbehaves as scripted, to see what the extension makes of it.

Started as `python fake_service.py SCRIPT`. SCRIPT is a JSON file: `journal` is a file that gets one JSON line
for each start and each frame received, `runs` says how each start behaves, the last one also every later start.
A run is an object:

- `say`: lines of bytes for standard output before anything else, as text; `last_words`: text for standard error
- `exit`: an exit code, to end with at once
- `deaf`: read nothing; `ignore_eof`, `ignore_sigterm`: do not end then
- `on`: what to do with a method: an action, or a list of them, one for each frame and the last one for the rest

An action is an object:

- `result` or `error`: the answer; without either the method's DEFAULTS
- `delay`: seconds before the answer; `never`: no answer at all; `deaf`: read nothing from now on
- `ask`: frames for the host, sent after the answer; `cancel_after`: seconds until each request in it is cancelled
- `die`: an exit code, to end with after half an answer
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

DEFAULTS: Json = {
    "initialize": {
        "protocolVersion": 1,
        "service": {"name": "fake", "version": "0", "pid": os.getpid()},
        "logFile": None,
        "toolResultEvents": [],
    },
    "before_agent_start": {"section": {"name": "auto_memory", "text": "Section of the fake service."}},
    "tool_result": {"append": None},
    "command": {"text": "done", "level": "info"},
    "complete": {"items": []},
}


class FakeService:
    def __init__(self, script: Json) -> None:
        self._journal = Path(script["journal"])
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._run = self._count_starts()
        self._script: Json = script["runs"][min(self._run, len(script["runs"]) - 1)]
        self._ids = 0
        self._note({"started": True})

    def main(self) -> None:
        if self._script.get("ignore_sigterm"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stderr.write(self._script.get("last_words", ""))
        sys.stderr.flush()
        for line in self._script.get("say", ()):
            self._write(line.encode() + b"\n")
        if "exit" in self._script:
            os._exit(self._script["exit"])
        if self._script.get("deaf"):
            self._sleep_on()
        for frame in sys.stdin.buffer:
            self._receive(json.loads(frame))
        if self._script.get("ignore_eof"):
            self._sleep_on()

    def _receive(self, frame: Json) -> None:
        self._note({"frame": frame})
        if "method" not in frame:
            return
        action = self._action(frame["method"])
        if action.get("deaf"):
            self._sleep_on()
        if "delay" in action:
            threading.Thread(target=self._perform, args=(frame, action), daemon=True).start()
        else:
            self._perform(frame, action)

    def _action(self, method: str) -> Json:
        scripted = self._script.get("on", {}).get(method, {})
        actions: list[Json] = scripted if isinstance(scripted, list) else [scripted]
        index = self._seen.get(method, 0)
        self._seen[method] = index + 1
        return actions[min(index, len(actions) - 1)]

    def _perform(self, frame: Json, action: Json) -> None:
        time.sleep(action.get("delay", 0))
        if "die" in action:
            self._write(b'{"jsonrpc":"2.0","id":')
            os._exit(action["die"])
        if "id" in frame and not action.get("never"):
            self._send(self._answer(frame, action))
        for asked in action.get("ask", ()):
            self._ask(asked, action.get("cancel_after"))
        if frame["method"] == "shutdown" and not self._script.get("ignore_eof"):
            os._exit(0)

    @staticmethod
    def _answer(frame: Json, action: Json) -> Json:
        if "error" in action:
            return {"id": frame["id"], "error": action["error"]}
        return {"id": frame["id"], "result": action.get("result", DEFAULTS.get(frame["method"], {}))}

    def _ask(self, asked: Json, cancel_after: float | None) -> None:
        if asked.get("notification"):
            self._send({"method": asked["method"], "params": asked["params"]})
            return
        self._ids += 1
        self._send({"id": f"s{self._ids}", "method": asked["method"], "params": asked["params"]})
        if cancel_after is not None:
            time.sleep(cancel_after)
            self._send({"method": "$/cancel", "params": {"id": f"s{self._ids}"}})

    def _send(self, message: Json) -> None:
        self._write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        with self._lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def _note(self, what: Json) -> None:
        record = {"run": self._run, "pid": os.getpid(), "at": time.monotonic(), **what}
        with self._journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(record) + "\n")

    def _count_starts(self) -> int:
        if not self._journal.exists():
            return 0
        return sum('"started": true' in line for line in self._journal.read_text("utf-8").splitlines())

    @staticmethod
    def _sleep_on() -> None:
        while True:
            time.sleep(1)


if __name__ == "__main__":
    FakeService(json.loads(Path(sys.argv[1]).read_text("utf-8"))).main()
