"""Creates the provider for a chosen model. Provider modules are imported here, on first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from friday_cli.config.settings import Settings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import EXTERNAL
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import EFFORTS, AskedTier, Provider, ServiceTier

from ..transport.endpoint import FIRST_S, IDLE_S, Endpoint, parse_headers
from . import catalog, gateway_cache, prices
from .credentials import Key
from .presets import SCRIPTED, ModelService, find_service
from .resolve import ModelChoice, require_key

if TYPE_CHECKING:
    from ..providers.anthropic_request import AnthropicQuirks
    from ..providers.openai_parts import OpenAIQuirks
    from ..providers.pricing import Pricing, ServiceTiers
    from ..transport.batches import Batches


def create_provider(
    choice: ModelChoice,
    settings: Settings,
    *,
    env: Mapping[str, str] | None = None,
    web_search: bool = False,
    tier: AskedTier = "",
) -> Provider:
    """The provider for a choice; no request is sent. `web_search` enables the service's built-in search, if any. `tier` is the service
    tier to ask for.

    Raises NotConfigured if the service needs a key and has none, UsageError if it does not have the tier.
    """
    if choice.provider == "demo":
        from ..providers.demo import DemoProvider

        return DemoProvider()
    if choice.provider == "scripted":
        from ..providers.scripted import ScriptedProvider

        return ScriptedProvider.from_file(choice.model)
    env = os.environ if env is None else env
    service = find_service(choice.provider, settings.providers, env)
    if service.local:
        from .local_servers import at_open_port

        service = at_open_port(service)
    from ..providers.service_provider import ServedModel

    model = ServedModel(service.name, choice.model, choice.window, choice.max_output, web_search and service.official)
    price = pricing(service, choice, settings, env, tier)
    place = endpoint(service, require_key(service, env), env=env, slow=tier == "flex")
    if service.api == "messages":
        from ..providers.anthropic import AnthropicProvider

        return AnthropicProvider(model, place, price, anthropic_quirks(service, choice))
    from ..providers.openai import OpenAIChat, OpenAIResponses

    kind = OpenAIResponses if service.api == "responses" else OpenAIChat
    return kind(model, place, price, openai_quirks(service, choice))


def pricing(
    service: ModelService, choice: ModelChoice, settings: Settings, env: Mapping[str, str], tier: AskedTier = ""
) -> Pricing:
    """What the replies of a model cost in a service tier. Raises UsageError if the service does not have it."""
    from ..providers.pricing import Pricing

    tiers = _tiers(service, choice.model, tier)
    if tiers is None:
        raise UsageError(
            f"{service.title} has no service tier `{tier}`.",
            hint="OpenAI has flex and fast, Anthropic has fast; `friday map --deferred` takes half the price at both.",
        )
    return Pricing(
        cost_function(service, choice.model, assume=settings.limits.assume_price or service.reports_cost, env=env),
        step=0 if service.settings.prices.given else prices.step(service.catalog_name, choice.model),
        assumed=bool(price_note(choice.provider, choice.model, settings, env)),
        tiers=tiers,
    )


def batches_at(name: str, settings: Settings, env: Mapping[str, str]) -> Batches:
    """The batch interface of a service. Raises FridayError."""
    from ..transport.batches import batches_of

    service = find_service(name, settings.providers, env)
    return batches_of(endpoint(service, require_key(service, env), env=env))


def can_search(choice: ModelChoice, settings: Settings, *, env: Mapping[str, str] | None = None) -> bool:
    """Whether the service of a choice has a built-in web search (`web_search` of `create_provider`)."""
    if choice.provider in SCRIPTED:
        return False
    service = find_service(choice.provider, settings.providers, os.environ if env is None else env)
    return service.official and service.api in ("messages", "responses")


def has_tier(
    choice: ModelChoice, settings: Settings, tier: ServiceTier, *, env: Mapping[str, str] | None = None
) -> bool:
    """Whether the service of a choice has a tier."""
    if choice.provider in (*SCRIPTED, EXTERNAL):
        return False
    service = find_service(choice.provider, settings.providers, os.environ if env is None else env)
    return _tiers(service, choice.model, tier) is not None


def _tiers(service: ModelService, model: str, tier: AskedTier) -> ServiceTiers | None:
    from ..providers.pricing import service_tiers

    known = _of_vendor(service, model) and not service.settings.platform
    return service_tiers(service.catalog_name if known else "", tier)


def endpoint(
    service: ModelService, key: Key | None, *, env: Mapping[str, str] | None = None, slow: bool = False
) -> Endpoint:
    """The endpoint of a service with its headers. For OpenAI, `env` can add the headers that its SDK reads there. `slow`: its replies may
    begin only after minutes."""
    headers, options = dict(service.settings.headers), {}
    platform: Literal["", "profile", "bedrock", "vertex", "foundry", "azure"] = service.settings.platform
    if key is None:
        platform = "profile" if service.sdk_login else platform
    elif platform:
        options["api_key"] = key.reveal()
    elif not any(name.lower() in ("authorization", "x-api-key") for name in headers):
        headers["authorization"] = f"Bearer {key.reveal()}"
    if service.name == "openai" and service.official:
        taken = {name.lower() for name in headers}
        headers |= {name: value for name, value in _openai_headers(env or {}).items() if name not in taken}
    return Endpoint(
        service=service.title,
        base_url=service.base_url,
        headers=headers,
        key_name=key.source if key else next(iter(service.keys), ""),
        sdk="anthropic" if service.api == "messages" else "openai",
        platform=platform,
        options=options,
        models=catalog.models_of(service.catalog_name),
        idle_s=service.settings.idle or IDLE_S,
        first_s=FIRST_S if (service.on_this_machine or slow) and not service.settings.idle else 0.0,
        transport=service.settings.transport,
        extra=service.settings.extra,
    )


def _openai_headers(env: Mapping[str, str]) -> dict[str, str]:
    """Organization, project and custom headers from the environment, as OpenAI's SDK reads them."""
    named = {"openai-organization": env.get("OPENAI_ORG_ID"), "openai-project": env.get("OPENAI_PROJECT_ID")}
    return {name: value for name, value in named.items() if value} | parse_headers(env.get("OPENAI_CUSTOM_HEADERS", ""))


def cost_function(
    service: ModelService, model: str, *, assume: bool = False, env: Mapping[str, str] | None = None
) -> Callable[[Usage], float | None]:
    """The cost function of a model: the prices in the settings, else those that the service reported (`friday models --prices`), else the
    vendor's list prices. `assume`: where there is none of them, that of the vendor's most expensive model (`dearest_model`).

    With a changed base URL only models in models.toml have list prices: the URL is assumed to be a gateway to the
    vendor.
    """
    written = service.settings.prices
    own = written.models.get(model, written)
    if not own.given:
        own = gateway_cache.kept_prices(service, model, os.environ if env is None else env)
    if own.given:
        return lambda usage: prices.own_cost(own, usage)
    known = service.on_this_machine if service.local else _of_vendor(service, model)
    listed = partial(prices.cost, service.catalog_name, model, platform=service.settings.platform)

    def cost(usage: Usage) -> float | None:
        found = listed(usage) if known else None
        if found is None and assume and (dearest := dearest_model(service, model)):
            found = prices.cost(*dearest, usage)
        return found

    return cost


def dearest_model(service: ModelService, model: str) -> tuple[str, str] | None:
    """The vendor of a model, by the model's name or else the service, and the most expensive of its models in models.toml; None for an unknown
    vendor, except of a service that reports its costs: the most expensive of all."""
    named, _, plain = model.rpartition("/")
    sample = Usage(input=1000, output=1000)
    for vendor in (named.rpartition("/")[2], catalog.provider_of(plain), service.catalog_name):
        if names := catalog.models_of(vendor):
            return vendor, max(names, key=lambda name: prices.cost(vendor, name, sample) or 0.0)
    if service.reports_cost:
        return max(catalog.known(), key=lambda row: prices.cost(row[0], row[1], sample) or 0.0)
    return None


def price_note(name: str, model: str, settings: Settings, env: Mapping[str, str]) -> str:
    """For people: as what a model of the service `name` counts whose price is unknown; "" if its price is known."""
    if name in (*SCRIPTED, EXTERNAL):
        return ""
    service = find_service(name, settings.providers, env)
    if not (settings.limits.assume_price or service.reports_cost):
        return ""
    dearest = dearest_model(service, model)
    if dearest is None or cost_function(service, model, env=env)(Usage(input=1, output=1)) is not None:
        return ""
    why = "until the service reports its cost" if service.reports_cost else "the most expensive model of its vendor"
    return f"the price of {name}/{model} is unknown: it counts as {'/'.join(dearest)}, {why}"


def _of_vendor(service: ModelService, model: str) -> bool:
    """Whether a model is the vendor's: at its own URL, on a cloud platform, or one of models.toml behind a gateway."""
    return service.official or bool(service.settings.platform) or (service.catalog_name, model) in catalog.known()


def anthropic_quirks(service: ModelService, choice: ModelChoice) -> AnthropicQuirks:
    """The quirks of a model for the Messages API, from its service and from the model."""
    from ..providers.anthropic_request import AnthropicQuirks

    known = choice.quirks
    return AnthropicQuirks(
        known.efforts,
        known.thinking,
        known.off,
        known.temperature,
        short_ids=not _of_vendor(service, choice.model),
        task_budget=known.task_budget and service.official,
        cache_blocks=service.settings.platform in ("bedrock", "vertex"),
    )


def openai_quirks(service: ModelService, choice: ModelChoice) -> OpenAIQuirks:
    """The quirks of a model for OpenAI's two APIs, from its service and from the model."""
    from ..providers import openai_parts

    thinking = choice.quirks.thinking
    reasons = thinking not in ("", "none")
    quirks = openai_parts.SERVICES.get(service.catalog_name, openai_parts.OpenAIQuirks())
    if service.catalog_name == "openai" and not (service.official or service.settings.platform):
        quirks = openai_parts.OpenAIQuirks(max_tokens="max_completion_tokens" if reasons else "max_tokens")
    elif service.catalog_name == "openai" and not reasons:
        quirks = msgspec.structs.replace(quirks, system_role="system")
    if service.catalog_name == "openrouter" and choice.model.startswith("anthropic/"):
        quirks = msgspec.structs.replace(quirks, auto_cache=True)
    if "kimi" in choice.model.lower():
        quirks = msgspec.structs.replace(quirks, call_ids="kimi")
        # Moonshot's API refuses calls without reasoning in the history, also those of another model.
        if service.catalog_name not in {*openai_parts.SERVICES, "openrouter"}:
            quirks = msgspec.structs.replace(quirks, reasoning_field="reasoning_content")
    efforts = () if thinking == "none" else choice.quirks.efforts or quirks.efforts or EFFORTS
    return msgspec.structs.replace(
        quirks,
        efforts=efforts,
        reasoning=thinking != "none",
        temperature=choice.quirks.temperature,
        cache_marks=service.official and choice.quirks.caching == "marks",
    )
