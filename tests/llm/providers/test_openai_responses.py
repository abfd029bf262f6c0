"""The Responses API: what is sent, and its streams folded into messages, over both transports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from friday_cli.core.protocol.messages import AnyPart, Message, Opaque, Text, Thinking, ToolCall, Usage
from friday_cli.core.protocol.provider import CallChunk, ServerSearch, TextChunk, ThinkingChunk
from friday_cli.llm.providers.openai_responses import ResponsesStream
from friday_cli.llm.transport import Endpoint, Transport
from tests.llm.providers.asking import TRANSPORTS, ask, asked, at_server, fails
from tests.servers.openai_events import (
    CALLED,
    REASONING,
    USAGE,
    added,
    called,
    ev,
    response,
    said,
    texts,
    thought,
    whole,
)
from tests.servers.script_player import Reply, named

ORIGIN = "own/m-1"
CALL = ToolCall("c1", "grep", {"x": 1})
SEARCHED = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}


def marks(messages: list[Any], calls: dict[str, Any]) -> Opaque:
    return Opaque(ORIGIN, {"type": "friday_items", "messages": messages, "calls": calls})


SAID = {"id": "msg_1", "status": "completed"}
DID = {"c1": {"id": "fc_1", "status": "completed"}}
OTHER = {**CALLED, "id": "fc_2", "call_id": "c2", "name": "ls", "arguments": "{}"}
STREAMS: dict[str, tuple[list[dict[str, Any]], tuple[AnyPart, ...], str]] = {
    "text": (whole(*texts(0, "Hel", "lo")), (Text("Hello"), marks([SAID], {})), "end_turn"),
    "reasoning, text and a call": (
        whole(*thought(0), *texts(1, "Look."), *called(2)),
        (Thinking("hm\n\nso", ORIGIN, REASONING), Text("Look."), CALL, marks([SAID], DID)),
        "tool_use",
    ),
    "parallel calls": (
        whole(*called(0), *called(1, OTHER)),
        (CALL, ToolCall("c2", "ls"), marks([], {**DID, "c2": {"id": "fc_2", "status": "completed"}})),
        "tool_use",
    ),
    "web search": (
        whole(
            ev("output_item.added", 0, item={**SEARCHED, "status": "in_progress"}),
            ev("web_search_call.searching", 0, item_id="ws_1"),
            ev("output_item.done", 0, item=SEARCHED),
            *texts(1, "x"),
        ),
        (Opaque(ORIGIN, SEARCHED), Text("x"), marks([SAID], {})),
        "end_turn",
    ),
}
"""Streams that the SDK can read as well."""


def test_what_the_service_searched_for_by_itself_is_told() -> None:
    sources = [{"type": "url", "url": "https://e.org/1"}, {"type": "url", "url": "file:///etc/passwd"}, {"type": "api"}]
    search = {**SEARCHED, "action": {"type": "search", "query": "q", "sources": sources}}
    opened = {**SEARCHED, "id": "ws_2", "action": {"type": "open_page", "url": "https://e.org/1"}}
    cited = [
        {"type": "url_citation", "url": "https://e.org/2", "title": "Two"},
        {"type": "file_citation", "file_id": "f"},
    ]
    content = [{"type": "output_text", "text": "so", "annotations": cited}]
    items = [search, opened, {**said("so"), "content": content}]
    fold = ResponsesStream(Endpoint(service="Own", base_url="http://127.0.0.1:1"), ORIGIN, asked())
    for event in whole(*(ev("output_item.done", n, item=item) for n, item in enumerate(items))):
        list(fold.feed(event))
    assert fold.searches() == (ServerSearch("ws_1", "q", (("", "https://e.org/1"), ("Two", "https://e.org/2"))),)


def rotated(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Another id for the item in every event, as some gateways send it."""
    return [{**e, "item_id": f"r{n}"} if "item_id" in e else e for n, e in enumerate(events)]


def without(events: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [e for e in events if not e["type"].removeprefix("response.").startswith(kinds)]


REFUSED = {**said(""), "content": [{"type": "refusal", "refusal": "I cannot."}]}
ONE = STREAMS["reasoning, text and a call"]
TWO = STREAMS["parallel calls"]
ODD: dict[str, tuple[list[dict[str, Any]], tuple[AnyPart, ...], str]] = {
    "ids that change": (rotated(ONE[0]), *ONE[1:]),
    "every event twice": ([e for e in ONE[0] for _ in range(2)], *ONE[1:]),
    "a part again": (ONE[0][:9] + ONE[0][4:], *ONE[1:]),
    "all numbered 0": ([{**e, "sequence_number": 0} for e in ONE[0]], *ONE[1:]),
    "no numbers": ([{k: v for k, v in e.items() if k != "sequence_number"} for e in ONE[0]], *ONE[1:]),
    "no deltas": (without(ONE[0], "output_text", "reasoning_summary", "function_call_arguments"), *ONE[1:]),
    "no items at their end": (without(ONE[0], "output_item.done"), *ONE[1:]),
    "the end alone": (ONE[0][-1:], *ONE[1:]),
    "nothing in the end": (
        [*ONE[0][:-1], {**ONE[0][-1], "response": {"usage": USAGE, "output": [], "status": "completed"}}],
        *ONE[1:],
    ),
    "every item at place 0, nothing in the end": (
        [{**e, "output_index": 0} if "output_index" in e else e for e in TWO[0][:-1]]
        + [ev("completed", response=response())],
        *TWO[1:],
    ),
    "unknown events and items": (
        whole(
            ev("new.thing", 3, delta="?"),
            {"type": "ping"},
            {"type": "codex.rate_limits", "x": 1},
            *texts(0, "x"),
            ev("output_item.done", 5, item={"type": "new_item", "id": "n"}),
        ),
        (Text("x"), Opaque(ORIGIN, {"type": "new_item", "id": "n"}), marks([SAID], {})),
        "end_turn",
    ),
    "index gaps": (whole(*texts(4, "x"), *called(9)), (Text("x"), CALL, marks([SAID], DID)), "tool_use"),
    "a phase": (
        whole(ev("output_item.done", 0, item=said("x", phase="commentary"))),
        (Text("x", commentary=True), marks([{**SAID, "phase": "commentary"}], {})),
        "unfinished",
    ),
    "reasoning in the open": (
        whole(
            ev("reasoning_text.delta", 0, content_index=0, delta="h"),
            ev("reasoning_text.delta", 0, content_index=0, delta="m"),
            *texts(1, "x"),
        ),
        (Thinking("hm", ORIGIN), Text("x"), marks([SAID], {})),
        "end_turn",
    ),
    "refusal": (
        whole(
            added(0, REFUSED),
            ev("refusal.delta", 0, content_index=0, delta="I can"),
            ev("refusal.done", 0, content_index=0, refusal="I cannot."),
            ev("output_item.done", 0, item=REFUSED),
        ),
        (Text("I cannot."), marks([SAID], {})),
        "refusal",
    ),
    "cut in the text": (
        whole(*texts(0, "Hel")[:-3], end="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        (Text("Hel"),),
        "max_tokens",
    ),
    "content filter": (
        whole(*texts(0, "Hel")[:-3], *called(1), end="incomplete", incomplete_details={"reason": "content_filter"}),
        (Text("Hel"), marks([{}], DID)),
        "refusal",
    ),
    "incomplete for a new reason": (
        whole(*texts(0, "x"), end="incomplete", incomplete_details={"reason": "tired"}),
        (Text("x"), marks([SAID], {})),
        "other",
    ),
}
ALL = STREAMS | ODD


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", ALL)
async def test_streams_fold_into_messages(case: str, transport: Transport) -> None:
    events, parts, stop = ALL[case]
    async with at_server(Reply(named(*events)), wire="responses", transport=transport) as (provider, _):
        chunks, done = await ask(provider)
    assert (done.message.parts, done.stop) == (parts, stop)
    assert "".join(c.text for c in chunks if isinstance(c, TextChunk)) == done.message.text
    thinking = "".join(p.text for p in parts if isinstance(p, Thinking))
    assert "".join(c.text for c in chunks if isinstance(c, ThinkingChunk)) == thinking
    assert done.usage == Usage(10, 60, 30, 20, 5, None, searches=int(case == "web search"))


@pytest.mark.parametrize("case", STREAMS)
async def test_the_sdk_reads_the_same(case: str) -> None:
    from openai import AsyncOpenAI

    events, parts, _ = STREAMS[case]
    async with (
        at_server(Reply(named(*events))) as (_, server),
        AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client,
        client.responses.stream(model="m-1", input="find it") as stream,
    ):
        read = await stream.get_final_response()
    message = Message("assistant", parts)
    assert read.output_text == message.text
    found = [(i.call_id, i.name, json.loads(i.arguments)) for i in read.output if i.type == "function_call"]
    assert found == [(c.id, c.name, c.arguments) for c in message.calls]


async def test_calls_that_do_not_run_and_the_progress_of_those_that_come() -> None:
    cut = {"end": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    bad = {**CALLED, "arguments": '{"x": 1} tail'}
    replies = [Reply(named(*whole(*called(0), *called(1, OTHER)[:1], **cut))), Reply(named(*whole(*called(0, bad))))]
    async with at_server(*replies, wire="responses") as (provider, _):
        chunks, done = await ask(provider)
        (malformed,) = (await ask(provider))[1].message.calls
    assert done.message.calls[0] == CALL
    assert "output limit" in done.message.calls[1].error
    assert malformed.error
    assert (malformed.arguments, malformed.raw) == ({}, bad["arguments"])
    seen = [(c.index, c.name, c.chars) for c in chunks if isinstance(c, CallChunk)]
    assert (seen[0], seen[-1]) == ((0, "grep", 0), (1, "ls", 0))
    assert {(0, "grep", 3), (0, "grep", 8)} <= set(seen)


async def test_a_second_reply_inside_the_first_fails_the_try() -> None:
    second = ev("created", response=response("in_progress", id="resp_2"))
    events = [e for e in whole(*texts(0, "Hel"), second, *texts(0, "Hello")) if e.pop("sequence_number") is not None]
    async with at_server(Reply(named(*events)), wire="responses") as (provider, _):
        _, error = await fails(provider)
    assert error.kind == "garbled"


@pytest.mark.parametrize(("end", "kind"), [
    ({"error": {"code": "rate_limit_exceeded", "message": "slow"}}, "rate"),
    ({"error": {"code": "image_too_large", "message": "big"}}, "invalid"),
    ({"error": {"code": "bio_policy", "message": "no"}}, "refusal"),
    ({"error": None}, "server"),
])  # fmt: skip
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_failed_responses(end: dict[str, Any], kind: str, transport: Transport) -> None:
    events = whole(*texts(0, "Hel")[:-3], end="failed", **end)
    async with at_server(Reply(named(*events)), wire="responses", transport=transport) as (provider, _):
        chunks, error = await fails(provider)
    assert chunks == [TextChunk("Hel")]
    assert (error.kind, error.usage) == (kind, Usage(10, 60, 30, 20, 5, None))
