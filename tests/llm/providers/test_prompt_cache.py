"""Requests against a model of the services' caches, whose clock is virtual: what can be read again is read again."""

from __future__ import annotations

from typing import Any

import pytest

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.messages import Usage
from friday_cli.llm.providers.anthropic_request import AnthropicQuirks
from friday_cli.llm.providers.openai_parts import OpenAIQuirks
from tests.benchmarks.cost import children, day
from tests.llm.providers.asking import Wire, ask, asked, at_server
from tests.llm.providers.test_odd_services import WHOLE
from tests.servers import anthropic_events as claude_events
from tests.servers import openai_events as openai
from tests.servers.prompt_cache import PromptCache
from tests.servers.script_player import document


def claude(*blocks: str, marks: tuple[int, ...] = (), **more: Any) -> dict[str, Any]:
    """A request of the Messages API whose blocks have 2,000 tokens each, about."""
    content: list[dict[str, Any]] = [{"type": "text", "text": text * 8000} for text in blocks]
    for mark in marks:
        content[mark]["cache_control"] = {"type": "ephemeral"}
    return {"model": "m", "messages": [{"role": "user", "content": content}], **more}


def test_the_model_of_the_cache_forgets_as_the_service_does() -> None:
    now = [0.0]
    cache = PromptCache(lambda: now[0])
    top = {"cache_control": {"type": "ephemeral"}}
    assert cache.usage(claude("a", **top))[1] == 0
    assert cache.usage(claude("a", "b", **top))[1] > 2000
    assert cache.usage(claude("a", "b", **top, tool_choice={"type": "none"}))[1] == 0, "another choice of tools"
    many = "bcdefghijklmnopqrstuvwxyz"
    assert cache.usage(claude("a", *many, **top))[1] == 0, "25 blocks behind the last entry"
    assert cache.usage(claude("a", "b", *many.upper(), marks=(1,), **top))[1] > 4000, "a mark where the entry ends"
    now[0] = 301
    assert cache.usage(claude("a", "b", **top))[1] == 0


REFRESHED: dict[Wire, tuple[dict[str, Any], dict[str, Any], float]] = {
    "messages": (
        {"quirks": AnthropicQuirks(thinking="adaptive", short_ids=False)},
        {**claude_events.start()["message"], "stop_reason": "max_tokens",
         "usage": {"input_tokens": 0, "cache_read_input_tokens": 5000, "output_tokens": 0}},
        300.0,
    ),
    "responses": (
        {"quirks": OpenAIQuirks(cache_marks=True)},
        openai.response(output=[], usage={
            "input_tokens": 5000, "input_tokens_details": {"cached_tokens": 5000, "cache_write_tokens": 0},
            "output_tokens": 0, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 5000}),
        1800.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("wire", REFRESHED)
async def test_a_refresh_is_the_same_request_without_a_reply(wire: Wire) -> None:
    options, answer, kept_s = REFRESHED[wire]
    done = document(WHOLE[wire], 200)
    refused = document({"error": {"type": "invalid_request_error", "message": "max_tokens: too small"}}, 400)
    async with at_server(done, document(answer, 200), refused, wire=wire, **options) as (provider, server):
        assert provider.cache_kept_s == kept_s
        await ask(provider)
        usage = await provider.refresh_cache(asked())
        with pytest.raises(ProviderError, match="too small"):
            await provider.refresh_cache(asked())
    assert usage == Usage(cache_read=5000, cost_usd=None)
    usual, refresh, _ = (request.json for request in server.requests)
    changed = {key: value for key, value in refresh.items() if usual.get(key) != value}
    assert changed == ({"max_tokens": 0} if wire == "messages" else {"prompt_cache_options": {"prewarm": True}})
    assert usual.keys() - refresh.keys() == {"stream"}


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
async def test_services_that_cannot_be_asked_are_not_asked(wire: Wire) -> None:
    async with at_server(wire=wire) as (provider, _):
        assert provider.cache_kept_s == 0


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-6.1-sol"])
def test_200_rounds_with_twelve_calls_a_compaction_and_a_fan_out_read_what_repeats(model: str) -> None:
    found = day(model, waits=0)
    assert len(found.requests) > 200
    assert any("Write a summary" in message.text for request in found.requests for message in request.messages[-3:])
    assert found.cache.read >= 0.97 * found.cache.repeatable
    assert all(request.tool_choice == "auto" for request in found.requests)


@pytest.mark.parametrize("model", ["claude-opus-5-5", "gpt-6.1-sol"])
def test_children_of_one_profile_read_what_repeats(model: str) -> None:
    found = children(model)
    assert len(found.requests) == 62
    assert found.cache.read >= 0.9 * found.cache.repeatable
