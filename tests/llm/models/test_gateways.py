"""The models and windows that configured gateways list: asked for once, kept, and used by sessions."""

from __future__ import annotations

import os
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.config.settings import Prices, ProviderSettings, Settings, TokenPrices
from friday_cli.core.protocol.messages import Usage
from friday_cli.llm.models import gateways
from friday_cli.llm.models.factory import cost_function
from friday_cli.llm.models.gateway_cache import GatewayModel, kept_prices
from friday_cli.llm.models.gateways import ask_gateways
from friday_cli.llm.models.presets import PRESETS, find_service
from friday_cli.llm.models.resolve import list_services, resolve
from tests.llm.models.test_local_servers import serving

KEY = "a-key-of-a-gateway"


@pytest.fixture
def env() -> dict[str, str]:
    return {"FRIDAY_HOME": os.environ["FRIDAY_HOME"], "GATE_KEY": KEY}


def at(url: str, **more: Any) -> Settings:
    return Settings(providers={"gate": ProviderSettings(base_url=url, key_env="GATE_KEY", **more)})


ROWS = [
    {"id": "a", "context_length": 90_000},
    {"id": "b", "max_model_len": 1, "meta": {}},
    {"id": "c"},
    {"id": "x y"},
    {},
]
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "plain": ({"/v1/models": {"data": ROWS}}, {"a": 90_000, "b": 1, "c": 0}),
    "openrouter": ({"/v1/models": {"data": [{"id": "o/m", "context_length": 70_000}]}}, {"o/m": 70_000}),
    "litellm": (
        {
            "/v1/models": {"data": [{"id": "m"}, {"id": "n"}]},
            "/model/info": {
                "data": [{"model_name": "m", "model_info": {"max_input_tokens": 200_000, "max_tokens": 9}}]
            },
        },
        {"m": 200_000, "n": 0},
    ),
    "llama.cpp": (
        {
            "/v1/models": {"data": [{"id": "g", "meta": {"n_ctx_train": 5}}]},
            "/props": {"default_generation_settings": {"n_ctx": 16_384}},
        },
        {"g": 16_384},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_gateway_is_asked_once_and_its_windows_are_used(name: str, env: dict[str, str]) -> None:
    answers, windows = ANSWERS[name]
    async with serving(answers) as server:
        settings = at(f"{server.url}/v1")
        assert resolve(f"gate/{next(iter(windows))}", settings, env=env).known is False
        (listing,) = (await ask_gateways(settings, env)).values()
        asked = len(server.requests)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert (await ask_gateways(settings, env)) == {"gate": listing}
        assert len(server.requests) == asked, "the second list is the kept one"
        (kept,) = (Path(env["FRIDAY_HOME"]) / "cache/models").iterdir()
        kept.chmod(0o666)
        await ask_gateways(settings, env)
        assert len(server.requests) == 2 * asked, "another user may have written it"
    assert listing.models == tuple(GatewayModel(model, size) for model, size in windows.items())
    (row,) = (row for row in list_services(settings, env, listed={"gate": listing}) if row.provider == "gate")
    assert row.models == tuple(f"gate/{model}" for model in windows)
    for model, size in windows.items():
        choice = resolve(f"gate/{model}", settings, env=env)
        assert (choice.known, choice.window == size) == (bool(size), bool(size))
        assert resolve(f"gate/{model}", at(f"{server.url}/v1", window=5_000), env=env).window == 5_000


@pytest.mark.parametrize(
    ("answer", "words"),
    [(b"", "404"), (b"<html>", "not a JSON object"), ({"data": 1}, "not a list of models"), ([], "not a JSON object")],
)
async def test_a_gateway_without_a_list_is_said_and_asked_again(answer: Any, words: str, env: dict[str, str]) -> None:
    async with serving({"/v1/models": answer}) as server:
        settings = at(f"{server.url}/v1")
        (listing,) = (await ask_gateways(settings, env)).values()
        assert listing.models == ()
        assert words in listing.problem
        assert KEY not in listing.problem
        server.answers["/v1/models"] = {"data": [{"id": "late", "n_ctx": 4_096}]}
        (listing,) = (await ask_gateways(settings, env)).values()
        assert listing.models == (GatewayModel("late", 4_096),)
    before = gateways.FRESH_S
    gateways.FRESH_S = 0.0
    try:
        (old,) = (await ask_gateways(settings, env)).values()
    finally:
        gateways.FRESH_S = before
    assert old.models == listing.models, "a list that cannot be renewed is kept"
    assert old.problem


YES, NO = {"supported": True}, {"supported": False}
ZEBRA = {
    "id": "claude-zebra-9", "type": "model", "lifecycle": "active", "max_input_tokens": 2_000_000, "max_tokens": 256_000,
    "retires_at": f"{date.today() + timedelta(30)}T00:00:00Z",
    "capabilities": {
        "effort": {**YES, "low": YES, "medium": YES, "high": YES, "xhigh": NO, "max": YES},
        "thinking": {**YES, "types": {"adaptive": YES, "between_tools": YES, "disabled": YES, "enabled": NO}},
    },
}  # fmt: skip


async def test_tomorrows_model_has_what_its_vendor_says_of_it(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env |= {"ANTHROPIC_API_KEY": KEY}
    retired = {"id": "claude-old", "type": "model", "lifecycle": "retired", "max_input_tokens": 9, "capabilities": None}
    answer = {"data": [ZEBRA, retired, {**ZEBRA, "id": "claude-opus-5-5", "max_tokens": 9}], "has_more": False}
    async with serving({"/v1/models?limit=1000": answer}) as server:
        official = msgspec.structs.replace(PRESETS["anthropic"], base_url=server.url)
        monkeypatch.setitem(PRESETS, "anthropic", official)
        assert resolve("anthropic/claude-zebra-9", Settings(), env=env).known is False
        assert await ask_gateways(Settings(), env) == {}, "only when a person asks for it"
        (listing,) = (await ask_gateways(Settings(), env, update=True)).values()
        assert len(server.requests) == 1
    assert [model.id for model in listing.models] == ["claude-zebra-9", "claude-opus-5-5"]
    choice = resolve("anthropic/claude-zebra-9", Settings(), env=env)
    assert (choice.window, choice.max_output, choice.known) == (2_000_000, 256_000, True)
    assert (choice.quirks.efforts, choice.quirks.thinking) == (("none", "low", "medium", "high", "max"), "adaptive")
    assert choice.quirks.off == "between_tools"
    assert "ends on" in choice.notes[0]
    known = resolve("anthropic/claude-opus-5-5", Settings(), env=env)
    assert (known.max_output, known.notes) == (128_000, ()), "the table counts more"


async def test_only_gateways_are_asked(env: dict[str, str]) -> None:
    providers = {
        "ollama": ProviderSettings(base_url="http://127.0.0.1:1/v1"),
        "anthropic": ProviderSettings(),
        "openai": ProviderSettings(platform="azure", base_url="http://127.0.0.1:1"),
    }
    assert await ask_gateways(Settings(providers=providers), env) == {}


PRICED: dict[str, tuple[dict[str, Any], TokenPrices]] = {
    "openrouter": (
        {"/v1/models": {"data": [{"id": "m", "n_ctx": 9, "pricing": {"prompt": "0.000004", "completion": "0.00002", "input_cache_read": "-1"}}]}},
        TokenPrices(input=4.0, output=20.0),
    ),
    "litellm": (
        {"/v1/models": {"data": [{"id": "m", "n_ctx": 9}]},
         "/model/info": {"data": [{"model_name": "m", "model_info": {
             "input_cost_per_token": 4e-06, "output_cost_per_token": 2e-05, "cache_read_input_token_cost": 4e-07}}]}},
        TokenPrices(input=4.0, output=20.0, cache_read=0.4),
    ),
    "half of a price": ({"/v1/models": {"data": [{"id": "m", "pricing": {"prompt": "0.1", "completion": "much"}}]}}, TokenPrices()),
}  # fmt: skip


@pytest.mark.parametrize("name", PRICED)
async def test_prices_are_asked_for_on_request_and_kept(name: str, env: dict[str, str]) -> None:
    answers, expected = PRICED[name]
    async with serving(answers) as server:
        settings = at(f"{server.url}/v1")
        await ask_gateways(settings, env)
        service = find_service("gate", settings.providers, env)
        assert not kept_prices(service, "m", env).given
        await ask_gateways(settings, env, prices=True)
        found = kept_prices(service, "m", env)
        for field in ("input", "output", "cache_read", "cache_write"):
            assert getattr(found, field) == pytest.approx(getattr(expected, field))
        before, gateways.FRESH_S = gateways.FRESH_S, 0.0
        try:
            await ask_gateways(settings, env)
        finally:
            gateways.FRESH_S = before
        assert kept_prices(service, "m", env) == found, "a later list of models forgets no price"
        usage = Usage(input=1_000_000)
        cost = cost_function(service, "m", env=env)(usage)
        assert cost == pytest.approx(expected.input)
        own = find_service("gate", at(f"{server.url}/v1", prices=Prices(input=1.0, output=1.0)).providers, env)
        assert cost_function(own, "m", env=env)(usage) == 1.0
