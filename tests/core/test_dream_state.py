from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.dream_state import (
    DamagedState,
    DreamState,
    UnsupportedVersion,
    parse_dream_state,
    render_dream_state,
)

NOW = 1_796_048_090_000


@pytest.mark.req("PATH-4")
def test_the_file_holds_exactly_version_and_time() -> None:
    assert json.loads(render_dream_state(NOW)) == {"schemaVersion": 1, "lastDreamAt": NOW}


@given(st.integers(min_value=0, max_value=NOW))
@pytest.mark.req("PATH-4")
def test_a_time_comes_back_as_it_was_written(time: int) -> None:
    state = parse_dream_state(render_dream_state(time), NOW)
    assert state == DreamState(time)
    assert isinstance(state, DreamState)
    assert state.last_dream_at == time


@pytest.mark.req("PATH-4")
@pytest.mark.parametrize(
    ("fields", "recorded"),
    [
        ({"lastSuccessfulDreamAt": 5}, 5),
        ({"lastDreamAt": 7, "lastSuccessfulDreamAt": 5}, 7),
        ({"lastDreamAt": 0}, 0),
    ],
)
def test_the_older_name_of_the_time_is_read(fields: dict[str, int], recorded: int) -> None:
    raw = json.dumps({"schemaVersion": 1, **fields}).encode()
    assert parse_dream_state(raw, NOW) == DreamState(recorded)


@pytest.mark.req("DRM-5")
@pytest.mark.parametrize(
    ("raw", "named"),
    [
        (b"", "truncated"),
        (b"{bad", "malformed"),
        (b"\0" * 40, "malformed"),
        (b'\xef\xbb\xbf{"schemaVersion":1,"lastDreamAt":1}', "malformed"),
        (b'{"schemaVersion":1,"lastDreamAt":1} x', "malformed"),
        (b'{"schemaVersion":1,"lastDreamAt":NaN}', "malformed"),
        (b'{"schemaVersion":1,"lastDreamAt":"yesterday"}', "lastDreamAt"),
        (b'{"schemaVersion":1,"lastDreamAt":null}', "lastDreamAt"),
        (b'{"schemaVersion":1,"lastDreamAt":true}', "lastDreamAt"),
        (b'{"schemaVersion":1,"lastDreamAt":1.5}', "lastDreamAt"),
        (b'{"schemaVersion":1,"lastDreamAt":-1}', "lastDreamAt"),
        (b'{"schemaVersion":1,"lastDreamAt":9007199254740992}', "lastDreamAt"),
        (b'{"schemaVersion":1,"lastDreamAt":1e400}', "lastDreamAt"),
        (b'{"schemaVersion":1,"lastSuccessfulDreamAt":"x"}', "lastSuccessfulDreamAt"),
        (b'{"schemaVersion":1,"lastDreamAt":1,"runs":3}', "runs"),
        (b'{"schemaVersion":1}', "lastDreamAt is missing"),
        (b'{"lastDreamAt":1}', "schemaVersion"),
        (b'{"schemaVersion":"1","lastDreamAt":1}', "schemaVersion"),
        (b'{"schemaVersion":true,"lastDreamAt":1}', "schemaVersion"),
        (b"[]", "object"),
        (b"null", "object"),
        (b'{"schemaVersion":1,"x":' + b"[" * 60_000, "unknown field|recursion"),
    ],
)
def test_damage_is_told_by_its_reason(raw: bytes, named: str) -> None:
    state = parse_dream_state(raw, NOW)
    assert isinstance(state, DamagedState)
    assert any(part in state.reason for part in named.split("|")), state.reason


@pytest.mark.req("DRM-5")
@pytest.mark.parametrize("version", [2, 0, -1, 99])
def test_another_version_is_told_apart_from_damage(version: int) -> None:
    raw = json.dumps({"schemaVersion": version, "lastDreamAt": {"at": "a later form"}}).encode()
    state = parse_dream_state(raw, NOW)
    assert state == UnsupportedVersion(version)
    assert isinstance(state, UnsupportedVersion)
    assert str(version) in state.reason


@pytest.mark.req("DRM-1", "DRM-5")
@pytest.mark.parametrize(("time", "counts"), [(NOW, NOW), (NOW + 1, None), (4_102_444_800_000, None)])
def test_a_time_in_the_future_counts_as_never_and_stays_known(time: int, counts: int | None) -> None:
    state = parse_dream_state(render_dream_state(time), NOW)
    assert isinstance(state, DreamState)
    assert (state.last_dream_at, state.recorded_at) == (counts, time)
    assert state.ahead_of_clock is (counts is None)


@given(st.binary(max_size=200))
@pytest.mark.req("DRM-5")
def test_no_content_raises(raw: bytes) -> None:
    assert isinstance(parse_dream_state(raw, NOW), DamagedState | UnsupportedVersion | DreamState)
