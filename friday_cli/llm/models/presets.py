"""The model services that Friday knows by name: their base URLs, APIs and the environment variables of their keys.

The servers that `local_servers` finds on this machine are described here, without an import of the HTTP client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from friday_cli.config.settings import ProviderSettings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.suggest import closest_match

from ..transport.endpoint import is_loopback

Api = Literal["messages", "responses", "chat"]
"""The API of a service: Anthropic's Messages, OpenAI's Responses, or Chat Completions."""


class Preset(msgspec.Struct, frozen=True):
    """A known service. `keys` are the variables for its key, in order; the variable `base_env` replaces its base URL. A
    local server can also be at one of `more_urls`."""

    name: str
    title: str
    base_url: str
    keys: tuple[str, ...] = ()
    base_env: str = ""
    api: Api = "chat"
    local: bool = False
    more_urls: tuple[str, ...] = ()
    reports_cost: bool = False
    """Whether it reports with each reply what it charges, at its own URL."""


PRESETS: dict[str, Preset] = {
    p.name: p
    for p in (
        Preset("anthropic", "Anthropic", "https://api.anthropic.com", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
               "ANTHROPIC_BASE_URL", "messages"),
        Preset("openai", "OpenAI", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL", "responses"),
        Preset("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",),
               reports_cost=True),
        Preset("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai",
               ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        Preset("groq", "Groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
        Preset("deepseek", "DeepSeek", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
        Preset("mistral", "Mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
        Preset("xai", "xAI", "https://api.x.ai/v1", ("XAI_API_KEY",)),
        Preset("zai", "Z.ai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY",)),
        Preset("moonshot", "Moonshot", "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
        Preset("cerebras", "Cerebras", "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
        Preset("together", "Together", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
        Preset("fireworks", "Fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
        Preset("ollama", "Ollama", "http://127.0.0.1:11434/v1", base_env="OLLAMA_HOST", local=True),
        Preset("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", base_env="LM_STUDIO_API_BASE", local=True),
        Preset("llamacpp", "llama.cpp", "http://127.0.0.1:9931/v1", local=True, more_urls=("http://127.0.0.1:8080/v1",)),
        Preset("vllm", "vLLM", "http://127.0.0.1:8000/v1", local=True),
    )
}  # fmt: skip
"""In the order in which keys are looked up if no model is named."""
SMALL = 16_000
"""A context window below this many tokens is too small for work with tools."""
SCRIPTED = ("demo", "scripted")
"""Providers without a service: the offline demo, and a scenario from a file."""
DEMO_PROMPT = "What is in this folder?"
"""The first prompt of the offline demo."""
_SCRIPTED_USAGE = {"demo": "`demo` alone: it has only one model", "scripted": "scripted:FILE with the scenario's file"}
"""How to write their model names."""

_VENDORS = {"bedrock": "anthropic", "vertex": "anthropic", "foundry": "anthropic", "azure": "openai"}
_FIXED = frozenset(("messages", "input", "system", "instructions", "tools", "tool_choice", "model", "stream"))
"""Fields of a request that `extra` cannot replace."""
_LOGINS = ("ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID")


class ModelService(msgspec.Struct, frozen=True, kw_only=True):
    """A service with settings and environment applied. It contains no secret."""

    name: str
    title: str
    base_url: str
    api: Api
    keys: tuple[str, ...]
    local: bool
    """Whether it is a local model server."""
    official: bool
    """Whether it is at the vendor's base URL."""
    settings: ProviderSettings
    base_url_source: str = ""
    """The variable or config table that changed the base URL; "" if none did."""
    login: str = ""
    """The variable of a stored login that only the vendor's SDK can use."""

    @property
    def host(self) -> str:
        """Host and port for messages; the platform's name on a cloud platform."""
        return self.settings.platform or urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def catalog_name(self) -> str:
        """The provider name under which models.toml and prices.json list these models."""
        if self.name in PRESETS:
            return self.name
        return _VENDORS[self.settings.platform] if self.settings.platform else self.name

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs where it can be: several for a local server whose port was not configured."""
        return (self.base_url, *(PRESETS[self.name].more_urls if self.local and not self.base_url_source else ()))

    @property
    def on_this_machine(self) -> bool:
        """Whether the base URL is a loopback address."""
        return is_loopback(self.base_url)

    @property
    def reports_cost(self) -> bool:
        """Whether each reply says what it costs."""
        known = PRESETS.get(self.name)
        return self.settings.reports_cost or (self.official and known is not None and known.reports_cost)

    @property
    def key_optional(self) -> bool:
        """Whether requests may have no key: a stored or cloud login, a local server, or a changed base URL."""
        if self.settings.key_env:
            return False
        return bool(self.settings.platform or self.login) or self.sdk_login or self.local or not self.official

    @property
    def sdk_login(self) -> bool:
        """Whether the vendor's SDK looks for a stored login if there is no key."""
        found = bool(self.login) or self.settings.transport == "sdk"
        return found and self.api == "messages" and not self.settings.platform


class LocalModel(msgspec.Struct, frozen=True):
    """A model of a local server. `window` is its configured context in tokens (0: not reported), `trained` the largest
    context that it supports. `tools`: whether it can call tools, None if not reported."""

    id: str
    window: int = 0
    trained: int = 0
    tools: bool | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings to show before the model is used."""
        found = []
        if 0 < self.window < SMALL:
            found.append(
                f"its context window of {self.window:,} tokens is small for work with tools; start its server with 32,768 or more"
            )
        if self.tools is False:
            found.append("it cannot call tools")
        return tuple(found)


class LocalServer(msgspec.Struct, frozen=True):
    """A server that answered. `hint` tells how to increase the context of its models, if that is probably needed."""

    provider: str
    title: str
    base_url: str
    models: tuple[LocalModel, ...]
    hint: str = ""


class LocalServers(msgspec.Struct, frozen=True):
    """The servers found, and notes on those that were not checked."""

    servers: tuple[LocalServer, ...] = ()
    notes: tuple[str, ...] = ()


def find_service(name: str, providers: Mapping[str, ProviderSettings], env: Mapping[str, str]) -> ModelService:
    """The service called `name`. Raises UsageError if it is unknown or its base URL is invalid."""
    preset, settings = PRESETS.get(name), providers.get(name, ProviderSettings())
    if preset is None and name not in providers:
        raise unknown_provider(name, providers)
    preset = preset or Preset(name, name, "", (), api="chat")
    if settings.base_url or settings.platform:
        base_url, base_url_source = settings.base_url, f"[providers.{name}]"
    elif preset.base_env and env.get(preset.base_env, "").strip():
        base_url, base_url_source = _url_from_env(preset, env[preset.base_env].strip()), preset.base_env
    else:
        base_url, base_url_source = preset.base_url, ""
    if settings.platform and name in PRESETS and name != _VENDORS[settings.platform]:
        raise UsageError(
            f"platform = {settings.platform!r} cannot be used for {name!r}: it serves {_VENDORS[settings.platform]}.",
            hint=f"Remove it from [providers.{name}] in config.toml.",
        )
    if not base_url and not settings.platform:
        raise UsageError(
            f"The provider {name!r} has no base_url.", hint=f"Set base_url under [providers.{name}] in config.toml."
        )
    official = not settings.platform and _host(base_url) == _host(preset.base_url)
    if fixed := sorted(_FIXED & settings.extra.keys()):
        raise UsageError(
            f"`extra` of [providers.{name}] cannot replace {', '.join(fixed)}.", hint="Remove it from config.toml."
        )
    api = _api(preset, settings, base_url)
    root = "/v1" if api == "messages" else ""  # the paths of that API begin with it
    login = next((v for v in _LOGINS if env.get(v)), "") if name == "anthropic" and official else ""
    return ModelService(
        name=name,
        title=preset.title,
        base_url=base_url.rstrip("/").removesuffix(root),
        api=api,
        keys=key_variables(name, providers),
        local=preset.local,
        official=official,
        settings=settings,
        base_url_source=base_url_source,
        login=login,
    )


def key_variables(name: str, providers: Mapping[str, ProviderSettings]) -> tuple[str, ...]:
    """The variables for a service's key; for a custom provider `my-gateway` it is MY_GATEWAY_API_KEY."""
    settings = providers.get(name, ProviderSettings())
    if settings.key_env:
        return (settings.key_env,)
    if settings.platform:
        return ()  # the vendor's key must not be sent to a cloud platform
    if name in PRESETS:
        return PRESETS[name].keys
    return ("".join(c if c.isalnum() else "_" for c in name.upper()) + "_API_KEY",)


def service_names(providers: Mapping[str, ProviderSettings]) -> tuple[str, ...]:
    """The names of all services: the known ones, then the custom providers."""
    return (*PRESETS, *(n for n in providers if n not in PRESETS))


def unknown_provider(name: str, providers: Mapping[str, ProviderSettings]) -> UsageError:
    """The error for an unknown provider, with the closest name and how to add a provider."""
    if name in SCRIPTED:
        return UsageError(f"Unknown provider {name!r}.", hint=f"Write {_SCRIPTED_USAGE[name]}.")
    close = closest_match(name.lower(), (*service_names(providers), *SCRIPTED))
    key = name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else "NAME"
    suggestion = f" Did you mean {close!r}?" if close else ""
    return UsageError(
        f"Unknown provider {name!r}.{suggestion}",
        hint=f"Known: {', '.join(service_names(providers))}, demo. Add your own as [providers.{key}] with "
        "base_url and key_env in config.toml (see `friday config path`).",
    )


def ollama_address(value: str) -> str:
    """The URL for OLLAMA_HOST. `0.0.0.0`, a listen address of the server, becomes 127.0.0.1."""
    url = value if "://" in value else f"http://{value}"
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    port = parts.port or {"https": 443, "http": 80 if "://" in value else 11434}.get(parts.scheme, 11434)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{parts.path.rstrip('/')}"


def _url_from_env(preset: Preset, value: str) -> str:
    """The base URL from an environment variable; for a local server the scheme and `/v1` may be omitted."""
    try:
        url = value if "://" in value or not preset.local else f"http://{value}"
        url = ollama_address(value) if preset.name == "ollama" else url
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:
        valid = False
    if not valid:
        shown = f"…@{value.rpartition('@')[2]}" if "@" in value else value
        raise UsageError(
            f"{preset.base_env} is not a valid URL: {shown!r}.", hint=f"It should look like {preset.base_url}"
        )
    add_v1 = preset.local and (preset.name == "ollama" or not parts.path.strip("/")) and not url.endswith("/v1")
    return f"{url.rstrip('/')}/v1" if add_v1 else url


def _api(preset: Preset, settings: ProviderSettings, base_url: str) -> Api:
    if preset.api == "messages" or _VENDORS.get(settings.platform) == "anthropic":
        return "messages"
    if settings.api:
        return settings.api
    return "responses" if settings.platform == "azure" or _host(base_url) == "api.openai.com" else "chat"


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower() if url else ""
