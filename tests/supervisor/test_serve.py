"""The service as a process of its own on its standard input and output (HOST-6, HOST-11)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pi_project_memory.supervisor.host.frames import INVALID_REQUEST, PARSE_ERROR, FrameDecoder
from pi_project_memory.supervisor.host.peer import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
)


def _serve(*lines: bytes, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the service on these lines, after which its input ends."""
    return subprocess.run(
        [sys.executable, "-m", "pi_project_memory.supervisor.main", "serve"],
        input=b"".join(lines),
        capture_output=True,
        env={**os.environ, **(environment or {})},
        timeout=60,
        check=False,
    )


@pytest.mark.req("HOST-6", "HOST-11", "C80")
@pytest.mark.real_time
def test_the_service_answers_broken_frames_and_ends_with_its_input():
    child = _serve(
        b"hello\n",
        b"\xff\xfe\n",
        b"[]\n",
        b'{"id":1,"method":"no such thing"}\n',
        b'{"id":2,"method":"initialize","params":{"cwd":5}}\n',
        b'{"id":3,"method":"complete","params":{"prefix":"st',
    )
    frames = FrameDecoder().feed(child.stdout)
    codes = sorted(frame["error"]["code"] for frame in frames if isinstance(frame, dict))
    assert codes == sorted([PARSE_ERROR, PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS])
    assert child.stderr == b""
    assert child.returncode == 0


@pytest.mark.req("HOST-11", "C80", "C81")
@pytest.mark.real_time
def test_the_service_ends_when_its_reader_and_its_input_are_gone():
    child = subprocess.Popen(
        [sys.executable, "-m", "pi_project_memory.supervisor.main", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    with suppress(BrokenPipeError):
        child.stdin.write(b'{"id":1,"method":"complete","params":{"prefix":""}}\n' * 1000)
        child.stdin.close()
    stderr = child.stderr.read()
    child.stderr.close()
    assert child.wait(60) == 0
    assert b"Traceback" not in stderr


def _initialize(folder: Path) -> bytes:
    params = {
        "protocolVersion": 1,
        "host": {"name": "test", "version": "1"},
        "mode": "print",
        "agentDir": str(folder / "agent"),
        "cwd": str(folder),
        "trusted": False,
        "session": {"id": "s1", "directory": "", "usesDefaultDirectory": True},
        "history": {"handle": "h", "length": 0},
    }
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode() + b"\n"


@pytest.mark.req("HOST-11", "C79")
@pytest.mark.real_time
def test_a_shutdown_that_was_sent_and_not_waited_for_is_still_obeyed(tmp_path: Path):
    child = _serve(_initialize(tmp_path), b'{"id":2,"method":"shutdown","params":{"reason":"quit"}}\n')
    frames = FrameDecoder().feed(child.stdout)
    assert [frame["id"] for frame in frames if isinstance(frame, dict) and "result" in frame] == [1, 2]
    assert (child.returncode, child.stderr) == (0, b"")


@pytest.mark.req("HOST-6", "C54")
@pytest.mark.real_time
def test_the_service_speaks_utf8_in_any_locale():
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "cp1252"}
    method = "→ — 日本 😀"
    child = _serve(
        json.dumps({"id": 1, "method": method}, ensure_ascii=False).encode() + b"\n",
        b'{"id":2,"method":"\\ud83d"}\n',
        environment=locale,
    )
    first, second = FrameDecoder().feed(child.stdout)
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert method in first["error"]["message"]
    assert (second["id"], second["error"]["code"]) == (2, METHOD_NOT_FOUND)
    assert child.returncode == 0


@pytest.mark.req("HOST-6")
@pytest.mark.real_time
@pytest.mark.parametrize("streams", [{"stdin": "null"}, {"stdin": "file"}, {"stdout": "file"}], ids=str)
def test_started_by_hand_it_says_what_to_do_and_ends(tmp_path: Path, streams: dict[str, str]):
    with (tmp_path / "file").open("w+b") as file:
        given = {name: subprocess.DEVNULL if kind == "null" else file for name, kind in streams.items()}
        child = subprocess.run(
            [sys.executable, "-m", "pi_project_memory.supervisor.main", "serve"],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **given},
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert child.returncode == 1
    assert child.stderr.decode().splitlines() == [
        "`pi-project-memory serve` is started by Pi, not by hand; try `pi-project-memory doctor`."
    ]
