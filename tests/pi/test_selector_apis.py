"""The selector's two forms on the wire of each API, through the real Pi's adapters."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest

from pi.capture_provider import Captured, CaptureProvider, capture_provider
from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts, system_text, tool_names
from pi.memory_home import CONFIG, chosen, configure, with_memory
from pi.pi_home import ModelSpec, PiHome
from pi.rpc_session import RpcSession, rpc_session
from pi.scripting import Cut, Error, Json, Reply, call, stream, text
from pi_project_memory.actors.core.selection import SCHEMA_JSON

pytestmark = pytest.mark.real_time

NAME = "select_memories"
SCHEMA = json.loads(SCHEMA_JSON)
PROMPT = "How do we deploy this service?"

_NAMED = {"type": "json_schema", "name": NAME, "schema": SCHEMA, "strict": True}
_GOOGLE = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
_BEDROCK = {"jsonSchema": {"name": NAME, "schema": SCHEMA_JSON}}

NATIVE: dict[str, tuple[str, Any]] = {
    "anthropic-messages": ("output_config", {"format": {"type": "json_schema", "schema": SCHEMA}}),
    "openai-completions": (
        "response_format",
        {"type": "json_schema", "json_schema": {"name": NAME, "schema": SCHEMA, "strict": True}},
    ),
    "openai-responses": ("text", {"format": _NAMED}),
    "openai-codex-responses": ("text", {"verbosity": "low", "format": _NAMED}),
    "azure-openai-responses": ("text", {"format": _NAMED}),
    "google-generative-ai": ("generationConfig", _GOOGLE),
    "google-vertex": ("generationConfig", _GOOGLE),
    "mistral-conversations": (
        "response_format",
        {"type": "json_schema", "json_schema": {"name": NAME, "schema": SCHEMA, "strict": True}},
    ),
    "bedrock-converse-stream": (
        "outputConfig",
        {"textFormat": {"type": "json_schema", "structure": _BEDROCK}},
    ),
}
"""Where each API's native form stands in the body, and what stands there."""

_FUNCTION = {"type": "function", "name": NAME}
_ANY = {"functionCallingConfig": {"mode": "ANY"}}

FORCED: dict[str, tuple[str, Any]] = {
    "anthropic-messages": ("tool_choice", {"type": "tool", "name": NAME}),
    "openai-completions": ("tool_choice", {"type": "function", "function": {"name": NAME}}),
    "openai-responses": ("tool_choice", _FUNCTION),
    "openai-codex-responses": ("tool_choice", "required"),
    "azure-openai-responses": ("tool_choice", _FUNCTION),
    "google-generative-ai": ("toolConfig", _ANY),
    "google-vertex": ("toolConfig", _ANY),
    "mistral-conversations": ("tool_choice", "required"),
    "bedrock-converse-stream": ("toolChoice", {"tool": {"name": NAME}}),
}
"""Where the choice of the tool stands; Bedrock's inside of its `toolConfig`."""

_CLAIM = {"https://api.openai.com/auth": {"chatgpt_account_id": "nobody"}}
KEYS = {"openai-codex-responses": f"x.{base64.b64encode(json.dumps(_CLAIM).encode()).decode()}.x"}
"""The one API that reads its key: it looks for an account in it."""

ENVIRONMENT = {"AWS_BEDROCK_FORCE_HTTP1": "1", "AWS_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "1"}


def offer_all_apis(home: PiHome, capture: CaptureProvider, apis: Sequence[str] = tuple(NATIVE)) -> None:
    """Add one provider for each API to the home's models, all of them at the capture server."""
    path = home.agent_dir / "models.json"
    models = json.loads(path.read_text("utf-8"))
    for api in apis:
        models["providers"][f"capture-{api}"] = {
            "baseUrl": f"{capture.origin}/{api}",
            "api": api,
            "apiKey": KEYS.get(api, "fake-key"),
            "models": [ModelSpec("chooser").as_json()],
        }
    path.write_text(json.dumps(models), "utf-8")


async def choose_with(pi: RpcSession, api: str, **selector: Any) -> None:
    """Make the API's model the selector from now on."""
    roles = {"selector": {"model": f"capture-{api}/chooser"} | selector}
    configure(pi.pi.home, CONFIG | {"models": roles})
    mark = pi.mark()
    await pi.prompt("/memory reload-config")
    await pi.notified("Configuration reloaded", mark)


async def requests_of(pi: RpcSession, capture: CaptureProvider, *statuses: int) -> list[Captured]:
    """What a prompt makes the selector send when it is answered with these statuses."""
    capture.script(*statuses)
    mark = pi.mark()
    await pi.run(PROMPT)
    await pi.notified("the selection failed", mark)
    return capture.take()


def part(request: Captured, key: str) -> Any:
    """The part of the body under `key`, looked for one level down as well."""
    body = request.body
    inner = (value for value in body.values() if isinstance(value, dict) and key in value)
    return body[key] if key in body else next(inner, {}).get(key)


def tools(request: Captured) -> list[Json]:
    body = request.body
    return list(body.get("tools") or body.get("toolConfig", {}).get("tools") or [])


def native_form(api: str, request: Captured) -> object:
    key, expected = NATIVE[api]
    found = part(request, key)
    return {name: found[name] for name in expected} if isinstance(found, dict) else found


@pytest.mark.req("SEL-4", "SEL-5", "SEL-6")
async def test_each_api_gets_the_native_form_and_after_a_refusal_the_tool(
    pi_home: PiHome, provider: FakeProvider
):
    """Case C40: 400 is retried once with the tool, 429 is not; without the native form the tool comes first."""
    with_memory(pi_home)
    provider.respond("main", lambda _: text("Fine."))
    sent: dict[str, list[Captured]] = {}
    limited: dict[str, list[Captured]] = {}
    async with capture_provider() as capture:
        offer_all_apis(pi_home, capture)
        async with rpc_session(pi_home, environment=ENVIRONMENT) as pi:
            for api in NATIVE:
                await choose_with(pi, api)
                sent[api] = await requests_of(pi, capture, 400, 400)
                limited[api] = await requests_of(pi, capture)
            await choose_with(pi, "openai-responses", structuredOutput=False)
            (at_once,) = await requests_of(pi, capture, 400)
    assert part(at_once, "tool_choice") == _FUNCTION
    assert "json_schema" not in at_once.text
    assert {api: len(requests) for api, requests in sent.items()} == dict.fromkeys(NATIVE, 2)
    assert {api: native_form(api, sent[api][0]) for api in NATIVE} == {
        api: expected for api, (_, expected) in NATIVE.items()
    }
    assert {api: part(sent[api][1], key) for api, (key, _) in FORCED.items()} == {
        api: expected for api, (_, expected) in FORCED.items()
    }
    for api in NATIVE:
        native, tool = sent[api]
        assert SCHEMA_JSON in native.text.replace('\\"', '"'), f"{api}: the schema is not as it should be"
        assert (len(tools(native)), len(tools(tool))) == (0, 1), api
        assert NAME in json.dumps(tools(tool)), api
        assert SCHEMA_JSON not in json.dumps(part(tool, NATIVE[api][0])), api
        assert {request.method for request in sent[api]} == {"POST"}, api
        assert limited[api] != [], api
        assert [tools(request) for request in limited[api]] == [[]] * len(limited[api]), api
    assert [api for api in NATIVE if len(limited[api]) != 1] == []


OWN_API = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { openAICompletionsApi } from "@earendil-works/pi-ai/compat";

export default function (pi: ExtensionAPI) {
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const limits = { contextWindow: 100_000, maxTokens: 4_096 };
  pi.registerProvider("own", {
    baseUrl: "ORIGIN/v1",
    apiKey: "fake-key",
    api: "own-api",
    models: [{ id: "own-model", name: "Own", reasoning: false, input: ["text"], cost, ...limits }],
    streamSimple: (model, context, options) =>
      openAICompletionsApi().streamSimple({ ...model, api: "openai-completions" } as never, context, options),
  });
}
"""


@pytest.mark.req("SEL-5")
async def test_an_api_of_another_extension_calls_the_tool_at_once(pi_home: PiHome, provider: FakeProvider):
    with_memory(pi_home)
    path = pi_home.root / "own_api.ts"
    path.write_text(OWN_API.replace("ORIGIN", provider.origin))
    configure(pi_home, CONFIG | {"models": {"selector": {"model": "own/own-model"}}})
    provider.script("own-model", call(NAME, selected_memories=["deploy.md"]))
    provider.respond("main", lambda _: text("Fine."))
    async with rpc_session(pi_home, extensions=[path]) as pi:
        await pi.run(PROMPT)
    (request,) = provider.requests_for("own-model")
    assert tool_names(request) == [NAME]
    assert not {"response_format", "tool_choice"} & request.body.keys()
    assert "make unship" in conversation_text(provider.requests_for("main")[0])


@pytest.mark.req("SEL-5", "SEL-7")
@pytest.mark.parametrize("wire", ["fake", "fakea"])
async def test_a_refused_form_is_retried_with_the_tool_and_recalls(
    wire: str, pi_home: PiHome, provider: FakeProvider
):
    with_memory(pi_home)
    configure(pi_home, CONFIG | {"models": {"selector": {"model": f"{wire}/small"}}})
    refused = Error(422, {"error": {"message": "the output cannot be constrained"}})
    provider.script("small", refused, call(NAME, selected_memories=["[project] deploy.md"]), refused)
    provider.respond("small", lambda _: call(NAME, selected_memories=[]))
    provider.respond("main", lambda _: text("Fine."))
    async with rpc_session(pi_home) as pi:
        await pi.run(PROMPT)
        await pi.run("And how is it rolled back?")
        await pi.prompt("/memory status")
        status = await pi.notified("structuredOutput")
        assert [note for note in pi.notifications() if note[0] != "info"] == []
    first, second, third, fourth = provider.requests_for("small")
    assert [tool_names(request) for request in (first, second, third, fourth)] == [[], [NAME], [], [NAME]]
    assert message_texts(first) == message_texts(second)
    assert system_text(second).startswith(system_text(first))
    assert "make unship" in conversation_text(provider.requests_for("main")[0])
    assert "models.selector.structuredOutput" in status


FINAL: dict[str, Reply | Error] = {
    "401": Error(401),
    "403": Error(403),
    "429": Error(429),
    "503": Error(503),
    "network": stream(Cut()),
    "length": stream(text(chosen("deploy.md")).steps[0], stop="length"),
    "refusal": stream(text("I would rather not.").steps[0], stop="refusal"),
    "prose": text("You want deploy.md, I think."),
    "number": text('{"selected_memories": [1]}'),
}


@pytest.mark.req("SEL-5", "SEL-7")
async def test_every_other_failure_is_a_warning_of_its_own_and_no_second_request(
    pi_home: PiHome, provider: FakeProvider
):
    """Case C40: the rest of the table, one prompt each."""
    with_memory(pi_home)
    provider.respond("main", lambda _: text("Fine."))
    sent: dict[str, int] = {}
    warned: dict[str, int] = {}
    async with rpc_session(pi_home) as pi:
        for name, answer in FINAL.items():
            mark, before = pi.mark(), len(provider.requests_for("small"))
            provider.script("small", answer)
            await pi.run(PROMPT)
            await pi.notified("the selection failed", mark)
            sent[name] = len(provider.requests_for("small")) - before
            warned[name] = len([note for note in pi.notifications(mark) if note[0] == "warning"])
    assert sent == dict.fromkeys(FINAL, 1)
    assert warned == dict.fromkeys(FINAL, 1)
    assert all("<memory-recall>" not in conversation_text(r) for r in provider.requests_for("main"))
