"""`doctor`: says what is wrong with an installation and a project's memory, and how to mend it (HOST-10).

It reads, asks Pi and the service's Python for their versions, and changes nothing.
"""

from __future__ import annotations

from pathlib import Path

import anyio

from pi_project_memory.supervisor.agent_dir import VARIABLE, AgentDirError
from pi_project_memory.supervisor.doctor.examination import examine
from pi_project_memory.supervisor.doctor.observations import Examination, Finding, Section
from pi_project_memory.supervisor.doctor.report import as_json, as_text
from pi_project_memory.supervisor.doctor.surroundings import Surroundings


def doctor(cwd: Path, *, json: bool = False) -> tuple[str, int]:
    """Examine the project of `cwd`; return the report and the exit code: 0 without findings, 1 with."""
    try:
        examination = anyio.run(examine, Surroundings.real(cwd))
    except AgentDirError as error:
        lost = Finding(str(error), VARIABLE, f"unset {VARIABLE}")
        examination = Examination("", None, (Section("Installation", (lost,)),))
    report = as_json(examination) if json else as_text(examination)
    return report, 1 if examination.findings else 0
