"""Service tiers: what is asked for, what was served, and what it costs, seen in `friday ask`, `friday map` and `sessions show`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.friday import Friday
from tests.e2e.test_faults import refused
from tests.e2e.test_service_fields import own
from tests.servers import anthropic_events as claude
from tests.servers import openai_events as openai
from tests.servers.fake_model_server import Say, Turn, Wire, sse, thinking
from tests.servers.script_player import Reply

USED = {"input_tokens": 100_000, "output_tokens": 0, "input_tokens_details": {"cached_tokens": 0}}
GPT, CLAUDE = "openai/gpt-5.6-sol", "anthropic/claude-opus-5-5"


def served(tier: str) -> Reply:
    """A reply of the Responses API that was served in `tier`, and what it used."""
    found: Any = openai.whole(*openai.texts(0, "hello"), usage=USED, service_tier=tier)
    return Reply(sse("responses", found))


def fast(turn: Turn) -> Reply:
    """A reply of Claude in the speed that was asked for."""
    usage = {"input_tokens": 100_000, "output_tokens": 1, "speed": turn.body.get("speed", "standard")}
    return Reply(sse("messages", [claude.start(**usage), *claude.text(0, "hello"), *claude.end()]))


def at(friday: Friday, url: str) -> None:
    """Use GPT over the Responses API at another address."""
    own(friday, url, GPT)
    friday.config.write_text(friday.config.read_text() + 'api = "responses"\n')


def cost(friday: Friday, *argv: str) -> float:
    found: float = friday.json("hi", *argv).document["cost_usd"]
    return found


def test_a_tier_is_asked_for_and_costs_follow_what_was_served(friday: Friday) -> None:
    friday.hurry()
    with thinking(lambda t: served(t.body.get("service_tier", "default")), "responses") as server:
        at(friday, server.base)
        usual = cost(friday)
        prices = {tier: cost(friday, "--service-tier", tier) / usual for tier in ("standard", "flex", "fast")}
        server.rule = lambda t: served("default")
        ran = friday.json("hi", "--service-tier", "flex")
    assert prices == pytest.approx({"standard": 1.0, "flex": 0.5, "fast": 2.0})
    assert [t.body.get("service_tier") for t in server.turns] == [None, "default", "flex", "priority", "flex"]
    assert ran.document["cost_usd"] == pytest.approx(usual)
    assert "served this in its tier standard, not flex" in ran.err
    assert "served this in its tier standard, not flex" in friday.show().out


def test_claude_is_fast_where_it_is_asked_to_be_and_flex_is_refused_before_anything_is_sent(friday: Friday) -> None:
    friday.hurry()
    with thinking(fast) as server:
        own(friday, server.url, CLAUDE)
        usual = cost(friday)
        assert cost(friday, "--service-tier", "fast") / usual == pytest.approx(2.0)
        refused_tier = friday("hi", "--service-tier", "flex")
    assert [t.body.get("speed") for t in server.turns] == [None, "fast"]
    assert ["fast-mode" in t.headers.get("anthropic-beta", "") for t in server.turns] == [False, True]
    assert (refused_tier.code, "Anthropic has no service tier `flex`" in refused_tier.err) == (2, True)


def test_a_profile_has_a_tier_of_its_own(friday: Friday) -> None:
    friday.hurry()
    friday.profile("patient", "serviceTier: flex")

    def rule(turn: Turn) -> Any:
        if turn.agent == "root" and not turn.turn:
            return Say(calls=[("delegate_task", {"profile": "patient", "task": "#kid look"})])
        return Say("seen")

    with thinking(rule, "responses") as server:
        at(friday, server.base)
        assert friday("go").code == 0
    assert [(t.agent, t.body.get("service_tier")) for t in server.turns] == [
        ("root", None),
        ("kid", "flex"),
        ("root", None),
    ]


@pytest.mark.parametrize("wire", ["messages", "responses"])
def test_a_tier_that_a_model_refuses_is_left_out_and_told(friday: Friday, wire: Wire) -> None:
    friday.hurry()
    field = {"messages": "speed", "responses": "service_tier"}[wire]

    def rule(turn: Turn) -> Any:
        return (
            refused(400, "invalid_request_error", f"{field}: this model does not support it")
            if field in turn.body
            else Say("hello")
        )

    with thinking(rule, wire) as server:
        own(friday, server.url, CLAUDE) if wire == "messages" else at(friday, server.base)
        ran = friday("hi", "--service-tier", "fast")
    assert (ran.code, ran.out, len(server.turns)) == (0, "hello\n", 2), ran.err
    assert f"without `{field}` from now on" in ran.err


def test_a_cap_holds_the_price_of_the_tier(friday: Friday) -> None:
    """Twice the price needs twice the cap for the same first request."""
    friday.hurry()
    with thinking(lambda t: Say("hello", usage=(1_000, 5, 0)), "responses") as server:
        at(friday, server.base)
        codes = []
        for cap in ("0.03", "0.06"):
            codes.append(
                [friday("hi", "--max-cost", cap, "--service-tier", tier).code for tier in ("standard", "fast")]
            )
    assert [[code == 0 for code in row] for row in codes] == [[True, False], [True, True]], codes
    assert len(server.turns) == 3
