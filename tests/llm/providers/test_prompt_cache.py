"""Requests against a model of the services' caches, whose clock is virtual: what can be read again is read again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.cost import children, day
from tests.servers.prompt_cache import PromptCache


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
