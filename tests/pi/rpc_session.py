"""A conversation with the real Pi in rpc mode: commands out, responses and events back."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pi.pi_driver import PiProcess, PiResult, json_line, pi_process
from pi.pi_home import PiHome
from pi.scripting import Json
from pi.waiting import BOUND, Journal

SHOWN_RECORDS = 15


class Transcript:
    """What Pi has said, in order: the records, and apart from them the lines that are none."""

    def __init__(self) -> None:
        self.records: Journal[Json] = Journal()
        self.broken: list[bytes] = []

    def receive(self, line: bytes) -> None:
        """Take one line of stdout; an empty one is its end."""
        if not line:
            self.records.close()
            return
        try:
            self.records.append(json_line(line))
        except pytest.fail.Exception:
            self.broken.append(line)


class RpcSession:
    """One running `pi --mode rpc`. Open it with `rpc_session`."""

    def __init__(self, pi: PiProcess, transcript: Transcript) -> None:
        self.pi = pi
        self.records = transcript.records
        self._broken = transcript.broken
        self._commands = 0
        self._taken_errors = 0

    def mark(self) -> int:
        """A place in `records`: what comes later is found by `wait_for(..., since=mark)`."""
        return len(self.records)

    def events(self, kind: str, since: int = 0) -> list[Json]:
        return [record for record in self.records.since(since) if record["type"] == kind]

    async def wait_for(
        self, wanted: Callable[[Json], bool], what: str, since: int = 0, bound: float = BOUND
    ) -> Json:
        """The first record from `since` on that is `wanted`; `what` names it in a failure."""
        return await self.records.find(wanted, lambda: self.explain(what), since, bound)

    async def wait_event(self, kind: str, since: int = 0) -> Json:
        return await self.wait_for(lambda record: record["type"] == kind, f"the event {kind}", since)

    async def settled(self, since: int = 0) -> Json:
        """Wait until Pi goes on no further by itself."""
        return await self.wait_event("agent_settled", since)

    async def send(self, record: Json) -> None:
        self.pi.stdin.write(json.dumps(record).encode() + b"\n")
        await self.pi.stdin.drain()

    async def respond(self, command: str, /, **fields: Any) -> Json:
        """Send a command and return the response record, whether it succeeded or not."""
        self._commands += 1
        command_id = f"c{self._commands}"
        await self.send({"id": command_id, "type": command} | fields)
        return await self.wait_for(
            lambda record: record["type"] == "response" and record.get("id") == command_id,
            f"the response to {command}",
        )

    async def request(self, command: str, /, **fields: Any) -> Json:
        """Send a command that must succeed and return its data."""
        response = await self.respond(command, **fields)
        assert response["success"], self.explain(f"{command} failed: {response.get('error')}")
        data: Json = response.get("data") or {}
        return data

    async def prompt(self, message: str, /, **fields: Any) -> str:
        """Send a prompt and return its disposition: started, queued or handled."""
        data = await self.request("prompt", message=message, **fields)
        return str(data["disposition"])

    async def run(self, message: str) -> list[Json]:
        """Send a prompt, wait until its run has settled, and return the records since."""
        mark = self.mark()
        if await self.prompt(message) == "started":
            await self.settled(mark)
        return self.records.since(mark)

    async def steer(self, message: str) -> str:
        return str((await self.request("steer", message=message))["disposition"])

    async def follow_up(self, message: str) -> str:
        return str((await self.request("follow_up", message=message))["disposition"])

    async def abort(self) -> None:
        await self.request("abort")

    async def compact(self, **fields: Any) -> Json:
        return await self.request("compact", **fields)

    async def get_state(self) -> Json:
        return await self.request("get_state")

    async def session_file(self) -> Path:
        return Path((await self.get_state())["sessionFile"])

    async def entries(self) -> list[Json]:
        """The session's entries as Pi holds them now, abandoned branches included."""
        found: list[Json] = (await self.request("get_entries"))["entries"]
        return found

    async def last_text(self) -> str | None:
        text: str | None = (await self.request("get_last_assistant_text"))["text"]
        return text

    async def new_session(self) -> Json:
        return await self.request("new_session")

    async def fork(self, entry_id: str) -> Json:
        return await self.request("fork", entryId=entry_id)

    async def switch_session(self, session_file: Path) -> Json:
        return await self.request("switch_session", sessionPath=str(session_file))

    async def bash(self, command: str) -> Json:
        return await self.request("bash", command=command)

    async def commands(self) -> list[str]:
        return [command["name"] for command in (await self.request("get_commands"))["commands"]]

    def ui_requests(self, method: str, since: int = 0) -> list[Json]:
        """What extensions asked the user interface for: notify, setStatus, select and so on."""
        return [record for record in self.events("extension_ui_request", since) if record["method"] == method]

    async def answer_ui(self, request: Json, **fields: Any) -> None:
        """Answer a dialog: `value=...`, `confirmed=...` or `cancelled=True`."""
        await self.send({"type": "extension_ui_response", "id": request["id"]} | fields)

    def notifications(self, since: int = 0) -> list[tuple[str, str]]:
        """Pairs of kind (info, warning, error) and text."""
        found = self.ui_requests("notify", since)
        return [(record.get("notifyType", "info"), record["message"]) for record in found]

    async def notified(self, part: str, since: int = 0) -> str:
        """Wait for a notification whose text holds `part`, and return the whole text."""

        def wanted(record: Json) -> bool:
            return record.get("method") == "notify" and part in record["message"]

        record = await self.wait_for(wanted, f"a notification with {part!r}", since)
        return str(record["message"])

    def take_extension_errors(self) -> list[str]:
        """Errors that extension handlers threw and no earlier call has taken."""
        errors = [f"{record['event']}: {record['error']}" for record in self.events("extension_error")]
        fresh = errors[self._taken_errors :]
        self._taken_errors = len(errors)
        return fresh

    async def close(self) -> PiResult:
        """End Pi through the end of its input."""
        self.pi.stdin.close()
        return await self.pi.wait()

    async def terminate(self) -> PiResult:
        """End Pi through SIGTERM."""
        self.pi.signal(signal.SIGTERM)
        return await self.pi.wait()

    async def kill(self) -> PiResult:
        """End Pi through kill -9."""
        self.pi.signal(signal.SIGKILL)
        return await self.pi.wait()

    def assert_clean(self) -> None:
        """Fail on output that is no record, and on extension errors that nobody took."""
        assert not self._broken, f"stdout holds lines that are no records: {self._broken}"
        errors = self.take_extension_errors()
        assert not errors, self.explain(f"extension errors: {errors}")

    def explain(self, what: str) -> str:
        shown = [json.dumps(record)[:300] for record in self.records.since(0)[-SHOWN_RECORDS:]]
        return self.pi.explain(what) + "\nlast records:\n" + "\n".join(shown)


@asynccontextmanager
async def rpc_session(
    home: PiHome,
    *args: str,
    extensions: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> AsyncIterator[RpcSession]:
    """Pi in rpc mode. A block that ends well closes Pi's input, waits for its exit and asserts a clean record."""
    transcript = Transcript()
    async with pi_process(
        home,
        *("--mode", "rpc", *args),
        extensions=extensions,
        environment=environment,
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        on_line=transcript.receive,
    ) as pi:
        session = RpcSession(pi, transcript)
        yield session
        if pi.exit_code is None:
            await session.close()
        session.assert_clean()
