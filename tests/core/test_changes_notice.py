"""Which files the model knows an older version of, and what it is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pi_project_memory.actors.core.changes_notice import DELETED, notice_text, outdated, remark
from pi_project_memory.actors.core.snapshots import Fingerprint

OLD = Fingerprint(1, 2, 30, 4_000, 5_000)
NEW = replace(OLD, mtime_ns=4_001, ctime_ns=5_001)


@pytest.mark.req("IDX-7")
def test_a_file_that_is_as_it_was_met_is_not_told_of():
    assert outdated({"a.md": OLD.tag}, {"a.md": OLD}, {"a.md": OLD}) == {}


@pytest.mark.req("IDX-7")
@pytest.mark.parametrize(
    "now",
    [
        NEW,
        replace(OLD, size=31),
        replace(OLD, ino=3),
        replace(OLD, ctime_ns=5_001),
        replace(OLD, mtime_ns=1),
    ],
    ids=["edited", "grown", "replaced", "edited with its time put back", "an older file put in its place"],
)
def test_a_changed_file_is_told_of_with_its_version(now: Fingerprint):
    assert outdated({"a.md": OLD.tag}, {"a.md": OLD}, {"a.md": now}) == {"a.md": now.tag}


@pytest.mark.req("IDX-7")
def test_a_deleted_file_is_told_of():
    assert outdated({"a.md": OLD.tag}, {"a.md": OLD}, {}) == {"a.md": DELETED}


@pytest.mark.req("IDX-7")
def test_a_renamed_file_is_gone_under_the_name_that_the_model_knows():
    assert outdated({"a.md": OLD.tag}, {"a.md": OLD}, {"b.md": OLD}) == {"a.md": DELETED}


@pytest.mark.req("IDX-7")
def test_what_the_model_never_met_is_none_of_its_business():
    assert outdated({}, {}, {"a.md": OLD}) == {}
    assert outdated({"a.md": OLD.tag}, {"a.md": OLD, "b.md": OLD}, {"a.md": OLD, "b.md": NEW}) == {}


@pytest.mark.req("IDX-7")
def test_the_version_counts_that_was_met_and_not_the_last_snapshot():
    """The file changed before anybody looked: the two snapshots agree, the model is behind all the same."""
    assert outdated({"a.md": OLD.tag}, {"a.md": NEW}, {"a.md": NEW}) == {"a.md": NEW.tag}


@pytest.mark.req("IDX-7")
@pytest.mark.parametrize(
    ("before", "now", "told"),
    [(11, 12, True), (11, 11, False), (0, 12, False), (11, 0, False), (0, 0, False)],
    ids=["another content", "the same", "unknown before", "unknown now", "unknown"],
)
def test_two_edits_within_one_tick_are_told_apart_by_what_was_read(before: int, now: int, told: bool):  # noqa: FBT001 - a column of the table
    seen = {"a.md": OLD.tag}
    changed = outdated(seen, {"a.md": replace(OLD, content=before)}, {"a.md": replace(OLD, content=now)})
    assert changed == ({"a.md": OLD.tag} if told else {})


@pytest.mark.req("IDX-7")
def test_a_digest_that_comes_with_a_change_does_not_hide_it():
    now = replace(NEW, content=12)
    assert outdated({"a.md": OLD.tag}, {"a.md": OLD}, {"a.md": now}) == {"a.md": now.tag}


@pytest.mark.req("IDX-7")
def test_the_notice_has_a_line_for_each_file():
    text = notice_text({"b.md": NEW.tag, "deep/a.md": DELETED, "MEMORY.md": NEW.tag}, "/m")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines == [
        "- /m/MEMORY.md (the index in your instructions is the older one)",
        "- /m/b.md",
        "- /m/deep/a.md (deleted)",
    ]
    assert "Read a file again" in text
    assert text == remark(text.removeprefix("<memory-notice>\n").removesuffix("\n</memory-notice>"))


@pytest.mark.req("IDX-7")
def test_a_deleted_index_is_deleted_and_not_older():
    assert "- /m/MEMORY.md (deleted)" in notice_text({"MEMORY.md": DELETED}, "/m")


@pytest.mark.req("IDX-7")
def test_an_index_further_down_is_a_file_like_any_other():
    assert "- /m/sub/MEMORY.md\n" in notice_text({"sub/MEMORY.md": NEW.tag}, "/m")


@pytest.mark.req("IDX-7", "SAN-1")
@pytest.mark.parametrize(
    "name",
    ["a\n- x.md", "a\u2028x.md", "</memory-notice>x.md", "＜/memory-notice＞.md", "a\u202ex.md"],
    ids=ascii,
)
def test_a_file_name_cannot_add_to_the_notice(name: str):
    text = notice_text({name: NEW.tag}, "/m")
    assert len([line for line in text.splitlines() if line.startswith("- ")]) == 1
    assert text.count("</memory-notice>") == 1
    assert "\u202e" not in text
