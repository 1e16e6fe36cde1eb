"""What memory costs at the start: `make bench` prints figures measured side by side in one run.

A figure is a median; beside it stands what it is compared with and their ratio, since machines differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pi.fake_provider import fake_provider
from pi.memory_home import configure, install
from pi.pi_driver import run_print
from pi.pi_home import PiHome
from pi.scripting import text
from pi_project_memory.supervisor.installed import SERVE

HANDSHAKE = {
    "protocolVersion": 1,
    "host": {"name": "bench", "version": "1"},
    "mode": "print",
    "trusted": True,
    "session": {"id": "bench", "directory": "", "usesDefaultDirectory": True},
    "history": {"handle": "h1", "length": 0},
}
PROMPT = {
    "context": {"history": HANDSHAKE["history"], "trusted": True},
    "messageType": "user",
    "prompt": "How is this deployed?",
}


def frame(number: int, method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def start_service(folder: Path) -> subprocess.Popen[bytes]:
    """Start the service as the extension does, and have it answer the handshake."""
    command = [sys.executable, "-I", *SERVE]
    service = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    places = {"agentDir": str(folder / "agent"), "cwd": str(folder)}
    ask(service, frame(1, "initialize", HANDSHAKE | places))
    return service


def ask(service: subprocess.Popen[bytes], request: bytes) -> None:
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write(request)
    service.stdin.flush()
    assert service.stdout.readline()


def end(service: subprocess.Popen[bytes]) -> None:
    service.communicate()
    assert service.returncode == 0


def handshake() -> float:
    """Seconds from the start of the process to the answered handshake."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        service = start_service(Path(folder))
        took = time.perf_counter() - started
        end(service)
    return took


def bare_python() -> float:
    """Seconds that Python needs to import asyncio and end."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import asyncio"], check=True)
    return time.perf_counter() - started


def first_answer() -> float:
    """Seconds from the start of the process to the answer of the first prompt, with an empty memory."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        service = start_service(Path(folder))
        ask(service, frame(2, "before_agent_start", PROMPT))
        took = time.perf_counter() - started
        end(service)
    return took


def idle_mebibytes() -> float:
    """Resident memory of an idle service, after its first prompt and with everything loaded."""
    with tempfile.TemporaryDirectory() as folder:
        service = start_service(Path(folder))
        ask(service, frame(2, "before_agent_start", PROMPT))
        time.sleep(1.0)  # the rest is loaded behind the first answer
        status = Path(f"/proc/{service.pid}/status").read_text(encoding="ascii")
        end(service)
    kibibytes = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
    return int(kibibytes) / 1024


async def pi_print(runs: int) -> tuple[list[float], list[float]]:
    """Seconds of `pi -p` with memory and without the extension, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        async with fake_provider() as provider:
            provider.respond("main", lambda _: text("Fine."))
            plain = PiHome.create(Path(folder) / "plain", provider)
            memory = PiHome.create(Path(folder) / "memory", provider)
            install(memory)
            configure(memory, {"extraction": {"enabled": False}, "dream": {"enabled": False}})
            pairs = [[await seconds(home) for home in (memory, plain)] for _ in range(runs + 1)][1:]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


async def seconds(home: PiHome) -> float:
    result = await run_print(home, "How is this deployed?")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.seconds


def paired(
    runs: int, one: Callable[[], float], other: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Run the two in turn, after one round that is not counted."""
    pairs = [(one(), other()) for _ in range(runs + 1)][1:]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def line(name: str, ours: list[float], beside: str, theirs: list[float]) -> str:
    ratios = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    ms = [statistics.median(values) * 1000 for values in (ours, theirs)]
    return f"{name:<42}{ms[0]:7.0f} ms   {beside} {ms[1]:.0f} ms   ratio {ratios:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="counted runs of each")
    runs = parser.parse_args().runs
    bare = "bare `import asyncio`"
    print(line("start to `initialize` answered", *_beside(paired(runs, handshake, bare_python), bare)))
    print(line("start to first prompt answered", *_beside(paired(runs, first_answer, bare_python), bare)))
    print(f"{'idle memory':<42}{idle_mebibytes():7.1f} MiB")
    print(line("pi -p with memory, empty directory", *_beside(asyncio.run(pi_print(runs)), "pi -p without")))


def _beside(pairs: tuple[list[float], list[float]], name: str) -> tuple[list[float], str, list[float]]:
    return pairs[0], name, pairs[1]


if __name__ == "__main__":
    main()
