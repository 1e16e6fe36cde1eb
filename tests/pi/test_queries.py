"""Which texts of a real session become a query of the selector, and which never do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pi.fake_provider import FakeProvider
from pi.inspecting import conversation_text, message_texts
from pi.memory_home import chosen, with_memory
from pi.pi_home import PiHome
from pi.rpc_session import rpc_session
from pi.scripting import Gate, Text, stream, text

pytestmark = pytest.mark.real_time

NO_IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
"""Pi leaves it out and says so behind the prompt's own text."""

MEDDLER = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.on("input", (event) => {
    if (event.text.startsWith("swallow ")) return { action: "handled" };
    if (event.text.startsWith("rewrite ")) return { action: "transform", text: "the prompt as it was rewritten" };
    return { action: "continue" };
  });
  const poked = { customType: "poke", content: "words of another extension", display: true };
  pi.registerCommand("poke", {
    description: "Starts a run with a message of an extension",
    handler: async () => pi.sendMessage(poked, { triggerTurn: true }),
  });
}
"""


@pytest.fixture
def meddler(tmp_path: Path) -> Path:
    path = tmp_path / "meddler.ts"
    path.write_text(MEDDLER, "utf-8")
    return path


@pytest.mark.req("SEL-1", "SEL-2", "SEL-6", "HOST-2")
async def test_only_what_the_user_has_really_said_in_two_words_is_a_query(
    pi_home: PiHome, provider: FakeProvider, meddler: Path
):
    """Case C28 from the selector's side, and the texts that other extensions bring in."""
    with_memory(pi_home)
    provider.respond("small", lambda _: text(chosen()))
    provider.respond("main", lambda _: text("Fine."))
    gate = Gate()
    async with rpc_session(pi_home, extensions=[meddler]) as pi:
        await pi.run("ok")
        await pi.run("yes do")
        mark = pi.mark()
        await pi.prompt("", images=[NO_IMAGE])
        await pi.settled(mark)
        mark = pi.mark()
        await pi.prompt("a prompt with a picture", images=[NO_IMAGE])
        await pi.settled(mark)
        await pi.run("/memory status")
        await pi.run("swallow this whole text")
        await pi.run("rewrite this whole text")
        mark = pi.mark()
        await pi.prompt("/poke")
        await pi.settled(mark)
        provider.script("main", stream(gate, Text("First.")))
        mark = pi.mark()
        await pi.prompt("a prompt that takes its time")
        await gate.reached.wait()
        await pi.follow_up("word")
        await pi.follow_up("a message that was queued")
        gate.open()
        await pi.settled(mark)
        await provider.request("small", 4)
    said = "\n".join(conversation_text(request) for request in provider.requests_for("main")[-1:])
    for words in ("yes do", "words of another extension", "the prompt as it was rewritten"):
        assert words in said
    assert "a prompt with a picture\n\n" in said
    queries = [
        message_texts(request)[-1].rpartition("Request:\n\n")[2] for request in provider.requests_for("small")
    ]
    assert queries == [
        "yes do",
        "a prompt with a picture",
        "the prompt as it was rewritten",
        "a prompt that takes its time",
        "a message that was queued",
    ]
