"""Services that deviate from the APIs they implement, and whose replies can be used all the same."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from friday_cli.core.protocol.messages import Message, Text, ToolCall, ToolResult, user
from friday_cli.core.protocol.provider import RestartChunk, TextChunk
from friday_cli.llm.providers.openai_parts import OpenAIQuirks
from friday_cli.llm.transport import Transport
from tests.llm.providers.asking import TRANSPORTS, Wire, ask, asked, at_server, fails, provider_at
from tests.servers import anthropic_events as claude
from tests.servers import openai_events as openai
from tests.servers.script_player import Asked, Reply, Server, document, named, running, unnamed

FUNCTION = {"name": "grep", "arguments": '{"x": 1}'}
WHOLE: dict[Wire, dict[str, Any]] = {
    "chat": {
        "id": "r1", "object": "chat.completion", "error": None, "usage": {"prompt_tokens": 9, "completion_tokens": 5},
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Hello", "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}]}}],
    },
    "responses": openai.response(output=[openai.said("Hello"), openai.CALLED], error=None),
    "messages": {
        **claude.start()["message"], "stop_reason": "tool_use", "usage": {"input_tokens": 9, "output_tokens": 5},
        "content": [{"type": "text", "text": "Hello"}, {"type": "tool_use", "id": "c1", "name": "grep", "input": {"x": 1}}],
    },
}  # fmt: skip
BAD_CALL = {
    "error": {
        "message": "Failed to call a function.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": "<function=grep>x</function>",
    }
}
SAID = Reply(unnamed(openai.delta("stop", content="x")))


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("wire", WHOLE)
async def test_a_whole_document_is_a_reply(wire: Wire, transport: Transport) -> None:
    async with at_server(document(WHOLE[wire], 200), wire=wire, transport=transport) as (provider, server):
        chunks, done = await ask(provider)
    assert "".join(c.text for c in chunks if isinstance(c, TextChunk)) == "Hello"
    assert (done.stop, done.message.text) == ("tool_use", "Hello")
    assert done.message.calls == (ToolCall("c1", "grep", {"x": 1}),)
    assert not done.usage.estimated
    assert len(server.requests) == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("wire", WHOLE)
async def test_what_a_gateway_charges_is_in_a_header_of_a_whole_reply_or_in_the_usage(
    wire: Wire, transport: Transport
) -> None:
    """litellm's proxy knows the cost of a stream only at its end, and puts it into the usage there."""
    whole = WHOLE[wire]
    told = {**whole, "usage": {**whole.get("usage", {}), "cost": 0.5}}
    replies = [document(whole, 200, x_litellm_response_cost=text) for text in ("0.0125", "None", "-1", "nan")]
    replies.append(document(told, 200, x_litellm_response_cost="9"))
    async with at_server(*replies, wire=wire, transport=transport) as (provider, _):
        costs = [(await ask(provider))[1].usage for _ in replies]
    assert [(u.cost_usd, u.charged) for u in costs] == [(0.0125, True), *[(None, False)] * 3, (0.5, True)]


async def test_usage_and_the_end_mark_end_a_reply_without_a_finish_reason() -> None:
    spoken = [openai.delta(content="Hel"), openai.delta(content="lo")]
    used = openai.usage(prompt_tokens=9, completion_tokens=5)
    async with at_server(Reply(unnamed(*spoken, used, "[DONE]")), Reply(unnamed(*spoken, "[DONE]"))) as (provider, _):
        _, done = await ask(provider)
        assert (done.stop, done.message.parts) == ("end_turn", (Text("Hello"),))
        _, error = await fails(provider)
    assert error.kind == "truncated", "without usage nothing tells that it is complete"


async def test_a_second_message_begins_the_reply_again() -> None:
    events = [
        claude.start("msg_1"),
        *claude.text(0, "old"),
        claude.start("msg_2"),
        *claude.text(0, "new"),
        *claude.end(),
    ]
    async with at_server(Reply(named(*events)), wire="messages") as (provider, _):
        chunks, done = await ask(provider)
    assert [c for c in chunks if isinstance(c, TextChunk | RestartChunk)] == [
        TextChunk("old"),
        RestartChunk(),
        TextChunk("new"),
    ]
    assert done.message.text == "new"


@pytest.mark.parametrize("failed", [document(BAD_CALL, 400), Reply(unnamed(openai.delta(content="I"), BAD_CALL))])
async def test_a_call_that_the_service_could_not_read_is_named_in_the_next_request_only(failed: Reply) -> None:
    async with at_server(failed, SAID, SAID) as (provider, server):
        request = asked(provider_state={})
        _, error = await fails(provider, request)
        assert (error.kind, error.transient) == ("bad_call", False)
        assert "could not read the tool call" in error.message
        assert "It wrote: <function=grep>x</function>" in error.message
        await ask(provider, request)
        await ask(provider, request)
    first, second, third = (request.json["messages"] for request in server.requests)
    assert first == third
    assert second[:-1] == first[:-1]
    note = second[-1]["content"]
    assert re.search(r"\[Note of the harness.*Failed to call a function.*<function=grep>x.*JSON arguments", note)


@pytest.mark.parametrize("wire", WHOLE)
async def test_call_ids_of_every_service_fit_the_strictest_and_stay_the_same(wire: Wire) -> None:
    """The chat templates of Mistral, which any server can use behind any of the three APIs, refuse other ids."""
    ids = ("toolu_01AbCdEfGhIjKlMnOpQrSt", "call_1", "chatcmpl-tool-0123456789abcdef0123456789abcdef", "a1B2c3D4e", "ü")
    history: list[Message] = [user("go")]
    async with at_server(*[document(WHOLE[wire], 200)] * len(ids), wire=wire) as (provider, server):
        for call_id in ids:
            history += [
                Message("assistant", (ToolCall(call_id, "grep", {}),)),
                Message("tool", (ToolResult(call_id, "r"),), "harness"),
            ]
            await ask(provider, asked(*history))
    bodies = [json.dumps(request.json["input" if wire == "responses" else "messages"]) for request in server.requests]
    bodies = [body.replace(', "cache_control": {"type": "ephemeral"}', "") for body in bodies]
    assert all(later.startswith(body[:-1]) for body, later in pairwise(bodies))
    names = {"chat": ("id", "tool_call_id"), "responses": ("call_id", "call_id"), "messages": ("id", "tool_use_id")}[
        wire
    ]
    sent, answered = (re.findall(f'"{name}": "([^"]*)"', bodies[-1]) for name in names)
    assert sent == answered
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", call_id) for call_id in sent)
    assert len(set(sent)) == len(ids)
    assert ids[3] in sent


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_a_model_gets_its_own_calls_with_the_ids_that_it_gave_them(wire: Wire) -> None:
    """Kimi falls silent otherwise, and blocks of OpenRouter's `reasoning.encrypted` match no call."""
    own, other = ("functions.list_dir:0", "functions.grep:1"), "toolu_01AbCdEfGhIjKlMnOpQrSt"
    called = tuple(ToolCall(call_id, "grep", {}) for call_id in own)
    history = [
        user("go"),
        Message("assistant", called, origin="own/m-1"),
        Message("tool", tuple(ToolResult(call_id, "r") for call_id in own), "harness"),
        Message("assistant", (ToolCall(other, "grep", {}),), origin="anthropic/claude"),
        Message("tool", (ToolResult(other, "r"),), "harness"),
    ]
    for form, foreign in (("short", r"[a-z0-9]{9}"), ("kimi", r"functions\.grep:\d+")):
        quirks = OpenAIQuirks(call_ids=form)  # type: ignore[arg-type]
        async with at_server(document(WHOLE[wire], 200), wire=wire, quirks=quirks) as (provider, server):
            await ask(provider, asked(*history))
        body = json.dumps(server.requests[0].json["input" if wire == "responses" else "messages"])
        sent, answered = (
            re.findall(f'"{name}": "([^"]*)"', body)
            for name in (("id", "tool_call_id") if wire == "chat" else ("call_id", "call_id"))
        )
        assert tuple(dict.fromkeys(sent))[:2] == own
        assert re.fullmatch(foreign, sent[-1])
        assert wire == "responses" or sent == answered


class _Owned(Server):
    """Lists a model of this owner, and answers requests with nothing."""

    def __init__(self, owner: str) -> None:
        super().__init__(())
        self.owner = owner

    def _reply_to(self, asked: Asked) -> Reply:
        if asked.method == "GET":
            return document({"object": "list", "data": [{"id": "m-1", "object": "model", "owned_by": self.owner}]}, 200)
        return Reply()


@pytest.mark.parametrize(("owner", "kind"), [("me", "context"), ("llamacpp", "empty")])
async def test_nothing_from_llama_cpp_python_is_a_full_context(owner: str, kind: str) -> None:
    async with running(_Owned(owner)) as server:
        _, error = await fails(provider_at(server.url))
    assert error.kind == kind
    assert ("larger than its context" in error.message) is (kind == "context")
