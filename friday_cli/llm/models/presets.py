"""The services Friday knows by name: where they listen and which variable holds their key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from friday_cli.config.settings import ProviderSettings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.text.suggest import closest_match

Wire = Literal["messages", "responses", "chat"]
"""The language of a service: Anthropic's Messages, OpenAI's Responses, or Chat Completions."""


class Preset(msgspec.Struct, frozen=True):
    """A known service. `keys` are the variables that may hold its key, first one first; `base_env` moves its address."""

    name: str
    title: str
    base_url: str
    keys: tuple[str, ...] = ()
    base_env: str = ""
    wire: Wire = "chat"
    listing: str = "/models"
    local: bool = False


PRESETS: dict[str, Preset] = {
    p.name: p
    for p in (
        Preset("anthropic", "Anthropic", "https://api.anthropic.com", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
               "ANTHROPIC_BASE_URL", "messages", "/v1/models"),
        Preset("openai", "OpenAI", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "OPENAI_BASE_URL", "responses"),
        Preset("openrouter", "OpenRouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
        Preset("gemini", "Google Gemini", "https://generativelanguage.googleapis.com/v1beta/openai",
               ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        Preset("groq", "Groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
        Preset("deepseek", "DeepSeek", "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
        Preset("mistral", "Mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
        Preset("ollama", "Ollama", "http://127.0.0.1:11434/v1", base_env="OLLAMA_HOST", local=True),
        Preset("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", base_env="LM_STUDIO_API_BASE", local=True),
        Preset("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", local=True),
        Preset("vllm", "vLLM", "http://127.0.0.1:8000/v1", local=True),
    )
}  # fmt: skip
"""In the order in which a key decides what is used when no model is named."""
SCRIPTED = ("demo", "scripted")
"""Providers that are no service: the offline demo, and a scenario from a file."""
DEMO_PROMPT = "What is in this folder?"
"""The request with which the offline demo begins."""
_BY_THEMSELVES = {"demo": "demo alone: it has no other model", "scripted": "scripted:FILE with the scenario's file"}
"""How these two are named."""


_VENDORS = {"bedrock": "anthropic", "vertex": "anthropic", "foundry": "anthropic", "azure": "openai"}
_LOGINS = ("ANTHROPIC_PROFILE", "ANTHROPIC_FEDERATION_RULE_ID")


class ModelService(msgspec.Struct, frozen=True):
    """A service as it stands after the settings and the environment: no secret is in here.

    `official` is True at the vendor's own address, `local` for a model server of one's own. `moved_by` names what
    changed the address, `login` the variable of a stored login that only the vendor's package can use.
    """

    name: str
    title: str
    base_url: str
    wire: Wire
    keys: tuple[str, ...]
    listing: str
    local: bool
    official: bool
    own: ProviderSettings
    moved_by: str = ""
    login: str = ""

    @property
    def host(self) -> str:
        """Host and port, for people; the platform where a cloud decides."""
        return self.own.platform or urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def table(self) -> str:
        """The provider whose models these are, in the table and the price list."""
        if self.name in PRESETS:
            return self.name
        return _VENDORS[self.own.platform] if self.own.platform else self.name

    @property
    def here(self) -> bool:
        """Whether it listens on this machine."""
        return is_loopback(self.base_url)

    @property
    def keyless(self) -> bool:
        """Whether it may be asked without a key: a login of the vendor's or a cloud's, a local server, a moved address."""
        if self.own.key_env:
            return False
        return bool(self.own.platform or self.login) or self.by_profile or self.local or not self.official

    @property
    def by_profile(self) -> bool:
        """Whether, where there is no key, the vendor's package looks for a login of its own."""
        return self.wire == "messages" and not self.own.platform and bool(self.login or self.own.transport == "sdk")


def service(name: str, providers: Mapping[str, ProviderSettings], env: Mapping[str, str]) -> ModelService:
    """The service called `name`. Raises UsageError where nothing is known of it, or its address is none."""
    preset, own = PRESETS.get(name), providers.get(name, ProviderSettings())
    if preset is None and name not in providers:
        raise unknown(name, providers)
    preset = preset or Preset(name, name, "", (), wire="chat")
    if own.base_url or own.platform:
        base_url, moved_by = own.base_url, f"[providers.{name}]"
    elif preset.base_env and env.get(preset.base_env, "").strip():
        base_url, moved_by = _address(preset, env[preset.base_env].strip()), preset.base_env
    else:
        base_url, moved_by = preset.base_url, ""
    if own.platform and name in PRESETS and name != _VENDORS[own.platform]:
        raise UsageError(
            f"platform = {own.platform!r} does not fit {name!r}: it serves {_VENDORS[own.platform]}.",
            hint=f"Remove it from [providers.{name}] in config.toml.",
        )
    if not base_url and not own.platform:
        raise UsageError(
            f"The provider {name!r} has no address.", hint=f"Set base_url under [providers.{name}] in config.toml."
        )
    official = not own.platform and _host(base_url) == _host(preset.base_url)
    login = next((v for v in _LOGINS if env.get(v)), "") if name == "anthropic" and official else ""
    return ModelService(
        name, preset.title, base_url.rstrip("/"), _wire(preset, own, base_url), key_names(name, providers), preset.listing,
        preset.local, official, own, moved_by, login,
    )  # fmt: skip


def key_names(name: str, providers: Mapping[str, ProviderSettings]) -> tuple[str, ...]:
    """The variables that may hold the key of a service; for one of the user's own `my-gateway`, MY_GATEWAY_API_KEY."""
    own = providers.get(name, ProviderSettings())
    if own.key_env:
        return (own.key_env,)
    if own.platform:
        return ()  # a vendor's key is nothing that a cloud may see
    if name in PRESETS:
        return PRESETS[name].keys
    return ("".join(c if c.isalnum() else "_" for c in name.upper()) + "_API_KEY",)


def names(providers: Mapping[str, ProviderSettings]) -> tuple[str, ...]:
    """Every service that can be named: the known ones, then the user's own."""
    return (*PRESETS, *(n for n in providers if n not in PRESETS))


def unknown(name: str, providers: Mapping[str, ProviderSettings]) -> UsageError:
    """The error for a provider that nobody knows, with the nearest name and how to add one."""
    if name in SCRIPTED:
        return UsageError(f"Unknown provider {name!r}.", hint=f"Write {_BY_THEMSELVES[name]}.")
    close = closest_match(name.lower(), (*names(providers), *SCRIPTED))
    meant = f" Did you mean {close!r}?" if close else ""
    return UsageError(
        f"Unknown provider {name!r}.{meant}",
        hint=f"Known: {', '.join(names(providers))}, demo. Add your own as [providers.{_bare(name)}] with "
        "base_url and key_env in config.toml (see `friday config path`).",
    )


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine, told by its text alone: no name is looked up."""
    host = (urlsplit(url).hostname or "").lower()
    return host == "localhost" or host == "::1" or (host.startswith("127.") and host.replace(".", "").isdigit())


def ollama_address(value: str) -> str:
    """The address that OLLAMA_HOST names, without a path: `0.0.0.0` (a server's setting) is this machine to a client."""
    url = value if "://" in value else f"http://{value}"
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    port = parts.port or {"https": 443, "http": 80 if "://" in value else 11434}.get(parts.scheme, 11434)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{parts.path.rstrip('/')}"


def _address(preset: Preset, value: str) -> str:
    """The address that a variable names; a local server's may stand without scheme and path."""
    try:
        url = value if "://" in value or not preset.local else f"http://{value}"
        url = ollama_address(value) if preset.name == "ollama" else url
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:
        sound = False
    if not sound:
        shown = f"…@{value.rpartition('@')[2]}" if "@" in value else value
        raise UsageError(
            f"{preset.base_env} is no web address: {shown!r}.", hint=f"It should look like {preset.base_url}"
        )
    bare = preset.local and (preset.name == "ollama" or not parts.path.strip("/")) and not url.endswith("/v1")
    return f"{url.rstrip('/')}/v1" if bare else url


def _wire(preset: Preset, own: ProviderSettings, base_url: str) -> Wire:
    if preset.wire == "messages" or _VENDORS.get(own.platform) == "anthropic":
        return "messages"
    if own.api:
        return own.api
    return "responses" if own.platform == "azure" or _host(base_url) == "api.openai.com" else "chat"


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower() if url else ""


def _bare(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else "NAME"
