"""Abort scopes: how they nest, who hears of an abort, and generations (LIFE-2, LIFE-3)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import anyio
import pytest

from actors_kit import Outcome, turns
from pi_project_memory.actors.scopes import AbortedError, AbortScope, Generations
from scopes_kit import LEVELS, nested, sleep_in


@pytest.mark.req("LIFE-3")
@pytest.mark.parametrize("level", range(4), ids=LEVELS)
def test_an_abort_reaches_everything_below_and_nothing_above_or_beside(level: int):
    scopes = nested()
    beside = scopes[level].child("an elder") if level == 3 else scopes[level - 1].child("a sibling")
    scopes[level].abort("enough")
    assert [scope.reason for scope in scopes] == [None] * level + ["enough"] * (4 - level)
    assert beside.aborted is (level in {0, 3})


@pytest.mark.req("LIFE-3")
def test_the_first_reason_is_the_reason_at_every_level():
    scopes, heard = nested(), []
    with scopes[2].on_abort(heard.append):
        scopes[3].abort("the request timed out")
        scopes[1].abort("the configuration changed")
        scopes[0].abort("the session ends")
        scopes[1].abort("again")
    assert [scope.reason for scope in scopes] == [
        "the session ends",
        "the configuration changed",
        "the configuration changed",
        "the request timed out",
    ]
    assert heard == ["the configuration changed"]


@pytest.mark.req("LIFE-3")
def test_an_empty_reason_aborts_as_well():
    scope = AbortScope("task")
    scope.abort("")
    assert scope.aborted
    scope.abort("later")
    with pytest.raises(AbortedError, match=r"^$"):
        scope.check()


@pytest.mark.req("LIFE-3")
async def test_below_an_aborted_scope_nothing_begins():
    scope = AbortScope("task")
    scope.abort("stopped by the user")
    late = scope.child("request").child("retry")
    assert late.reason == "stopped by the user"
    for begin in (late.guard, lambda: late.on_abort(pytest.fail)):
        with pytest.raises(AbortedError, match="stopped by the user"), begin():
            pytest.fail("the block ran")
    with pytest.raises(AbortedError, match="stopped by the user"):
        late.check()


@pytest.mark.req("LIFE-3")
def test_a_closed_scope_is_forgotten_by_its_parent():
    scopes = nested()
    scopes[2].close()
    scopes[2].close()
    scopes[0].abort("the session ends")
    assert [scope.aborted for scope in scopes] == [True, True, False, False]


@pytest.mark.req("LIFE-3")
@pytest.mark.parametrize("aborted", [False, True], ids=["finished", "aborted"])
async def test_ten_thousand_scopes_leave_nothing_behind(*, aborted: bool):
    parent = AbortScope("generation")
    traces: list[weakref.ref[AbortScope]] = []
    for number in range(10_000):
        child = parent.child(f"task {number}")
        with child.on_abort(str):
            if aborted:
                child.abort("done")
        child.close()
        traces.append(weakref.ref(child))
    del child
    gc.collect()
    assert not any(trace() for trace in traces)
    assert not parent._listeners


@pytest.mark.req("LIFE-3")
async def test_guards_and_listeners_that_have_ended_are_forgotten():
    scope = AbortScope("session")
    for _ in range(1000):
        with scope.guard(), scope.on_abort(str):
            pass
        with pytest.raises(ValueError), scope.guard():
            raise ValueError
    assert not scope._listeners


@pytest.mark.req("LIFE-3")
def test_a_listener_is_called_at_once_and_only_while_its_block_runs():
    scope, heard = AbortScope("request"), []
    with scope.on_abort(lambda _: heard.append("early")):
        pass
    with scope.on_abort(heard.append):
        scope.abort("stop")
        assert heard == ["stop"]
        scope.abort("stop again")
    assert heard == ["stop"]


def _begin_another(scope: AbortScope, heard: list[str]) -> None:
    with pytest.raises(AbortedError), scope.on_abort(heard.append):
        pytest.fail("a listener was taken on during the abort")


def _open_a_child(scope: AbortScope, heard: list[str]) -> None:
    heard.append(f"the child: {scope.child('late').reason}")


def _abort_again(scope: AbortScope, heard: list[str]) -> None:
    scope.abort("again")
    heard.append(str(scope.reason))


@pytest.mark.req("LIFE-3")
@pytest.mark.parametrize(
    ("act", "expected"),
    [(_begin_another, []), (_open_a_child, ["the child: stop"]), (_abort_again, ["stop"])],
)
def test_a_listener_may_use_the_scope_that_calls_it(
    act: Callable[[AbortScope, list[str]], None], expected: list[str]
):
    scope, heard, others = AbortScope("task"), [], []
    with scope.on_abort(lambda _: act(scope, heard)), scope.on_abort(others.append):
        scope.abort("stop")
    assert heard == expected
    assert others == ["stop"]


@pytest.mark.req("LIFE-3")
def test_a_scope_that_is_closed_during_the_abort_has_ended_before_it():
    scope, finished = AbortScope("task"), AbortScope("elsewhere")
    with scope.on_abort(lambda _: finished.close()):
        finished = scope.child("request")
        scope.abort("stop")
    assert not finished.aborted


@pytest.mark.req("LIFE-3")
def test_a_listener_that_fails_keeps_the_abort_from_nobody():
    scope, heard = AbortScope("task"), []
    request = scope.child("request")

    def fail(reason: str) -> None:
        raise ValueError(reason)

    with (
        scope.on_abort(fail),
        scope.on_abort(heard.append),
        request.on_abort(fail),
        request.on_abort(heard.append),
        pytest.raises(ExceptionGroup) as raised,
    ):
        scope.abort("stop")
    assert raised.group_contains(ValueError, match="stop")
    assert heard == ["stop", "stop"]
    assert request.aborted
    assert not scope._listeners


@pytest.mark.req("LIFE-2")
def test_only_the_newest_generation_is_current():
    generations = Generations(AbortScope("session"))
    assert [generations.is_current(number) for number in (-1, 0, 1)] == [False, True, False]
    assert generations.advance("the configuration changed") == 1
    assert [generations.is_current(number) for number in (0, 1, 2)] == [False, True, False]
    assert generations.current == 1


@pytest.mark.req("LIFE-2", "LIFE-3")
async def test_a_new_generation_aborts_the_work_of_the_old_one_and_spares_its_own():
    generations = Generations(AbortScope("session"))
    old, new = Outcome(), Outcome()
    async with anyio.create_task_group() as group:
        group.start_soon(old.of, sleep_in(generations.scope.child("task")))
        await turns()
        generations.advance("the configuration changed")
        group.start_soon(new.of, sleep_in(generations.scope.child("task")))
        await turns()
        assert (str(old.error), new.error) == ("the configuration changed", None)
        group.cancel_scope.cancel()


@pytest.mark.req("LIFE-2")
def test_whoever_hears_of_the_abort_sees_the_new_generation_already():
    generations = Generations(AbortScope("session"))
    seen: list[tuple[int, bool]] = []
    with generations.scope.on_abort(
        lambda _: seen.append((generations.current, generations.is_current(generations.current)))
    ):
        generations.advance("reload")
    assert seen == [(1, True)]


@pytest.mark.req("LIFE-2", "LIFE-3")
def test_after_the_session_no_generation_is_current():
    session = AbortScope("session")
    generations = Generations(session)
    session.abort("the session ends")
    assert not generations.is_current(0)
    assert generations.advance("reload") == 1
    assert generations.scope.reason == "the session ends"
    assert not generations.is_current(1)


@pytest.mark.req("LIFE-2")
def test_ten_thousand_generations_leave_one_scope_behind():
    session = AbortScope("session")
    generations = Generations(session)
    for _ in range(10_000):
        generations.advance("reload")
    assert list(session._listeners) == [generations.scope]
