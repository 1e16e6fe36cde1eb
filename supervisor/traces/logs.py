"""Which logs there are, and which one is meant (OBS-3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pi_project_memory.supervisor.log import file_name_of

_NAME = re.compile(r"(?P<stamp>\d{8}T\d{6})-(?P<session>.*)-(?P<process>\d+)(?P<older>\.1)?\.jsonl", re.ASCII)
_LISTED = 10


class TraceError(Exception):
    """There is nothing to show; the text says why and what there is instead."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One service process's log: its file, the session in its name, and when it was last written, in ns.

    The file may be missing when nothing has been written since its older part was set aside.
    """

    path: Path
    session: str
    written_ns: int

    @property
    def older(self) -> Path:
        """Where the part lies that was set aside when the file had reached its size."""
        return self.path.with_suffix(".1.jsonl")


def list_logs(directory: Path) -> list[LogFile]:
    """Return the logs in a directory, the one written last first; raises TraceError when it is unreadable."""
    try:
        parts = sorted(directory.iterdir(), reverse=True)
    except (FileNotFoundError, NotADirectoryError):
        parts = []
    except OSError as error:
        raise TraceError(f"{directory} cannot be read: {error.strerror}. Check its permissions.") from None
    logs = {log.path: log for log in map(_log_file, parts) if log is not None}
    return sorted(logs.values(), key=lambda log: (log.written_ns, log.path.name), reverse=True)


def choose(directory: Path, wanted: str | None) -> LogFile:
    """Return the log written last, of the session `wanted` if one is named.

    A session is named by its id, the beginning of its id, or the name of its log file. Raises TraceError.
    """
    logs = list_logs(directory)
    if not logs:
        raise TraceError(f"There are no logs yet in {directory}. They begin with the first prompt in Pi.")
    if wanted is None:
        return logs[0]
    for fits in (_is_session, _begins_session, _is_file):
        chosen = [log for log in logs if fits(log, wanted)]
        if len({log.session for log in chosen}) == 1:
            return chosen[0]
    raise TraceError(f"No session, or more than one, fits {wanted!r} in {directory}. {_known(logs)}")


def _is_session(log: LogFile, wanted: str) -> bool:
    return log.session == file_name_of(wanted)


def _begins_session(log: LogFile, wanted: str) -> bool:
    return bool(wanted) and log.session.startswith(wanted)


def _is_file(log: LogFile, wanted: str) -> bool:
    return bool(wanted) and log.path.name.startswith(Path(wanted).name)


def _known(logs: Sequence[LogFile]) -> str:
    sessions = list(dict.fromkeys(log.session for log in logs))
    more = f" and {len(sessions) - _LISTED} older ones" if len(sessions) > _LISTED else ""
    return f"There are, newest first: {', '.join(sessions[:_LISTED])}{more}."


def _log_file(path: Path) -> LogFile | None:
    name = _NAME.fullmatch(path.name)
    if name is None:
        return None
    whole = path.with_name(path.name.replace(".1.jsonl", ".jsonl")) if name["older"] else path
    try:
        return LogFile(whole, name["session"], path.stat().st_mtime_ns)
    except OSError:
        return None
