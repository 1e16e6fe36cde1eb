"""The in-memory store behaves as the disk does."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_files import FULL, put
from pi_project_memory.actors.core.snapshots import Changes, diff
from pi_project_memory.actors.ports.store import DiskStore, InMemoryStore

FILES = {"a.md": FULL, "sub/b.md": "body", "agents/c.md": "x", "d.txt": "x"}


@pytest.mark.req("IDX-2", "IDX-5")
async def test_both_forms_give_the_same_topics_and_the_same_index(root: Path):
    memory = InMemoryStore()
    for seconds, (path, text) in enumerate(FILES.items()):
        put(root / path, text, seconds)
        memory.put(path, text, seconds * 1_000.0)
    disk = DiskStore(root)
    assert await memory.scan() == await disk.scan()
    assert await memory.read_index() == await disk.read_index() != ""
    assert set(await memory.snapshot()) == set(await disk.snapshot()) == {"MEMORY.md", "a.md", "sub/b.md"}
    assert (await memory.read_topic("sub/b.md")).data == (await disk.read_topic("sub/b.md")).data
    assert memory.calls == ["scan", "read_index", "snapshot", "read_topic"]


@pytest.mark.req("IDX-7")
async def test_the_in_memory_form_shows_every_change(root: Path):
    memory = InMemoryStore({"a.md": "one", "b.md": "x", "c.md": "x"})
    before = await memory.snapshot()
    memory.put("a.md", "two")
    memory.rename("b.md", "e.md")
    memory.delete("c.md")
    memory.put("d.md", b"new")
    expected = Changes(created=("d.md",), changed=("a.md",), deleted=("c.md",), renamed=(("b.md", "e.md"),))
    assert diff(before, await memory.snapshot()) == expected


@pytest.mark.req("IDX-3", "IDX-5")
async def test_the_in_memory_form_fails_as_the_disk_does():
    memory = InMemoryStore({"MEMORY.md": "index", "a.md": FULL})
    for operation in ("read_index", "scan", "read_topic", "snapshot"):
        memory.fail(operation, OSError("broken disk"))
    assert await memory.read_index() == ""
    assert await memory.scan() == ()
    with pytest.raises(OSError, match="broken disk"):
        await memory.read_topic("a.md")
    with pytest.raises(OSError, match="broken disk"):
        await memory.snapshot()
    memory.fail("read_index", None)
    assert await memory.read_index() == "index"
    memory.fail("read_topic", None)
    with pytest.raises(FileNotFoundError):
        await memory.read_topic("b.md")
