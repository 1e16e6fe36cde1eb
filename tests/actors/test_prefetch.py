"""PrefetchActor: when the selector is asked, when its answer counts, and what the branch keeps of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from actors_kit import turns
from pi_project_memory.actors.core.branch import RECALL_BUDGET, RECALL_TYPE, RecalledTopic, recall_details
from pi_project_memory.actors.core.config import Config, ModelRef, Models, SelectorModel
from pi_project_memory.actors.messages import FileRead, Reconfigured, TurnAborted
from pi_project_memory.actors.ports.host import HiddenMessage, HostError
from pi_project_memory.actors.ports.store import InMemoryStore, TopicRead
from pi_project_memory.supervisor.host.scenario import Reply as ModelReply
from pi_project_memory.supervisor.host.simulated import Transcript, hidden_entry
from reader_kit import (
    HANGING,
    MODEL,
    NOW_MS,
    TOPICS,
    Reader,
    catalogue,
    choosing,
    failing,
    filled,
    queries,
    said,
    texts,
)

QUERY = "how is a built?"
SELECTION = "project-memory-selection"


@pytest.mark.req("RCL-2")
async def test_a_result_after_1999_ms_is_the_answer_and_goes_nowhere_else():
    async with Reader(choosing("a.md", delay=1.999)).running() as reader:
        message = await reader.prompt(QUERY)
        assert anyio.current_time() == pytest.approx(1.999)
        assert message is not None
        assert "the text of a" in message.content
        await anyio.sleep(100)
        assert reader.late == []


@pytest.mark.req("RCL-2")
async def test_a_result_after_2001_ms_is_not_waited_for_and_goes_out_once():
    async with Reader(choosing("a.md", delay=2.001)).running() as reader:
        assert await reader.prompt(QUERY) is None
        assert anyio.current_time() == pytest.approx(2.0)
        assert reader.late == []
        await anyio.sleep(0.002)
        (message,) = reader.late
        assert (message.custom_type, message.display) == (RECALL_TYPE, False)
        assert "the text of a" in message.content
        await reader.prompt("and again, how is a built?")
        await anyio.sleep(100)
        assert len(reader.late) == 1, "what has gone out late counts as shown"


@pytest.mark.req("RCL-2", "SEL-7")
async def test_a_late_selection_of_nothing_sends_nothing():
    async with Reader(choosing(delay=3)).running() as reader:
        assert await reader.prompt(QUERY) is None
        await anyio.sleep(10)
        assert (reader.late, reader.warnings) == ([], [])


@pytest.mark.req("HOST-7", "SEL-7", "RCL-2")
@pytest.mark.parametrize("wait", [0.5, 5.0], ids=["nobody waits any more", "somebody still waits"])
async def test_an_aborted_turn_takes_its_selection_along_in_silence(wait: float):
    async with Reader(choosing("a.md", delay=4)).running() as reader, anyio.create_task_group() as group:
        answers: list[HiddenMessage | None] = []

        async def submit() -> None:
            answers.append(await reader.prompt(QUERY, wait))

        group.start_soon(submit)
        await anyio.sleep(1)
        reader.prefetch.tell(TurnAborted(reader.number))
        await turns()
        assert answers == [None]
        await anyio.sleep(100)
        assert reader.models.cancelled == [MODEL]
        assert (reader.late, reader.warnings, reader.kept(SELECTION)) == ([], [], [])
        assert (await reader.status()).running == 0


@pytest.mark.req("SEL-1")
async def test_the_echo_of_a_prompt_is_no_query_whatever_was_appended_to_it():
    async with Reader(choosing()).running() as reader:
        await reader.prompt(QUERY)
        await reader.say(f"{QUERY}\n[Image: original 4000x3000, displayed at 2000x1500.]")
        assert queries(reader.requests) == [QUERY]
        await reader.say("a queued message")
        await reader.say("a queued message")
        assert queries(reader.requests) == [QUERY, "a queued message", "a queued message"]


@pytest.mark.req("SEL-1")
async def test_after_an_aborted_turn_no_echo_is_expected_any_more():
    async with Reader(choosing()).running() as reader:
        await reader.prompt(QUERY)
        reader.prefetch.tell(TurnAborted(reader.number))
        await reader.say("a message of its own")
        assert queries(reader.requests) == [QUERY, "a message of its own"]


@pytest.mark.req("SEL-1", "RCL-2")
async def test_a_queued_message_gets_its_recall_without_anybody_waiting():
    async with Reader(choosing("b.md", delay=0.1)).running() as reader:
        await reader.say("a streamed message")
        await anyio.sleep(1)
        assert ["the text of b" in message.content for message in reader.late] == [True]


@pytest.mark.req("SEL-2")
@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("two words", True),
        ("  padded words \n", True),
        ("word", False),
        ("  word \u3000\ufeff", False),
        ("", False),
        (" \n\t", False),
        ("一二三四五", False),
        ("一二\u3000三四", True),
        ("a\u00a0b", True),
        ("a\ufeffb", True),
        ("a\u2028b", True),
        ("a\u0085b", False),
        ("a\x1cb", False),
        ("a\u200bb", False),
    ],
    ids=ascii,
)
async def test_a_query_needs_a_space_inside(query: str, asked: bool):  # noqa: FBT001 - a column of the table
    async with Reader(choosing()).running() as reader:
        started = anyio.current_time()
        assert await reader.prompt(query) is None
        assert anyio.current_time() == started
        assert len(reader.requests) == asked


@pytest.mark.req("SEL-1", "LIFE-6")
async def test_a_fifth_selection_at_one_time_ends_the_oldest():
    async with Reader(HANGING).running() as reader:
        for number in range(5):
            await reader.say(f"message number {number}")
        assert len(reader.requests) == 5
        assert reader.models.cancelled == [MODEL]
        assert (await reader.status()).running == 4
        (stopped,) = reader.trace.named("prefetch_stopped")
        assert stopped["job"] == reader.trace.named("selection_begun")[0]["job"]


@pytest.mark.req("LIFE-2", "RCL-2", "CFG-6")
async def test_a_result_of_an_older_generation_has_no_effect():
    async with Reader(choosing("a.md", delay=1)).running() as reader:
        await reader.prompt(QUERY, 0.5)
        reader.generations.advance("the configuration was read anew")
        await anyio.sleep(10)
        assert (reader.late, reader.warnings, reader.kept(SELECTION)) == ([], [], [])
        status = await reader.status()
        assert (status.used, status.running) == (0, 0)


@pytest.mark.req("RCL-2", "RCL-4")
async def test_a_move_in_the_tree_ends_the_selections_of_the_other_branch():
    async with Reader(choosing("a.md", delay=3)).running() as reader:
        await reader.prompt(QUERY)
        reader.host.transcript.move_to(None)
        await reader.change_branch()
        assert (await reader.status()).running == 0
        assert reader.models.cancelled == [MODEL]
        await anyio.sleep(10)
        assert (reader.late, reader.kept(SELECTION)) == ([], [])
        assert (await reader.status()).used == 0


@pytest.mark.req("SEL-1", "RCL-4")
async def test_a_move_in_the_tree_forgets_a_prompt_that_never_entered_the_session():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.prompt(QUERY)
        reader.host.transcript.move_to(None)
        await reader.change_branch()
        await reader.say("a message of its own")
        assert queries(reader.requests) == [QUERY, "a message of its own"]
        assert [entry["query"] for entry in reader.kept(SELECTION)] == ["a message of its own"]


@pytest.mark.req("RCL-2", "RCL-4")
async def test_a_compaction_lets_a_selection_go_on_and_charges_it_to_what_is_left():
    async with Reader(choosing("a.md"), choosing("b.md", delay=3)).running() as reader:
        await reader.turn(QUERY)
        await reader.prompt("how is b built?")
        reader.host.transcript.append({"type": "compaction", "summary": "s", "firstKeptEntryId": None})
        await reader.change_branch(moved=False)
        assert (await reader.status()).used == 0
        await anyio.sleep(10)
        assert ["the text of b" in message.content for message in reader.late] == [True]
        assert (await reader.status()).used == len(TOPICS["b.md"].rstrip("\n"))


@pytest.mark.req("SEL-6", "RCL-4")
async def test_after_a_compaction_a_topic_is_recalled_again():
    async with Reader(choosing("a.md")).running() as reader:
        assert await reader.turn(QUERY) is not None
        assert await reader.turn(QUERY) is None
        reader.host.transcript.append({"type": "compaction", "summary": "s", "firstKeptEntryId": None})
        await reader.change_branch(moved=False)
        again = await reader.turn(QUERY)
        assert again is not None
        assert len(reader.requests[-1].messages) == 1, "the history went with the rest"


@pytest.mark.req("CFG-6", "LIFE-2")
async def test_a_new_configuration_stops_what_runs_and_names_the_next_model():
    async with Reader(choosing("a.md", delay=1)).running() as reader, anyio.create_task_group() as group:
        answers: list[HiddenMessage | None] = []

        async def submit() -> None:
            answers.append(await reader.prompt(QUERY))

        group.start_soon(submit)
        await anyio.sleep(0.5)
        number = reader.generations.advance("the configuration was read anew")
        chosen = SelectorModel(model=ModelRef("sim", "other"))
        reader.prefetch.tell(Reconfigured(number, Config(models=Models(selector=chosen))))
        await turns()
        assert answers == [None]
        await reader.prompt(QUERY)
        (warning,) = reader.warnings
        assert "the model sim/other is not known; correct models.selector.model" in warning


class Fragile(InMemoryStore):
    """A store whose topics raise what no reader expects, as long as `broken` says so."""

    broken = False

    async def read_topic(self, path: str) -> TopicRead:
        if self.broken:
            raise RuntimeError("a fault of our own")
        return await super().read_topic(path)


@pytest.mark.req("LIFE-4", "SEL-6", "RCL-3")
async def test_an_actor_that_fails_is_made_anew_from_its_branch():
    store = Fragile()
    async with Reader(
        choosing("a.md"), choosing("b.md"), choosing("a.md", "b.md"), store=filled(TOPICS, store)
    ).running() as reader:
        await reader.turn(QUERY)
        store.broken = True
        started = anyio.current_time()
        assert await reader.prompt("how is b built?") is None
        assert anyio.current_time() == started, "whoever waits is told at once"
        store.broken = False
        message = await reader.turn("how are both built?")
        assert message is not None
        assert "the text of a" not in message.content, "the branch says that it was shown"
        assert "the text of b" in message.content
        assert (await reader.status()).used == sum(len(TOPICS[p].rstrip("\n")) for p in ("a.md", "b.md"))
        assert reader.given_up == []


@pytest.mark.req("LIFE-4", "SEL-6", "RCL-3")
async def test_an_actor_that_fails_in_mid_turn_knows_what_the_turn_began_with():
    store = Fragile()
    transcript = Transcript()
    transcript.append({"type": "model_change"})
    async with Reader(
        choosing("a.md"), choosing("b.md"), store=filled(TOPICS, store), transcript=transcript
    ).running() as reader:
        assert await reader.turn(QUERY) is not None
        used = (await reader.status()).used
        store.broken = True
        await reader.say("a queued message")
        await turns(20)
        assert reader.trace.named("actor_failed") != []
        assert (await reader.status()).used == used


@pytest.mark.req("LIFE-4")
async def test_an_actor_that_fails_again_and_again_is_given_up_once_and_keeps_nobody_waiting():
    store = Fragile()
    store.broken = True
    async with Reader(choosing("a.md"), store=filled(TOPICS, store)).running() as reader:
        for _ in range(4):
            await reader.prompt(QUERY)
        assert reader.given_up == ["prefetch"]
        started = anyio.current_time()
        assert await reader.prompt(QUERY) is None
        assert anyio.current_time() == started
        assert (await reader.section()).lines == 2, "the other actor goes on"


@pytest.mark.req("SEL-7")
async def test_every_failed_call_has_a_warning_of_its_own():
    async with Reader(failing(503)).running() as reader:
        for _ in range(3):
            assert await reader.turn(QUERY) is None
        assert reader.warnings == ["Project memory: the selection failed: HTTP 503: no"] * 3
        assert reader.kept(SELECTION) == []


@pytest.mark.req("SEL-5", "SEL-7")
async def test_a_failed_retry_is_one_failed_call():
    async with Reader(failing(400), failing(429)).running() as reader:
        assert await reader.turn(QUERY) is None
        assert reader.warnings == ["Project memory: the selection failed: HTTP 429: no"]
        assert len(reader.requests) == 2


@pytest.mark.req("SEL-7")
async def test_a_late_failure_is_told_too():
    async with Reader(failing(delay=3)).running() as reader:
        await reader.prompt(QUERY)
        assert reader.warnings == []
        await anyio.sleep(5)
        assert len(reader.warnings) == 1


@pytest.mark.req("SEL-7")
async def test_a_model_that_never_answers_is_given_up_after_a_minute():
    async with Reader(HANGING).running() as reader:
        await reader.prompt(QUERY)
        await anyio.sleep(57.9)
        assert reader.warnings == []
        await anyio.sleep(0.2)
        assert reader.warnings == [
            "Project memory: the selection failed: sim/main gave no answer within 60 s"
        ]


@pytest.mark.req("SEL-7", "CFG-7")
async def test_a_host_that_is_gone_is_one_failed_call_and_not_the_end():
    async with Reader(choosing("a.md")).running() as reader:
        reader.host.gone = True
        assert await reader.prompt(QUERY) is None
        reader.host.gone = False
        await reader.say(QUERY)
        assert await reader.turn(QUERY) is not None
        assert reader.given_up == []


@pytest.mark.req("SEL-7", "SEL-3")
async def test_without_topics_nobody_is_asked_and_nobody_is_warned():
    async with Reader(choosing("a.md"), files={"MEMORY.md": ""}).running() as reader:
        assert await reader.prompt(QUERY) is None
        assert (reader.requests, reader.warnings) == ([], [])


@pytest.mark.req("SEL-7")
async def test_a_directory_that_cannot_be_listed_offers_nothing():
    async with Reader(choosing("a.md")).running() as reader:
        reader.store.fail("scan", PermissionError(13, "Permission denied"))
        assert await reader.prompt(QUERY) is None
        assert (reader.requests, reader.warnings, reader.given_up) == ([], [], [])


@pytest.mark.req("RCL-1", "SEL-7")
async def test_a_topic_that_cannot_be_read_any_more_is_left_out():
    async with Reader(choosing("a.md", "b.md")).running() as reader:
        reader.store.fail("read_topic", PermissionError(13, "Permission denied"))
        assert await reader.turn(QUERY) is None
        reader.store.fail("read_topic", None)
        assert await reader.turn(QUERY) is not None
        assert reader.given_up == []


@pytest.mark.req("SEL-6")
async def test_the_conversation_with_the_selector_grows_at_its_end_alone():
    async with Reader(choosing("a.md"), choosing(), choosing("b.md")).running() as reader:
        for query in ("the first query", "the second query", "the third query"):
            await reader.turn(query)
        first, second, third = reader.requests
        assert second.messages[: len(first.messages)] == first.messages
        assert third.messages[: len(second.messages)] == second.messages
        assert texts(third)[1:] == [
            said("a.md"),
            "Request:\n\nthe second query",
            said(),
            "Request:\n\nthe third query",
        ]
        assert {request.system_prompt for request in reader.requests} == {first.system_prompt}


@pytest.mark.req("SEL-6")
async def test_the_history_and_the_budget_survive_a_resume():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn("the first query")
        used = (await reader.status()).used
    transcript = reader.host.transcript
    async with Reader(choosing("a.md"), transcript=transcript).running() as resumed:
        assert (await resumed.status()).used == used > 0
        assert await resumed.turn("the second query") is None
        assert texts(resumed.requests[0])[1:] == [said("a.md"), "Request:\n\nthe second query"]


@pytest.mark.req("SEL-6", "RCL-4")
async def test_an_answer_goes_on_the_branch_behind_its_query():
    """A branch that begins before the query has to know neither of them."""
    async with Reader(choosing("a.md")).running() as reader:
        await reader.prompt("the first query")
        assert reader.kept(SELECTION) == []
        await reader.say("the first query")
        await reader.say("a queued query")
        kinds = [entry.get("customType", entry["type"]) for entry in reader.host.transcript.entries]
        assert kinds == ["message", RECALL_TYPE, SELECTION, SELECTION]
        await reader.prompt("a query whose turn is stopped")
        reader.prefetch.tell(TurnAborted(reader.number))
        await reader.turn("the last query")
        kept = [entry["query"] for entry in reader.kept(SELECTION)]
        assert kept == ["the first query", "a queued query", "the last query"]


@pytest.mark.req("SEL-6")
async def test_the_catalogue_stays_whole_and_changes_with_its_data_alone():
    async with Reader(choosing("a.md"), choosing()).running() as reader:
        await reader.turn(QUERY)
        await reader.turn(QUERY)
        reader.store.put("a.md", TOPICS["a.md"] + "more\n", mtime_ms=NOW_MS)
        await reader.turn(QUERY)
        reader.store.put("a.md", TOPICS["a.md"].replace("about a", "all of a"), mtime_ms=NOW_MS)
        await reader.turn(QUERY)
        before, shown, same, changed = map(catalogue, reader.requests)
        assert before == shown == same
        assert before.startswith(
            "Notes:\n\n- [user] a.md (1970-04-11T00:00:00.000Z): about a\n- [project] b.md"
        )
        assert changed == before.replace("about a", "all of a")


@pytest.mark.req("SEL-6")
async def test_a_changed_topic_is_recalled_again():
    async with Reader(choosing("a.md")).running() as reader:
        await reader.turn(QUERY)
        reader.store.put("a.md", TOPICS["a.md"].replace("the text", "another text"))
        message = await reader.turn(QUERY)
        assert message is not None
        assert "another text of a" in message.content


@pytest.mark.req("RCL-4")
async def test_a_read_suppresses_its_version_and_is_kept_once():
    async with Reader(choosing("a.md")).running() as reader:
        version = (await reader.store.read_topic("a.md")).fingerprint.tag
        for _ in range(2):
            reader.prefetch.tell(FileRead(reader.number, "a.md", version))
        assert await reader.turn(QUERY) is None
        assert reader.kept("project-memory-read") == [{"path": "a.md", "version": version}]
        reader.store.put("a.md", TOPICS["a.md"] + "more\n")
        assert await reader.turn(QUERY) is not None


def spent_transcript(units: int) -> Transcript:
    """A branch on which `units` of recall have been used up."""
    transcript = Transcript()
    details = recall_details("r1", [RecalledTopic("old.md", "d", units, "v")])
    transcript.append(hidden_entry(HiddenMessage(RECALL_TYPE, "…", details)))
    return transcript


@pytest.mark.req("RCL-3")
async def test_the_selector_is_asked_to_the_last_unit_of_the_budget_and_not_beyond():
    transcript = spent_transcript(RECALL_BUDGET - 1)
    async with Reader(choosing("a.md"), transcript=transcript).running() as reader:
        assert await reader.turn(QUERY) is None, "it does not fit"
        assert len(reader.requests) == 1
    async with Reader(choosing("a.md"), transcript=spent_transcript(RECALL_BUDGET)).running() as reader:
        assert await reader.turn(QUERY) is None
        assert (reader.requests, reader.warnings) == ([], [])


@pytest.mark.req("RCL-3", "RCL-5")
async def test_the_guidance_comes_once_a_branch_and_again_on_one_that_has_none():
    async with Reader(choosing("a.md"), choosing("b.md"), choosing("a.md")).running() as reader:
        first, second = await reader.turn(QUERY), await reader.turn(QUERY)
        assert first is not None
        assert second is not None
        guidance = first.content.split("\n\n")[1]
        assert guidance not in second.content
        reader.host.transcript.move_to(None)
        await reader.change_branch()
        again = await reader.turn(QUERY)
        assert again is not None
        assert again.content.split("\n\n")[1] == guidance


@pytest.mark.req("RCL-3", "RCL-2")
async def test_each_recall_carries_an_id_by_which_it_is_charged_once():
    async with Reader(choosing("a.md"), choosing("b.md", delay=3)).running() as reader:
        first = await reader.turn(QUERY)
        await reader.turn(QUERY)
        await anyio.sleep(5)
        assert first is not None
        ids = [(message.details or {})["id"] for message in (first, reader.late[0])]
        assert len(set(ids)) == 2
        used = (await reader.status()).used
        reader.host.transcript.append(hidden_entry(reader.late[0]))
        await reader.change_branch(moved=False)
        assert (await reader.status()).used == used


class Unwilling(Reader):
    """A host that takes no message and no entry."""

    async def refuse(self, *_: Any) -> None:
        raise HostError("the session takes nothing now")


@pytest.mark.req("LIFE-4", "RCL-2")
async def test_a_session_that_takes_nothing_ends_no_actor(monkeypatch: pytest.MonkeyPatch):
    async with Unwilling(choosing("a.md", delay=3)).running() as reader:
        monkeypatch.setattr(type(reader.host), "send_message", reader.refuse)
        monkeypatch.setattr(type(reader.host), "append_entry", reader.refuse)
        await reader.turn(QUERY)
        await anyio.sleep(5)
        assert (await reader.status()).running == 0
        assert reader.trace.named("host_refused") != []
        assert reader.given_up == []


@pytest.mark.req("SEL-5", "SEL-6")
async def test_the_first_request_is_native_and_its_retry_calls_the_tool():
    async with Reader(failing(422), choosing("a.md")).running() as reader:
        assert await reader.turn(QUERY) is not None
        native, tool = reader.requests
        assert native.payload_patch is not None
        assert native.payload_patch["response_format"]["type"] == "json_schema"
        assert (native.tools, [declared["name"] for declared in tool.tools]) == ([], ["select_memories"])
        assert tool.payload_patch is not None
        assert tool.payload_patch["tool_choice"]["function"]["name"] == "select_memories"
        assert tool.system_prompt is not None
        assert native.system_prompt is not None
        assert tool.system_prompt.startswith(native.system_prompt)
        assert "select_memories" in tool.system_prompt.removeprefix(native.system_prompt)
        assert (native.messages, native.options) == (tool.messages, tool.options)
        assert native.options.cache_retention == "short"
        assert native.options.session_id == "s1-memory-selector"
        assert (await reader.status()).native_refusals == 1
        assert reader.warnings == []


@pytest.mark.req("SEL-5")
@pytest.mark.parametrize(
    ("api", "configured"),
    [
        ("pi-messages", SelectorModel()),
        ("my-own-api", SelectorModel()),
        ("openai-completions", SelectorModel(structured_output=False)),
    ],
)
async def test_a_custom_api_and_a_switched_off_native_form_call_the_tool_at_once(
    api: str, configured: SelectorModel
):
    async with Reader(choosing("a.md"), api=api, configured=configured).running() as reader:
        assert await reader.turn(QUERY) is not None
        (request,) = reader.requests
        assert [declared["name"] for declared in request.tools] == ["select_memories"]


@pytest.mark.req("CFG-8")
async def test_the_configured_limit_and_level_go_into_the_request():
    configured = SelectorModel(thinking_level="low", max_tokens=None)
    async with Reader(choosing(), configured=configured).running() as reader:
        await reader.turn(QUERY)
        assert (reader.requests[0].options.max_tokens, reader.requests[0].options.reasoning) == (None, "low")
    async with Reader(choosing()).running() as reader:
        await reader.turn(QUERY)
        assert (reader.requests[0].options.max_tokens, reader.requests[0].options.reasoning) == (512, None)


@pytest.mark.req("SEL-4")
async def test_names_that_the_catalogue_does_not_hold_are_dropped_and_reported():
    reply = ModelReply(choose=["no.md", "[user] a.md", "../b.md", "MEMORY.md"])
    async with Reader(reply).running() as reader:
        message = await reader.turn(QUERY)
        assert message is not None
        assert [topic["path"] for topic in (message.details or {})["topics"]] == ["a.md"]
        last = (await reader.status()).last
        assert last is not None
        assert last.selection.unknown == ("no.md", "../b.md", "MEMORY.md")
        assert reader.kept(SELECTION) == [{"query": QUERY, "names": ["a.md"]}]


@pytest.mark.req("SEL-6")
async def test_a_very_long_prompt_is_cut_for_the_selector():
    async with Reader(choosing()).running() as reader:
        await reader.turn("a query " + "x" * 20_000)
        assert len(queries(reader.requests)[0]) == 8_000
        assert len(reader.kept(SELECTION)[0]["query"]) == 8_000
