"""Mailboxes: what is accepted, what is merged, what is refused, and who is answered (LIFE-1, LIFE-6)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors_kit import Chapter, Count, Ended, Gauge, Note, Outcome, Question, Stage, Tally, turns
from pi_project_memory.actors import background_messages, messages
from pi_project_memory.actors.mailbox import (
    AskTimeoutError,
    Mailbox,
    MailboxClosedError,
    MailboxFullError,
    Message,
    Reply,
)
from pi_project_memory.actors.messages import PromptSubmitted, TurnAborted


def drained(mailbox: Mailbox[Any]) -> list[Any]:
    """Take out what waits, as the reader would."""
    taken = []
    while len(mailbox):
        receiving = mailbox.receive()
        with pytest.raises(StopIteration) as done:
            receiving.send(None)
        taken.append(done.value.value)
    return taken


def concrete_messages() -> list[type[Message]]:
    kinds = [
        value
        for module in (messages, background_messages)
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    return [kind for kind in kinds if issubclass(kind, Message)]


@pytest.mark.req("LIFE-1")
@pytest.mark.parametrize("kind", concrete_messages(), ids=lambda kind: kind.__name__)
def test_what_actors_are_told_is_frozen_and_closed(kind: type[Message]):
    assert kind.__struct_config__.frozen
    message = Note(0)
    with pytest.raises(AttributeError):
        message.generation = 1  # type: ignore[misc]
    assert "__dict__" not in dir(kind)


@pytest.mark.req("LIFE-1")
def test_messages_come_out_in_the_order_they_went_in():
    mailbox: Mailbox[Note] = Mailbox("reader")
    for number in range(10):
        mailbox.tell(Note(0, number))
    assert [note.number for note in drained(mailbox)] == list(range(10))


@pytest.mark.req("LIFE-1", "LIFE-6")
def test_an_ordinary_message_is_refused_by_a_full_mailbox_which_stays_as_it_was():
    mailbox: Mailbox[Any] = Mailbox("index", capacity=2)
    mailbox.tell(Note(0, 1))
    mailbox.tell(Note(0, 2))
    with pytest.raises(MailboxFullError, match="index holds 2 messages"):
        mailbox.tell(Note(0, 3))
    assert [note.number for note in drained(mailbox)] == [1, 2]
    mailbox.tell(Note(0, 4))
    assert len(mailbox) == 1


@pytest.mark.req("LIFE-1")
async def test_an_asker_who_finds_no_room_is_told_at_once():
    stage = Stage(capacity=1)
    stage.mailbox.tell(Note(0))
    with pytest.raises(MailboxFullError):
        await stage.ask("room?", deadline=60)
    assert anyio.current_time() == 0
    assert len(stage.mailbox) == 1


@pytest.mark.req("LIFE-6")
def test_a_refused_request_is_answered_even_when_it_was_only_told():
    mailbox: Mailbox[Any] = Mailbox("index", capacity=0)
    reply: Reply[str] = Reply()
    with pytest.raises(MailboxFullError):
        mailbox.tell(Question(0, reply, "?"))
    assert not reply.open


@pytest.mark.req("LIFE-6")
@pytest.mark.parametrize("kind", [Tally, Count])
def test_a_burst_of_a_thousand_essential_messages_into_a_full_mailbox_loses_none(kind: type[Tally]):
    mailbox: Mailbox[Any] = Mailbox("extractor", capacity=3)
    for number in range(3):
        mailbox.tell(Note(0, number))
    for number in range(1000):
        mailbox.tell(kind(0, (number,)))
    assert len(mailbox) == 4
    *notes, burst = drained(mailbox)
    assert [note.number for note in notes] == [0, 1, 2]
    assert burst.numbers == tuple(range(1000))


@pytest.mark.req("LIFE-6")
def test_kinds_that_alternate_stay_bounded_and_merge_with_their_own_alone():
    mailbox: Mailbox[Any] = Mailbox("extractor", capacity=1)
    for number in range(1000):
        mailbox.tell((Tally, Count)[number % 2](0, (number,)))
    tally, count = drained(mailbox)
    assert (type(tally), tally.numbers) == (Tally, tuple(range(0, 1000, 2)))
    assert (type(count), count.numbers) == (Count, tuple(range(1, 1000, 2)))


@pytest.mark.req("LIFE-6")
def test_an_essential_message_that_merges_with_nothing_is_accepted_beyond_the_capacity():
    mailbox: Mailbox[Any] = Mailbox("prefetch", capacity=1)
    mailbox.tell(Note(0, 1))
    for number in range(4):
        mailbox.tell(Ended(0, number))
    assert [message.number for message in drained(mailbox)] == [1, 0, 1, 2, 3]


@pytest.mark.req("LIFE-6")
def test_an_ordinary_message_merges_into_one_of_its_kind_where_it_would_not_fit():
    mailbox: Mailbox[Any] = Mailbox("status", capacity=1)
    mailbox.tell(Gauge(0, 1))
    mailbox.tell(Gauge(0, 2))
    assert drained(mailbox) == [Gauge(0, 2)]


@pytest.mark.req("LIFE-6")
@pytest.mark.parametrize(
    "between", [Note(0, 2), Ended(0, 2), Question(0, Reply(), "2")], ids=lambda m: type(m).__name__
)
def test_a_merge_never_carries_a_message_past_one_that_merges_with_nothing(between: Message):
    mailbox: Mailbox[Any] = Mailbox("extractor")
    for message in (Tally(0, (1,)), between, Tally(0, (3,)), Tally(0, (4,))):
        mailbox.tell(message)
    assert drained(mailbox) == [Tally(0, (1,)), between, Tally(0, (3, 4))]


@pytest.mark.req("LIFE-6")
def test_a_message_whose_newest_like_does_not_merge_is_not_folded_into_an_older_one():
    mailbox: Mailbox[Any] = Mailbox("index")
    for book, number in ((1, 1), (2, 2), (1, 3), (1, 4)):
        mailbox.tell(Chapter(0, book, (number,)))
    assert drained(mailbox) == [Chapter(0, 1, (1,)), Chapter(0, 2, (2,)), Chapter(0, 1, (3, 4))]


@pytest.mark.req("LIFE-6", "HOST-7")
def test_an_abort_after_a_prompt_is_not_folded_into_one_before_it():
    mailbox: Mailbox[Any] = Mailbox("prefetch")
    prompt = PromptSubmitted(0, Reply(), "t1", "what did we say about tabs?")
    for message in (TurnAborted(0), prompt, TurnAborted(0)):
        mailbox.tell(message)
    assert drained(mailbox) == [TurnAborted(0), prompt, TurnAborted(0)]


@pytest.mark.req("LIFE-2", "LIFE-6")
def test_messages_of_two_generations_are_never_made_one():
    mailbox: Mailbox[Any] = Mailbox("extractor")
    for generation in (1, 0, 1, 0):
        mailbox.tell(Tally(generation, (generation,)))
    assert drained(mailbox) == [Tally(1, (1, 1)), Tally(0, (0, 0))]


@pytest.mark.req("LIFE-6")
@given(
    capacity=st.integers(0, 4),
    kinds=st.lists(st.sampled_from([Note, Tally, Ended, None]), max_size=40),
)
def test_what_was_accepted_comes_out_once_and_in_order(capacity: int, kinds: list[Any]):
    """A `None` among the kinds is the reader taking everything that waits."""
    mailbox: Mailbox[Any] = Mailbox("reader", capacity)
    accepted: list[int] = []
    taken: list[Any] = []
    for number, kind in enumerate(kinds):
        if kind is None:
            taken += drained(mailbox)
            continue
        try:
            mailbox.tell(Tally(0, (number,)) if kind is Tally else kind(0, number))
        except MailboxFullError:
            assert kind is Note
        else:
            accepted.append(number)
        assert len(mailbox) <= 2 * (capacity + kinds.count(Ended)) + 1
    taken += drained(mailbox)
    assert [
        n for message in taken for n in getattr(message, "numbers", None) or (message.number,)
    ] == accepted


@pytest.mark.req("LIFE-1")
@pytest.mark.parametrize("end", ["close", "finish"])
def test_telling_after_the_end_names_the_reason_and_answers_the_request(end: str):
    mailbox: Mailbox[Any] = Mailbox("index")
    getattr(mailbox, end)("index failed too often: boom")
    reply: Reply[str] = Reply()
    for message in (Note(0), Tally(0), Question(0, reply, "?")):
        with pytest.raises(MailboxClosedError, match="index failed too often: boom"):
            mailbox.tell(message)
    assert not reply.open
    assert len(mailbox) == 0


@pytest.mark.req("LIFE-1")
async def test_requests_left_at_the_close_are_answered_with_the_reason():
    stage = Stage()
    outcomes = [Outcome() for _ in range(3)]
    async with anyio.create_task_group() as group:
        for number, outcome in enumerate(outcomes):
            group.start_soon(outcome.of, stage.ask(f"{number}"))
        await turns()
        stage.mailbox.close("the session has ended")
    assert [str(outcome.error) for outcome in outcomes] == ["the session has ended"] * 3
    assert all(isinstance(outcome.error, MailboxClosedError) for outcome in outcomes)
    assert len(stage.mailbox) == 0
    assert anyio.current_time() == 0


@pytest.mark.req("LIFE-1")
async def test_a_finished_mailbox_gives_out_what_waits_before_it_ends():
    mailbox: Mailbox[Any] = Mailbox("reader")
    mailbox.tell(Note(0, 1))
    mailbox.finish("no more")
    mailbox.finish("a second reason, too late")
    assert await mailbox.receive() == Note(0, 1)
    for _ in range(2):
        with pytest.raises(MailboxClosedError, match=r"^no more$"):
            await mailbox.receive()


@pytest.mark.req("LIFE-1")
@pytest.mark.parametrize("end", ["close", "finish"])
async def test_a_waiting_reader_learns_of_the_end(end: str):
    mailbox: Mailbox[Any] = Mailbox("reader")
    outcome = Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, mailbox.receive())
        await turns()
        getattr(mailbox, end)("over")
    assert isinstance(outcome.error, MailboxClosedError)


@pytest.mark.req("LIFE-6")
async def test_a_reader_cancelled_in_the_turn_of_an_arrival_loses_nothing():
    mailbox: Mailbox[Any] = Mailbox("reader")
    outcome = Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, mailbox.receive())
        await turns()
        mailbox.tell(Ended(0, 1))
        group.cancel_scope.cancel()
    assert [message for message in (outcome.value, *drained(mailbox)) if message] == [Ended(0, 1)]


@pytest.mark.req("LIFE-1")
def test_a_closed_mailbox_told_a_thousand_times_keeps_nothing_of_it():
    mailbox: Mailbox[Any] = Mailbox("index")
    mailbox.close("off")
    depths = []
    for _ in range(1000):
        with pytest.raises(MailboxClosedError) as raised:
            mailbox.tell(Note(0))
        depths.append(len(raised.traceback))
    assert depths[-1] == depths[0]


@pytest.mark.req("LIFE-1")
@pytest.mark.parametrize(("delay", "answered"), [(1.999, True), (2.001, False)])
async def test_an_answer_counts_up_to_the_deadline_and_no_longer(delay: float, *, answered: bool):
    stage, outcome = Stage(), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, stage.ask("when?", deadline=2))
        question = await stage.mailbox.receive()
        await anyio.sleep(delay)
        assert question.reply.send("now") is answered
    if answered:
        assert (outcome.value, outcome.at) == ("now", pytest.approx(1.999))
    else:
        assert isinstance(outcome.error, AskTimeoutError)
        assert outcome.at == pytest.approx(2)


@pytest.mark.req("LIFE-1")
async def test_an_answer_at_the_deadline_itself_counts_for_both_sides_or_for_neither():
    stage, outcome, sent = Stage(), Outcome(), []
    async with anyio.create_task_group() as group:
        group.start_soon(outcome.of, stage.ask("when?", deadline=2))
        question = await stage.mailbox.receive()
        await anyio.sleep(2)
        sent.append(question.reply.send("now"))
    assert (outcome.value == "now") is sent[0]
    assert (outcome.error is None) is sent[0]


@pytest.mark.req("LIFE-1")
@pytest.mark.parametrize("deadline", [0, -1.5])
async def test_a_deadline_that_has_passed_ends_the_ask_without_waiting(deadline: float):
    stage = Stage()
    with pytest.raises(AskTimeoutError):
        await stage.ask("still?", deadline=deadline)
    assert anyio.current_time() == 0


@pytest.mark.req("LIFE-1")
async def test_two_asks_get_their_own_answers_in_whatever_order_they_come():
    stage = Stage()
    first, second = Outcome(), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(first.of, stage.ask("first"))
        group.start_soon(second.of, stage.ask("second"))
        questions = [await stage.mailbox.receive() for _ in range(2)]
        for question in reversed(questions):
            question.reply.send(f"answer to the {question.text}")
    assert (first.value, second.value) == ("answer to the first", "answer to the second")


@pytest.mark.req("LIFE-1")
async def test_the_answer_to_a_cancelled_ask_is_discarded():
    stage = Stage()
    async with anyio.create_task_group() as group:
        group.start_soon(Outcome().of, stage.ask("never mind"))
        question = await stage.mailbox.receive()
        group.cancel_scope.cancel()
    assert not question.reply.open
    assert question.reply.send("too late") is False
    assert question.reply.fail(ValueError("too late")) is False


@pytest.mark.req("LIFE-1")
async def test_a_wait_that_is_cancelled_leaves_nobody_waiting():
    reply: Reply[str] = Reply()
    with anyio.move_on_after(1):
        await reply.wait(60)
    assert not reply.open
    assert reply.send("to nobody") is False


@pytest.mark.req("LIFE-1")
async def test_only_the_first_answer_counts():
    reply: Reply[str] = Reply()
    assert reply.send("first")
    assert not reply.send("second")
    assert not reply.fail(ValueError("third"))
    assert await reply.wait(1) == "first"


@pytest.mark.req("LIFE-1")
async def test_an_error_is_an_answer_too():
    reply: Reply[str] = Reply()
    assert reply.fail(ValueError("no such topic"))
    assert not reply.send("after all")
    with pytest.raises(ValueError, match="no such topic"):
        await reply.wait(1)


@pytest.mark.req("LIFE-1")
async def test_nothing_is_an_answer_as_well():
    reply: Reply[None] = Reply()
    reply.send(None)
    assert await reply.wait(0) is None
