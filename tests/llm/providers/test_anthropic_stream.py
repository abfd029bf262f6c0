from __future__ import annotations

from typing import Any

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Message, Text, ToolCall, Usage
from friday_cli.core.protocol.provider import (
    CallChunk,
    Chunk,
    ReplyDone,
    Request,
    ServerSearch,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from friday_cli.llm.providers.anthropic_stream import NO_END_MARK, AnthropicStream
from friday_cli.llm.transport import Endpoint
from friday_cli.llm.transport.tool_arguments import INCOMPLETE_CALL
from tests.llm.providers.anthropic_cases import FOUND, ODD, ORIGIN, PLAIN, SEARCH
from tests.servers.anthropic_events import Event, block, call, end, start, text, thinking

SERVICE = Endpoint(service="anthropic", base_url="http://127.0.0.1:1")
BEFORE = Message("assistant", (ToolCall("old", "f"),))
REQUEST = Request("a", "x" * 344, (), (BEFORE,), 10)
"""Estimated at 100 tokens."""


def fold(events: list[Event]) -> tuple[list[Chunk], ReplyDone]:
    reply = AnthropicStream(SERVICE, ORIGIN, REQUEST)
    chunks = [chunk for event in events for chunk in reply.feed(event)]
    return chunks, reply.finish()


@pytest.mark.parametrize("name", [*PLAIN, *ODD])
def test_a_cut_reply_never_counts(name: str) -> None:
    events = {**PLAIN, **ODD}[name][0]
    final = max(i for i, e in enumerate(events) if e.get("type") == "message_delta")
    for cut in range(final + 1):
        with pytest.raises(ProviderError) as caught:
            fold(events[:cut])
        assert caught.value.kind == "truncated"
        usage = caught.value.usage
        assert isinstance(usage, Usage)
        assert usage.input == (10 if cut and events[0] == start() else 100)


def test_what_the_service_searched_for_by_itself_is_told() -> None:
    rows = [
        {"type": "web_search_result", "url": "https://e.org", "title": "E\x1b[2J \u202ex", "encrypted_content": "x"},
        {"type": "web_search_result", "url": "https://e.org", "title": "again"},
        {"type": "web_search_result", "url": "javascript:alert(1)", "title": "no address"},
        {"type": "web_search_result", "url": "https://e.org/a b", "title": "no address either"},
        "odd",
    ]
    failed = {
        **FOUND,
        "tool_use_id": "s2",
        "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    }
    events = [
        start(),
        *block(0, SEARCH, {"type": "input_json_delta", "partial_json": '{"query": "what\\u001b is"}'}),
        *block(1, {**FOUND, "content": rows}),
        *block(2, {**SEARCH, "id": "s2", "input": {"query": "more"}}),
        *block(3, failed),
        *text(4, "so"),
    ]
    _, done = fold([*events, *end(server_tool_use={"web_search_requests": 1})])
    assert done.searches == (
        ServerSearch("srvtoolu_1", "what is", (("E [2J x", "https://e.org"),)),
        ServerSearch("s2", "more", (), "max_uses_exceeded"),
    )
    assert done.usage.searches == 1
    assert fold([*events, *end()])[1].usage.searches == 1, "one brought a result, where the service does not count"


def test_a_search_that_a_pause_parts_is_told_once_with_its_result() -> None:
    assert fold(PLAIN["pause"][0])[1].searches == ()
    _, done = fold([start(), *block(0, FOUND), *text(1, "so"), *end(server_tool_use={"web_search_requests": 0})])
    assert (done.searches, done.usage.searches) == ((ServerSearch("srvtoolu_1", "", (("E", "https://e.org"),)),), 0)


def test_chunks_while_it_comes() -> None:
    events = [
        start(),
        *thinking(0, "hm"),
        *text(1, "a", "", "b"),
        *call(2, "t", "grep", '{"a', '": 1}'),
        *call(3, "u", "g", "{}"),
    ]
    (told, *chunks), _ = fold([*events, *end("tool_use")])
    assert isinstance(told, UsageChunk)
    assert told.usage.input == 10
    assert chunks == [
        ThinkingChunk("hm"),
        TextChunk("a"),
        TextChunk("b"),
        CallChunk(0, "grep", 0),
        CallChunk(0, "grep", 3),
        CallChunk(0, "grep", 8),
        CallChunk(1, "g", 0),
        CallChunk(1, "g", 2),
    ]


@pytest.mark.parametrize(
    "arguments", ['{"a": 1', "null", "[1]", '"x"', '{"a": NaN}', '{"a":1,"a":2}', "{} x", '{"a":' * 200]
)
def test_arguments_that_cannot_be_read_become_an_error_of_the_call(arguments: str) -> None:
    _, done = fold([start(), *call(0, "t", "f", arguments), *call(1, "u", "g", '{"b": 2}'), *end("tool_use")])
    bad, good = done.message.calls
    assert (bad.arguments, bad.raw) == ({}, arguments)
    assert bad.error
    assert good == ToolCall("u", "g", {"b": 2})
    assert done.stop == "tool_use"


def test_arguments_of_a_call_that_was_not_started_end_the_reply() -> None:
    stray = {"type": "content_block_delta", "index": 9, "delta": {"type": "input_json_delta", "partial_json": "{"}}
    with pytest.raises(ProviderError, match="not started") as caught:
        fold([start(), *text(0, "a"), stray, *end()])
    assert caught.value.kind == "garbled"


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize("arguments", ["", '{"path": "a', "{}"])
def test_a_call_cut_by_a_limit_is_not_run(stop: str, arguments: str) -> None:
    _, done = fold([start(), *call(0, "t", "f", '{"a": 1}'), *call(1, "u", "g", arguments, stop=False), *end(stop)])
    assert done.message.calls[0] == ToolCall("t", "f", {"a": 1})
    assert done.message.calls[1].error == INCOMPLETE_CALL
    assert done.stop in ("max_tokens", "context")


@pytest.mark.parametrize(
    "content", [[], text(0), text(0, " \n"), thinking(0, "hm"), block(0, SEARCH) + block(1, FOUND)], ids=str
)
@pytest.mark.parametrize("stop", ["end_turn", "tool_use", "stop_sequence", "brand_new"])
def test_a_reply_with_nothing_in_it(content: list[Event], stop: str) -> None:
    with pytest.raises(ProviderError) as caught:
        fold([start(), *content, *end(stop)])
    assert caught.value.kind == "empty"
    assert isinstance(caught.value.usage, Usage)
    assert (caught.value.usage.input, caught.value.usage.output) == (10, 7)


def test_the_end_mark() -> None:
    whole = [start(), *text(0, "a"), *end()]
    assert fold(whole)[1].note == ""
    assert fold(whole[:-1])[1].note == NO_END_MARK
    open_block = [start(), *text(0, "a", stop=False), *end()]
    assert fold(open_block)[1].message.parts == (Text("a"),)
    for events in (
        open_block[:-1],
        [start(), *text(0, "a"), {"type": "message_stop"}],
        [start(), *text(0, "a"), *end(None)],
    ):
        with pytest.raises(ProviderError) as caught:
            fold(events)
        assert caught.value.kind == "truncated"


@pytest.mark.parametrize(("details", "note"), [
    (None, "the model refused"),
    ({"type": "refusal", "category": "cyber", "explanation": "Not\x1b[0m that."}, "the model refused: Not [0m that."),
    ({"type": "refusal", "category": "bio", "explanation": None}, "the model refused: bio"),
    ({"type": "refusal"}, "the model refused"),
])  # fmt: skip
def test_a_refusal_says_why(details: Event | None, note: str) -> None:
    _, done = fold([start(), *text(0, "a"), *end("refusal", details=details)])
    assert (done.stop, done.note) == ("refusal", note)


def test_ids_stay_apart() -> None:
    events = [
        start(),
        *call(0, "t", "f", "{}"),
        *call(1, "t", "g", "{}"),
        *call(2, "", "h", "{}"),
        *call(3, "old", "i", "{}"),
    ]
    _, done = fold([*events, *end("tool_use")])
    ids = [c.id for c in done.message.calls]
    assert ids[0] == "t"
    assert len({*ids, "old", ""}) == 6
    assert [c.name for c in done.message.calls] == ["f", "g", "h", "i"]


USAGES: list[tuple[dict[str, Any] | None, dict[str, Any] | None, Usage]] = [
    ({"input_tokens": 10, "output_tokens": 1}, {"output_tokens": 7}, Usage(10, 0, 0, 7, cached=False)),
    (
        {"input_tokens": 10, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 90},
        {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3}},
        Usage(10, 90, 5, 7, 3),
    ),
    ({"input_tokens": 10, "cache_read_input_tokens": 0}, {"output_tokens": 7, "input_tokens": 12}, Usage(12, 0, 0, 7)),
    (
        {"input_tokens": 10, "cache_read_input_tokens": None},
        {"output_tokens": 7, "input_tokens": None, "cache_read_input_tokens": 4},
        Usage(10, 4, 0, 7),
    ),
    ({"input_tokens": 0, "cache_read_input_tokens": 50}, {"output_tokens": 7}, Usage(0, 50, 0, 7)),
    ({}, {}, Usage(100, 0, 0, 3, cached=False, estimated=True)),
    (None, None, Usage(100, 0, 0, 3, cached=False, estimated=True)),
    ({"input_tokens": 0, "output_tokens": 0}, {"output_tokens": 0}, Usage(100, 0, 0, 3, cached=False, estimated=True)),
    ({"input_tokens": -5}, {"output_tokens": -7}, Usage(100, 0, 0, 3, cached=False, estimated=True)),
    ({"input_tokens": 10**30}, {"output_tokens": 10**30}, Usage(10**9, 0, 0, 10**9, cached=False)),
    ({"input_tokens": "10"}, {"output_tokens": True}, Usage(100, 0, 0, 3, cached=False, estimated=True)),
    (
        {"input_tokens": 10},
        {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 900}},
        Usage(10, 0, 0, 7, 7, cached=False),
    ),
]


@pytest.mark.parametrize(("first", "last", "usage"), USAGES)
def test_usage(first: dict[str, Any] | None, last: dict[str, Any] | None, usage: Usage) -> None:
    begin = start()
    begin["message"]["usage"] = first
    finish = end()
    finish[0]["usage"] = last
    assert fold([begin, *text(0, "0123456789"), *finish])[1].usage == usage
