"""The recorded time of the last consolidation (DRM-5, PATH-4)."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from pi_project_memory.actors.core.dream_state import (
    DamagedState,
    DreamState,
    UnsupportedVersion,
    parse_dream_state,
)
from pi_project_memory.actors.core.identity import ProjectPaths
from pi_project_memory.actors.core.jstext import iso_from_ms
from pi_project_memory.actors.ports.topic_files import read_regular_file
from pi_project_memory.supervisor.doctor.observations import Fact, Finding, Observation, duration

_LARGEST = 65_536


def check_dream(paths: ProjectPaths, now_ms: int) -> Observation:
    """Read the state as the scheduler does: the older file counts while there is no other."""
    for path in (Path(paths.dream_state_file), Path(paths.state_file)):
        try:
            raw, _ = read_regular_file(path.parent, path.name, _LARGEST)
        except FileNotFoundError:
            continue
        except OSError as error:
            return _damaged(path, f"it cannot be read: {error}")
        return _told(path, parse_dream_state(raw, now_ms), now_ms)
    return Fact("Dream has not run yet")


def _told(path: Path, state: DreamState | DamagedState | UnsupportedVersion, now_ms: int) -> Observation:
    if not isinstance(state, DreamState):
        return _damaged(path, state.reason)
    recorded = state.recorded_at
    if recorded is None:
        return Fact("Dream has not run yet")
    if state.ahead_of_clock:
        problem = f"the last dream is recorded for {_moment(recorded)}, in the future, and counts as never"
        remedy = f"set the clock; if it is right: rm {quote(str(path))}"
        return Finding(problem, str(path), remedy)
    return Fact(f"Last dream: {_moment(recorded)}, {duration(now_ms - recorded)} ago")


def _moment(milliseconds: int) -> str:
    try:
        return iso_from_ms(milliseconds)
    except OverflowError:
        return f"{milliseconds} ms after 1970"


def _damaged(path: Path, reason: str) -> Finding:
    problem = f"dream is stopped, the state cannot be used: {reason}"
    return Finding(problem, str(path), f"mend it, or start anew: rm {quote(str(path))}")
