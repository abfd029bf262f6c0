"""Chat Completions: what is sent, and the streams of many servers folded into messages, over both transports."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.messages import (
    AnyPart,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    user,
)
from friday_cli.core.protocol.provider import CallChunk, TextChunk, ThinkingChunk
from friday_cli.llm.providers.pricing import Pricing
from friday_cli.llm.transport import Transport
from tests.llm.providers.asking import TRANSPORTS, ask, asked, at_server
from tests.servers.openai_events import calls, delta, piece, usage
from tests.servers.script_player import Reply, unnamed

ORIGIN = "own/m-1"
CALL = ToolCall("c1", "grep", {"x": 1})
FIRST = piece(0, "", id="c1", name="grep", type="function")
WHOLE = piece(0, '{"x": 1}', id="c1", name="grep")
STREAMS: dict[str, tuple[list[dict[str, Any]], tuple[AnyPart, ...], str]] = {
    "text": ([delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta("stop")],
             (Text("Hello"),), "end_turn"),
    "finish beside the text": ([delta("stop", content="Hi")], (Text("Hi"),), "end_turn"),
    "parallel calls in pieces, ids only at first": ([delta(role="assistant", content=None), calls(FIRST),
                                                     calls(piece(1, "", id="c2", name="list_dir")), calls(piece(0, '{"x"')),
                                                     calls(piece(1, '{"p": "a"}'), piece(0, ": 1}")), delta("tool_calls")],
                                                    (CALL, ToolCall("c2", "list_dir", {"p": "a"})), "tool_use"),
    "text, then calls, ended by stop": ([delta(content="Look."), calls(WHOLE), delta("stop")], (Text("Look."), CALL),
                                        "tool_use"),
    "a call without arguments": ([calls(FIRST), delta("tool_calls")], (ToolCall("c1", "grep"),), "tool_use"),
}  # fmt: skip
"""Streams that the SDK can read as well."""
ODD: dict[str, tuple[list[Any], tuple[AnyPart, ...], str]] = {
    "index gaps, no ids": (
        [calls(piece(3, '{"x": 1}', name="grep")), calls(piece(7, "{}", name="ls")), delta("tool_calls")],
        (ToolCall("call_1", "grep", {"x": 1}), ToolCall("call_2", "ls")), "tool_use",
    ),
    "every call at index 0": (
        [calls(WHOLE), calls(piece(0, "{}", id="c2", name="ls")), delta("tool_calls")],
        (CALL, ToolCall("c2", "ls")), "tool_use",
    ),
    "no index at all": (
        [calls(piece(None, '{"x"', id="c1", name="grep")), calls(piece(None, ": 1}")),
         calls(piece(None, "{}", name="ls")), delta("stop")],
        (CALL, ToolCall("call_2", "ls")), "tool_use",
    ),
    "no index, told apart by id": (
        [calls(piece(None, '{"x"', id="c1", name="grep")), calls(piece(None, "{}", id="c2", name="ls")),
         calls(piece(None, ": 1}", id="c1")), delta("stop")],
        (CALL, ToolCall("c2", "ls")), "tool_use",
    ),
    "an id that changes in mid-call": (
        [calls(FIRST), calls(piece(0, '{"x": ', id="zz")), calls(piece(0, "1}", id="yy")), delta("stop")],
        (CALL,), "tool_use",
    ),
    "the name again in every piece": (
        [calls(FIRST), calls(piece(0, '{"x"', name="grep")), calls(piece(0, ": 1}", name="grep")), delta("stop")],
        (CALL,), "tool_use",
    ),
    "a name in pieces": (
        [calls(piece(0, "", id="c1", name="gr")), calls(piece(0, '{"x": 1}', name="ep")), delta("stop")],
        (CALL,), "tool_use",
    ),
    "arguments as an object": ([calls(piece(0, {"x": 1}, id="c1", name="grep")), delta("stop")], (CALL,), "tool_use"),
    "two calls with one id": (
        [calls(WHOLE), calls(piece(1, "{}", id="c1", name="ls")), delta("tool_calls")],
        (CALL, ToolCall("c1-2", "ls")), "tool_use",
    ),
    "an empty piece without a name": ([delta(content="x"), calls(piece(4, "")), delta("stop")], (Text("x"),), "end_turn"),
    "calls and text in two choices": (
        [{"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"},
                      {"index": 1, "delta": {"tool_calls": [WHOLE]}, "finish_reason": "tool_calls"}]}],
        (Text("x"), CALL), "tool_use",
    ),
    "empty choices, nulls, unknown fields and pings": (
        [{"choices": []}, {"choices": None, "usage": None}, {"type": "ping"}, {"choices": [{"delta": None}]},
         {"choices": [{"delta": {"content": "x", "audio": 3, "role": "robot"}, "logprobs": 1}], "obfuscation": "?"},
         {"choices": [3, {"finish_reason": "stop"}]}],
        (Text("x"),), "end_turn",
    ),
    "list deltas with thinking": (
        [delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
         delta(content=[{"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}, "b"]),
         delta("stop", content="c")],
        (Thinking("hm", ORIGIN, {"field": "content"}), Text("abc")), "end_turn",
    ),
    "reasoning_content": (
        [delta(reasoning_content="h"), delta(reasoning_content="m"), delta(content="x"), delta("stop")],
        (Thinking("hm", ORIGIN, {"field": "reasoning_content"}), Text("x")), "end_turn",
    ),
    "reasoning under two names counts once": (
        [delta(reasoning="hm", reasoning_content="hm"), delta(reasoning="!"), delta("stop", content="x")],
        (Thinking("hm", ORIGIN, {"field": "reasoning_content"}), Text("x")), "end_turn",
    ),
    "reasoning details in pieces": (
        [delta(reasoning="a", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "a"}]),
         delta(reasoning="b", reasoning_details=[{"type": "reasoning.text", "index": 0, "text": "b"}]),
         delta(reasoning_details=[{"type": "reasoning.text", "index": 0, "signature": "sig", "text": None}]),
         delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "xyz"}]),
         delta("stop", content="x")],
        (Thinking("ab", ORIGIN, {"reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig"},
            {"type": "reasoning.encrypted", "index": 1, "data": "xyz"}], "field": "reasoning"}), Text("x")), "end_turn",
    ),
    "a signature on a call": (
        [calls(WHOLE | {"extra_content": {"google": {"thought_signature": "s"}}}), delta("stop")],
        (CALL, Opaque(ORIGIN, {"call_extras": {"c1": {"extra_content": {"google": {"thought_signature": "s"}}}}})),
        "tool_use",
    ),
    "signatures of litellm": (
        [delta(thinking_blocks=[{"type": "thinking", "thinking": "h", "signature": None}]),
         delta(thinking_blocks=[{"type": "thinking", "thinking": "m", "signature": "s"}]),
         delta(extra_content={"google": {"thought_signature": "t"}}, content="x"),
         calls(WHOLE | {"provider_specific_fields": {"thought_signature": "u"}}), delta("stop")],
        (Thinking("hm", ORIGIN, {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}), Text("x"),
         CALL, Opaque(ORIGIN, {"call_extras": {"c1": {"provider_specific_fields": {"thought_signature": "u"}}},
                               "message_fields": {"extra_content": {"google": {"thought_signature": "t"}}}})),
        "tool_use",
    ),
    "thinking in a tag": (
        [delta(content="<th"), delta(content="ink>\nhm</thi"), delta(content="nk>\n\nx</think>"), delta("stop")],
        (Thinking("hm", ORIGIN), Text("x</think>")), "end_turn",
    ),
    "no thinking in a tag": ([delta(content="<thin"), delta("stop")], (Text("<thin"),), "end_turn"),
    "a whole message in place of deltas": (
        [{"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}],
        (Text("Hi"),), "end_turn",
    ),
    "cut in the text": ([delta(content="Hel"), delta("length")], (Text("Hel"),), "max_tokens"),
    "cut while thinking": ([delta(reasoning="hm"), delta("length")], (Thinking("hm", ORIGIN, {"field": "reasoning"}),), "max_tokens"),
    "content filter": ([delta(content="Hel"), calls(FIRST), delta("content_filter")], (Text("Hel"),), "refusal"),
    "content filter before anything": ([delta("content_filter")], (), "refusal"),
    "refusal": ([delta(refusal="I can"), delta(refusal="not."), delta("stop")], (Text("I cannot."),), "refusal"),
    "context full": ([delta(content="x"), delta("model_length")], (Text("x"),), "context"),
    "unknown finish reason": ([delta(content="x"), delta("tired")], (Text("x"),), "other"),
    "half a character at a time": (
        ['{"choices":[{"delta":{"content":"a\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00b"}}]}',
         delta("stop")],
        (Text("a\U0001f600b"),), "end_turn",
    ),
}  # fmt: skip
ALL = STREAMS | ODD


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", ALL)
async def test_streams_fold_into_messages(case: str, transport: Transport) -> None:
    """The end mark is the finish reason, not [DONE]."""
    events, parts, stop = ALL[case]
    async with at_server(
        Reply(unnamed(*events, "[DONE]")),
        Reply(unnamed(*events)),
        transport=transport,
    ) as (provider, _):
        chunks, done = await ask(provider)
        assert (await ask(provider))[1].message == done.message
    assert (done.message.parts, done.stop) == (parts, stop)
    assert "".join(c.text for c in chunks if isinstance(c, TextChunk)) == done.message.text
    thought = "".join(p.text for p in parts if isinstance(p, Thinking))
    assert "".join(c.text for c in chunks if isinstance(c, ThinkingChunk)) == thought


@pytest.mark.parametrize("case", STREAMS)
async def test_the_sdk_reads_the_same(case: str) -> None:
    from openai import AsyncOpenAI

    events, parts, _ = STREAMS[case]
    messages: Any = [{"role": "user", "content": "find it"}]
    async with (
        at_server(Reply(unnamed(*events, "[DONE]"))) as (_, server),
        AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client,
        client.chat.completions.stream(model="m-1", messages=messages) as stream,
    ):
        read = (await stream.get_final_completion()).choices[0].message
    message = Message("assistant", parts)
    assert (read.content or "") == message.text
    found = [(c.id, c.function.name, json.loads(c.function.arguments or "{}")) for c in read.tool_calls or ()]
    assert found == [(c.id, c.name, c.arguments) for c in message.calls]


async def test_progress_of_calls() -> None:
    events = [calls(FIRST), calls(piece(0, '{"x"')), calls(piece(1, "{}", id="c2", name="ls")), delta("tool_calls")]
    async with at_server(Reply(unnamed(*events))) as (provider, _):
        chunks, _ = await ask(provider)
    assert chunks == [CallChunk(0, "grep", 0), CallChunk(0, "grep", 4), CallChunk(1, "ls", 2)]


@pytest.mark.parametrize(
    "arguments",
    ['{"x": ', "null", "[1]", '"{}"', '{"x": NaN}', '{"x": 1, "x": 2}', '{"x": 1} tail', "[" * 300, '{"x":' * 200],
)
async def test_malformed_arguments_become_an_error_that_the_model_can_read(arguments: str) -> None:
    events = [calls(WHOLE, piece(1, arguments, id="c2", name="grep")), delta("tool_calls")]
    async with at_server(Reply(unnamed(*events)), Reply(unnamed(delta("stop", content="ok")))) as (provider, server):
        _, done = await ask(provider)
        good, bad = done.message.calls
        assert good == CALL
        assert bad.error
        assert (bad.arguments, bad.raw) == ({}, arguments)
        results = Message("tool", (ToolResult("c1", "r"), ToolResult("c2", bad.error, "error")), "harness")
        await ask(provider, asked(user("x"), done.message, results))
    sent = server.requests[1].json["messages"]
    assert [c["function"]["arguments"] for c in sent[2]["tool_calls"]] == ['{"x":1}', "{}"]
    assert sent[4]["content"].startswith("Error: the arguments")


@pytest.mark.parametrize(("arguments", "complete"), [('{"x": 1', False), ("", False), ('{"x": 1}', True)])
async def test_a_call_cut_at_the_output_limit_does_not_run(arguments: str, complete: bool) -> None:
    events = [calls(WHOLE, piece(1, arguments, id="c2", name="grep")), delta("length")]
    async with at_server(Reply(unnamed(*events))) as (provider, _):
        _, done = await ask(provider)
    first, last = done.message.calls
    assert (done.stop, first) == ("max_tokens", CALL)
    assert bool(last.error) is not complete
    assert last.arguments == ({"x": 1} if complete else {})


async def test_thirty_parallel_calls_and_ids_of_earlier_turns() -> None:
    pieces = [piece(i, "{}", id=f"c{i % 3}", name="x" * 70 + ".y") for i in range(30)]
    before = Message("assistant", (ToolCall("c0", "grep"),))
    result = Message("tool", (ToolResult("c0", "r"),), "harness")
    async with at_server(Reply(unnamed(calls(*pieces), delta("stop")))) as (provider, _):
        _, done = await ask(provider, asked(user("x"), before, result))
    ids = [c.id for c in done.message.calls]
    assert len(set(ids) | {"c0"}) == 31


GIVEN = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@pytest.mark.parametrize(("reported", "expected"), [
    (GIVEN, Usage(100, 0, 0, 20, cached=False)),
    (GIVEN | {"prompt_tokens_details": {"cached_tokens": None}}, Usage(100, 0, 0, 20, cached=False)),
    (GIVEN | {"prompt_tokens_details": {"cached_tokens": 0}}, Usage(100, 0, 0, 20)),
    (GIVEN | {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}, Usage(10, 60, 30, 20)),
    (GIVEN | {"prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}, Usage(10, 90, 0, 20)),
    (GIVEN | {"completion_tokens_details": {"reasoning_tokens": 15}}, Usage(100, 0, 0, 20, 15, cached=False)),
    (GIVEN | {"total_tokens": 170}, Usage(100, 0, 0, 70, 50, cached=False)),
    (GIVEN | {"prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 9}}, Usage(0, 100, 0, 20)),
    (GIVEN | {"completion_tokens_details": {"reasoning_tokens": 99}}, Usage(100, 0, 0, 20, 20, cached=False)),
])  # fmt: skip
async def test_usage(reported: dict[str, Any], expected: Usage) -> None:
    last = delta("stop", content="Hello")
    replies = [
        Reply(unnamed(last, usage(**reported), "[DONE]")),
        Reply(unnamed(last | {"x_groq": {"usage": reported}}, "[DONE]")),
    ]
    async with at_server(*replies) as (provider, _):
        for _ in replies:
            assert (await ask(provider))[1].usage == msgspec.structs.replace(expected, cost_usd=None)


@pytest.mark.parametrize(
    "reported",
    [
        None,
        {},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -5, "completion_tokens": -1},
        {"prompt_tokens": 10**15, "completion_tokens": 10**15},
        {"prompt_tokens": "12", "completion_tokens": True},
    ],
)
async def test_usage_that_cannot_be_true_is_estimated(reported: dict[str, Any] | None) -> None:
    events = [delta("stop", content="Hello " * 100)] + ([usage(**reported)] if reported is not None else [])
    async with at_server(Reply(unnamed(*events, "[DONE]")), pricing=Pricing(lambda u: u.output / 1000)) as (
        provider,
        _,
    ):
        found = (await ask(provider, asked(user("word " * 200))))[1].usage
    assert found.estimated
    assert not found.cached
    assert 250 < found.input < 400
    assert 150 <= found.output < 200
    assert found.cost_usd == found.output / 1000
