from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("lock_torture.py")
SECONDS = float(os.environ.get("TORTURE_SECONDS", "5"))


@pytest.mark.real_time
@pytest.mark.req("LCK-1", "LCK-2")
def test_processes_killed_at_random_instants_never_share_the_lock_nor_lose_it(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(SECONDS), "1"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 120, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    report = json.loads(finished.stdout)
    assert "two holders" not in report
    assert report["taken at last"]
    assert report["left"] == []
    assert min(report[event] for event in ("acquired", "takeover", "arbiter recovery", "deaths")) > 0, report
