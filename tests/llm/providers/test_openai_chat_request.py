"""What is sent over Chat Completions: the same on both transports, and what each service wants."""

from __future__ import annotations

import re
from typing import Any

import pytest

from friday_cli.core.protocol.messages import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, user
from friday_cli.llm.providers.openai_parts import SERVICES, OpenAIQuirks
from friday_cli.llm.transport import Transport
from tests.llm.providers.asking import TRANSPORTS, ask, asked, at_server
from tests.llm.providers.test_openai_chat import CALL, ORIGIN
from tests.servers.openai_events import delta
from tests.servers.script_player import Reply, unnamed


async def sent(
    transport: Transport = "http", *messages: Message, quirks: OpenAIQuirks | None = None, **more: Any
) -> Any:
    async with at_server(Reply(unnamed(delta("stop", content="x"))), transport=transport, quirks=quirks) as (p, server):
        await ask(p, asked(*messages, **more))
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"].startswith("Bearer sk-canary")
    return server.requests[0].json


PICTURE = Image("image/png", "AAAA")
HISTORY = (
    user("find it"),
    Message("user", (Text("look:"), PICTURE)),
    Message("assistant", (Thinking("hm", ORIGIN), Text("ok"), CALL, ToolCall("c2", "ls.all", {"é": "\ud800"}))),
    Message("tool", (ToolResult("c1", "seen", images=(PICTURE,)), ToolResult("c2", "no", "error")), "harness"),
    user("go on"),
)


FIRST, SECOND = "d0f631ca1", "9c0abe51c"
"""The ids of the calls c1 and c2 as they are sent: nine letters and digits, for the strictest chat templates."""


async def test_both_transports_send_the_same() -> None:
    more: dict[str, Any] = {"effort": "high", "cache_key": "k", "tool_choice": "none"}
    bodies = [
        await sent(t, *HISTORY, quirks=OpenAIQuirks(cache_key=True, efforts=("low", "high")), **more)
        for t in TRANSPORTS
    ]
    assert bodies[0] == bodies[1]
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert bodies[0] == {
        "model": "m-1", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": 1000,
        "reasoning_effort": "high", "prompt_cache_key": bodies[0]["prompt_cache_key"], "tool_choice": "none",
        "tools": [{"type": "function", "function": {"name": "grep", "description": "Search.",
                                                    "parameters": {"type": "object",
                                                                   "properties": {"x": {"type": "integer"}}}}}],
        "messages": [{"role": "system", "content": "be brief"},
                     {"role": "user", "content": [{"type": "text", "text": "find it"}, {"type": "text", "text": "look:"},
                                                  url]},
                     {"role": "assistant", "content": "ok",
                      "tool_calls": [{"id": FIRST, "type": "function", "function": {"name": "grep", "arguments": '{"x":1}'}},
                                     {"id": SECOND, "type": "function",
                                      "function": {"name": "ls_all", "arguments": '{"é":"\ufffd"}'}}]},
                     {"role": "tool", "tool_call_id": FIRST, "content": "seen"},
                     {"role": "tool", "tool_call_id": SECOND, "content": "Error: no"},
                     {"role": "user", "content": [{"type": "text", "text": f"Images of the tool result {FIRST}:"}, url,
                                                  {"type": "text", "text": "go on"}]}],
    }  # fmt: skip


async def test_quirks() -> None:
    quirks = OpenAIQuirks(
        max_tokens="max_completion_tokens",
        system_role="developer",
        stream_usage=False,
        images=False,
        reasoning_field="reasoning_content",
    )
    body = await sent("http", *HISTORY, quirks=quirks, effort="max", max_output=9000)
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (4000, "max")
    assert not {"max_tokens", "stream_options", "prompt_cache_key", "tool_choice"} & set(body)
    system, person, said, first, second, _ = body["messages"]
    assert system["role"] == "developer"
    assert person["content"] == "find it\n\nlook:\n\n[image omitted: this model does not accept images]"
    assert said["reasoning_content"] == "hm"
    ids = [c["id"] for c in said["tool_calls"]]
    assert ids == [first["tool_call_id"], second["tool_call_id"]]
    assert all(len(i) == 9 and i.isalnum() for i in ids)
    inside = (await sent("http", *HISTORY, quirks=OpenAIQuirks(tool_images=True)))["messages"][3]["content"]
    assert [part["type"] for part in inside] == ["text", "image_url"], "where the service takes them"
    async with at_server(Reply(unnamed(delta("stop", content="x"))), service="mistral") as (provider, server):
        await ask(provider, asked(effort="high"))
    assert set(server.requests[0].json) == {"model", "messages", "stream", "max_tokens", "tools", "reasoning_effort"}, (
        "known by name"
    )


@pytest.mark.parametrize(("efforts", "asked_for", "expected"),
                         [((), "minimal", "minimal"), ((), None, None), (("none",), "high", None),
                          (("low", "high"), "max", "high"), (("low", "high"), "medium", "low"),
                          (("low", "high"), "none", "low"), (("none", "low"), "none", "none")])  # fmt: skip
async def test_effort(efforts: Any, asked_for: Any, expected: Any) -> None:
    assert (await sent(effort=asked_for, quirks=OpenAIQuirks(efforts=efforts))).get("reasoning_effort") == expected


async def test_reasoning_goes_back_only_to_its_origin() -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}]
    mine = Message("assistant", (Thinking("hm", ORIGIN, {"reasoning_details": details}), Text("x")))
    other = Message("assistant", (Thinking("hm", "own/m-2", {"reasoning_details": details}), Text("x"), CALL))
    result = Message("tool", (ToolResult("c1", ""),), "harness")
    history = (user("a"), mine, user("b"), other, result)
    body = await sent("http", *history, quirks=OpenAIQuirks(reasoning_field="reasoning"))
    assert body["messages"][2] == {"role": "assistant", "content": "x", "reasoning_details": details}
    assert body["messages"][4]["reasoning"] == ""
    assert "reasoning_details" not in body["messages"][4]
    assert body["messages"][5]["content"] == "(no output)"
    inside = await sent(
        "http", user("a"), Message("assistant", (Thinking("hm", ORIGIN, {"field": "content"}), Text("x")))
    )
    assert inside["messages"][2]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "x"},
    ]


async def test_signatures_of_calls_go_back_and_others_get_the_stand_in() -> None:
    extra = {"google": {"thought_signature": "s"}}
    mine = Message("assistant", (CALL, Opaque(ORIGIN, {"call_extras": {"c1": extra}})))
    other = Message("assistant", (CALL, ToolCall("c2", "ls"), Opaque("other/x", {"call_extras": {"c1": extra}})))
    result = Message("tool", (ToolResult("c1", "r"),), "harness")
    both = (user("a"), mine, result, other, result)
    body = await sent("http", *both, quirks=SERVICES["gemini"])
    assert body["messages"][2]["tool_calls"][0]["extra_content"] == extra
    first, second = body["messages"][4]["tool_calls"]
    assert first["extra_content"]["google"]["thought_signature"] == "skip_thought_signature_validator"
    assert "extra_content" not in second
    assert "extra_content" not in (await sent("http", *both))["messages"][4]["tool_calls"][0]


SAME: dict[str, Any] = {"agent": "a.7", "system": "in another folder", "effort": "low", "tool_choice": "none"}


async def test_the_cache_key_is_that_of_the_profile_the_tools_and_the_model() -> None:
    """Whatever the agent, the session and the folder."""
    asks: list[dict[str, Any]] = [{}, SAME, {"tools": ()}, {"cache_key": "coder"}]
    quirks = OpenAIQuirks(cache_key=True)
    keys = [(await sent("http", quirks=quirks, **{"cache_key": "k", **more}))["prompt_cache_key"] for more in asks]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    assert all(len(key) <= 64 for key in keys)


async def test_replies_without_content_are_left_out_and_long_ids_shortened() -> None:
    thought = Message("assistant", (Thinking("hm", ORIGIN),))
    long = Message("assistant", (ToolCall("x" * 60, ""),))
    result = Message("tool", (ToolResult("x" * 60, "r"),), "harness")
    body = await sent("http", user("a"), thought, user("b"), long, result, tools=(), system="", cache_key="k" * 70)
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool"]
    assert body["messages"][0]["content"] == "a\n\nb"
    called = body["messages"][1]["tool_calls"][0]
    assert called["id"] == body["messages"][2]["tool_call_id"]
    assert re.fullmatch("[A-Za-z0-9]{9}", called["id"])
    assert called["function"]["name"] == "unnamed"
    assert "tools" not in body
