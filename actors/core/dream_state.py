"""The content of `state.json`: when dream was last attempted (PATH-4, DRM-5).

The file holds exactly `{"schemaVersion": 1, "lastDreamAt": <milliseconds since the epoch>}`. Older versions
called the time `lastSuccessfulDreamAt`. Anything else is damage, or the work of a newer version, and both
stop the scheduler: a guess would be written back over what was there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

from pi_project_memory.actors.core.jsjson import MAX_SAFE_INTEGER

SCHEMA_VERSION = 1

_Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=MAX_SAFE_INTEGER)]


@dataclass(frozen=True, slots=True)
class DreamState:
    """A readable state. `recorded_at` is what the file says in milliseconds, None without a file."""

    recorded_at: int | None = None
    ahead_of_clock: bool = False

    @property
    def last_dream_at(self) -> int | None:
        """The time that counts: None for never, which a time in the future is taken for."""
        return None if self.ahead_of_clock else self.recorded_at


@dataclass(frozen=True, slots=True)
class DamagedState:
    """The content is not a state."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnsupportedVersion:
    """The content was written for another schema version."""

    version: int

    @property
    def reason(self) -> str:
        """The fault in words."""
        return f"schemaVersion is {self.version}, and this version reads {SCHEMA_VERSION} alone"


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    schema_version: int


class _Fields(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    schema_version: int
    last_dream_at: _Milliseconds | msgspec.UnsetType = msgspec.UNSET
    last_successful_dream_at: _Milliseconds | msgspec.UnsetType = msgspec.UNSET


def parse_dream_state(raw: bytes, now_ms: int) -> DreamState | DamagedState | UnsupportedVersion:
    """Read the bytes of a `state.json`; `now_ms` is the wall clock in milliseconds."""
    try:
        version = msgspec.json.decode(raw, type=_Version).schema_version
        if version != SCHEMA_VERSION:
            return UnsupportedVersion(version)
        fields = msgspec.json.decode(raw, type=_Fields)
    except (msgspec.DecodeError, RecursionError) as error:
        return DamagedState(str(error))
    return _state(fields, now_ms)


def _state(fields: _Fields, now_ms: int) -> DreamState | DamagedState:
    for time in (fields.last_dream_at, fields.last_successful_dream_at):
        if time is not msgspec.UNSET:
            return DreamState(time, ahead_of_clock=time > now_ms)
    return DamagedState("lastDreamAt is missing")


def render_dream_state(last_dream_at: int) -> bytes:
    """Return the whole file for a time in milliseconds since the epoch."""
    return msgspec.json.encode(_Fields(SCHEMA_VERSION, last_dream_at))
