from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from friday_cli.core.protocol.events import ToolSpec
from friday_cli.core.protocol.messages import Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, user
from friday_cli.core.protocol.provider import Effort, Request
from friday_cli.llm.providers.anthropic_request import (
    REJECTED,
    WEB_SEARCH_SPEC,
    AnthropicQuirks,
    api_messages,
    messages_request,
)
from friday_cli.llm.providers.service_provider import ServedModel
from tests.llm.providers.anthropic_cases import CITED, FOUND, ORIGIN, SEARCH

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "x"}
MARK = {"type": "ephemeral"}
TOOL = ToolSpec("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
OPUS = AnthropicQuirks(("low", "medium", "high", "xhigh", "max"), "adaptive", "never")
SONNET = AnthropicQuirks(("none", "low", "medium", "high"), "adaptive", "between_tools")
HAIKU = AnthropicQuirks(("none", "low", "medium", "high"), "adaptive", "disabled")
OLD = AnthropicQuirks(("none", "low", "medium", "high"), "budget", "disabled")


def said(*parts: Any) -> Message:
    return Message("assistant", parts)


def results(*parts: ToolResult) -> Message:
    return Message("tool", parts, "harness")


def ask(**more: Any) -> Request:
    given: dict[str, Any] = {
        "agent": "a",
        "system": "Be brief.",
        "tools": (TOOL,),
        "messages": (user("hi"),),
        "max_output": 1000,
    }
    return Request(**{**given, **more})


def body(request: Request, quirks: AnthropicQuirks = HAIKU, **more: Any) -> dict[str, Any]:
    """The request. `more`: fields of the model or of its quirks."""
    service, _, name = ORIGIN.partition("/")
    rest = {field: more.pop(field) for field in AnthropicQuirks.__struct_fields__ if field in more}
    model = ServedModel(service, name, 200_000, 64_000, **more)
    return messages_request(request, model, msgspec.structs.replace(quirks, **rest))


def turns(*history: Message, **more: Any) -> list[dict[str, Any]]:
    return api_messages(history, origin=ORIGIN, **more)


def test_a_plain_request() -> None:
    assert body(ask(), AnthropicQuirks()) == {"model": "claude-test", "max_tokens": 1000, "stream": True,
                                    "system": [{"type": "text", "text": "Be brief.", "cache_control": MARK}],
                                    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
                                    "tools": [{"name": "read_file", "description": "Reads.", "input_schema": TOOL.schema,
                                               "cache_control": MARK}],
                                    "cache_control": MARK}  # fmt: skip


def test_what_a_request_leaves_out_and_keeps_in_bounds() -> None:
    bare = body(ask(system=" ", tools=(), tool_choice="none"), AnthropicQuirks())
    assert sorted(bare) == ["cache_control", "max_tokens", "messages", "model", "stream"]
    last = body(ask(tool_choice="none"))
    assert (last["tools"][0]["name"], last["tool_choice"]) == ("read_file", {"type": "none"})
    assert [body(ask(max_output=most))["max_tokens"] for most in (100_000, 0)] == [64_000, 1]
    for schema in ({}, {"properties": {}}, {"type": ["object", "null"]}):
        assert body(ask(tools=(ToolSpec("t", "", schema),)))["tools"][0]["input_schema"]["type"] == "object"


def test_search_of_the_service() -> None:
    assert body(ask(), searches=True)["tools"][1] == {**WEB_SEARCH_SPEC, "cache_control": MARK}
    own = ToolSpec("web_search", "Ours.", {"type": "object"})
    assert [t.get("description") for t in body(ask(tools=(own,)), searches=True)["tools"]] == ["Ours."]


@pytest.mark.parametrize(
    ("names", "marked"),
    [(("a", "b", "delegate_task", "x"), 1), (("a", "b", "task_result"), 1), (("a", "b"), 1), (("task_result",), None)],
)
@pytest.mark.parametrize("on_blocks", [False, True])
def test_what_other_agents_and_folders_share_ends_at_a_mark(
    names: tuple[str, ...], marked: int | None, on_blocks: bool
) -> None:
    tools = tuple(ToolSpec(name, "", {"type": "object"}) for name in names)
    system = "You help.\n\n# Environment\n\nFolder: /a\n\n# Environment\n\nof the project"
    sent = body(ask(tools=tools, system=system), cache_blocks=on_blocks)
    assert [i for i, tool in enumerate(sent["tools"]) if "cache_control" in tool] == (
        [] if marked is None else [marked]
    )
    assert [(block["text"][:9], block["cache_control"]) for block in sent["system"]] == [
        ("You help.", MARK),
        ("\n\n# Envir", MARK),
    ]
    assert "".join(block["text"] for block in sent["system"]) == system
    assert json.dumps(sent).count("cache_control") <= 4, "the service refuses more"


def test_marks_on_blocks() -> None:
    found = said(Opaque(ORIGIN, dict(FOUND)))
    sent = body(ask(messages=(user("a"), said(Text("b")), user("c"), found)), cache_blocks=True)
    assert "cache_control" not in sent
    assert sent["system"][0]["cache_control"] == MARK
    assert [("cache_control" in b) for m in sent["messages"] for b in m["content"]] == [False, False, True, True]
    assert found.parts[0].data == FOUND, "the history is left alone"  # type: ignore[union-attr]


THINKING: list[tuple[Effort | None, AnthropicQuirks, Any, Any]] = [
    (None, OPUS, "adaptive", None), ("none", OPUS, "adaptive", "low"), ("minimal", OPUS, "adaptive", "low"),
    ("low", OPUS, "adaptive", "low"), ("max", OPUS, "adaptive", "max"), ("none", SONNET, "between_tools", None),
    ("xhigh", SONNET, "adaptive", "high"), ("none", HAIKU, "disabled", None), (None, HAIKU, "adaptive", None),
    (None, OLD, None, None), ("none", OLD, "disabled", None), ("low", OLD, "enabled", None), (None, AnthropicQuirks(), None, None),
    ("none", AnthropicQuirks(), None, None), ("high", AnthropicQuirks(), "adaptive", "high"), ("high", AnthropicQuirks(thinking="none"), None, None),
]  # fmt: skip


@pytest.mark.parametrize(("effort", "quirks", "kind", "level"), THINKING)
def test_thinking(effort: Effort | None, quirks: AnthropicQuirks, kind: str | None, level: str | None) -> None:
    sent = body(ask(effort=effort, max_output=32_000), quirks)
    assert sent.get("thinking", {}).get("type") == kind
    assert sent.get("output_config", {}).get("effort") == level


@pytest.mark.parametrize(("tokens", "left", "told"), [
    (0, 0, None), (19_999, 0, None), (50_000, 0, {"type": "tokens", "total": 50_000}),
    (50_000, 12_000, {"type": "tokens", "total": 50_000, "remaining": 12_000}),
])  # fmt: skip
def test_a_model_is_told_its_budget(tokens: int, left: int, told: dict[str, Any] | None) -> None:
    budgets = msgspec.structs.replace(OPUS, task_budget=True)
    asking = ask(task_tokens=tokens, task_left=left, effort="high")
    assert body(asking, budgets)["output_config"] == {"effort": "high"} | ({"task_budget": told} if told else {})
    assert body(asking, OPUS)["output_config"] == {"effort": "high"}, "a model that does not know it"


def test_a_budget_of_thinking_leaves_room_for_an_answer() -> None:
    assert body(ask(effort="low", max_output=32_000), OLD)["thinking"]["budget_tokens"] == 4096
    assert body(ask(effort="high", max_output=8_000), OLD)["thinking"]["budget_tokens"] == 8_000 - 1024
    assert "thinking" not in body(ask(effort="high", max_output=2_000), OLD)


def test_a_turn_with_tools() -> None:
    image = Image("image/png", "aGk=")
    call, other = ToolCall("t1", "read_file", {"path": "a"}), ToolCall("t2", "grep")
    history = [
        user("look"),
        said(Thinking("hm", ORIGIN, THOUGHT), Opaque(ORIGIN, REDACTED), Text("Yes."), call, other),
        results(ToolResult("t1", "text", images=(image,)), ToolResult("t2", "no such thing", "error")),
        user("and?"),
        Message("user", (Text("see"), image)),
    ]
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    assert turns(*history) == [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "assistant", "content": [THOUGHT, REDACTED, {"type": "text", "text": "Yes."},
                                          {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}},
                                          {"type": "tool_use", "id": "t2", "name": "grep", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
                                      "content": [{"type": "text", "text": "text"}, picture]},
                                     {"type": "tool_result", "tool_use_id": "t2", "content": "no such thing",
                                      "is_error": True},
                                     {"type": "text", "text": "and?"}, {"type": "text", "text": "see"}, picture]},
    ]  # fmt: skip


@pytest.mark.parametrize("status", ["error", "denied", "cancelled"])
def test_a_failure_is_text_and_marked(status: Any) -> None:
    history = [user("x"), said(ToolCall("t", "f")), results(ToolResult("t", "", status, (Image("image/png", "aGk="),)))]
    assert turns(*history)[-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "t", "content": "(failed)", "is_error": True}
    ]


def test_no_content_is_empty() -> None:
    image = Image("image/png", "aGk=")
    history = [
        user("  "),
        user("x"),
        said(Text(""), Text("\n"), ToolCall("t", "f"), ToolCall("u", "f")),
        results(ToolResult("t", " "), ToolResult("u", "", images=(image,))),
    ]
    sent = turns(*history)
    assert [len(m["content"]) for m in sent] == [1, 2, 2]
    assert sent[2]["content"][0]["content"] == "(no output)"
    assert [b["type"] for b in sent[2]["content"][1]["content"]] == ["image"]


def test_thoughts_of_another_model_stay_out() -> None:
    """And those without their block."""
    other = "openai/gpt-6"
    foreign = said(Thinking("hm", other, THOUGHT), Opaque(other, REDACTED))
    words = [{"type": "text", "text": word} for word in "abc"]
    assert turns(user("a"), foreign, user("b"), said(Thinking("hm", ORIGIN), Text("c"))) == [
        {"role": "user", "content": words[:2]},
        {"role": "assistant", "content": words[2:]},
    ]


def test_blocks_of_the_service_go_back_as_they_came() -> None:
    cited = {"type": "text", "text": "so", "citations": [CITED]}
    search = {**SEARCH, "input": {"query": "q"}}
    parts = (Opaque(ORIGIN, search), Opaque(ORIGIN, FOUND), Text("so"), Opaque(ORIGIN, cited))
    assert turns(user("a"), said(*parts))[1]["content"] == [search, FOUND, cited]
    away = tuple(Opaque("x/y", p.data) if isinstance(p, Opaque) else p for p in parts)
    assert turns(user("a"), said(*away))[1]["content"] == [{"type": "text", "text": "so"}]


def test_a_history_with_holes_is_mended() -> None:
    bad = ToolCall("t", "read_file", {}, "the arguments are not valid JSON", '{"a')
    sent = turns(
        said(Text("first")), user("x"), said(bad, ToolCall("u", "f")), user("go on"), results(ToolResult("z", "?"))
    )
    assert [m["role"] for m in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert sent[3]["content"][0] == {"type": "tool_use", "id": "t", "name": "read_file", "input": {}}
    assert [b.get("tool_use_id") for b in sent[4]["content"]] == ["t", "u", None]


def test_ids_and_names_the_api_would_refuse() -> None:
    calls = [ToolCall("call/1|x", "read.file"), ToolCall("é" * 80, ""), ToolCall("ok_-1", "x" * 100)]
    sent = turns(user("a"), said(*calls), results(*(ToolResult(c.id, "r") for c in calls)))
    used = [b["id"] for b in sent[1]["content"]]
    assert used == [b["tool_use_id"] for b in sent[2]["content"]]
    assert used[2] == "ok_-1"
    assert len(set(used)) == 3
    assert all(i.replace("_", "").replace("-", "").isalnum() and i.isascii() and len(i) <= 64 for i in used)
    assert [b["name"] for b in sent[1]["content"]] == ["read_file", "unnamed", "x" * 64]


HISTORY = (user("a"), said(Thinking("hm", ORIGIN, THOUGHT), Opaque(ORIGIN, REDACTED), Text("b")), user("c"))


@pytest.mark.parametrize(("effort", "quirks", "thinking"),
                         [(None, OPUS, {"type": "adaptive", "display": "summarized"}),
                          (None, AnthropicQuirks(), {"type": "adaptive"}),
                          ("low", OLD, {"type": "enabled", "budget_tokens": 4096})])  # fmt: skip
def test_stale_thinking_may_be_dropped(
    effort: Effort | None, quirks: AnthropicQuirks, thinking: dict[str, Any]
) -> None:
    sent = body(ask(messages=HISTORY, effort=effort, max_output=9_000, provider_state={REJECTED: "drop"}), quirks)
    assert sent["thinking"] == {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert sent["messages"][1]["content"][0] == THOUGHT


@pytest.mark.parametrize(("effort", "quirks", "stale", "kinds"), [
    ("none", HAIKU, "", ["text"]),
    ("none", SONNET, "", ["thinking", "redacted_thinking", "text"]),
    ("none", SONNET, "drop", ["text"]),
    (None, OPUS, "strip", ["text"]),
])  # fmt: skip
def test_thinking_that_is_switched_off_or_stale_is_not_sent(
    effort: Effort | None, quirks: AnthropicQuirks, stale: str, kinds: list[str]
) -> None:
    sent = body(ask(messages=HISTORY, effort=effort, provider_state={REJECTED: stale}), quirks)
    assert [b["type"] for b in sent["messages"][1]["content"]] == kinds
    assert "block_binding" not in sent["thinking"]


def test_the_prefix_is_the_same_from_request_to_request() -> None:
    first = body(ask(messages=HISTORY))
    later = body(ask(messages=(*HISTORY, said(Text("d")), user("e")), tool_choice="none"))
    marks = [block.pop("cache_control", None) for message in later["messages"] for block in message["content"]]
    assert marks[-3:] == [MARK, None, None], "the end of the request before"
    first["messages"][0]["content"][0].pop("cache_control")
    assert later["system"] == first["system"]
    assert later["tools"] == first["tools"]
    assert later["messages"][: len(first["messages"])] == first["messages"]
