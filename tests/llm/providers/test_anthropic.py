"""AnthropicProvider over both transports against a loopback server, with the SDK as the oracle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Message, Opaque, Text, Thinking, ToolCall, ToolResult, Usage, user
from friday_cli.core.protocol.provider import Chunk, ReplyDone, Request, TextChunk
from friday_cli.llm.providers.anthropic import BINDING, VERSION, AnthropicProvider
from friday_cli.llm.providers.anthropic_request import DefaultQuirks
from friday_cli.llm.transport import Endpoint, Transport, aclose_all, event_stream, sdk
from tests.llm.providers.anthropic_cases import ODD, ORIGIN, PLAIN, call, end, start, text, thinking
from tests.llm.providers.test_anthropic_request import HAIKU, HISTORY, OLD, OPUS, SONNET, ask, results, said
from tests.servers.script_player import DROP, HANG, RESET, Reply, Server, Wait, document, named, playing
from tests.timing import paced

KEY = "sk-ant-api03-0123456789abcdef"
HELLO = [start(), *text(0, "Hello"), *end()]


@pytest.fixture(params=["http", "sdk"])
def transport(request: pytest.FixtureRequest) -> Transport:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
async def closing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    yield
    await aclose_all()


def provider(server: Server, transport: Transport = "http", **more: Any) -> AnthropicProvider:
    endpoint = Endpoint(
        service="anthropic",
        base_url=server.url,
        headers={"authorization": f"Bearer {KEY}", **more.pop("headers", {})},
        key_name="ANTHROPIC_API_KEY",
        idle_s=more.pop("idle_s", 30.0),
        models=more.pop("models", ()),
    )
    return AnthropicProvider(
        more.pop("model", "claude-test"),
        endpoint=endpoint,
        window=200_000,
        max_output=64_000,
        transport=transport,
        **more,
    )


async def reply(of: AnthropicProvider, request: Request | None = None) -> tuple[list[Chunk], ReplyDone]:
    async with aclosing(of.stream(request or ask())) as stream:
        chunks = [chunk async for chunk in stream]
    assert isinstance(chunks[-1], ReplyDone)
    assert not any(isinstance(c, ReplyDone) for c in chunks[:-1])
    return chunks[:-1], chunks[-1]


@pytest.mark.parametrize("name", [*PLAIN, *ODD])
async def test_replies(transport: Transport, name: str) -> None:
    events, parts, stop = {**PLAIN, **ODD}[name]
    data = b"".join(named(e) if "type" in e else f"data: {json.dumps(e)}\n\n".encode() for e in events)
    async with playing(Reply(data, split=0 if len(data) > 50_000 else 11)) as server:
        _, done = await reply(provider(server, transport))
    assert (done.message, done.stop) == (Message("assistant", tuple(parts)), stop)


def as_the_sdk_reads(message: Any) -> list[dict[str, Any]]:
    return [block.to_dict(mode="json") for block in message.content]


def as_we_read(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, ToolCall):
            blocks.append({"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments})
        elif isinstance(part, Opaque) and part.data["type"] == "text":
            blocks[-1] = part.data
        elif isinstance(part, Thinking | Opaque):
            assert part.data is not None
            blocks.append(part.data)
    return blocks


@pytest.mark.parametrize("name", PLAIN)
async def test_the_sdk_reads_the_same_message(name: str) -> None:
    import anthropic

    events, _, stop = PLAIN[name]
    async with playing(Reply(named(*events))) as server:
        _, done = await reply(provider(server))
        client = anthropic.AsyncAnthropic(auth_token=KEY, base_url=server.url, max_retries=0)
        body = server.requests[0].json
        del body["stream"]
        async with client.messages.stream(**body) as stream:
            theirs = await stream.get_final_message()
        await client.close()
    assert as_we_read(done.message) == as_the_sdk_reads(theirs)
    assert theirs.usage.input_tokens == done.usage.input
    assert theirs.usage.output_tokens == done.usage.output
    assert {"context": "model_context_window_exceeded"}.get(stop, stop) == theirs.stop_reason or (
        theirs.stop_reason == "stop_sequence"
    )


REQUESTS: dict[str, tuple[Request, dict[str, Any]]] = {
    "plain": (ask(), {}),
    "wrap-up": (ask(tool_choice="none"), {}),
    "effort": (ask(effort="high"), {"quirks": OPUS}),
    "between tools": (ask(effort="none"), {"quirks": SONNET}),
    "thinking off": (ask(effort="none"), {"quirks": HAIKU}),
    "budget": (ask(effort="low", max_output=9000), {"quirks": OLD}),
    "search": (ask(), {"web_search": True}),
    "no cache": (ask(), {"cache": "off"}),
    "marks on blocks": (ask(), {"cache": "blocks"}),
    "thoughts": (ask(messages=HISTORY), {"quirks": OPUS}),
    "tools": (
        ask(messages=(user("a"), said(ToolCall("t", "f", {"é": [1, None]})), results(ToolResult("t", "😀", "error")))),
        {},
    ),
    "half characters": (ask(messages=(user("a\ud83d"),), system="\udc00"), {}),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_both_transports_send_what_the_sdk_sends(name: str) -> None:
    import anthropic

    request, more = REQUESTS[name]
    async with playing(Reply(named(*HELLO))) as server:
        await reply(provider(server, "http", **more), request)
        await reply(provider(server, "sdk", **more), request)
        ours, over_sdk = server.requests
        client = anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, max_retries=0)
        stream = await client.messages.create(**ours.json)
        assert [event.type async for event in stream][-1] == "message_stop"
        await client.close()
        theirs = server.requests[2]
    assert ours.json == over_sdk.json == theirs.json
    for header in ("authorization", "anthropic-version", "content-type"):
        assert ours.headers[header] == over_sdk.headers[header] == theirs.headers[header], header
    assert {asked.path for asked in server.requests} == {"/v1/messages"}
    assert "x-api-key" not in ours.headers


def test_our_version_is_the_sdks() -> None:
    from anthropic._constants import ANTHROPIC_API_VERSION

    assert VERSION == ANTHROPIC_API_VERSION


async def test_configured_headers(transport: Transport) -> None:
    headers = {"Anthropic-Version": "2023-06-01", "anthropic-beta": "one-2025-01-01", "X-Team": "blue"}
    async with playing(Reply(named(*HELLO))) as server:
        await reply(provider(server, transport, headers=headers))
        sent = server.requests[0].headers
    assert (sent["anthropic-version"], sent["anthropic-beta"], sent["x-team"]) == (
        "2023-06-01",
        "one-2025-01-01",
        "blue",
    )


async def test_headers_from_the_environment(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "ANTHROPIC_CUSTOM_HEADERS", "X-Gate: a:b \nnonsense\nX-Team: green\nAnthropic-Version: 2023-06-01"
    )
    async with playing(Reply(named(*HELLO))) as server:
        await reply(provider(server, transport, headers={"x-team": "blue"}))
        sent = server.requests[0].headers
    assert (sent["x-gate"], sent["x-team"], sent["anthropic-version"]) == ("a:b", "blue", "2023-06-01")


BOUND = document(
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
            'conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
        },
    },
    400,
)
FORGED = document(
    {
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
        }
    },
    400,
)


async def test_stale_thinking_is_dropped_from_then_on(transport: Transport) -> None:
    request = ask(messages=HISTORY, cache_key="coder:a")
    async with playing(BOUND, Reply(named(*HELLO))) as server:
        of = provider(server, transport, quirks=OPUS, headers={"anthropic-beta": "one-2025-01-01"})
        assert (await reply(of, request))[1].message.text == "Hello"
        await reply(of, request)
        await reply(of, ask(messages=HISTORY, cache_key="coder:a.1"))
    sent = [asked.json["thinking"].get("block_binding") for asked in server.requests]
    assert sent == [None, {"prefix_mismatch_behavior": "drop_block"}, {"prefix_mismatch_behavior": "drop_block"}, None]
    betas = [asked.headers["anthropic-beta"] for asked in server.requests]
    assert betas == ["one-2025-01-01", f"one-2025-01-01,{BINDING}", f"one-2025-01-01,{BINDING}", "one-2025-01-01"]
    assert server.requests[1].json["messages"] == server.requests[0].json["messages"]


async def test_thinking_that_cannot_be_mended_is_not_sent(transport: Transport) -> None:
    request = ask(messages=HISTORY)
    async with playing(FORGED, Reply(named(*HELLO))) as server:
        assert (await reply(provider(server, transport, quirks=OPUS), request))[1].message.text == "Hello"
    assert [b["type"] for b in server.requests[1].json["messages"][1]["content"]] == ["text"]


async def test_one_remedy_a_request(transport: Transport) -> None:
    async with playing(BOUND) as server:
        with pytest.raises(ProviderError) as caught:
            await reply(provider(server, transport, quirks=OPUS), ask(messages=HISTORY))
        assert caught.value.kind == "invalid"
        assert len(server.requests) == 2


async def test_other_bad_requests_are_not_sent_again(transport: Transport) -> None:
    refused = {"error": {"type": "invalid_request_error", "message": "tools.0.input_schema: bad"}}
    async with playing(document(refused, 400)) as server:
        with pytest.raises(ProviderError) as caught:
            await reply(provider(server, transport))
        assert caught.value.kind == "invalid"
        assert len(server.requests) == 1


def error_event(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "words"}}


PARTIAL = [start(), *text(0, "Hel", stop=False)]
IN_CALL = [start(), *call(0, "t", "write_file", '{"path": "a', stop=False)]
FAULTS: dict[str, tuple[Reply, str, str]] = {
    "F1 429": (document(error_event("rate_limit_error"), 429), "rate", ""),
    "F4 spend limit": (
        document({"error": {"type": "rate_limit_error", "message": "Your credit balance is too low"}}, 429), "quota", "",
    ),
    "F5 529": (document(error_event("overloaded_error"), 529), "overloaded", ""),
    "F6 page": (Reply(b"<html><title>502</title>", status=502, content_type="text/html"), "server", ""),
    "F7 page": (Reply(b"<html><title>Hi</title>", content_type="text/html"), "garbled", ""),
    "F7 empty": (Reply(), "empty", ""),
    "F9 reset": (Reply(RESET, before_head=True), "network", ""),
    "F10 drop": (Reply(named(*PARTIAL), DROP), "network", "Hel"),
    "F10 reset": (Reply(named(*PARTIAL), Wait(0.02), RESET), "network", "Hel"),
    "F11 reset in a call": (Reply(named(*IN_CALL), Wait(0.02), RESET), "network", ""),
    "F12 clean end": (Reply(named(*PARTIAL)), "truncated", "Hel"),
    "F12 clean end in a call": (Reply(named(*IN_CALL)), "truncated", ""),
    "F12 call without its end mark": (Reply(named(start(), *call(0, "t", "f"))), "truncated", ""),
    "F16 overloaded": (Reply(named(*PARTIAL, error_event("overloaded_error"))), "overloaded", "Hel"),
    "F17 invalid": (Reply(named(*PARTIAL, error_event("invalid_request_error"))), "invalid", "Hel"),
    "F17 auth": (Reply(named(error_event("authentication_error"))), "auth", ""),
    "F23 broken line": (Reply(named(*PARTIAL) + b"data: {oops\n\n" + named(*end())), "garbled", "Hel"),
    "F27 arguments of nothing": (
        Reply(named(*PARTIAL, {"type": "content_block_delta", "index": 9,
                               "delta": {"type": "input_json_delta", "partial_json": "{"}}, *end())), "garbled", "Hel",
    ),
    "F28 nothing": (Reply(named(start(), *end())), "empty", ""),
    "F28 thinking only": (Reply(named(start(), *thinking(0, "hm"), *end())), "empty", ""),
    "F32 context": (
        document({"error": {"type": "invalid_request_error", "message": "prompt is too long: 2 > 1"}}, 400), "context", "",
    ),
    "F32 413": (document(error_event("request_too_large"), 413), "context", ""),
    "F33 401": (document(error_event("authentication_error"), 401), "auth", ""),
    "F33 403": (document(error_event("permission_error"), 403), "auth", ""),
    "F34 404": (document(error_event("not_found_error"), 404), "not_found", ""),
    "F40 redirect": (Reply(status=307, location="http://other.example/"), "config", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_faults(transport: Transport, name: str) -> None:
    answer, kind, before = FAULTS[name]
    shown: list[Chunk] = []

    async def take(of: AnthropicProvider) -> None:
        async with aclosing(of.stream(ask())) as stream:
            async for chunk in stream:
                shown.append(chunk)

    async with playing(answer) as server:
        with pytest.raises(ProviderError) as caught:
            await take(provider(server, transport))
        assert [r.path for r in server.requests if r.method == "POST"] == ["/v1/messages"]
    error = caught.value
    assert error.kind == kind
    assert "".join(c.text for c in shown if isinstance(c, TextChunk)) == before
    assert not any(isinstance(c, ReplyDone) for c in shown)
    assert KEY not in str(error)
    begun = any(isinstance(step, bytes) and b"message_start" in step for step in answer.steps)
    assert isinstance(error.usage, Usage) == begun, "what the failed try cost is known once the service began"
    if isinstance(error.usage, Usage):
        assert error.usage.input == 10


@paced
async def test_a_stall_is_told_apart(transport: Transport, pace: float) -> None:
    async with playing(Reply(named(*PARTIAL), HANG)) as server:
        with pytest.raises(ProviderError) as caught:
            await reply(provider(server, transport, idle_s=0.05 * pace))
    assert caught.value.kind == "stall"
    assert isinstance(caught.value.usage, Usage)


async def test_cancelling_closes_the_connection(transport: Transport) -> None:
    async with playing(Reply(named(*PARTIAL), HANG)) as server:
        task = asyncio.create_task(reply(provider(server, transport)))
        await asyncio.wait_for(server.arrived.wait(), 60)
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.requests[0].left.wait(), 60)


async def test_twenty_rounds_over_one_connection(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (event_stream, sdk):  # a connection is kept however long its server takes to end the body
        monkeypatch.setattr(module, "CLOSE_GRACE_S", 60.0)
    rounds = [
        Reply(named(start(), *call(0, f"t{i}", "read_file", '{"path": "a"}'), *end("tool_use"))) for i in range(20)
    ]
    history: tuple[Message, ...] = (user("go"),)
    async with playing(*rounds, Reply(named(*HELLO))) as server:
        of = provider(server, transport)
        for _ in range(20):
            _, done = await reply(of, ask(messages=history))
            history += (done.message, results(ToolResult(done.message.calls[0].id, "text")))
        assert (await reply(of, ask(messages=history)))[1].message.text == "Hello"
        assert server.connections == 1
    assert len(server.requests[-1].json["messages"]) == 41


async def test_ten_children_share_a_provider(transport: Transport) -> None:
    async with playing(Reply(named(*PARTIAL), Wait(0.02), named(*text(0, "lo")[1:], *end()))) as server:
        of = provider(server, transport)
        done = await asyncio.gather(*(reply(of, ask(agent=f"a.{i}")) for i in range(10)))
    assert [d.message.text for _, d in done] == ["Hello"] * 10


async def test_what_a_provider_tells_of_itself(transport: Transport) -> None:
    async with playing(Reply(named(*HELLO))) as server:
        of = provider(server, transport, price=lambda usage: usage.output * 0.5)
        _, done = await reply(of)
        same, free = (
            provider(server, transport),
            provider(server, transport, headers={"authorization": "Bearer another-key"}),
        )
    assert (of.name, of.model, of.window, of.max_output, of.badge) == ("anthropic", "claude-test", 200_000, 64_000, "")
    assert done.usage == Usage(10, 0, 0, 7, cost_usd=3.5, cached=False)
    assert of.lane == same.lane != free.lane
    assert same.cost(Usage(1)) is None
    for shown in (repr(of), of.lane, str(vars(of))):
        assert KEY not in shown


async def test_models_and_tokens_come_from_the_sdk(transport: Transport) -> None:
    listing = {"data": [{"type": "model", "id": "claude-x", "display_name": "X", "created_at": "2026-01-01T00:00:00Z",
                         "max_input_tokens": 5}], "has_more": False, "first_id": "claude-x", "last_id": "claude-x"}  # fmt: skip
    async with playing(document(listing, 200), document({"input_tokens": 123}, 200), document({}, 500)) as server:
        of = provider(server, transport, quirks=DefaultQuirks(thinking="adaptive"))
        models = await of.list_models()
        assert (models[0]["id"], models[0]["max_input_tokens"]) == ("claude-x", 5)
        assert await of.count_tokens(ask()) == 123
        assert server.requests[1].path == "/v1/messages/count_tokens"
        assert "max_tokens" not in server.requests[1].json
        for ask_again in (of.list_models, lambda: of.count_tokens(ask())):
            with pytest.raises(ProviderError) as caught:
                await ask_again()  # type: ignore[operator]
            assert caught.value.kind == "server"


def test_origin_of_the_cases() -> None:
    assert ORIGIN == "anthropic/claude-test"


async def test_f34_a_library_that_loads_slowly_leaves_the_list_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, load, later = asyncio.get_running_loop(), sdk._load, 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + later)

    async def slowly(name: str) -> None:
        nonlocal later
        await load(name)
        later += 3600
        await asyncio.sleep(0.01)  # a timer that began before it rings

    monkeypatch.setattr(sdk, "_load", slowly)
    listed = document({"data": [{"id": "claude-opus-5-5"}], "has_more": False}, 200)
    async with playing(document(error_event("not_found_error"), 404), listed) as server:
        with pytest.raises(ProviderError) as caught:
            await reply(provider(server, "http", model="claude-opus-5.5"))
    assert caught.value.hint.startswith("Did you mean claude-opus-5-5?")


@pytest.mark.parametrize(
    ("model", "listed", "words"),
    [
        (
            "claude-opus-5.5",
            {"data": [{"id": "claude-opus-5-5"}, {"id": "claude-haiku-5"}]},
            "Did you mean claude-opus-5-5 or ",
        ),
        ("claude-opus-5.5", None, "Did you mean claude-known-5-5?"),
        ("zebra", None, "Check the model's name"),
        ("claude-known-5-5", None, "Check the model's name"),
    ],
)
async def test_f34_near_names_are_those_listed_or_else_those_known(
    transport: Transport, model: str, listed: dict[str, Any] | None, words: str
) -> None:
    answers = [document(error_event("not_found_error"), 404)]
    answers.append(document({**listed, "has_more": False}, 200) if listed else document({"error": "no"}, 404))
    async with playing(*answers) as server:
        of = provider(server, transport, model=model, models=("claude-known-5-5",))
        with pytest.raises(ProviderError) as caught:
            await reply(of)
    assert caught.value.hint.startswith(words)
    assert "/v1/models" in server.requests[1].path
