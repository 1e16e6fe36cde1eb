"""The difference between two snapshots of the memory directory."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pi_project_memory.actors.core.snapshots import Changes, Fingerprint, diff

A = Fingerprint(dev=1, ino=10, size=5, mtime_ns=100, ctime_ns=100)
B = Fingerprint(dev=1, ino=11, size=7, mtime_ns=200, ctime_ns=200)


@pytest.mark.req("IDX-7")
def test_equal_snapshots_have_no_changes():
    changes = diff({"a.md": A, "b.md": B}, {"b.md": B, "a.md": A})
    assert changes == Changes()
    assert not changes
    assert changes.touched == frozenset()


@pytest.mark.req("IDX-7")
def test_created_and_deleted_files_are_told_in_order():
    changes = diff({"x.md": A, "b.md": B}, {"z.md": replace(A, ino=1), "c.md": replace(A, ino=2)})
    assert changes == Changes(created=("c.md", "z.md"), deleted=("b.md", "x.md"))
    assert changes.touched == {"c.md", "z.md", "b.md", "x.md"}


@pytest.mark.req("IDX-7")
@pytest.mark.parametrize("field", ["dev", "ino", "size", "mtime_ns", "ctime_ns", "content"])
def test_any_difference_of_the_fingerprint_is_a_change(field: str):
    changed = replace(A, **{field: getattr(A, field) + 1})
    changes = diff({"a.md": A, "b.md": B}, {"a.md": changed, "b.md": B})
    assert changes == Changes(changed=("a.md",))
    assert bool(changes)


@pytest.mark.req("IDX-7")
def test_a_file_that_moved_is_renamed_not_deleted_and_created():
    moved = replace(A, ctime_ns=999)
    changes = diff({"a.md": A, "b.md": B}, {"sub/new.md": moved, "b.md": B})
    assert changes == Changes(renamed=(("a.md", "sub/new.md"),))
    assert changes.touched == {"a.md", "sub/new.md"}


@pytest.mark.req("IDX-7")
def test_an_inode_used_again_for_other_content_is_no_rename():
    changes = diff({"a.md": A}, {"b.md": replace(A, mtime_ns=300, ctime_ns=300)})
    assert changes == Changes(created=("b.md",), deleted=("a.md",))


@pytest.mark.req("IDX-7")
def test_a_rename_over_another_file_changes_that_one():
    assert diff({"a.md": A, "b.md": B}, {"b.md": A}) == Changes(changed=("b.md",), deleted=("a.md",))


@pytest.mark.req("IDX-7")
def test_hard_links_pair_up_one_to_one():
    changes = diff({"a.md": A, "b.md": A}, {"c.md": A})
    assert changes == Changes(deleted=("b.md",), renamed=(("a.md", "c.md"),))
