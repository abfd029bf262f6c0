"""The faults a service and a network can have, on every wire and both transports: never a false end, one clear error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from friday_cli.core.protocol.messages import Text, ToolCall, Usage
from friday_cli.core.protocol.provider import TextChunk
from friday_cli.llm.providers import service_provider
from friday_cli.llm.transport import Transport
from tests.llm.providers.asking import TRANSPORTS, Wire, ask, asked, at_server, fails
from tests.llm.providers.test_openai_chat import FIRST
from tests.servers import anthropic_events as claude
from tests.servers import openai_events as openai
from tests.servers.script_player import DROP, HANG, RESET, Fault, Reply, Wait, document, named, unnamed

CHAT = [
    openai.delta(content="Hel"),
    openai.delta(content="lo"),
    openai.calls(FIRST),
    openai.calls(openai.piece(0, '{"x": 1}')),
    openai.delta("tool_calls"),
    openai.usage(prompt_tokens=9, completion_tokens=5),
]
RESPONSES = openai.whole(*openai.thought(0), *openai.texts(1, "Hel", "lo"), *openai.called(2))
MESSAGES = [
    claude.start(),
    *claude.text(0, "Hel", "lo"),
    *claude.call(1, "c1", "grep", '{"x": 1}'),
    *claude.end("tool_use"),
]
STREAMS: dict[Wire, list[dict[str, Any]]] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
ENDED: dict[Wire, int] = {"chat": 5, "responses": len(RESPONSES), "messages": len(MESSAGES) - 1}
"""Events after which the reply counts."""
BEGUN: dict[Wire, int] = {"chat": 2, "responses": 12, "messages": 4}
"""Events after which there is text."""
CUTS: list[tuple[Wire, int]] = [(wire, n) for wire, events in STREAMS.items() for n in range(1, ENDED[wire])]
EACH = [(wire, transport) for wire in STREAMS for transport in TRANSPORTS]
on_each = pytest.mark.parametrize(("wire", "transport"), EACH)


def sse(wire: Wire, *events: dict[str, Any]) -> bytes:
    return unnamed(*events) if wire == "chat" else named(*events)


@on_each
@pytest.mark.parametrize(("end", "kind"), [((), "truncated"), ((DROP,), "network"), ((RESET,), "network")])
async def test_a_stream_cut_after_any_event_is_no_reply(
    wire: Wire, transport: Transport, end: tuple[Fault, ...], kind: str
) -> None:
    cuts = [n for w, n in CUTS if w == wire]
    replies = [Reply(sse(wire, *STREAMS[wire][:n]), *end) for n in cuts]
    async with at_server(*replies, wire=wire, transport=transport) as (provider, _):
        for _ in cuts:
            chunks, error = await fails(provider)
            assert error.kind == kind
            assert "".join(c.text for c in chunks if isinstance(c, TextChunk)) in ("", "Hel", "Hello")


@on_each
async def test_events_without_end_that_bring_nothing_end_the_reply(
    wire: Wire, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_provider, "SILENT_EVENTS", 100)
    silent = {"chat": {"choices": []}, "responses": {"type": "response.in_progress"}, "messages": {"type": "ping"}}[
        wire
    ]
    for count, fine in ((1200, False), (1000, True)):
        sent = [*STREAMS[wire][: BEGUN[wire]], *[silent] * count, *STREAMS[wire][BEGUN[wire] :]]
        async with at_server(Reply(sse(wire, *sent)), wire=wire, transport=transport) as (provider, _):
            if fine:
                assert (await ask(provider))[1].stop == "tool_use"
            else:
                chunks, error = await fails(provider)
                assert "keeps sending events" in error.message
                assert not error.transient
                assert any(isinstance(c, TextChunk) for c in chunks)


@on_each
async def test_what_breaks_after_the_end_mark_does_not_matter(wire: Wire, transport: Transport) -> None:
    body = sse(wire, *STREAMS[wire][: ENDED[wire] + (wire == "messages")])
    broken = [Reply(body + b'data: {"half', DROP), Reply(body + b"data: {]\n\n")]
    replies = [Reply(body, DROP), Reply(body, RESET), *broken]
    async with at_server(*replies, wire=wire, transport=transport) as (provider, _):
        for _ in replies:
            _, done = await ask(provider)
            assert done.stop == "tool_use"
            assert Text("Hello") in done.message.parts
            assert done.message.calls == (ToolCall("c1", "grep", {"x": 1}),)
            assert done.usage.estimated is (wire == "chat")


@on_each
async def test_a_failed_try_tells_what_it_cost(wire: Wire, transport: Transport) -> None:
    begun = Reply(sse(wire, *STREAMS[wire][: BEGUN[wire]]))
    replies = [begun, Reply(DROP), document({"error": {"message": "x"}}, 500)]
    async with at_server(*replies, wire=wire, transport=transport) as (provider, _):
        _, error = await fails(provider)
        assert isinstance(error.usage, Usage)
        assert error.usage.estimated
        assert error.usage.input > 0
        assert error.usage.output > 0
        for _ in range(2):
            assert (await fails(provider))[1].usage is None


ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"type": "overloaded_error", "message": "busy"}, "overloaded"),
    ({"code": "insufficient_quota", "message": "no"}, "quota"),
    ({"code": 429, "message": "slow"}, "rate"),
    ({"code": "context_length_exceeded", "message": "long"}, "context"),
    ({"type": "authentication_error", "message": "bad key sk-canary-0123456789"}, "auth"),
]


@on_each
async def test_an_error_inside_the_stream(wire: Wire, transport: Transport) -> None:
    replies = []
    for error, _ in ERRORS:
        whole = {"responses": {**error, "type": "error", "error": error}, "messages": {"type": "error", "error": error}}
        bad = whole.get(wire, {"error": error})
        replies.append(Reply(sse(wire, *STREAMS[wire][:2], bad)))
    async with at_server(*replies, wire=wire, transport=transport) as (provider, _):
        for _, kind in ERRORS:
            assert (await fails(provider))[1].kind == kind


async def test_what_only_chat_can_say() -> None:
    inside = openai.delta("error", content="x")
    inside["choices"][0]["error"] = {"code": 429, "message": "slow"}
    nameless = [openai.calls(openai.piece(0, '{"x": 1}')), openai.delta("tool_calls")]
    said = [
        ([openai.delta("network_error")], "server"),
        ([inside], "rate"),
        ([*CHAT[:4], "[DONE]"], "truncated"),
        (nameless, "garbled"),
    ]
    async with at_server(*(Reply(unnamed(*events)) for events, _ in said)) as (provider, _):
        assert [(await fails(provider))[1].kind for _ in said] == [kind for _, kind in said]


@on_each
@pytest.mark.parametrize("split", [1, 7])
async def test_bytes_split_anywhere_with_crlf_comments_and_a_bom(wire: Wire, transport: Transport, split: int) -> None:
    """What is no UTF-8 is replaced."""
    body = b"\xef\xbb\xbf: hello\n\n" + sse(wire, *STREAMS[wire])
    body = body.replace(b"Hel", b"H\xffl").replace(b'lo"', 'lö\u2028"'.encode()).replace(b"\n", b"\r\n")
    async with at_server(Reply(body, split=split, content_type=None), wire=wire, transport=transport) as (provider, _):
        _, done = await ask(provider)
    assert done.message.text == "H\ufffdllö\u2028"
    assert done.message.calls[0].arguments == {"x": 1}


EMPTY: dict[Wire, list[list[dict[str, Any]]]] = {
    "chat": [
        [openai.delta("stop")],
        [openai.delta("stop", content=" \n")],
        [openai.delta("stop", reasoning="hm")],
        [openai.delta("tool_calls")],
    ],
    "responses": [openai.whole(), openai.whole(*openai.texts(0, " \n")), openai.whole(*openai.thought(0))],
    "messages": [
        [claude.start(), *content, *claude.end()] for content in ([], claude.text(0, " \n"), claude.thinking(0, "hm"))
    ],
}


@on_each
async def test_an_answer_with_neither_text_nor_calls(wire: Wire, transport: Transport) -> None:
    replies = [Reply(sse(wire, *events)) for events in EMPTY[wire]]
    async with at_server(*replies, wire=wire, transport=transport) as (provider, _):
        for _ in replies:
            _, error = await fails(provider)
            assert error.kind == "empty"
            assert isinstance(error.usage, Usage)


@on_each
async def test_who_leaves_closes_the_connection(wire: Wire, transport: Transport) -> None:
    reply = Reply(sse(wire, *STREAMS[wire][: BEGUN[wire]]), HANG)
    async with at_server(reply, wire=wire, transport=transport) as (provider, server):
        stream = provider.stream(asked())
        await anext(stream)
        await stream.aclose()
        await asyncio.wait_for(server.requests[0].left.wait(), 60)


@on_each
async def test_ten_children_share_a_provider(wire: Wire, transport: Transport) -> None:
    body = sse(wire, *STREAMS[wire])
    reply = Reply(body[:300], Wait(0.02), body[300:])
    async with at_server(reply, wire=wire, transport=transport) as (provider, _):
        done = await asyncio.gather(*(ask(provider, asked(agent=f"a.{n}")) for n in range(10)))
    assert [d.message.text for _, d in done] == ["Hello"] * 10


JUNK: list[Any] = [
    {"choices": "x"}, {"choices": {"a": 1}}, {"choices": [[1]]}, {"choices": [{"delta": 3}]},
    {"choices": [{"delta": {"content": {"a": 1}, "tool_calls": {"a": 1}, "refusal": 3, "reasoning_details": "x"}}]},
    {"choices": [{"delta": {"tool_calls": [3, {}, {"index": "a", "function": 3}, {"index": 2, "id": 7}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 5, "function": {"name": 3, "arguments": 4}}]}}]},
    {"choices": [{"delta": {"reasoning_details": [3, {"type": ["x"], "index": {}}]}, "finish_reason": 3}]},
    {"usage": 3, "x_groq": 4}, {"usage": {"prompt_tokens": [], "completion_tokens_details": 3}}, {"error": None},
    {"type": "response.output_item.added", "item": 3}, {"type": "response.output_item.done", "item": {}},
    {"type": "response.output_item.done", "output_index": "a", "item": {"type": "reasoning", "summary": 3, "content": [4]}},
    {"type": "response.output_text.delta", "output_index": [], "delta": {"a": 1}}, {"type": 3}, {"type": None},
    {"type": "response.output_text.done", "text": 3}, {"type": "response.function_call_arguments.delta", "delta": 3},
    {"type": "response.created", "response": 3}, {"type": "response.", "sequence_number": "x"}, {},
]  # fmt: skip


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_events_of_any_shape_change_nothing(transport: Transport) -> None:
    good: dict[Wire, list[dict[str, Any]]] = {
        "chat": [openai.delta(content="o"), openai.delta("stop", content="k")],
        "responses": openai.whole(*openai.texts(7, "ok")),
        "messages": [claude.start(), *claude.text(7, "ok"), *claude.end()],
    }
    for wire, (first, *rest) in good.items():
        async with at_server(Reply(unnamed(first, *JUNK, *rest)), wire=wire, transport=transport) as (provider, _):
            _, done = await ask(provider)
        assert done.message.text == "ok"
        assert not done.message.calls


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_large_texts_arguments_and_events(transport: Transport) -> None:
    long = "x" * 1_000_000
    pieces = [openai.calls(openai.piece(0, "y" * 50_000)) for _ in range(100)]
    events = [
        openai.delta(content=long),
        openai.calls(openai.piece(0, '{"text": "', id="c1", name="w")),
        *pieces,
        openai.calls(openai.piece(0, '"}')),
        openai.delta("tool_calls"),
    ]
    async with at_server(Reply(unnamed(*events)), transport=transport) as (provider, _):
        _, done = await ask(provider)
    assert (len(done.message.text), len(done.message.calls[0].arguments["text"])) == (len(long), 5_000_000)
