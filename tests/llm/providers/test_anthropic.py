"""AnthropicProvider over both transports against a loopback server, with the SDK as the oracle."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Message, Opaque, Text, Thinking, ToolCall, ToolResult, Usage, user
from friday_cli.core.protocol.provider import Request, TextChunk
from friday_cli.llm.providers.anthropic import BINDING, TASK_BUDGETS, VERSION, AnthropicProvider
from friday_cli.llm.providers.anthropic_request import AnthropicQuirks
from friday_cli.llm.providers.pricing import Pricing
from friday_cli.llm.transport import Transport, sdk
from tests.llm.providers.anthropic_cases import ODD, PLAIN
from tests.llm.providers.asking import KEY, fails, provider_at
from tests.llm.providers.asking import ask as reply
from tests.llm.providers.test_anthropic_request import HAIKU, HISTORY, OLD, OPUS, SONNET, ask, body, results, said
from tests.servers.anthropic_events import end, start, text
from tests.servers.script_player import Reply, Server, document, named, playing

HELLO = [start(), *text(0, "Hello"), *end()]


def provider(server: Server, transport: Transport = "http", **more: Any) -> AnthropicProvider:
    given = {"service": "anthropic", "name": "claude-test", "window": 200_000, "max_output": 64_000, **more}
    found: AnthropicProvider = provider_at(server.url, "messages", transport=transport, **given)
    return found


@pytest.mark.parametrize("name", [*PLAIN, *ODD])
async def test_replies(transport: Transport, name: str) -> None:
    events, parts, stop = {**PLAIN, **ODD}[name]
    data = b"".join(named(e) if "type" in e else f"data: {json.dumps(e)}\n\n".encode() for e in events)
    async with playing(Reply(data, split=0 if len(data) > 50_000 else 11)) as server:
        chunks, done = await reply(provider(server, transport))
    assert (done.message.parts, done.stop) == (tuple(parts), stop)
    shown = "".join(c.text for c in chunks if isinstance(c, TextChunk))
    assert shown == ("lost" if name == "second message" else "") + done.message.text


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
    assert as_we_read(done.message) == [block.to_dict(mode="json") for block in theirs.content]
    assert (theirs.usage.input_tokens, theirs.usage.output_tokens) == (done.usage.input, done.usage.output)
    assert {"context": "model_context_window_exceeded"}.get(stop, stop) == theirs.stop_reason or (
        theirs.stop_reason == "stop_sequence"
    )


REQUESTS: dict[str, tuple[Request, dict[str, Any]]] = {
    "plain": (ask(), {}), "wrap-up": (ask(tool_choice="none"), {}), "effort": (ask(effort="high"), {"quirks": OPUS}),
    "between tools": (ask(effort="none"), {"quirks": SONNET}), "thinking off": (ask(effort="none"), {"quirks": HAIKU}),
    "budget": (ask(effort="low", max_output=9000), {"quirks": OLD}), "search": (ask(), {"searches": True}),
    "thoughts": (ask(messages=HISTORY), {"quirks": OPUS}),
    "tools": (ask(messages=(user("a"), said(ToolCall("t", "f", {"é": [1, None]})),
                            results(ToolResult("t", "😀", "error")))), {}),
    "half characters": (ask(messages=(user("a\ud83d"),), system="\udc00"), {}),
}  # fmt: skip


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


async def test_the_sdk_sends_marks_on_blocks_unchanged() -> None:
    import anthropic

    sent = body(ask(), cache_blocks=True)
    async with (
        playing(Reply(named(*HELLO))) as server,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, max_retries=0) as client,
    ):
        await (await client.messages.create(**sent)).close()
    assert server.requests[0].json == sent


def test_our_version_is_the_sdks() -> None:
    from anthropic._constants import ANTHROPIC_API_VERSION

    assert VERSION == ANTHROPIC_API_VERSION


async def test_configured_headers_and_those_of_the_environment(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "ANTHROPIC_CUSTOM_HEADERS", "X-Gate: a:b \nnonsense\nX-Team: green\nAnthropic-Version: 2023-01-01"
    )
    headers = {"Anthropic-Version": "2023-06-01", "anthropic-beta": "one-2025-01-01", "X-Team": "blue"}
    async with playing(Reply(named(*HELLO))) as server:
        await reply(provider(server, transport, headers=headers))
        sent = server.requests[0].headers
    assert (sent["anthropic-version"], sent["anthropic-beta"]) == ("2023-06-01", "one-2025-01-01")
    assert (sent["x-gate"], sent["x-team"]) == ("a:b", "blue")


async def test_a_budget_comes_with_its_beta_header_and_without_it_when_the_service_refuses_it(
    transport: Transport,
) -> None:
    budgets = msgspec.structs.replace(OPUS, task_budget=True)
    refusal = invalid("output_config.task_budget: Extra inputs are not permitted")
    async with playing(refusal, Reply(named(*HELLO)), Reply(named(*HELLO))) as server:
        of = provider(server, transport, quirks=budgets, name="claude-budget")
        await reply(of, ask(task_tokens=50_000))
        await reply(of, ask())
    sent = [("task_budget" in asked.json.get("output_config", {})) for asked in server.requests]
    assert sent == [True, False, False]
    assert [asked.headers.get("anthropic-beta") for asked in server.requests] == [TASK_BUDGETS, TASK_BUDGETS, None]


def invalid(message: str) -> Reply:
    return document({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, 400)


BOUND = invalid(
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
    "conversation. Remove it, or set `thinking.block_binding.prefix_mismatch_behavior` to `drop_block`."
)
FORGED = invalid("messages.1.content.0: Invalid `signature` in `thinking` block")


async def test_stale_thinking_is_dropped_from_then_on(transport: Transport) -> None:
    request = ask(messages=HISTORY, provider_state={})
    async with playing(BOUND, Reply(named(*HELLO))) as server:
        of = provider(server, transport, quirks=OPUS, headers={"anthropic-beta": "one-2025-01-01"})
        assert (await reply(of, request))[1].message.text == "Hello"
        await reply(of, request)
        await reply(of, ask(messages=HISTORY))
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


OTHER = invalid("messages.0: bad")


@pytest.mark.parametrize(("answer", "count"), [(BOUND, 2), (OTHER, 1)], ids=["one remedy a request", "another reason"])
async def test_what_stays_refused_is_not_sent_again(transport: Transport, answer: Reply, count: int) -> None:
    async with playing(answer) as server:
        _, error = await fails(provider(server, transport, quirks=OPUS), ask(messages=HISTORY))
    assert (error.kind, len(server.requests)) == ("invalid", count)


def error_event(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "words"}}


async def test_what_a_provider_tells_of_itself(transport: Transport) -> None:
    async with playing(Reply(named(*HELLO))) as server:
        of = provider(server, transport, pricing=Pricing(lambda usage: usage.output * 0.5))
        _, done = await reply(of)
        same, free = (
            provider(server, transport),
            provider(server, transport, headers={"authorization": "Bearer another-key"}),
        )
    assert (of.name, of.model, of.window, of.max_output, of.badge) == ("anthropic", "claude-test", 200_000, 64_000, "")
    assert done.usage == Usage(10, 0, 0, 7, cost_usd=3.5, cached=False)
    assert of.rate_limit_key == same.rate_limit_key != free.rate_limit_key
    assert same.cost(Usage(1)) is None
    for shown in (repr(of), of.rate_limit_key, str(vars(of))):
        assert KEY not in shown


async def test_tokens_are_counted_by_the_service(transport: Transport) -> None:
    async with playing(document({"input_tokens": 123}, 200), document({}, 500)) as server:
        of = provider(server, transport, quirks=AnthropicQuirks(thinking="adaptive"))
        assert await of.count_tokens(ask()) == 123
        assert server.requests[0].path == "/v1/messages/count_tokens"
        assert "max_tokens" not in server.requests[0].json
        with pytest.raises(ProviderError) as caught:
            await of.count_tokens(ask())
    assert caught.value.kind == "server"


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
        _, error = await fails(provider(server, "http", name="claude-opus-5.5"))
    assert error.hint.startswith("Did you mean claude-opus-5-5?")


@pytest.mark.parametrize(("model", "listed", "words"), [
    ("claude-opus-5.5", ["claude-opus-5-5", "claude-haiku-5"], "Did you mean claude-opus-5-5 or "),
    ("zebra", ["claude-opus-5-5", "claude-haiku-5"], "It has: claude-opus-5-5, claude-haiku-5. Check the model's name"),
    ("claude-opus-5.5", None, "Did you mean claude-known-5-5?"),
    ("zebra", None, "Check the model's name"),
    ("claude-known-5-5", None, "Check the model's name"),
])  # fmt: skip
async def test_f34_near_names_are_those_listed_or_else_those_known(
    transport: Transport, model: str, listed: list[str] | None, words: str
) -> None:
    answers = [document(error_event("not_found_error"), 404)]
    rows = {"data": [{"id": name} for name in listed or ()], "has_more": False}
    answers.append(document(rows, 200) if listed else document({"error": "no"}, 404))
    async with playing(*answers) as server:
        of = provider(server, transport, name=model, models=("claude-known-5-5",))
        _, error = await fails(of)
    assert error.hint.startswith(words)
    assert "/v1/models" in server.requests[1].path
