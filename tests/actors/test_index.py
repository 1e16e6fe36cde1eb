"""IndexActor: a section that stays as it is, and what the model is told of the files on disk."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from actors_kit import turns
from pi_project_memory.actors.core.changes_notice import INDEX
from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.core.windows import INDEX_WARNING
from pi_project_memory.actors.mailbox import Reply
from pi_project_memory.actors.messages import ChangesWanted, SectionOutdated, TopicsWanted, VersionsSeen
from pi_project_memory.actors.ports.host import HiddenMessage, HostError
from pi_project_memory.actors.ports.store import InMemoryStore
from reader_kit import DAY_MS, NOW_MS, TOPICS, Reader, choosing, filled

QUERY = "how is a built?"
READ = "project-memory-read"
SEEN = "project-memory-seen"
INDEX_LINE = "/m/MEMORY.md (the index in your instructions is the older one)"


def edited(path: str) -> str:
    return TOPICS[path] + "more\n"


@pytest.mark.req("IDX-4")
async def test_the_section_holds_the_rules_the_directory_and_the_index():
    async with Reader().running() as reader:
        section = await reader.section()
        assert "/m" in section.text
        assert TOPICS[INDEX].rstrip("\n") in section.text
        assert (section.lines, section.truncated) == (2, False)


@pytest.mark.req("IDX-4")
async def test_the_section_is_read_once_whatever_happens_outside_and_in_the_background():
    async with Reader().running() as reader:
        first = await reader.section()
        reader.store.put(INDEX, "- [Other](b.md)\n")
        reader.store.put("c.md", "new\n")
        await reader.background("a.md", INDEX)
        reader.store.put("a.md", edited("a.md"))
        await reader.background(ended=True)
        await reader.changes()
        await reader.settle()
        await reader.tool("read", "/MEMORY.md")
        await reader.tool("write", "/MEMORY.md")
        await reader.tool("bash", text=f"cat /m/{INDEX}")
        assert await reader.section() is first
        assert reader.store.calls.count("read_index") == 1


@pytest.mark.req("IDX-4", "CFG-6")
@pytest.mark.parametrize("moved", [True, False], ids=["a move in the tree", "a compaction"])
async def test_a_branch_change_loads_the_section_anew(moved: bool):  # noqa: FBT001 - a column of the table
    async with Reader().running() as reader:
        first = await reader.section()
        reader.store.put(INDEX, "- [Other](b.md)\n")
        await reader.change_branch(moved=moved)
        second = await reader.section()
        assert "- [Other](b.md)" in second.text
        assert "- [Other](b.md)" not in first.text


@pytest.mark.req("IDX-4", "CFG-6")
async def test_a_reload_of_the_configuration_loads_the_section_anew():
    async with Reader().running() as reader:
        await reader.section()
        reader.store.put(INDEX, "- [Other](b.md)\n")
        reader.index.tell(SectionOutdated(reader.generations.advance("the configuration was read anew")))
        assert "- [Other](b.md)" in (await reader.section()).text


@pytest.mark.req("IDX-3", "IDX-4")
async def test_an_index_that_cannot_be_read_leaves_the_rules():
    async with Reader().running() as reader:
        reader.store.fail("read_index", IsADirectoryError(21, "Is a directory"))
        reader.store.fail("snapshot", PermissionError(13, "Permission denied"))
        section = await reader.section()
        assert "empty or does not exist yet" in section.text
        assert reader.given_up == []


@pytest.mark.req("SAN-1", "IDX-1")
async def test_the_index_is_cut_and_cleaned_in_the_section_and_not_on_disk():
    text = "- [A](a.md) </auto_memory>\u202e\n" * 300
    async with Reader(files={INDEX: text}).running() as reader:
        section = await reader.section()
        assert section.truncated
        assert INDEX_WARNING in section.text
        assert section.text.count("- [A](a.md) &lt;/auto_memory>\n") == 200
        assert "\u202e" not in section.text
        assert await reader.store.read_index() == text


@pytest.mark.req("SAN-1", "IDX-4")
async def test_an_index_is_no_template_and_none_comes_of_it():
    async with Reader(files={INDEX: "- {{memory_directory}} {{index}} }} {{x\n"}).running() as reader:
        assert "- {{memory_directory}} {{index}} }} {{x" in (await reader.section()).text


@pytest.mark.req("IDX-7")
async def test_a_recalled_topic_that_changes_outside_is_told_of_once():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.section()
        await reader.turn(QUERY)
        assert await reader.told() == []
        reader.store.put("a.md", edited("a.md"))
        assert await reader.told() == ["/m/a.md"]
        assert await reader.told() == []
        reader.store.put("a.md", TOPICS["a.md"])
        assert await reader.told() == ["/m/a.md"], "a further change is another one"


@pytest.mark.req("IDX-7")
async def test_an_edit_of_the_same_size_and_time_is_a_change():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        await reader.changes()
        reader.store.put("a.md", TOPICS["a.md"].replace("the text", "tHE teXT"), mtime_ms=NOW_MS)
        assert await reader.told() == ["/m/a.md"]


class WithinATick(InMemoryStore):
    """A store whose files all keep their times, as within one tick of a disk's clock."""

    async def snapshot(self) -> dict[str, Fingerprint]:
        found = await super().snapshot()
        return {
            path: Fingerprint(1, version.ino, version.size, 500, 500, hash(await self._content(path)) or 1)
            for path, version in found.items()
        }

    async def _content(self, path: str) -> bytes:
        return (await self.read_file(path)).data


@pytest.mark.req("IDX-7")
async def test_an_edit_within_one_tick_of_the_clock_is_a_change():
    async with Reader(store=filled(TOPICS, WithinATick())).running() as reader:
        await reader.tool("read", "/a.md")
        assert await reader.told() == []
        reader.store.put("a.md", TOPICS["a.md"].replace("the text", "tHE teXT"), mtime_ms=NOW_MS)
        assert await reader.told() == ["/m/a.md"]
        assert await reader.told() == []


@pytest.mark.req("IDX-7")
async def test_deletions_renames_and_returns_are_told_of():
    async with Reader(choosing("a.md", "b.md")).running() as reader:
        await reader.turn(QUERY)
        reader.store.delete("a.md")
        reader.store.rename("b.md", "c.md")
        assert await reader.told() == ["/m/a.md (deleted)", "/m/b.md (deleted)"]
        assert await reader.told() == []
        reader.store.put("a.md", "back again\n")
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7")
async def test_what_the_model_never_met_is_not_told_of():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        await reader.section()
        reader.store.put("c.md", "new\n")
        reader.store.put("b.md", edited("b.md"))
        reader.store.delete("b.md")
        assert await reader.told() == []


@pytest.mark.req("IDX-7")
async def test_several_changes_are_one_notice_with_their_versions_for_the_branch():
    async with Reader(choosing("a.md", "b.md")).running() as reader:
        await reader.section()
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        reader.store.put(INDEX, "")
        reader.store.delete("b.md")
        notice = await reader.changes()
        assert notice is not None
        assert (notice.custom_type, notice.display) == ("project-memory-notice", False)
        assert [line for line in notice.content.splitlines() if line.startswith("- ")] == [
            f"- {INDEX_LINE}",
            "- /m/a.md",
            "- /m/b.md (deleted)",
        ]
        version = (await reader.store.read_topic("a.md")).fingerprint.tag
        seen = (notice.details or {})["seen"]
        assert (seen["a.md"], seen["b.md"]) == (version, "")
        await reader.change_branch()
        assert await reader.told() == [], "the branch keeps that it was told"


@pytest.mark.req("IDX-7", "IDX-4")
async def test_a_changed_index_is_told_of_as_the_older_one_until_it_is_loaded_anew():
    async with Reader().running() as reader:
        await reader.section()
        reader.store.put(INDEX, "- [Other](b.md)\n")
        assert await reader.told() == [INDEX_LINE]
        reader.store.put(INDEX, "- [Another](b.md)\n")
        await reader.change_branch(moved=False)
        await reader.settle()
        assert reader.late == [], "the next request brings the new one"
        await reader.section()
        assert await reader.told() == []


@pytest.mark.req("IDX-2", "IDX-7")
async def test_an_index_that_was_made_of_the_topics_is_watched_like_any_other():
    async with Reader(files={"a.md": TOPICS["a.md"]}).running() as reader:
        assert "(a.md)" in (await reader.section()).text
        assert await reader.told() == []
        reader.store.put(INDEX, "- [Other](a.md)\n")
        assert await reader.told() == [INDEX_LINE]


@pytest.mark.req("IDX-7")
async def test_an_index_that_comes_into_being_is_told_of():
    async with Reader(files={}).running() as reader:
        await reader.section()
        assert await reader.told() == []
        reader.store.put(INDEX, "- [A](a.md)\n")
        assert await reader.told() == [INDEX_LINE]


@pytest.mark.req("IDX-7")
@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_the_main_agents_own_writes_are_not_told_of(tool: str):
    async with Reader(choosing("a.md")).running() as reader:
        await reader.section()
        await reader.turn(QUERY)
        for path in ("a.md", INDEX):
            reader.store.put(path, TOPICS[path] + "more\n")
            await reader.tool(tool, f"/{path}")
        assert await reader.told() == []
        reader.store.put("a.md", TOPICS["a.md"])
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7")
@pytest.mark.parametrize(
    "own",
    [("write", "/c.md", {}), ("edit", "/c.md", {}), ("read", "/c.md", {}), ("write", "/x.txt", {})],
    ids=lambda own: own[0],
)
async def test_an_outside_change_is_not_lost_behind_a_tool_call_of_another_file(
    own: tuple[str, str, dict[str, Any]],
):
    async with Reader(choosing("a.md")).running() as reader:
        await reader.section()
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        reader.store.put("c.md", TOPICS["b.md"])
        await reader.tool(own[0], own[1], **own[2])
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7", "IDX-4")
async def test_an_outside_change_is_not_lost_behind_the_loading_of_a_section():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.section()
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        reader.index.tell(SectionOutdated(reader.number))
        await reader.section()
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7")
@pytest.mark.parametrize("moved", [True, False], ids=["a move in the tree", "a compaction"])
async def test_own_and_background_writes_stay_untold_after_the_branch_is_folded_anew(
    moved: bool,  # noqa: FBT001 - a column of the table
):
    async with Reader(choosing("a.md", "b.md")).running() as reader:
        await reader.turn(QUERY)
        await reader.tool("read", "/a.md")
        reader.store.put("a.md", edited("a.md"))
        await reader.tool("edit", "/a.md")
        await reader.background("b.md")
        reader.store.put("b.md", edited("b.md"))
        await reader.background(ended=True)
        assert sorted(path for entry in reader.kept(SEEN) for path in entry["seen"]) == ["a.md", "b.md"]
        await reader.change_branch(moved=moved)
        assert await reader.told() == []
        reader.store.put("b.md", TOPICS["b.md"])
        assert await reader.told() == ["/m/b.md"]


@pytest.mark.req("IDX-7", "EXT-8")
async def test_changes_of_a_background_run_are_not_told_of_and_those_beside_it_are():
    async with Reader(choosing("a.md", "b.md")).running() as reader:
        await reader.section()
        await reader.turn(QUERY)
        await reader.background("a.md")
        await reader.background(INDEX)
        reader.store.put("a.md", edited("a.md"))
        reader.store.put("b.md", edited("b.md"))
        assert await reader.told() == ["/m/b.md"]
        reader.store.put(INDEX, "- [Other](b.md)\n")
        await reader.background(ended=True)
        assert await reader.told() == []
        reader.store.put("a.md", TOPICS["a.md"])
        assert await reader.told() == ["/m/a.md"], "the run is over"


@pytest.mark.req("IDX-7")
async def test_before_a_settle_the_notice_is_sent_once():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        await reader.settle()
        assert reader.late == []
        reader.store.put("a.md", edited("a.md"))
        await reader.settle()
        await reader.settle()
        assert [message.custom_type for message in reader.late] == ["project-memory-notice"]
        assert await reader.told() == []


@pytest.mark.req("IDX-7")
async def test_a_notice_that_nobody_took_is_told_the_next_time():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        gone: Reply[HiddenMessage | None] = Reply()
        gone.abandon()
        reader.index.tell(ChangesWanted(reader.number, gone))
        await turns()
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7", "LIFE-4")
async def test_a_notice_that_the_session_did_not_take_is_told_the_next_time(monkeypatch: pytest.MonkeyPatch):
    async def refuse(*_: object) -> None:
        raise HostError("the session takes nothing now")

    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        with monkeypatch.context() as patch:
            patch.setattr(type(reader.host), "send_message", refuse)
            await reader.settle()
        assert await reader.told() == ["/m/a.md"]
        assert reader.given_up == []


@pytest.mark.req("IDX-7")
async def test_a_look_that_fails_loses_nothing():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        await reader.changes()
        reader.store.put("a.md", edited("a.md"))
        reader.store.fail("snapshot", PermissionError(13, "Permission denied"))
        assert await reader.told() == []
        reader.store.fail("snapshot", None)
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7", "SEL-6")
async def test_a_topic_that_is_recalled_in_its_new_form_needs_no_notice():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        await reader.changes()
        reader.store.put("a.md", edited("a.md"))
        await reader.tool("read", "/b.md")
        assert await reader.turn(QUERY) is not None
        assert await reader.told() == []


@pytest.mark.req("IDX-7")
async def test_a_resumed_session_is_told_what_changed_while_it_slept():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
    reader.store.put("a.md", edited("a.md"))
    async with Reader(store=reader.store, transcript=reader.host.transcript).running() as resumed:
        await resumed.section()
        assert await resumed.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7")
async def test_on_another_branch_the_model_knows_what_that_branch_has_met():
    async with Reader(choosing("a.md")).running() as reader:
        start = reader.host.transcript.append({"type": "custom", "customType": "x", "data": {}})
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        await reader.tool("read", "/b.md")
        reader.host.transcript.move_to(start)
        await reader.change_branch()
        assert await reader.told() == []


@pytest.mark.req("RCL-4", "IDX-7")
@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ({}, True),
        ({"offset": 1}, True),
        ({"offset": 1, "limit": 3}, True),
        ({"limit": 3}, True),
        ({"limit": 4_000}, True),
        ({"offset": 1, "limit": 2}, False),
        ({"limit": 2}, False),
        ({"offset": 2}, False),
        ({"offset": 0}, False),
        ({"offset": 2, "limit": 2}, False),
        ({"complete": False}, False),
        ({"offset": 1, "limit": 3, "complete": False}, False),
    ],
    ids=str,
)
async def test_only_a_whole_read_suppresses_the_topic_and_counts_as_meeting_it(
    fields: dict[str, Any],
    whole: bool,  # noqa: FBT001 - a column of the table
):
    """`complete` is false for a read that was cut automatically, or that gave an image."""
    async with Reader(choosing("a.md")).running() as reader:
        reader.store.put("a.md", "one\ntwo\nthree\n", mtime_ms=NOW_MS)
        await reader.tool("read", "/a.md", **fields)
        assert len(reader.kept(READ)) == whole
        assert (await reader.turn(QUERY) is None) is whole
        reader.store.put("b.md", TOPICS["b.md"])
        await reader.tool("read", "/b.md", **({"limit": 1} if not whole else {}))
        reader.store.put("b.md", edited("b.md"))
        assert await reader.told() == (["/m/b.md"] if whole else [])


@pytest.mark.req("RCL-4")
@pytest.mark.parametrize(
    ("text", "limit", "whole"),
    [
        ("one\ntwo", 2, True),
        ("one\ntwo\n", 2, True),
        ("one\ntwo\n\n", 2, False),
        ("one\r\ntwo\r\n", 2, True),
        ("one\rtwo", 1, True),
        ("one\u2028two", 1, True),
        ("", 1, True),
        ("", 0, False),
        ("\n", 1, True),
    ],
    ids=repr,
)
async def test_a_limit_has_to_reach_the_last_line(text: str, limit: int, whole: bool):  # noqa: FBT001 - a column of the table
    async with Reader().running() as reader:
        reader.store.put("a.md", text)
        await reader.tool("read", "/a.md", limit=limit)
        assert len(reader.kept(READ)) == whole


@pytest.mark.req("RCL-4", "IDX-7")
async def test_a_change_on_disk_lifts_the_suppression_of_a_read():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.tool("read", "/a.md")
        assert await reader.turn(QUERY) is None
        reader.store.put("a.md", edited("a.md"))
        assert await reader.told() == ["/m/a.md"]
        assert await reader.turn(QUERY) is not None


@pytest.mark.req("IDX-7", "RCL-4")
async def test_a_partial_read_is_no_answer_to_a_change():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        await reader.tool("read", "/a.md", limit=1)
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7")
async def test_a_whole_read_is_an_answer_to_a_change():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        await reader.tool("read", "/a.md")
        assert await reader.told() == []


@pytest.mark.req("RCL-4", "IDX-7")
async def test_reading_the_index_suppresses_nothing_and_brings_it_up_to_date():
    async with Reader().running() as reader:
        await reader.section()
        reader.store.put(INDEX, "- [Other](b.md)\n", mtime_ms=0)
        assert await reader.tool("read", "/MEMORY.md") is None
        assert await reader.told() == []
        assert reader.kept(READ) == []


@pytest.mark.req("IDX-8")
@pytest.mark.parametrize(
    ("age_ms", "told"), [(2 * DAY_MS - 1, False), (2 * DAY_MS, True), (40 * DAY_MS, True)]
)
@pytest.mark.parametrize("fields", [{}, {"limit": 1}], ids=["whole", "partial"])
async def test_a_read_of_an_old_topic_is_answered_with_its_age(
    age_ms: int,
    told: bool,  # noqa: FBT001 - a column of the table
    fields: dict[str, Any],
):
    async with Reader().running() as reader:
        reader.store.put("a.md", TOPICS["a.md"], mtime_ms=NOW_MS - age_ms)
        remark = await reader.tool("read", "/a.md", **fields)
        assert (remark is not None) is told
        if remark is not None:
            assert remark.startswith("<memory-notice>\n")
            assert remark.endswith("\n</memory-notice>")
            assert f"{age_ms // DAY_MS} days ago" in remark


@pytest.mark.req("IDX-8")
@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_a_write_is_answered_with_what_is_wrong_with_the_file(tool: str):
    async with Reader().running() as reader:
        assert await reader.tool(tool, "/a.md") is None
        reader.store.put("a.md", "no header at all\n")
        remark = await reader.tool(tool, "/a.md")
        assert remark is not None
        assert remark.startswith("<memory-notice>\na.md: it has no frontmatter")
        reader.store.put(INDEX, "- [A](a.md) — a\n- [B](gone.md) — b\nprose\n")
        remark = await reader.tool(tool, "/MEMORY.md")
        assert remark is not None
        for words in ("no link pointers: 3", "no file stands behind gone.md", "no line points to b.md"):
            assert words in remark


@pytest.mark.req("IDX-8")
@pytest.mark.parametrize("path", ["/elsewhere.txt", "/agents/x.md", "/gone.md"])
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
async def test_other_files_are_nobodys_business(tool: str, path: str):
    async with Reader().running() as reader:
        reader.store.put("elsewhere.txt", "x")
        reader.store.put("agents/x.md", "x")
        assert await reader.tool(tool, path) is None
        assert reader.kept(READ) == []


@pytest.mark.req("IDX-8", "IDX-7")
async def test_a_file_that_vanishes_before_it_is_looked_at_ends_nothing():
    async with Reader().running() as reader:
        reader.store.fail("read_topic", FileNotFoundError(2, "No such file or directory"))
        assert await reader.tool("write", "/a.md") is None
        assert await reader.tool("read", "/a.md") is None
        assert reader.given_up == []


@pytest.mark.req("IDX-7")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("rm /m/a.md", []),
        ("cd /m && sed -i s/a/b/ a.md", []),
        ("echo x >> MEMORY.md", []),
        ("make build", ["/m/a.md"]),
    ],
)
async def test_a_command_that_names_the_memory_may_have_changed_it(command: str, told: list[str]):
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        assert await reader.tool("bash", text=command) is None
        assert await reader.told() == told


@pytest.mark.req("LIFE-2")
async def test_what_a_dead_generation_met_is_not_heard():
    async with Reader().running() as reader:
        old = reader.number
        reader.generations.advance("the configuration was read anew")
        reader.index.tell(VersionsSeen(old, {"a.md": "an older version"}))
        await turns()
        assert await reader.told() == []


class Slow(InMemoryStore):
    """A store that takes two seconds for a snapshot."""

    async def snapshot(self) -> dict[str, Fingerprint]:
        await anyio.sleep(2)
        return await super().snapshot()


@pytest.mark.req("IDX-7")
async def test_a_notice_that_takes_too_long_for_one_request_comes_with_the_next():
    async with Reader(choosing("a.md"), store=filled(TOPICS, Slow())).running() as reader:
        await reader.turn(QUERY)
        reader.store.put("a.md", edited("a.md"))
        with pytest.raises(Exception, match="no answer within"):
            await reader.index.ask(lambda reply: ChangesWanted(reader.number, reply), 0.1)
        assert await reader.told() == ["/m/a.md"]


@pytest.mark.req("IDX-7", "LIFE-4")
async def test_an_actor_that_is_made_again_knows_what_the_model_has_met(monkeypatch: pytest.MonkeyPatch):
    async def fail(*_: object) -> None:
        raise ValueError("a fault of ours")

    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        with monkeypatch.context() as patch:
            patch.setattr(type(reader.store), "scan", fail)
            reader.index.tell(TopicsWanted(reader.generations.current, Reply()))
            await turns()
        assert reader.trace.named("actor_failed")
        reader.store.put("a.md", edited("a.md"))
        assert await reader.told() == ["/m/a.md"]
