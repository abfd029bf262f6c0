from __future__ import annotations

import pytest

from friday_cli.config.settings import ProviderSettings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.llm.models.presets import PRESETS, find_service, key_variables, ollama_address
from friday_cli.llm.transport.endpoint import is_loopback

OWN = {
    "gateway": ProviderSettings(base_url="https://llm.example.org/v1/", key_env="GATEWAY"),
    "my-box": ProviderSettings(base_url="http://127.0.0.1:9/v1", api="responses"),
    "empty": ProviderSettings(),
}


NAMES = [
    "anthropic",
    "openai",
    "ollama",
    "lmstudio",
    "llamacpp",
    "vllm",
    "openrouter",
    "groq",
    "deepseek",
    "mistral",
    "gemini",
    "xai",
    "zai",
    "moonshot",
    "cerebras",
    "together",
    "fireworks",
]


@pytest.mark.parametrize("name", NAMES)
def test_presets_stand_as_they_are(name: str) -> None:
    assert set(NAMES) == set(PRESETS)
    service = find_service(name, {}, {})
    assert service.base_url == PRESETS[name].base_url
    assert service.official
    assert not service.base_url_source
    assert service.key_optional is service.local is service.on_this_machine
    assert bool(service.keys) is not service.local
    assert service.base_url.startswith("https://") is not service.local


@pytest.mark.parametrize(("env", "own", "wire"), [
    ({}, ProviderSettings(), "responses"),
    ({"OPENAI_BASE_URL": "https://api.openai.com/v1/"}, ProviderSettings(), "responses"),
    ({"OPENAI_BASE_URL": "https://API.openai.com"}, ProviderSettings(), "responses"),
    ({"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}, ProviderSettings(), "chat"),
    ({"OPENAI_BASE_URL": "https://api.openai.com.evil.example/v1"}, ProviderSettings(), "chat"),
    ({"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"}, ProviderSettings(api="responses"), "responses"),
    ({}, ProviderSettings(api="chat"), "chat"),
    ({}, ProviderSettings(platform="azure"), "responses"),
    ({"OPENAI_BASE_URL": ""}, ProviderSettings(base_url="https://x.example/v1"), "chat"),
])  # fmt: skip
def test_which_openai_api_is_spoken(env: dict[str, str], own: ProviderSettings, wire: str) -> None:
    assert find_service("openai", {"openai": own}, env).api == wire


def test_the_config_weighs_more_than_the_environment() -> None:
    service = find_service("openai", {"openai": OWN["gateway"]}, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})
    assert service.base_url == "https://llm.example.org/v1"
    assert (service.official, service.base_url_source, service.key_optional) == (False, "[providers.openai]", False)
    moved = find_service("anthropic", {}, {"ANTHROPIC_BASE_URL": "https://proxy.example"})
    assert (moved.base_url, moved.base_url_source, moved.api) == (
        "https://proxy.example",
        "ANTHROPIC_BASE_URL",
        "messages",
    )
    assert moved.key_optional
    assert not moved.official


def test_own_providers() -> None:
    box = find_service("my-box", OWN, {})
    assert (
        box.api,
        box.keys,
        box.key_optional,
        box.local,
        box.official,
    ) == ("responses", ("MY_BOX_API_KEY",), True, False, False)
    assert key_variables("gateway", OWN) == ("GATEWAY",)
    with pytest.raises(UsageError, match=r"'empty' has no base_url.*base_url under \[providers.empty\]"):
        find_service("empty", OWN, {})


def test_an_unknown_provider_names_the_nearest_and_how_to_add_it() -> None:
    with pytest.raises(UsageError) as caught:
        find_service("openruter", OWN, {})
    text = str(caught.value)
    for words in ("Unknown provider 'openruter'. Did you mean 'openrouter'?", "[providers.openruter]", "my-box"):
        assert words in text
    with pytest.raises(UsageError, match=r"\[providers.NAME\]"):
        find_service("a]\nb", OWN, {})


@pytest.mark.parametrize(("value", "want"),
                         [("127.0.0.1", "http://127.0.0.1:11434"), ("0.0.0.0", "http://127.0.0.1:11434"),
                          ("0.0.0.0:8000", "http://127.0.0.1:8000"), ("gpubox:1234", "http://gpubox:1234"),
                          (":5000", "http://127.0.0.1:5000"), ("http://gpubox", "http://gpubox:80"),
                          ("https://gpubox/o/", "https://gpubox:443/o"), ("[::]:9", "http://[::1]:9")])  # fmt: skip
def test_addresses_of_local_servers(value: str, want: str) -> None:
    assert ollama_address(value) == want
    assert find_service("ollama", {}, {"OLLAMA_HOST": value}).base_url == f"{want}/v1"
    for base in ("http://localhost:5/v1", "http://localhost:5", "http://localhost:5/", "localhost:5/v1"):
        assert find_service("lmstudio", {}, {"LM_STUDIO_API_BASE": base}).base_url == "http://localhost:5/v1"


@pytest.mark.parametrize("value", ["nonsense", "ftp://x/v1", "http://", "http://a b/v1", "http://x:99999/v1"])
def test_a_bad_address_in_the_environment_is_told(value: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_BASE_URL is not a valid URL"):
        find_service("openai", {}, {"OPENAI_BASE_URL": value})
    if value not in ("nonsense", "http://"):
        with pytest.raises(UsageError, match="OLLAMA_HOST is not a valid URL"):
            find_service("ollama", {}, {"OLLAMA_HOST": value})
    with pytest.raises(UsageError, match="…@host") as caught:
        find_service("openai", {}, {"OPENAI_BASE_URL": "ftp://me:secret@host/v1"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("url", "want"), [("http://127.0.0.1:1", True), ("http://127.8.8.8/", True),
                                           ("http://localhost", True), ("http://[::1]:3", True),
                                           ("http://127.0.0.1.evil.example", False),
                                           ("http://localhost.evil.example", False), ("http://10.0.0.1", False),
                                           ("http://localhost@evil.example", False), ("", False)])  # fmt: skip
def test_loopback(url: str, want: bool) -> None:
    assert is_loopback(url) is want
