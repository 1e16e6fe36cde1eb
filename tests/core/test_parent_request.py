"""When the parent's request can be continued, and every reason why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from pi_project_memory.actors.core.parent_request import obstacle

A = ("anthropic", "anthropic-messages", "a-1")
NAMES = ("read", "find", "grep", "write", "edit", "bash")


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    return {"name": name, "description": "…", "parameters": {"type": "object", "properties": parameters}}


NATIVE = [tool(name, path={"type": "string"}) for name in NAMES]


def ask(**changes: Any) -> str:
    given: dict[str, Any] = {
        "requested": True,
        "parent_model": A,
        "model": A,
        "recent_messages": None,
        "compacted": False,
        "images_blocked": False,
        "forced_prompt": False,
        "hidden_tools": (),
        "parent_tools": NATIVE,
        "native_tools": NATIVE,
    }
    return obstacle(**(given | changes))


@pytest.mark.req("EXT-6")
def test_the_same_model_with_the_same_tools_continues_the_request():
    assert not ask()


FITTING = {
    "with tools of its own besides": [*NATIVE, tool("deploy"), tool("codemode")],
    "in another order": NATIVE[::-1],
    "described in other words": [{**declared, "description": "another"} for declared in NATIVE],
    "without bash, find and grep": [NATIVE[0], NATIVE[3], NATIVE[4]],
    "with write alone": [NATIVE[0], NATIVE[3]],
    "with edit alone": [NATIVE[0], NATIVE[4]],
    "with one that has no name": [*NATIVE, {"type": "web_search"}],
}


@pytest.mark.req("EXT-6")
@pytest.mark.parametrize("tools", FITTING.values(), ids=FITTING.keys())
def test_a_parent_continues(tools: list[dict[str, Any]]):
    assert not ask(parent_tools=tools)


HINDERED: dict[str, dict[str, Any]] = {
    "no request yet": {"requested": False},
    "another provider": {"model": ("bedrock", "anthropic-messages", "a-1")},
    "another api": {"model": ("anthropic", "openai-responses", "a-1")},
    "another model": {"model": ("anthropic", "anthropic-messages", "a-2")},
    "an unknown parent model": {"parent_model": None},
    "a limited conversation": {"recent_messages": 3},
    "a limit that would never bite": {"recent_messages": 10_000},
    "a conversation that was compacted": {"compacted": True},
    "images left out": {"images_blocked": True},
    "a prompt forced by somebody": {"forced_prompt": True},
    "hidden tools": {"hidden_tools": ("deploy",)},
    "no tools": {"parent_tools": ()},
    "no read": {"parent_tools": NATIVE[1:]},
    "neither write nor edit": {"parent_tools": [NATIVE[0], NATIVE[1], NATIVE[2], NATIVE[5]]},
    "a tool of another extension by a native name": {"parent_tools": [*NATIVE[:5], tool("bash", script={})]},
    "a tool without a schema": {"parent_tools": [{"name": "read"}, *NATIVE[1:]]},
    "a host that declares none": {"native_tools": ()},
    "a host that lacks read": {"native_tools": NATIVE[1:]},
}


@pytest.mark.req("EXT-6")
@pytest.mark.parametrize("change", HINDERED.values(), ids=HINDERED.keys())
def test_anything_else_asks_independently_and_says_why(change: dict[str, Any]):
    assert ask(**change)


@pytest.mark.req("EXT-6")
def test_every_reason_reads_differently():
    """Whoever looks at a trace learns which of the conditions it was."""
    conditions = ("no request yet", "another model", "a limited conversation", "images left out")
    conditions += ("a conversation that was compacted",)
    conditions += ("a prompt forced by somebody", "hidden tools", "no read")
    assert len({ask(**HINDERED[name]) for name in conditions}) == len(conditions)
