"""`model: opus`, `sonnet` and `haiku` in agent files mean a class of model, at whatever service the parent uses."""

from __future__ import annotations

import msgspec
import pytest

from friday_cli.agents.provider_pool import ProviderPool
from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FridayError
from friday_cli.extensions.profiles import Profile

KEYS = {"OPENAI_API_KEY": "x" * 20, "MYGATE_API_KEY": "x" * 20}
GATE = {"base_url": "http://127.0.0.1:1/v1"}


def pool(**providers: object) -> ProviderPool:
    return ProviderPool(msgspec.convert({"providers": providers}, Settings), KEYS)


def child(made: ProviderPool, parent: str, model: str, *, imported: bool = True) -> tuple[str, str]:
    """The model of a child and what is told about it."""
    above, _ = made.named(parent, "test")
    profile = Profile("p", "d", "Do it.", model=model, imported=imported)
    provider, _ = made.for_child(above, profile)
    return f"{provider.name}/{provider.model}", made.substitution_note(above, profile, provider)


@pytest.mark.parametrize(
    ("parent", "model", "settings", "used"),
    [
        ("openai/gpt-6.1-sol", "haiku", {}, "openai/gpt-6-luna"),
        ("openai/gpt-6.1-sol", "Sonnet", {}, "openai/gpt-6.1-terra"),
        ("openai/gpt-6.1-sol", "opus", {"openai": {"classes": {"opus": "gpt-6.2-sol"}}}, "openai/gpt-6.2-sol"),
        ("mygate/big", "haiku", {"mygate": GATE | {"classes": {"haiku": "small"}}}, "mygate/small"),
        ("openai/gpt-6.1-sol", "haiku", {"openai": GATE}, "openai/gpt-6-luna"),
    ],
)
def test_a_class_is_a_model_of_the_parents_service(
    parent: str, model: str, settings: dict[str, object], used: str
) -> None:
    assert child(pool(**settings), parent, model) == (used, "")


@pytest.mark.parametrize(
    ("parent", "settings"), [("mygate/big", {"mygate": GATE}), ("openai/llama", {"openai": GATE}), ("ollama/qwen3", {})]
)
def test_an_unknown_class_is_the_parents_model_and_told_once(parent: str, settings: dict[str, object]) -> None:
    made = pool(**settings)
    model, note = child(made, parent, "sonnet")
    assert model == parent
    assert f"'sonnet' of p is not known for {parent.partition('/')[0]}: {parent} is used" in note
    assert child(made, parent, "sonnet") == (parent, "")


def test_a_model_of_an_agent_file_that_cannot_be_used_is_the_parents_and_an_own_one_is_an_error() -> None:
    made = pool()
    model, note = child(made, "openai/gpt-6.1-sol", "claude-sonnet-4-5")
    assert model == "openai/gpt-6.1-sol"
    assert "No key for Anthropic" in note
    with pytest.raises(FridayError, match="No key for Anthropic"):
        child(made, "openai/gpt-6.1-sol", "anthropic/claude-sonnet-4-5", imported=False)
