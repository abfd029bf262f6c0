"""From a choice to a provider that can be asked. The provider's module is loaded only here, when it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from friday_cli.config.settings import Settings
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import EFFORTS, Provider

from ..transport import Endpoint
from . import catalog, prices
from .credentials import Key
from .presets import SCRIPTED, ModelService, service
from .resolve import ModelChoice, key_of

if TYPE_CHECKING:
    from ..providers.openai_parts import OpenAIQuirks as WireQuirks

Cost = Callable[[Usage], float | None]
"""US dollars for the usage of one request, None where no price is known."""


def make(
    choice: ModelChoice, settings: Settings, *, env: Mapping[str, str] | None = None, web_search: bool = False
) -> Provider:
    """The provider for a choice; nothing is sent yet. `web_search` lets a service that can search the web by itself.

    Raises NotConfigured where its service needs a key and has none.
    """
    if choice.provider == "demo":
        from ..providers.demo import DemoProvider

        return DemoProvider()
    if choice.provider == "scripted":
        from ..providers.scripted import ScriptedProvider

        return ScriptedProvider.from_file(choice.model)
    env = os.environ if env is None else env
    of = service(choice.provider, settings.providers, env)
    common: dict[str, Any] = {
        "endpoint": endpoint(of, key_of(of, env), env=env),
        "window": choice.window,
        "max_output": choice.max_output,
        "price": cost_of(of, choice.model),
        "transport": "sdk" if of.own.platform or of.own.transport == "sdk" else "http",
    }
    if of.wire == "messages":
        return _anthropic(of, choice, common, web_search)
    from ..providers.openai import OpenAIChat, OpenAIResponses

    common["quirks"] = wire_quirks(of, choice)
    if of.wire == "responses":
        return OpenAIResponses(of.name, choice.model, web_search=web_search and of.official, **common)
    return OpenAIChat(of.name, choice.model, **common)


def can_search(choice: ModelChoice, settings: Settings, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the service of a choice can search the web by itself (`make` with `web_search`)."""
    if choice.provider in SCRIPTED:
        return False
    of = service(choice.provider, settings.providers, os.environ if env is None else env)
    return of.official and of.wire in ("messages", "responses")


def endpoint(of: ModelService, key: Key | None, *, env: Mapping[str, str] | None = None) -> Endpoint:
    """Where a service is, with the headers that open it; `env` may add those that OpenAI's own package reads there."""
    headers, options = dict(of.own.headers), {}
    platform: Literal["", "profile", "bedrock", "vertex", "foundry", "azure"] = of.own.platform
    if key is None:
        platform = "profile" if of.by_profile else platform
    elif platform:
        options["api_key"] = key.reveal()
    elif not any(name.lower() in ("authorization", "x-api-key") for name in headers):
        headers["authorization"] = f"Bearer {key.reveal()}"
    if of.name == "openai" and of.official:
        taken = {name.lower() for name in headers}
        headers |= {name: value for name, value in _openai_headers(env or {}).items() if name not in taken}
    return Endpoint(
        service=of.title,
        base_url=of.base_url,
        headers=headers,
        key_name=key.source if key else next(iter(of.keys), ""),
        sdk="anthropic" if of.wire == "messages" else "openai",
        platform=platform,
        options=options,
        models=catalog.models_of(of.table),
    )


def _openai_headers(env: Mapping[str, str]) -> dict[str, str]:
    """Organisation, project and headers of one's own, as OpenAI's package takes them from the environment."""
    named = {"openai-organization": env.get("OPENAI_ORG_ID"), "openai-project": env.get("OPENAI_PROJECT_ID")}
    lines = (line.partition(":") for line in env.get("OPENAI_CUSTOM_HEADERS", "").split("\n"))
    own = {name.strip().lower(): value.strip() for name, colon, value in lines if colon}
    return {name: value for name, value in named.items() if value} | own


def cost_of(of: ModelService, model: str) -> Cost:
    """What the tokens of a model cost there: the user's own prices, else the list price of the vendor.

    At a moved address only models of the table keep their list price: it is taken for a gateway to the vendor.
    """
    own, platform = of.own.prices, of.own.platform
    if own.input is not None or own.output is not None:
        return lambda usage: prices.own_cost(own, usage)
    if not (of.here if of.local else of.official or platform or (of.table, model) in catalog.known()):
        return lambda usage: None
    return lambda usage: prices.cost(of.table, model, usage, platform=platform)


def _anthropic(of: ModelService, choice: ModelChoice, common: dict[str, Any], web_search: bool) -> Provider:
    from ..providers.anthropic import AnthropicProvider

    return AnthropicProvider(
        choice.model, name=of.name, quirks=choice.quirks, web_search=web_search and of.official, **common
    )


def wire_quirks(of: ModelService, choice: ModelChoice) -> WireQuirks:
    """How a model is spoken to over OpenAI's two wires: what its service takes, and what the model takes."""
    from ..providers.openai_parts import SERVICES
    from ..providers.openai_parts import OpenAIQuirks as WireQuirks

    thinking = choice.quirks.thinking
    reasons = thinking not in ("", "none")
    quirks = SERVICES.get(of.table, WireQuirks())
    if of.table == "openai" and not (of.official or of.own.platform):
        quirks = WireQuirks(max_tokens="max_completion_tokens" if reasons else "max_tokens")
    elif of.table == "openai" and not reasons:
        quirks = msgspec.structs.replace(quirks, system_role="system")
    efforts = () if thinking == "none" else choice.quirks.efforts or quirks.efforts or EFFORTS
    return msgspec.structs.replace(quirks, efforts=efforts, reasoning=thinking != "none")
