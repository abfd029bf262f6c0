from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from friday_cli.config.settings import Prices, ProviderSettings, Settings
from friday_cli.core.protocol.errors import NotConfigured, UsageError
from friday_cli.core.protocol.messages import Usage, user
from friday_cli.core.protocol.provider import EFFORTS, Provider, Request
from friday_cli.llm.models import prices
from friday_cli.llm.models.credentials import find_key
from friday_cli.llm.models.factory import create_provider, endpoint, openai_quirks
from friday_cli.llm.models.presets import find_service
from friday_cli.llm.models.resolve import resolve
from friday_cli.llm.providers.openai import OpenAIChat, OpenAIResponses
from friday_cli.llm.transport import Endpoint, Transport, get_transport
from tests.servers.script_player import Reply, playing, unnamed

SECRET = "sk-very-secret-1234567890"
OWN = "X-Team: blue\nOpenAI-Project:  proj-own \nno colon here\nAuthorization: Bearer other-0123456789"
OPENAI = {"OPENAI_ORG_ID": "org-1", "OPENAI_PROJECT_ID": "proj-1"}
USAGE = Usage(input=1_000_000)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"FRIDAY_HOME": str(tmp_path)} | {
        f"{name}_API_KEY": SECRET for name in ("ANTHROPIC", "OPENAI", "GROQ", "MISTRAL", "DEEPSEEK", "OPENROUTER")
    }


def built(name: str, env: dict[str, str], **own: Any) -> Any:
    """The provider of a name; `own` are settings of its service."""
    settings = Settings(providers={name.partition("/")[0]: ProviderSettings(**own)} if own else {})
    return create_provider(resolve(name, settings, env=env), settings, env=env)


def test_each_wire_gets_its_provider(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('[agents.a]\nturns = [{text = "hello"}]\n', encoding="utf-8")
    for name, kind, window in (
        ("anthropic/claude-opus-5-5", "AnthropicProvider", 1_000_000),
        ("openai/gpt-6.1-sol", "OpenAIResponses", 1_050_000),
        ("groq/openai/gpt-oss-120b", "OpenAIChat", 131_072),
        ("ollama/qwen3:8b", "OpenAIChat", 32_768),
    ):
        made: Provider = built(name, env)
        assert type(made).__name__ == kind
        assert f"{made.name}/{made.model}" == name
        assert (made.window, made.badge) == (window, "")
        assert SECRET not in repr(made) + made.rate_limit_key
    scripted = create_provider(resolve(f"scripted:{path}", Settings(), env=env), Settings(), env=env)
    assert (scripted.name, bool(scripted.badge)) == ("scripted", True)


def test_a_missing_key_is_told_before_anything_is_sent(tmp_path: Path) -> None:
    env = {"FRIDAY_HOME": str(tmp_path)}
    with pytest.raises(
        NotConfigured, match=r"No key for Groq: set GROQ_API_KEY or run `friday auth set groq`"
    ) as caught:
        built("groq/x", env)
    assert caught.value.exit_code == 3
    with pytest.raises(NotConfigured, match="No key for OpenAI: set WORK"):
        built("openai/x", env, base_url="https://x.example/v1", key_env="WORK")
    assert built("ollama/x", env).name == "ollama"


def reached(name: str, env: dict[str, str], **own: Any) -> Endpoint:
    service = find_service(name, {name: ProviderSettings(**own)} if own else {}, env)
    return endpoint(service, find_key(service, env), env=env)


def test_endpoints(env: dict[str, str]) -> None:
    made = reached("anthropic", env)
    assert (made.base_url, made.sdk, made.platform) == ("https://api.anthropic.com", "anthropic", "")
    assert (made.headers, made.key_name) == ({"authorization": f"Bearer {SECRET}"}, "ANTHROPIC_API_KEY")
    made = reached("groq", env, headers={"x-team": "blue"})
    assert made.headers == {"x-team": "blue", "authorization": f"Bearer {SECRET}"}
    made = reached("ollama", env)
    assert (made.base_url, made.headers, made.platform) == ("http://127.0.0.1:11434/v1", {}, "")


def test_organisation_project_and_own_headers(env: dict[str, str]) -> None:
    env |= OPENAI
    bearer = f"Bearer {SECRET}"
    assert reached("openai", env).headers == {
        "authorization": bearer,
        "openai-organization": "org-1",
        "openai-project": "proj-1",
    }
    made = reached("openai", env | {"OPENAI_CUSTOM_HEADERS": OWN}, headers={"OpenAI-Organization": "org-mine"})
    assert made.headers == {
        "OpenAI-Organization": "org-mine",
        "authorization": bearer,
        "openai-project": "proj-own",
        "x-team": "blue",
    }


def test_they_are_for_openai_alone(env: dict[str, str]) -> None:
    env |= OPENAI | {"OPENAI_CUSTOM_HEADERS": OWN}
    bearer = {"authorization": f"Bearer {SECRET}"}
    assert reached("groq", env).headers == bearer
    assert reached("anthropic", env).headers == bearer
    assert reached("openai", env, base_url="https://gateway.example/v1").headers == bearer
    assert reached("openai", env | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}).headers == bearer


@pytest.mark.parametrize("name", ["x-api-key", "X-Api-Key", "Authorization"])
def test_a_key_of_ones_own_goes_alone(env: dict[str, str], name: str) -> None:
    for provider in ("anthropic", "openai", "groq"):
        made = reached(provider, env, headers={name: "mine-0123456789"}, base_url="https://gateway.example/v1")
        assert made.headers == {name: "mine-0123456789"}
        assert "mine-0123456789" in made.secrets


@pytest.mark.parametrize("custom", ["", OWN, "Authorization: Bearer other-0123456789"])
async def test_both_transports_send_the_same(env: dict[str, str], custom: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of OpenAI is the oracle: it reads the very same variables by itself."""
    env |= OPENAI | {"OPENAI_CUSTOM_HEADERS": custom}
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, env[name])
    official, bare = (
        reached("openai", env),
        reached("openai", {k: v for k, v in env.items() if "KEY" in k or "HOME" in k}),
    )
    seen = []
    transports: list[tuple[Transport, Endpoint]] = [("http", official), ("sdk", official), ("sdk", bare)]
    async with playing(Reply(unnamed({"type": "x"}, "[DONE]"))) as server:
        for transport, to in transports:
            here = msgspec.structs.replace(to, base_url=f"{server.url}/v1")
            assert [e async for e in get_transport(transport)(here, "/chat/completions", {"model": "m"})]
        for asked in server.requests:
            kept = ("authorization", "openai-organization", "openai-project", "x-team", "content-type", "accept")
            seen.append({name: asked.headers.get(name) for name in kept})
    assert seen[0] == seen[1] == seen[2]
    assert seen[0]["authorization"] == f"Bearer {SECRET}"
    assert seen[0]["openai-organization"] == "org-1"


def test_a_key_goes_to_its_own_service_only(env: dict[str, str]) -> None:
    for platform in ("bedrock", "vertex", "foundry"):
        made = reached("anthropic", env, platform=platform)
        assert (made.platform, made.base_url, made.headers, made.options) == (platform, "", {}, {})
    made = reached("anthropic", env | {"CLOUD": "cloud-key"}, platform="foundry", key_env="CLOUD")
    assert (made.headers, made.options) == ({}, {"api_key": "cloud-key"})
    assert reached("mine", env, base_url="https://x.example/v1").headers == {}


def test_a_platform_that_does_not_fit_is_told(env: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"platform = 'azure' cannot be used for 'anthropic': it serves openai"):
        reached("anthropic", env, platform="azure")
    with pytest.raises(UsageError, match="cannot be used for 'groq'"):
        reached("groq", env, platform="bedrock")


def test_stored_logins_of_the_vendor_need_its_package(tmp_path: Path) -> None:
    env = {"FRIDAY_HOME": str(tmp_path), "ANTHROPIC_PROFILE": "work"}
    assert reached("anthropic", env).platform == "profile"
    assert reached("anthropic", env | {"ANTHROPIC_API_KEY": "k"}).platform == ""
    assert reached("anthropic", {"FRIDAY_HOME": str(tmp_path)}, transport="sdk").platform == "profile"
    assert reached("openai", env | {"OPENAI_API_KEY": "k"}, transport="sdk").platform == ""


def test_clouds_under_an_own_name(env: dict[str, str]) -> None:
    made = built("work/claude-opus-5-5", env, platform="bedrock")
    assert (made.name, made.model, made.window) == ("work", "anthropic.claude-opus-5-5", 1_000_000)
    assert made.cost(USAGE) is not None
    assert made.cost(USAGE) == prices.cost("anthropic", "anthropic.claude-opus-5-5", USAGE, platform="bedrock")
    made = built("azure/gpt-6.1-sol", env, platform="azure", base_url="https://me.openai.azure.com/openai/v1")
    assert (type(made), made.window) == (OpenAIResponses, 1_050_000)


def quirks(name: str, env: dict[str, str], **own: Any) -> Any:
    settings = Settings(providers={name.partition("/")[0]: ProviderSettings(**own)} if own else {})
    choice = resolve(name, settings, env=env)
    return openai_quirks(find_service(choice.provider, settings.providers, env), choice)


def shape(name: str, env: dict[str, str]) -> Any:
    found = quirks(name, env)
    return found.max_tokens, found.system_role, found.cache_key


def test_quirks_of_the_openai_wires_and_of_services(env: dict[str, str]) -> None:
    sol, old = quirks("openai/gpt-6.1-sol", env), quirks("openai/gpt-4.1", env)
    assert shape("openai/gpt-6.1-sol", env) == ("max_completion_tokens", "developer", True)
    assert (sol.reasoning, sol.efforts) == (True, ("low", "medium", "high", "xhigh", "max"))
    assert shape("openai/gpt-4.1", env)[:2] == ("max_completion_tokens", "system")
    assert (old.reasoning, old.efforts) == (False, ())
    assert (sol.cache_marks, old.cache_marks) == (True, False)
    assert quirks("azure/gpt-6.1-sol", env, platform="azure") == msgspec.structs.replace(sol, cache_marks=False)
    names = ("llamacpp/m", "groq/m", "groq/moonshotai/kimi-k3", "openai/gpt-4.1")
    assert [quirks(name, env).call_ids for name in names] == ["short", "short", "kimi", "any"]
    assert quirks("deepseek/deepseek-v4-pro", env).reasoning_field == "reasoning_content"
    assert quirks("ollama/x", env).efforts == EFFORTS


@pytest.mark.parametrize(("model", "own", "short"), [
    ("claude-opus-5-5", {}, False), ("claude-opus-5-5", {"base_url": "http://127.0.0.1:9"}, False),
    ("unknown", {"platform": "vertex"}, False), ("m-1", {"base_url": "http://127.0.0.1:9"}, True),
])  # fmt: skip
def test_call_ids_are_short_where_the_model_may_not_be_anthropics(
    env: dict[str, str], model: str, own: dict[str, Any], short: bool
) -> None:
    settings = Settings(providers={"anthropic": ProviderSettings(**own)})
    made: Any = create_provider(resolve(f"anthropic/{model}", settings, env=env), settings, env=env)
    assert made._quirks.short_ids is short


@pytest.mark.parametrize(("name", "effort", "sent"), [
    ("anthropic/claude-opus-5-5", None, None), ("anthropic/claude-haiku-5-5", "none", None),
    ("anthropic/claude-sonnet-4-6", None, None), ("anthropic/claude-sonnet-4-6", "none", 1.0),
    ("anthropic/claude-haiku-4-5", None, 1.0), ("anthropic/claude-haiku-4-5", "low", None),
    ("openai/gpt-6.1-sol", None, None), ("openai/gpt-5.4", None, None), ("openai/gpt-5.4", "none", 1.5),
    ("openai/gpt-4.1", None, 1.5), ("groq/openai/gpt-oss-120b", None, 1.5), ("ollama/x", None, 1.5),
])  # fmt: skip
def test_a_temperature_is_sent_where_the_model_takes_one(
    env: dict[str, str], name: str, effort: Any, sent: float | None
) -> None:
    env |= {"GROQ_API_KEY": "k"}
    choice = resolve(name, Settings(), env=env, effort=effort)
    made: Any = create_provider(choice, Settings(), env=env)
    request = Request("a", "", (), (user("news?"),), 8_000, effort=choice.effort, temperature=1.5)
    assert made._body(request).get("temperature") == sent


def test_a_moved_openai_address_gets_what_every_server_takes(env: dict[str, str]) -> None:
    env["OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
    assert type(built("openai/qwen3", env)) is OpenAIChat
    assert shape("openai/qwen3", env) == ("max_tokens", "system", False)
    assert quirks("openai/qwen3", env).efforts == EFFORTS
    assert shape("openai/gpt-6-luna", env)[:2] == ("max_completion_tokens", "system")


def test_web_search_of_a_service_is_asked_for_at_the_vendor_only(env: dict[str, str]) -> None:
    request = Request("a", "", (), (user("news?"),), 100)
    for name, provider in (("gpt", "openai"), ("opus", "anthropic")):
        for base_url, offered, want in (("", True, True), ("", False, False), ("http://127.0.0.1:1/v1", True, False)):
            own = ProviderSettings(api="responses" if provider == "openai" else "", base_url=base_url)
            settings = Settings(providers={provider: own})
            made: Any = create_provider(resolve(name, settings, env=env), settings, env=env, web_search=offered)
            assert ("web_search" in str(made._body(request))) is want


@pytest.mark.parametrize(("name", "own", "cost"), [
    ("anthropic/claude-opus-5-5", {}, 4.0),
    ("anthropic/claude-zebra", {}, None),
    ("anthropic/claude-opus-5-5", {"base_url": "http://127.0.0.1:1"}, 4.0),
    ("openai/gpt-oss-120b", {}, 0.039),
    ("openai/gpt-oss-120b", {"base_url": "http://127.0.0.1:1/v1"}, None),
    ("ollama/qwen3:8b", {}, 0.0),
    ("ollama/qwen3:8b", {"base_url": "http://gpubox:11434/v1"}, None),
    ("mine/claude-opus-5-5", {"base_url": "http://127.0.0.1:1/v1"}, None),
    ("mine/x", {"base_url": "http://127.0.0.1:1/v1", "prices": Prices(input=7, output=1)}, 7.0),
    ("ollama/qwen3:8b", {"prices": Prices(input=7, output=1)}, 7.0),
])  # fmt: skip
def test_costs(name: str, own: dict[str, Any], cost: float | None, env: dict[str, str]) -> None:
    assert built(name, env, **own).cost(USAGE) == (None if cost is None else pytest.approx(cost))


async def test_a_made_provider_asks_its_server_with_the_key(env: dict[str, str]) -> None:
    text = {"choices": [{"index": 0, "delta": {"content": "hi"}}]}
    end = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    async with playing(Reply(unnamed(text, end, "[DONE]"))) as server:
        env["OPENAI_BASE_URL"] = f"{server.url}/v1"
        made = built("openai/llama", env)
        chunks = [c async for c in made.stream(Request("a", "", (), (user("hello"),), 100))]
    assert chunks[-1].message.text == "hi"
    assert (chunks[-1].usage.input, chunks[-1].usage.output, chunks[-1].usage.cost_usd) == (3, 1, None)
    (asked,) = server.requests
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
