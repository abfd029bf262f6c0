"""Resolves a model name to a model and its service, and lists the services that can be used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, timedelta
from urllib.parse import urlsplit

import msgspec

from friday_cli.config.settings import ProviderSettings, Settings
from friday_cli.core.protocol.errors import FridayError, NotConfigured, UsageError
from friday_cli.core.protocol.provider import Effort, clamp
from friday_cli.core.text.suggest import closest_match

from . import catalog
from .catalog import ModelQuirks
from .credentials import Key, find_key
from .gateway_cache import GatewayModel, Listing, kept_model
from .presets import PRESETS, SCRIPTED, LocalServers, ModelService, find_service, service_names, unknown_provider

HELP = """\
No model is configured: set ANTHROPIC_API_KEY (or OPENAI_API_KEY, ...), or run `friday auth set anthropic`.
A local server works too: `friday models` shows what runs on this machine; then `friday ask -m ollama/NAME "..."`.
Without either there is the offline demo (scripted, no AI model): `friday ask --model demo "..."`.
`friday doctor` shows what Friday detects on this machine."""
ENDS_SOON = timedelta(days=90)
"""How long before its last day the end of a model is reported."""


class ModelChoice(msgspec.Struct, frozen=True):
    """A chosen model. `window` and `max_output` are tokens.

    `source` tells where the choice comes from ("--model", "config", a variable, "auth.toml"). `known` is False if
    window and quirks are assumed. `notes` are messages for the user.
    """

    provider: str
    model: str
    effort: Effort | None = None
    window: int = catalog.WINDOW
    max_output: int = catalog.MAX_OUTPUT
    quirks: ModelQuirks = ModelQuirks()
    source: str = ""
    known: bool = True
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The full name that resolves to the same choice: `provider/model[:effort]`, `demo` or `scripted:PATH`."""
        if self.provider == "demo":
            return "demo"
        if self.provider == "scripted":
            return f"scripted:{self.model}"
        return f"{self.provider}/{self.model}" + (f":{self.effort}" if self.effort else "")

    @property
    def temperature_note(self) -> str:
        """Tells why a temperature has no effect with this model and effort; "" if it has one."""
        accepted = self.quirks.temperature
        if accepted == "never":
            return f"temperature has no effect: {self.model} does not take one."
        thinks = self.effort != "none" and (
            accepted == "no_effort" or (self.quirks.thinking == "budget" and self.effort)
        )
        return f"temperature has no effect: {self.model} takes one only with effort: none." if thinks else ""


class ServiceRow(msgspec.Struct, frozen=True):
    """A service in `friday models`: whether it is usable now, and `why`; `models` are full names."""

    provider: str
    title: str
    usable: bool
    why: str
    host: str = ""
    models: tuple[str, ...] = ()
    default: str = ""
    local: bool = False


def resolve(
    name: str | None,
    settings: Settings,
    *,
    env: Mapping[str, str] | None = None,
    effort: Effort | None = None,
    source: str = "--model",
) -> ModelChoice:
    """The model called `name`, else that of the settings, else the default of the first service with a key.

    `effort` overrides the settings; an effort in the name overrides both. No network request is made. Raises
    UsageError for an unknown name and NotConfigured if no service can be used.
    """
    env = os.environ if env is None else env
    if not name:
        name, source = settings.model, "config"
    if name:
        try:
            provider, model, own_effort = parse(name, settings.providers)
        except UsageError as error:
            if source == "--model":
                raise
            where = "model in the settings" if source == "config" else source
            raise UsageError(f"{where}: {error.message}", hint=error.hint) from None
        if provider in SCRIPTED:
            return ModelChoice(provider, model, effort=effort, source=source)
        service = find_service(provider, settings.providers, env)
        key = find_key(service, env)
    else:
        service, key = _first(settings, env)
        model, own_effort, source = (
            catalog.default(service.name),
            None,
            key.source if key else service.login or service.base_url_source,
        )
    listed = kept_model(service, model, env)
    choice = _choose(service, model, own_effort or effort or (settings.effort or None), source, listed)
    return msgspec.structs.replace(choice, notes=(*choice.notes, key.note)) if key and key.note else choice


def parse(name: str, providers: Mapping[str, ProviderSettings]) -> tuple[str, str, Effort | None]:
    """`provider/model[:effort]`, an alias or a bare id as (provider, model, effort). Raises UsageError."""
    name = name.strip()
    if name == "demo":
        return "demo", "demo", None
    if name.startswith("scripted:") and name != "scripted:":
        return "scripted", name.partition(":")[2], None
    plain, effort = catalog.split_effort(name)
    plain = catalog.aliases().get(plain.lower(), plain)
    provider, slash, model = plain.partition("/")
    if not slash:
        model, provider = plain, catalog.provider_of(plain)
        if not provider:
            raise _no_model(name, providers)
    if not model or not model.isprintable() or any(c.isspace() for c in model):
        raise UsageError(f"{name!r} is not a model name.", hint="Write provider/model, such as ollama/qwen3:8b.")
    if provider not in PRESETS and provider not in providers:
        raise unknown_provider(provider, providers)
    return provider, model, effort


def require_key(service: ModelService, env: Mapping[str, str]) -> Key | None:
    """The key of a service, None if it needs none. Raises NotConfigured if a required key is missing."""
    if (key := find_key(service, env)) is None and not service.key_optional:
        raise NotConfigured(
            f"No key for {service.title}: set {service.keys[0]} or run `friday auth set {service.name}`.",
            hint="`friday models` shows what can be used now.",
        )
    return key


def list_services(
    settings: Settings,
    env: Mapping[str, str] | None = None,
    *,
    found: LocalServers | None = None,
    listed: Mapping[str, Listing] | None = None,
) -> list[ServiceRow]:
    """All services with their models, or why they cannot be used now. `found` is the result of `probe`, `listed` that of
    `ask_gateways`."""
    env = os.environ if env is None else env
    rows = [_row(name, settings, env, found) for name in service_names(settings.providers)]
    for index, row in enumerate(rows):
        if row.provider in (listed or {}) and (models := (listed or {})[row.provider].models):
            rows[index] = msgspec.structs.replace(row, models=tuple(f"{row.provider}/{model.id}" for model in models))
    why = "scripted, no AI model"
    return [*rows, ServiceRow("demo", "Offline demo", True, why, models=("demo",), default="demo", local=True)]


def _first(settings: Settings, env: Mapping[str, str]) -> tuple[ModelService, Key | None]:
    """The first service with a key, or with a login or changed base URL that needs none."""
    for name, preset in PRESETS.items():
        if preset.local:
            continue
        service = find_service(name, settings.providers, env)
        key = find_key(service, env)
        if key is not None or service.login or (service.base_url_source and service.key_optional):
            return service, key
    raise NotConfigured(HELP)


def _choose(service: ModelService, model: str, effort: Effort | None, source: str, listed: GatewayModel) -> ModelChoice:
    """The choice of a model; `listed` is what the service said of it."""
    if service.settings.platform == "bedrock" and model.startswith("claude-"):
        model = f"anthropic.{model}"
    found = catalog.find(service.catalog_name, model, platform=service.settings.platform, local=service.on_this_machine)
    notes = []
    if (ends := found.ends or listed.ends) and (note := _ending(model, ends)):
        notes.append(note)
    quirks = listed.quirks if listed.quirks and not found.confirmed else found.quirks
    accepted = quirks.efforts
    if service.official and service.api == "chat" and quirks.chat != "any":
        if quirks.chat == "never":
            notes.append(f'{model} has no tools with Chat Completions: remove api = "chat" for {service.name}.')
        else:
            accepted = ("none",)
            effort = effort or "none"
    if effort and (near := clamp(effort, accepted)) != effort:
        notes.append(f"{model} does not support the effort {effort!r} ({', '.join(accepted)}): using {near!r}.")
        effort = near
    if service.base_url.startswith("http://") and not service.on_this_machine:
        notes.append(f"The connection to {service.host} is not encrypted (http).")
    window = service.settings.window or listed.window or found.window
    return ModelChoice(
        service.name,
        model,
        effort,
        window=window,
        max_output=service.settings.max_output or min(listed.max_output or found.max_output, window // 2),
        quirks=quirks,
        source=source,
        known=found.known or bool(listed.window),
        notes=tuple(notes),
    )


def _ending(model: str, ends: date) -> str:
    today = catalog.today()
    if ends < today:
        return f"The vendor announced that {model} ends on {ends}: it may no longer answer."
    return f"{model} ends on {ends}." if ends - today <= ENDS_SOON else ""


def _no_model(name: str, providers: Mapping[str, ProviderSettings]) -> UsageError:
    if name in PRESETS or name in providers:
        example = catalog.default(name) or "NAME"
        return UsageError(
            f"{name!r} is a provider, not a model.", hint=f"Write {name}/{example}; `friday models` lists the models."
        )
    ids = [model for _, model in catalog.known()]
    close = closest_match(catalog.split_effort(name)[0].lower(), (*catalog.aliases(), "demo", *ids))
    return UsageError(
        f"Unknown model {name!r}." + (f" Did you mean {close!r}?" if close else ""),
        hint="Write provider/model for a model that Friday does not know; `friday models` lists the known ones.",
    )


def _row(name: str, settings: Settings, env: Mapping[str, str], found: LocalServers | None) -> ServiceRow:
    title = PRESETS[name].title if name in PRESETS else name
    try:
        service = find_service(name, settings.providers, env)
        if service.local:
            return _local_row(service, found)
        key = find_key(service, env)
    except FridayError as error:
        return ServiceRow(name, title, False, str(error))
    models = tuple(f"{name}/{model}" for model in catalog.models_of(service.catalog_name))
    default = f"{name}/{catalog.default(name)}" if catalog.default(name) else ""
    usable = key is not None or service.key_optional
    why = f"set {service.keys[0]} or run `friday auth set {name}`" if not usable else _without(service)
    why = f"key from {key.source}" if key else why
    return ServiceRow(name, title, usable, why, service.host, models, default=default)


def _without(service: ModelService) -> str:
    if service.settings.platform:
        return f"with the credentials of {service.settings.platform}"
    if service.login:
        return f"with the login of {service.login}"
    return f"without a key, by {service.base_url_source or 'a stored login'}"


def _local_row(service: ModelService, found: LocalServers | None) -> ServiceRow:
    server = next((s for s in (found.servers if found else ()) if s.provider == service.name), None)
    if server is None:
        why = "not checked" if found is None else "no server answers"
        return ServiceRow(service.name, service.title, False, why, service.host, local=True)
    models = tuple(f"{service.name}/{m.id}" for m in server.models)
    why = "runs on this machine" if models else "runs, but has no model yet"
    host = urlsplit(server.base_url).netloc.rpartition("@")[2]
    return ServiceRow(service.name, service.title, bool(models), why, host, models, local=True)
