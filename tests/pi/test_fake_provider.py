"""Proves the fake provider at its socket, without Pi."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from pi.fake_provider import FakeProvider, fake_provider
from pi.scripting import Error, Gate, text

pytestmark = pytest.mark.real_time


@contextlib.asynccontextmanager
async def connection(
    provider: FakeProvider,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", provider.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


async def post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, body: object) -> bytes:
    """Send one request and read its answer, which must carry a content length; returns all of it."""
    raw = json.dumps(body).encode()
    writer.write(f"POST {path} HTTP/1.1\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages?beta=true", "/elsewhere"])
async def test_what_is_not_scripted_is_refused_and_fails_the_test(path: str):
    async with fake_provider() as provider:
        async with connection(provider) as (reader, writer):
            answer = await post(reader, writer, path, {"model": "main", "messages": []})
        with pytest.raises(pytest.fail.Exception, match="not scripted"):
            provider.assert_clean()
    assert answer.startswith(b"HTTP/1.1 404" if path == "/elsewhere" else b"HTTP/1.1 500")


async def test_a_responder_that_raises_fails_the_test():
    async with fake_provider() as provider:
        provider.respond("main", lambda request: text(request.body["missing"]))
        async with connection(provider) as (reader, writer):
            await post(reader, writer, "/v1/messages", {"model": "main"})
        with pytest.raises(pytest.fail.Exception, match="KeyError"):
            provider.assert_clean()


async def test_a_connection_is_kept_alive_and_an_early_leave_is_seen(provider: FakeProvider):
    provider.script("main", Error(400), Error(401), Error(402, before=(Gate(),)))
    body = {"model": "main", "messages": []}
    async with connection(provider) as (reader, writer):
        first = await post(reader, writer, "/v1/messages", body)
        second = await post(reader, writer, "/v1/messages", body)
        third = asyncio.ensure_future(post(reader, writer, "/v1/messages", body))
        last = await provider.request("main", 2)
        third.cancel()
    await provider.client_left(last)
    assert (first[:12], second[:12]) == (b"HTTP/1.1 400", b"HTTP/1.1 401")
    assert [request.client_left.is_set() for request in provider.log] == [False, False, True]
    assert provider.leftover("main") == 0
