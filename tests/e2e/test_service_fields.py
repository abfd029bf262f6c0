"""What services send and expect beside text and calls, row by row, seen in `friday ask`."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from friday_cli.llm.models import factory
from tests.e2e.friday import Friday
from tests.e2e.test_faults import refused
from tests.servers import anthropic_events as claude
from tests.servers import mcp_stdio
from tests.servers import openai_events as openai
from tests.servers.fake_model_server import Say, Turn, Wire, sse, thinking
from tests.servers.script_player import Reply, Wait


def own(friday: Friday, url: str, model: str, *, more: str = "") -> None:
    """Use `model` of a known service at another address."""
    name = model.partition("/")[0]
    friday.model = model
    friday.config.write_text(f'{more}\n[providers.{name}]\nbase_url = "{url}"\n', encoding="utf-8")
    friday.setenv(f"{name.upper()}_API_KEY", "sk-canary-0123456789abcdefghij")


def test_a_service_that_pings_while_it_writes_a_call_is_waited_for(friday: Friday) -> None:
    friday.impatient()
    ping = sse("messages", [{"type": "ping"}])
    pings = [step for _ in range(10) for step in (Wait(0.1), ping)]
    begun, *written = claude.call(0, "toolu_9", "glob", '{"pattern": "*"}')
    slow = Reply(sse("messages", [claude.start(), begun]), *pings, sse("messages", [*written, *claude.end("tool_use")]))
    with thinking(lambda t: Say("done") if t.turn else slow) as server:
        own(friday, server.url, "anthropic/claude-opus-5-5")
        assert friday("go").out == "done\n", friday.attempts()
        assert all(tool["eager_input_streaming"] for tool in server.turns[0].body["tools"] if "input_schema" in tool)
        friday.hurry()
        server.rule = lambda t: Say("late") if t.tries else Reply(sse("messages", [claude.start()]), *pings, b"")
        friday("#other and now?")
        assert "no events" in friday.attempts(), "pings outside of a block are no sign of life"


def test_a_model_on_this_machine_may_read_a_prompt_for_longer(friday: Friday, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "IDLE_S", 0.2)
    slow = Say("read it all", delay_s=0.7)
    with friday.meets(lambda t: slow, "chat") as server:
        assert friday("hi").out == "read it all\n", friday.attempts()
        friday.hurry()
        friday.config.write_text(friday.config.read_text() + "idle = 0.2\n", encoding="utf-8")
        server.rule = lambda t: Say("short") if t.tries else slow
        assert friday("#other and now?").out == "short\n"
        assert "sent no bytes for 0.2 s" in friday.attempts(), "what a person sets wins"


def test_claude_behind_openrouter_gets_a_cache(friday: Friday) -> None:
    with thinking(lambda t: Say("hello"), "chat") as server:
        own(friday, server.base, "openrouter/anthropic/claude-opus-5.5")
        assert friday("hi").code == 0
        own(friday, server.base, "openrouter/openai/gpt-6.1-sol")
        assert friday("hi").code == 0
    assert [turn.body.get("cache_control") for turn in server.turns] == [{"type": "ephemeral"}, None]


@pytest.mark.parametrize(("more", "compacts"), [("", True), ("[context]\ncompact_at = 0.9\n", False)])
def test_a_conversation_is_compacted_before_each_token_costs_more(friday: Friday, more: str, compacts: bool) -> None:
    """Haiku 5.5 costs five times as much for input above 100,000 tokens."""

    def rule(turn: Turn) -> Say:
        if "Write a summary" in turn.asked_for:
            return Say("The summary.")
        return (
            Say("done")
            if turn.turn or "The summary." in turn.asked_for
            else Say(calls=[("glob", {"pattern": "*"})], usage=(96_000, 5, 0))
        )

    with thinking(rule) as server:
        own(friday, server.url, "anthropic/claude-haiku-5-5", more=more)
        assert friday("go").out == "done\n"
    assert any("Write a summary" in turn.asked_for for turn in server.turns) is compacts


LONG = {"input_tokens": 0, "cache_creation_input_tokens": 10_000,
        "cache_creation": {"ephemeral_1h_input_tokens": 10_000, "ephemeral_5m_input_tokens": 0}}  # fmt: skip


@pytest.mark.parametrize(
    ("usage", "estimated"),
    [
        ({}, False),
        ({"service_tier": "standard", "inference_geo": "global", "iterations": [{"type": "message"}]}, False),
        ({"service_tier": "priority"}, True),
        ({"speed": "fast"}, False),
        ({"inference_geo": "us"}, True),
        ({"iterations": [{"type": "message"}, {"type": "compaction", "input_tokens": 9}]}, True),
    ],
)
def test_what_is_kept_for_an_hour_costs_twice_the_input_and_unknown_tiers_are_estimates(
    friday: Friday, usage: dict[str, Any], estimated: bool
) -> None:
    said = [claude.start(**LONG, **usage), *claude.text(0, "hello"), *claude.end(output=2)]
    with thinking(lambda t: Reply(sse("messages", said))) as server:
        own(friday, server.url, "anthropic/claude-opus-5-5")
        found = friday.json("hi").document
    assert found["cost_usd"] == pytest.approx(0.16 if "speed" in usage else 0.08, abs=0.001)
    assert found["usage"]["estimated"] is estimated


SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s1"}
EXTRA = {"google": {"thought_signature": "t1"}}
KEPT = {"thinking_blocks": [SIGNED], "extra_content": EXTRA, "provider_specific_fields": {"thought_signature": "u1"}}
CHUNKS = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]


@pytest.mark.parametrize(
    ("first", "back"),
    [
        ({"thinking_blocks": [SIGNED]}, {"thinking_blocks": [SIGNED]}),
        ({"extra_content": EXTRA}, {"extra_content": EXTRA}),
        ({"provider_specific_fields": KEPT["provider_specific_fields"]}, {"provider_specific_fields": KEPT["provider_specific_fields"]}),
        ({"reasoning": "hm"}, {"reasoning": "hm"}),
        ({"content": CHUNKS}, {"content": [*CHUNKS, {"type": "text", "text": "look"}]}),
    ],
)  # fmt: skip
def test_what_a_gateway_signed_goes_back_to_it_also_after_a_resume(
    friday: Friday, first: dict[str, Any], back: dict[str, Any]
) -> None:
    called = openai.calls(openai.piece(0, '{"pattern": "*"}', id="functions.glob:0", name="glob", type="function"))
    begun = Reply(
        sse("chat", [openai.delta(**first), openai.delta(content="look"), called, openai.delta("tool_calls"), "[DONE]"])
    )
    with friday.meets(lambda t: Say("done") if t.turn else begun, "chat") as server:
        assert friday("go").out == "done\n"
        assert friday("-c", "more").out == "done\n"
        for turn in server.turns[1:]:
            sent = next(m for m in turn.body["messages"] if m["role"] == "assistant")
            assert {key: sent.get(key) for key in back} == back
            assert sent["tool_calls"][0]["id"] == "functions.glob:0"


def test_thinking_in_a_tag_is_not_the_answer(friday: Friday) -> None:
    with friday.meets(lambda t: Say(["<thi", "nk>let me see</th", "ink>\n\nforty", "-two <think>"]), "chat"):
        assert friday("hi").out == "forty-two <think>\n"
        assert "let me see" not in friday("hi").out


@pytest.mark.parametrize(
    "words",
    [
        "Prompt exceeds max length",
        "Invalid request: Your request exceeded model token limit: 262144",
        "prompt token count of 140000 exceeds the limit of 128000",
        "Range of input length should be [1, 98304]",
        "`inputs` tokens + `max_new_tokens` must be <= 32768",
    ],
)
def test_a_full_context_in_the_words_of_a_service_is_compacted(friday: Friday, words: str) -> None:
    def rule(turn: Turn) -> Say | Reply:
        if "Write a summary" in turn.asked_for:
            return Say("The summary.")
        if "The summary." in turn.asked_for:
            return Say("done")
        return refused(400, "invalid_request_error", words) if turn.turn else Say(calls=[("glob", {"pattern": "*"})])

    with friday.meets(rule, "chat"):
        assert friday("go").out == "done\n"


def test_an_error_that_the_service_calls_final_is_not_tried_again(friday: Friday) -> None:
    final = refused(500, "api_error", "broken", **{"x-should-retry": "false", "request-id": "req_077"})
    with friday.meets(lambda t: final) as server:
        error = friday.json("hi").document["error"]
    assert len(server.turns) == 1
    assert "had an internal error" in error
    assert "request req_077" in error


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [("mistral-large-4", "medium", "medium"), ("mistral-medium-3-5", "high", "high"),
     ("mistral-small-2603", "low", "none"), ("codestral-2508", "high", None)],
)  # fmt: skip
def test_mistral_gets_the_efforts_that_a_model_has(friday: Friday, model: str, effort: str, sent: str | None) -> None:
    with thinking(lambda t: Say("hello"), "chat") as server:
        own(friday, server.base, f"mistral/{model}")
        ran = friday("hi", "--effort", effort)
    assert (ran.code, server.turns[0].body.get("reasoning_effort")) == (0, sent)
    assert (f"does not support the effort '{effort}'" in ran.err) is (effort != sent)


@pytest.mark.parametrize("wire", ["messages", "responses", "chat"])
def test_arguments_with_alternatives_are_sent_as_one_object(friday: Friday, wire: Wire) -> None:
    entry = {"command": sys.executable, "args": [mcp_stdio.__file__, "either"], "expose": "direct"}
    (friday.home / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}), encoding="utf-8")
    friday.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))
    call = Say(calls=[("mcp__small__either", {"at": {"x": 1}})])
    with friday.meets(lambda t: Say("done") if t.turn else call, wire) as server:
        assert friday("go", "--yolo").out == "done\n"
        tools = {t.get("name") or t["function"]["name"]: t.get("function", t) for t in server.turns[-1].body["tools"]}
        tool = tools["mcp__small__either"]
        schema = tool.get("input_schema") or tool["parameters"]
        assert not {"anyOf", "$defs"} & set(schema)
        assert schema["properties"]["at"]["properties"]["x"] == {"type": "integer", "minimum": 1}
        assert '{"anyOf":[{"required":["name"]},{"required":["at"]}]}' in tool["description"]
        assert friday.read_by("a")[0].startswith("ok")


def test_what_a_gateway_seals_only_at_the_end_of_a_reply_goes_back_to_it(friday: Friday) -> None:
    """litellm has the encrypted reasoning in the whole response alone."""
    plain = {key: value for key, value in openai.REASONING.items() if key != "encrypted_content"}
    found: Any = openai.whole(*openai.thought(0, plain), *openai.called(1, {**openai.CALLED, "name": "glob"}))
    found[-1]["response"]["output"][0] = openai.REASONING
    first = Reply(sse("responses", found))
    with friday.meets(lambda t: Say("done") if t.turn else first, "responses") as server:
        assert friday("go").out == "done\n"
        assert friday("-c", "more").out == "done\n"
    sent = [item for turn in server.turns[1:] for item in turn.body["input"] if item.get("type") == "reasoning"]
    assert [item["encrypted_content"] for item in sent] == [openai.REASONING["encrypted_content"]] * len(
        server.turns[1:]
    )
