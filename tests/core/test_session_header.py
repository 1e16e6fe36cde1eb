"""Finding the header of a session among the first lines of its file (DRM-3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.session_header import LONGEST_ID, SessionHeader, find_header

ID = "0199a3c4-7d1e-7b3a-9c55-2f0d8e6a4b17"
CWD = "/home/user/project"


def line(**fields: Any) -> bytes:
    return json.dumps({"type": "session", "version": 3, "id": ID, "cwd": CWD, **fields}).encode()


HEADER = line()
TITLE = b'{"type":"session_info","name":"a title"}'
MESSAGE = b'{"type":"message","message":{"role":"user","content":"type session"}}'
FOUND = SessionHeader(ID, CWD)


@pytest.mark.req("DRM-3", "C75")
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([HEADER], FOUND),
        ([TITLE, HEADER], FOUND),
        ([MESSAGE, HEADER], FOUND),
        ([b"", b"  ", HEADER + b"\r"], FOUND),
        ([b"not json", b'"session"', b"[1]", b"17", b"null", HEADER], FOUND),
        ([b"\xff\xfe\x00", b"\0" * 50, HEADER], FOUND),
        ([b'{"type":"session"', HEADER], FOUND),
        ([b'{"type":' + b"[" * 100_000, HEADER], FOUND),
        ([HEADER, line(id="another")], FOUND),
        ([MESSAGE], None),
        ([b""], None),
        ([], None),
        ([line(type="Session")], None),
        ([line(type=["session"])], None),
    ],
)
def test_the_first_line_that_is_an_object_of_type_session(
    lines: list[bytes], expected: SessionHeader | None
) -> None:
    assert find_header(lines) == expected


@pytest.mark.req("DRM-3")
@pytest.mark.parametrize("valid", ["a", "7", "a.b_c-d", "A" * LONGEST_ID, ID])
def test_ids_that_count(valid: str) -> None:
    assert find_header([line(id=valid)]) == SessionHeader(valid, CWD)


@pytest.mark.req("DRM-3")
@pytest.mark.parametrize(
    "invalid",
    [
        *("", "-a", "a-", ".", "..", "a/b", "a b", "a\n", "\n", "é", "a\u0661", "a" * (LONGEST_ID + 1)),
        *(7, None, True, ["a"], {"id": "a"}),
    ],
)
def test_a_first_header_without_a_valid_id_is_the_header_all_the_same(invalid: object) -> None:
    assert find_header([line(id=invalid), HEADER]) == SessionHeader(None, CWD)


@pytest.mark.req("DRM-3")
@pytest.mark.parametrize("cwd", ["", "relative", "~/project", "/a\0b", 7, None, ["/a"]])
def test_a_working_directory_that_is_no_absolute_path_is_none(cwd: object) -> None:
    assert find_header([line(cwd=cwd)]) == SessionHeader(ID, None)


@pytest.mark.req("DRM-3")
@given(st.lists(st.binary(max_size=60)))
def test_any_bytes_before_the_header_are_passed_over(noise: list[bytes]) -> None:
    found = find_header([*noise, HEADER])
    assert found is not None
    assert found == FOUND or b"session" in b"".join(noise)
