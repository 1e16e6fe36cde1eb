"""Which reads let a run overwrite a file, and what its changes add up to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.subagent.baseline import Baselines, SeenFile, count_lines, is_whole
from pi_project_memory.actors.subagent.changes import Change, ChangeLog
from pi_project_memory.supervisor.host.tools.base import ToolError
from pi_project_memory.supervisor.host.tools.read import shown_text

PATH = Path("/m/a.md")
V1, V2 = Fingerprint(1, 2, 3, 4, 5), Fingerprint(1, 2, 3, 4, 6)


def read(known: Baselines, lines: int = 10, cut: bool = False, image: bool = False, **arguments: Any) -> bool:  # noqa: FBT001, FBT002 - what a read turned out to be
    """Read a file of `lines` lines with these arguments; return whether it may be overwritten then."""
    known.after_read(SeenFile(PATH, V1, lines), {"path": "a.md", **arguments}, truncated=cut, image=image)
    return known.of(PATH) == V1


GRANTING: list[dict[str, Any]] = [
    {},
    {"offset": None, "limit": None},
    {"offset": 1},
    {"offset": 1, "limit": 10},
    {"limit": 10},
    {"limit": 11},
    {"offset": 1.0, "limit": 10.0},
    {"offset": 1, "limit": 1e9},
]
PARTIAL: list[dict[str, Any]] = [
    {"offset": 2},
    {"offset": 2, "limit": 100},
    {"limit": 9},
    {"offset": 1, "limit": 9},
    {"offset": 0, "limit": 9},
    {"offset": -1},
    {"limit": 0},
    {"limit": -1},
    {"limit": 9.5},
    {"offset": 1.5},
    {"limit": float("nan")},
    {"offset": True, "limit": True},
]
STRANGE: list[dict[str, Any]] = [
    {"limit": "10"},
    {"limit": "nine"},
    {"offset": "1"},
    {"offset": "2", "limit": "100"},
    {"limit": [10]},
    {"limit": {}},
]
"""Arguments of another type, which a host may mend before its tool sees them."""


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize("arguments", GRANTING, ids=str)
def test_a_whole_read_grants(arguments: dict[str, Any]):
    assert read(Baselines(), **arguments)


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize("arguments", [*PARTIAL, *STRANGE], ids=str)
def test_a_part_grants_nothing_and_takes_nothing(arguments: dict[str, Any]):
    assert not read(Baselines(), **arguments)
    known = Baselines()
    read(known)
    assert read(known, **arguments)


@pytest.mark.req("SUB-4")
def test_pages_are_not_added_up():
    known = Baselines()
    assert not read(known, offset=1, limit=5)
    assert not read(known, offset=6, limit=5)


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize(
    ("cut", "image"), [(True, False), (False, True), (True, True)], ids=["cut", "image", "both"]
)
@pytest.mark.parametrize("arguments", [{}, {"offset": 1, "limit": 10}, {"offset": 4}], ids=str)
def test_an_automatic_cut_and_an_image_revoke(cut: bool, image: bool, arguments: dict[str, Any]):  # noqa: FBT001 - columns of the table
    known = Baselines()
    assert read(known)
    assert not read(known, cut=cut, image=image, **arguments)
    assert read(known), "and a whole read grants again"


@pytest.mark.req("SUB-4")
def test_another_file_is_not_concerned():
    known = Baselines()
    other = Path("/m/b.md")
    known.know(other, V2)
    assert read(known)
    assert not read(known, cut=True)
    assert known.of(other) == V2


@pytest.mark.req("SUB-4")
def test_the_version_that_was_read_last_counts():
    known = Baselines()
    read(known)
    known.after_read(SeenFile(PATH, V2, 10), {}, truncated=False, image=False)
    assert known.of(PATH) == V2
    known.forget(PATH)
    known.forget(PATH)
    assert known.of(PATH) is None


@pytest.mark.req("SUB-4")
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", 1),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\nb", 2),
        (b"a\n\n", 2),
        (b"\n", 1),
        (b"a\r\nb\r\n", 2),
        (b"a\rb", 1),
    ],
)
def test_lines_are_counted_as_a_reader_has_to_see_them(data: bytes, lines: int):
    assert count_lines(data) == lines


LINES = st.lists(st.sampled_from(["", "a", "bb", "  ", "\r"]), max_size=8).map("\n".join)
NUMBERS = st.none() | st.integers(-1, 10)


@pytest.mark.req("SUB-4")
@given(LINES, NUMBERS, NUMBERS)
def test_what_counts_as_whole_was_shown_to_its_last_line(text: str, offset: int | None, limit: int | None):
    """Checked against what the tool shows: a baseline is never granted for a text that was not seen."""
    arguments = {"offset": offset, "limit": limit}
    if is_whole(arguments, count_lines(text.encode())):
        try:
            shown, _ = shown_text(text, "a.md", offset, limit)
        except ToolError:
            shown = ""
        shown = shown.partition("\n\n[1 more lines in file.")[0]
        assert shown.removesuffix("\n") == text.removesuffix("\n")


# What several changes of one file come to.


def log(*changes: Change) -> dict[str, Change]:
    done = ChangeLog()
    for change in changes:
        done.note("a.md", change)
    return done.changes


@pytest.mark.req("EXT-8")
@pytest.mark.parametrize(
    ("changes", "net"),
    [
        (["created"], "created"),
        (["updated"], "updated"),
        (["deleted"], "deleted"),
        (["created", "updated"], "created"),
        (["created", "updated", "updated"], "created"),
        (["created", "deleted"], None),
        (["created", "updated", "deleted"], None),
        (["created", "deleted", "created"], "created"),
        (["updated", "updated"], "updated"),
        (["updated", "deleted"], "deleted"),
        (["deleted", "created"], "updated"),
        (["deleted", "created", "deleted"], "deleted"),
        (["updated", "deleted", "created", "updated"], "updated"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else str(value),
)
def test_the_net_change_is_told(changes: list[Change], net: Change | None):
    assert log(*changes) == ({} if net is None else {"a.md": net})


@pytest.mark.req("EXT-8")
@given(st.lists(st.sampled_from(get_args(Change)), max_size=8), st.booleans())
def test_the_net_change_agrees_with_a_disk(steps: list[Change], there: bool):  # noqa: FBT001 - hypothesis
    """Whatever the possible history, the file was and is there exactly if the net change says so."""
    exists, done = there, ChangeLog()
    for step in steps:
        if (step == "created") == exists:
            continue
        exists = step != "deleted"
        done.note("a.md", step)
    net = done.changes.get("a.md")
    assert (net == "created") == (not there and exists)
    assert (net == "deleted") == (there and not exists)
    assert net is not None or there == exists


@pytest.mark.req("EXT-8")
def test_files_are_told_in_the_order_they_were_touched_and_the_log_is_its_own():
    done = ChangeLog()
    for path in ("b.md", "a.md", "b.md"):
        done.note(path, "updated")
    changes = done.changes
    assert list(changes) == ["b.md", "a.md"]
    changes.clear()
    assert done.changes
