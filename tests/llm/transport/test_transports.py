"""Both transports against a real loopback server: the same events from the same bytes, the same error for a fault."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.trace_context import TRACEPARENT
from friday_cli.llm.transport import Endpoint, Transport, aclose_all, event_stream, get_transport
from tests.llm.providers.asking import TRANSPORTS
from tests.servers.script_player import DROP, HANG, RESET, Reply, Server, Wait, document, named, playing, unnamed
from tests.timing import paced

KEY = "sk-ant-api03-0123456789abcdef"
A, B, STOP = {"type": "a", "n": 1}, {"type": "b", "s": "é\u2028😀"}, {"type": "message_stop"}


@pytest.fixture(params=["anthropic", "openai"])
def sdk(request: pytest.FixtureRequest) -> Any:
    return request.param


def endpoint(server: Server | None, **more: Any) -> Endpoint:
    headers = {"authorization": f"Bearer {KEY}", "x-extra": "1"}
    base = server.url if server else "http://127.0.0.1:9"
    given = {"service": "svc", "base_url": base, "headers": headers, "key_name": "SVC_KEY", "sdk": "anthropic"}
    return Endpoint(**{**given, **more})


async def read(
    transport: Transport, server: Server | None, found: list[dict[str, Any]] | None = None, **more: Any
) -> list[dict[str, Any]]:
    found = [] if found is None else found
    async with aclosing(get_transport(transport)(endpoint(server, **more), "/v1/messages", {"model": "m"})) as events:
        async for event in events:
            found.append(event)
    return found


async def fails(
    transport: Transport, server: Server | None, found: list[dict[str, Any]] | None = None, **more: Any
) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await read(transport, server, found, **more)
    assert KEY not in str(caught.value)
    return caught.value


STREAMS: dict[str, tuple[Reply, list[dict[str, Any]]]] = {
    "named": (Reply(named(A, B, STOP)), [A, B, STOP]),
    "raw control character": (Reply(b'data: {"type":"a","s":"\x01\t"}\n\n'), [{"type": "a", "s": "\x01\t"}]),
    "half a surrogate pair": (Reply(b'data: {"type":"a","s":"\\ud83d"}\n\n'), [{"type": "a", "s": "\ud83d"}]),
    "no content type": (Reply(named(A, STOP), content_type=None), [A, STOP]),
    "wrong content type": (Reply(named(A, STOP), content_type="application/json"), [A, STOP]),
    "html content type": (Reply(named(A, STOP), content_type="text/html"), [A, STOP]),
    "name stands for the type": (Reply(b'event: a\ndata: {"n":1}\n\n'), [A]),
    "own type wins": (Reply(b'event: z\ndata: {"type":"a","n":1}\n\n'), [A]),
    "message is no name": (Reply(b'event: message\ndata: {"n":1}\n\n'), [{"n": 1}]),
    "done": (Reply(unnamed({"n": 1}, "[DONE]")), [{"n": 1}, {"type": "[DONE]"}]),
    "done without an end": (Reply(b'data: {"n":1}\n\ndata: [DONE]'), [{"n": 1}, {"type": "[DONE]"}]),
    "ping": (Reply(b"event: ping\ndata: {}\n\nevent: ping\n\n" + named(STOP)), [{"type": "ping"}, STOP]),
    "not objects": (Reply(unnamed("null", "[1]", "7", {"n": 1})), [{"n": 1}]),
    "half an event at the end": (Reply(named(A) + b'data: {"type":"b"'), [A]),
    "null error is none": (Reply(unnamed({"n": 1, "error": None})), [{"n": 1, "error": None}]),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
async def test_events(transport: Transport, sdk: Any, name: str) -> None:
    reply, expected = STREAMS[name]
    async with playing(reply) as server:
        assert await read(transport, server, sdk=sdk) == expected


FAULTS: dict[str, tuple[Reply, str, list[dict[str, Any]]]] = {
    "dropped before the head": (Reply(DROP, before_head=True), "network", []),
    "reset before the head": (Reply(RESET, before_head=True), "network", []),
    "dropped before an event": (Reply(DROP), "network", []),
    "dropped after an event": (Reply(named(A), DROP), "network", [A]),
    "reset after an event": (Reply(named(A), Wait(0.02), RESET), "network", [A]),
    "nothing in it": (Reply(), "empty", []),
    "comments only": (Reply(b": x\n\n: y\n\n"), "empty", []),
    "a page": (Reply(b"\n<!DOCTYPE html><html><title>Log in</title>", content_type="text/html"), "garbled", []),
    "a page as a stream": (Reply(b"<html><body>\n\ndata: x</body>"), "garbled", []),
    "a document": (document({"id": "m", "content": []}, 200), "config", []),
    "an error document": (document({"error": {"type": "overloaded_error", "message": "x"}}, 200), "overloaded", []),
    "words": (Reply(b"upstream connect error", content_type="text/plain"), "garbled", []),
    "broken json": (Reply(named(A) + b"data: {x}\n\n" + named(STOP)), "garbled", [A]),
    "deep json": (Reply(b"data: " + b'{"a":' * 100_000 + b"\n\n"), "garbled", []),
    "error event": (
        Reply(named(A, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}})), "overloaded", [A],
    ),
    "error without a type": (Reply(unnamed({"n": 1}, {"error": {"message": "x", "code": 429}})), "rate", [{"n": 1}]),
    "error by name": (Reply(b'event: error\ndata: {"message":"x","code":"invalid_prompt"}\n\n'), "invalid", []),
    "bad gzip": (Reply(named(A), content_encoding="gzip"), "garbled", []),
    "429": (document({"error": {"type": "rate_limit_error", "message": "x"}}, 429, retry_after="7"), "rate", []),
    "500 that says no": (document({}, 500, x_should_retry="false"), "invalid", []),
    "502 page": (Reply(b"<html><title>Bad Gateway</title>", status=502, content_type="text/html"), "server", []),
    "401": (document({"error": {"type": "authentication_error", "message": f"bad {KEY}"}}, 401), "auth", []),
    "error body that hangs up": (Reply(b'{"error": {"mess', DROP, status=429, retry_after="3"), "rate", []),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_faults(sdk: Any, name: str) -> None:
    """Both transports say the same."""
    reply, kind, before = FAULTS[name]
    said = []
    async with playing(reply) as server:
        for count, transport in enumerate(TRANSPORTS, 1):
            found: list[dict[str, Any]] = []
            error = await fails(transport, server, found, sdk=sdk)
            assert (error.kind, found) == (kind, before)
            assert len(server.requests) == count, "a transport never tries again by itself"
            assert "svc" in error.message
            if "retry-after" in reply.headers:
                assert error.retry_after == float(reply.headers["retry-after"])
            said.append((str(error), error.status, error.retry_after))
    assert said[0] == said[1]


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_no_redirect_is_followed(transport: Transport, sdk: Any, status: int) -> None:
    async with playing(Reply(named(STOP))) as other:
        async with playing(Reply(status=status, location=f"{other.url}/v1/messages")) as server:
            assert (await fails(transport, server, sdk=sdk)).kind == "config"
        assert other.requests == []


async def test_what_is_sent(transport: Transport, sdk: Any) -> None:
    body = {"model": "m", "stream": True, "s": "é\ud83d", "list": [1, 2.5, None, {"a": True}]}
    async with playing(Reply(named(STOP))) as server:
        async with aclosing(get_transport(transport)(endpoint(server, sdk=sdk), "/v1/messages", body)) as events:
            assert [event async for event in events] == [STOP]
        asked = server.requests[0]
    assert (asked.method, asked.path, asked.json) == ("POST", "/v1/messages", {**body, "s": "é\ufffd"})
    wanted = {
        "authorization": f"Bearer {KEY}",
        "x-extra": "1",
        "content-type": "application/json",
        "accept": "text/event-stream",
    }
    assert {name: asked.headers[name] for name in wanted} == wanted


async def test_the_trace_context_of_the_request_is_sent(transport: Transport) -> None:
    token = TRACEPARENT.set("00-context")
    try:
        async with playing(Reply(named(STOP))) as server:
            await read(transport, server)
    finally:
        TRACEPARENT.reset(token)
    assert server.requests[0].headers["traceparent"] == "00-context"


async def test_no_key_is_made_up(transport: Transport, sdk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-of-the-environment")
    async with playing(Reply(named(STOP))) as server:
        await read(transport, server, sdk=sdk, headers={})
        await read(transport, server, sdk=sdk, headers={"X-Api-Key": "k1234567"})
    bare, own = (asked.headers for asked in server.requests)
    assert "authorization" not in bare
    assert own["x-api-key"] == "k1234567"
    assert "sk-of-the-environment" not in f"{bare} {own}"


@pytest.mark.parametrize("rest", [(), (Wait(0.01),)], ids=["at once", "the body ends later"])
async def test_one_connection_serves_many_rounds(
    transport: Transport, rest: tuple[Wait, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "CLOSE_GRACE_S", 60.0)  # kept however long its server takes to end the body
    async with playing(Reply(named(A, STOP), *rest)) as server:
        for _ in range(3 if rest else 20):
            assert await read(transport, server) == [A, STOP]
        assert server.connections == 1
        await aclose_all()
        assert await read(transport, server) == [A, STOP]
        assert server.connections == 2


async def test_an_ended_reply_whose_connection_stays_open_ends(transport: Transport) -> None:
    async with playing(Reply(named(A, STOP), HANG)) as server:
        assert await asyncio.wait_for(read(transport, server), 60) == [A, STOP]
        await asyncio.wait_for(server.requests[0].left.wait(), 60)


@pytest.mark.parametrize("after", [Reply(HANG, before_head=True), Reply(HANG), Reply(named(A), HANG)])
async def test_cancelling_closes_the_connection_at_once(transport: Transport, after: Reply) -> None:
    async with playing(after) as server:
        task = asyncio.create_task(read(transport, server))
        await asyncio.wait_for(server.arrived.wait(), 60)
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.requests[0].left.wait(), 60)


@pytest.mark.parametrize("reply", [Reply(HANG, before_head=True), Reply(HANG), Reply(named(A), HANG)])
@paced
async def test_a_stall_ends(transport: Transport, reply: Reply, pace: float) -> None:
    async with playing(reply) as server:
        error = await fails(transport, server, idle_s=0.3 * pace)
        assert error.kind == "stall"
        assert f"{0.3 * pace:g} s" in error.message
        await asyncio.wait_for(server.requests[0].left.wait(), 60)


async def test_pings_alone_do_not_count_as_a_reply(transport: Transport) -> None:
    pings = [step for _ in range(6_000) for step in (named({"type": "ping"}), Wait(0.01))]  # a minute of them
    async with playing(Reply(*pings)) as server:
        error = await fails(transport, server, idle_s=60, event_idle_s=0.1)
    assert error.kind == "stall"
    assert "no events" in error.message


async def test_nobody_listens(transport: Transport, sdk: Any) -> None:
    async with playing(Reply()) as server:
        gone = server.url
    error = await fails(transport, None, base_url=gone, sdk=sdk)
    assert error.kind == "network"
    assert error.message.startswith(f"Cannot reach svc at {gone.removeprefix('http://')}")
    for url in ("ftp://h/x", "nonsense", "http://", "http://[::1", "http://h:99999"):
        assert (await fails(transport, None, base_url=url)).kind in ("config", "network"), url


async def test_a_flood_is_given_up(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("friday_cli.llm.transport.event_stream.REPLY_LIMIT", 100_000)
    async with playing(Reply(*[named({"type": "a", "s": "x" * 10_000})] * 50)) as server:
        assert (await fails(transport, server)).kind == "garbled"


@pytest.mark.parametrize(
    "headers",
    [
        *({"authorization": f"Bearer sk-with{end}"} for end in ("\nline-break", "-é-letter", "-\x00-nul")),
        {"bad name": "sk-with"},
    ],
)
async def test_headers_that_no_request_can_have(transport: Transport, headers: dict[str, str]) -> None:
    async with playing(Reply(named(STOP))) as server:
        error = await fails(transport, server, headers=headers)
    assert error.kind == "config"
    assert "SVC_KEY" in error.message
    assert "sk-with" not in str(error)


async def test_a_proxy_from_the_environment_is_used_for_other_hosts_only(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(Reply(named(STOP))) as proxy, playing(Reply(named(A))) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert await read(transport, server) == [A]
        assert await read(transport, None, base_url="http://model.example") == [STOP]
        assert proxy.requests[0].path == "http://model.example/v1/messages"
    error = await fails(transport, None, base_url="http://model.example")
    assert error.kind == "network"
    assert f"model.example through the proxy {proxy.url}" in error.message
