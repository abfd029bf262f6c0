"""What is sent over the Responses API: the same on both transports, and a reply goes back as it came."""

from __future__ import annotations

import json
from typing import Any

from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import Image, Message, Opaque, Text, Thinking, ToolResult, user
from friday_cli.llm.providers.openai_parts import OpenAIQuirks
from friday_cli.llm.transport import Transport
from tests.llm.providers.asking import TOOLS, TRANSPORTS, ask, asked, at_server
from tests.llm.providers.test_openai_responses import CALL, DID, ORIGIN, SAID, SEARCHED, STREAMS, marks
from tests.servers.openai_events import CALLED, REASONING, said, texts, whole
from tests.servers.script_player import Reply, document, named


async def sent(transport: Transport, *messages: Message, quirks: OpenAIQuirks | None = None, **more: Any) -> Any:
    options = {"searches": more.pop("web_search", False)}
    reply = Reply(named(*whole(*texts(0, "x"))))
    async with at_server(reply, wire="responses", transport=transport, quirks=quirks, **options) as (p, server):
        await ask(p, asked(*messages, **more))
    assert server.requests[0].path == "/v1/responses"
    return server.requests[0].json


PICTURE = Image("image/png", "AAAA")


async def test_both_transports_send_the_same() -> None:
    history = (
        Message("user", (Text("look:"), PICTURE)),
        Message(
            "assistant",
            (Thinking("hm", ORIGIN, REASONING), Opaque(ORIGIN, SEARCHED), Text("ok"), CALL, marks([SAID], DID)),
        ),
        Message("tool", (ToolResult("c1", "seen", images=(PICTURE,)),), "harness"),
        Message("assistant", (Text("done"),)),
        user("go on"),
    )
    more: dict[str, Any] = {"effort": "high", "cache_key": "k", "tool_choice": "none", "web_search": True}
    bodies = [await sent(t, *history, quirks=OpenAIQuirks(cache_key=True, call_ids="any"), **more) for t in TRANSPORTS]
    assert bodies[0] == bodies[1]
    picture = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
    assert bodies[0] == {
        "model": "m-1", "stream": True, "store": False, "instructions": "be brief", "max_output_tokens": 1000,
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "reasoning": {"summary": "auto", "effort": "high"}, "prompt_cache_key": bodies[0]["prompt_cache_key"], "tool_choice": "none",
        "tools": [{"type": "function", "name": "grep", "description": "Search.", "strict": False,
                   "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}, {"type": "web_search"}],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look:"}, picture]},
                  REASONING, SEARCHED, {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                                        "content": [{"type": "output_text", "text": "ok", "annotations": []}]},
                  {"type": "function_call", "call_id": "c1", "name": "grep", "arguments": '{"x":1}', "id": "fc_1",
                   "status": "completed"},
                  {"type": "function_call_output", "call_id": "c1",
                   "output": [{"type": "input_text", "text": "seen"}, picture]},
                  {"type": "message", "role": "assistant",
                   "content": [{"type": "output_text", "text": "done", "annotations": []}]},
                  {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]}],
    }  # fmt: skip


async def test_the_part_that_folders_share_is_marked() -> None:
    system = "be brief\n\n# Environment\n\nFolder: /here"
    quirks = OpenAIQuirks(cache_marks=True)
    body = await sent(TRANSPORTS[0], user("hi"), quirks=quirks, system=system)
    shared = {"type": "input_text", "text": "be brief", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert "instructions" not in body
    assert body["input"][0]["content"] == [shared, {"type": "input_text", "text": system.removeprefix("be brief")}]
    assert [item["role"] for item in body["input"]] == ["developer", "user"]
    assert (await sent(TRANSPORTS[0], user("hi"), quirks=quirks))["instructions"] == "be brief"


async def test_a_reply_goes_back_as_it_came() -> None:
    events, _, _ = STREAMS["reasoning, text and a call"]
    replies = [Reply(named(*events)), Reply(named(*whole(*texts(0, "x"))))]
    async with at_server(*replies, wire="responses", quirks=OpenAIQuirks(call_ids="any")) as (provider, server):
        _, done = await ask(provider)
        results = Message("tool", (ToolResult("c1", "r"),), "harness")
        await ask(provider, asked(user("x"), done.message, results))
    _, reasoning, message, call, output = server.requests[1].json["input"]
    assert reasoning == REASONING
    assert message == said("Look.")
    assert {**call, "arguments": json.loads(call["arguments"])} == {**CALLED, "arguments": {"x": 1}}
    assert output == {"type": "function_call_output", "call_id": "c1", "output": "r"}


async def test_blocks_of_another_model_and_reasoning_that_leads_nowhere_stay_away() -> None:
    foreign = Message(
        "assistant",
        (
            Thinking("hm", "own/m-2", REASONING),
            Opaque("own/m-2", SEARCHED),
            Text("ok"),
            CALL,
            Opaque("own/m-2", {"type": "friday_items", "messages": [SAID], "calls": DID}),
        ),
    )
    alone = Message("assistant", (Text("ok"), Thinking("hm", ORIGIN, REASONING)))
    unsaved = {k: v for k, v in REASONING.items() if k != "encrypted_content"}
    bare = Message("assistant", (Thinking("hm", ORIGIN, unsaved), Text("ok")))
    result = Message("tool", (ToolResult("c1", "r"),), "harness")
    items = (await sent("http", user("a"), foreign, result, alone, bare))["input"]
    assert [i["type"] for i in items] == ["message", "message", "function_call", "function_call_output"] + [
        "message"
    ] * 2
    assert all("id" not in i for i in items)


async def test_a_model_without_reasoning_and_a_search_tool_of_our_own() -> None:
    own = (*TOOLS, ToolSpec("web_search", "Search.", {"type": "object"}))
    body = await sent(
        "http", quirks=OpenAIQuirks(reasoning=False, efforts=("none",)), effort="high", tools=own, web_search=True
    )
    assert not {"reasoning", "include", "prompt_cache_key", "tool_choice"} & set(body)
    assert [t["type"] for t in body["tools"]] == ["function", "function"]
    assert (await sent("http", max_output=3))["max_output_tokens"] == 16


async def test_the_service_counts_tokens() -> None:
    async with at_server(document({"input_tokens": 7, "object": "x"}, 200), wire="responses") as (provider, server):
        assert await provider.count_tokens(asked()) == 7
    assert server.requests[0].path == "/v1/responses/input_tokens"
    assert set(server.requests[0].json) == {"model", "input", "instructions", "tools", "reasoning"}
