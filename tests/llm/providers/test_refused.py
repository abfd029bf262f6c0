"""A request that a service refuses for one field, tool or image is sent again without it, and the service is remembered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import Image, Message, Text, Thinking, ToolCall, ToolResult, user
from friday_cli.core.protocol.provider import NoteChunk
from friday_cli.llm.providers.anthropic_request import AnthropicQuirks
from friday_cli.llm.providers.openai_parts import OpenAIQuirks
from tests.llm.providers.asking import TOOLS, Wire, ask, asked, at_server, fails
from tests.servers.fake_model_server import Say, reply
from tests.servers.script_player import document

OWN = "own/m-1"
OPUS = AnthropicQuirks(("low", "high"), "adaptive")
THOUGHT = (
    user("a"),
    Message("assistant", (Thinking("hm", OWN, {"field": "reasoning_content"}), Text("x")), origin=OWN),
    user("b"),
)
ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
ENCRYPTED = (user("a"), Message("assistant", (Thinking("", OWN, ITEM), Text("x")), origin=OWN), user("b"))
ODD = (*TOOLS, ToolSpec("mcp_odd", "", {"type": "object"}))
CASES: dict[str, tuple[Wire, str, str, dict[str, Any], dict[str, Any]]] = {
    "chat usage": ("chat", "Extra inputs are not permitted: stream_options", "stream_options", {}, {}),
    "chat maximum": (
        "chat", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        '"max_tokens"', {}, {},
    ),
    "chat effort": ("chat", "unknown field `reasoning_effort`", "reasoning_effort", {"effort": "high"}, {}),
    "chat temperature": ("chat", "temperature is not supported", "temperature", {"temperature": 0.5}, {}),
    "chat reasoning": ("chat", "messages.1.reasoning_content: property is unsupported", "reasoning_content", {"messages": THOUGHT}, {}),
    "chat tool": ("chat", "Invalid schema for function 'mcp_odd': anyOf is not permitted", "mcp_odd", {"tools": ODD}, {}),
    "chat tool of Gemini": (
        "chat", "Unknown name \"exclusiveMinimum\" at 'tools[0].function_declarations[1].parameters.properties[0].value'", "mcp_odd",
        {"tools": ODD}, {},
    ),
    "responses summary": (
        "responses", "Your organization must be verified to generate reasoning summaries (reasoning.summary).", '"summary"', {}, {},
    ),
    "responses effort": ("responses", "Unsupported value: 'reasoning.effort'", '"effort"', {"effort": "high"}, {}),
    "responses reasoning": (
        "responses", "The encrypted content gAAA could not be verified. Reason: invalid_encrypted_content", "gAAA",
        {"messages": ENCRYPTED}, {},
    ),
    "messages tool": ("messages", "tools.1.custom.input_schema: input_schema does not support oneOf", "mcp_odd", {"tools": ODD}, {}),
    "messages effort": (
        "messages", "output_config.effort: Extra inputs are not permitted", "output_config", {"effort": "high"}, {"quirks": OPUS},
    ),
}  # fmt: skip


def refusal(message: str) -> Any:
    return document({"error": {"type": "invalid_request_error", "message": message}}, 400)


@pytest.mark.parametrize("case", CASES)
async def test_what_is_refused_is_left_out_said_once_and_remembered(case: str) -> None:
    wire, message, gone, more, provider_more = CASES[case]
    messages = more.pop("messages", ()) if "messages" in more else ()
    state: dict[str, Any] = {}
    said = reply(wire, Say("ok"))
    async with at_server(refusal(message), said, said, wire=wire, **provider_more) as (provider, server):
        chunks, done = await ask(provider, asked(*messages, provider_state=state, **more))
        again, _ = await ask(provider, asked(*messages, provider_state=state, **more))
    first, second, third = (json.dumps(request.json) for request in server.requests)
    assert done.message.text == "ok"
    assert gone in first
    assert gone not in second
    assert gone not in third
    (note,) = [chunk.text for chunk in chunks if isinstance(chunk, NoteChunk)]
    assert note.startswith("Own refused the request as invalid (400):")
    assert not any(isinstance(chunk, NoteChunk) for chunk in again)
    if "maximum" in case:
        assert '"max_completion_tokens": 1000' in second


@pytest.mark.parametrize("wire", ["chat", "messages"])
async def test_a_field_that_is_required_or_refused_twice_fails(wire: Wire) -> None:
    message = "max_tokens: must be greater than 0"
    quirks: Any = AnthropicQuirks() if wire == "messages" else OpenAIQuirks(max_tokens="max_completion_tokens")
    async with at_server(*[refusal(message)] * 3, wire=wire, quirks=quirks) as (provider, server):
        await fails(provider, asked(provider_state={}))
    assert len(server.requests) == 1


@pytest.mark.parametrize("wire", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    "message", ["Could not process image", "image dimensions exceed max allowed size: 8000 pixels"]
)
async def test_a_refused_image_becomes_a_text_and_the_others_stay(wire: Wire, message: str) -> None:
    old, new = Image("image/png", "T0xE"), Image("image/png", "TkVX")
    history = (
        Message("user", (Text("first"), old)),
        Message("assistant", (ToolCall("c1", "grep", {}),), origin="x/y"),
        Message("tool", (ToolResult("c1", "a picture", images=(new,)),), "harness"),
    )
    state: dict[str, Any] = {}
    said = reply(wire, Say("I see one"))
    async with at_server(refusal(message), said, said, wire=wire) as (provider, server):
        chunks, _ = await ask(provider, asked(*history, provider_state=state))
        await ask(
            provider, asked(*history, Message("assistant", (Text("I see one"),)), user("go on"), provider_state=state)
        )
    first, *later = (json.dumps(request.json) for request in server.requests)
    assert "T0xE" in first
    assert "TkVX" in first
    assert all(
        "T0xE" in body and "TkVX" not in body and "[image refused: Own refused the request" in body for body in later
    )
    assert [chunk.text[-54:] for chunk in chunks if isinstance(chunk, NoteChunk)] == [
        "the conversation without an image; the log keeps them."
    ]
