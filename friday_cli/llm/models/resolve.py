"""From a name to a model: which one is meant, where its service is, and whether it can be used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING

import msgspec

from friday_cli.config.settings import ProviderSettings, Settings
from friday_cli.core.protocol.errors import FridayError, NotConfigured, UsageError
from friday_cli.core.protocol.provider import Effort, clamp
from friday_cli.core.text.suggest import closest_match

from . import catalog
from .catalog import ModelQuirks
from .credentials import Key, find_key
from .presets import PRESETS, SCRIPTED, ModelService, names, service, unknown

if TYPE_CHECKING:
    from .local_servers_data import LocalServers

HELP = """\
No model is configured: set ANTHROPIC_API_KEY (or OPENAI_API_KEY, ...), or run `friday auth set anthropic`.
A local server works too: `friday models` shows what runs on this machine; then `friday ask -m ollama/NAME "..."`.
Without either there is the offline demo (scripted, no AI model): `friday ask --model demo "..."`.
`friday doctor` shows what Friday sees here."""
ENDS_SOON = timedelta(days=90)
"""How long before its last day a model's end is said."""


class ModelChoice(msgspec.Struct, frozen=True):
    """A model that was chosen. `window` and `max_output` are tokens; `source` says what chose it ("--model", "config",
    a variable, "auth.toml"); `known` is False where window and quirks are assumed; `notes` are for a person."""

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
        """The name that chooses the same again: `provider/model[:effort]`, `demo` or `scripted:PATH`."""
        if self.provider == "demo":
            return "demo"
        if self.provider == "scripted":
            return f"scripted:{self.model}"
        return f"{self.provider}/{self.model}" + (f":{self.effort}" if self.effort else "")


class Row(msgspec.Struct, frozen=True):
    """A service in `friday models`: whether it can be used now, or `why` not; `models` are full names."""

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
    """The model that is meant: `name`, else the settings', else that of the first service with a key.

    `effort` weighs more than the settings' and less than one in the name. Nothing is asked over a network. Raises
    UsageError for a name that means nothing and NotConfigured where there is nothing to choose from.
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
            return ModelChoice(provider, model, source=source)
        of = service(provider, settings.providers, env)
        key = find_key(of, env)
    else:
        of, key = _first(settings, env)
        model, own_effort, source = catalog.default(of.name), None, key.source if key else of.login or of.moved_by
    choice = _choose(of, model, own_effort or effort or (settings.effort or None), source)
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
        raise UsageError(f"{name!r} names no model.", hint="Write provider/model, such as ollama/qwen3:8b.")
    if provider not in PRESETS and provider not in providers:
        raise unknown(provider, providers)
    return provider, model, effort


def key_of(of: ModelService, env: Mapping[str, str]) -> Key | None:
    """The key of a service, None where it needs none. Raises NotConfigured where it needs one and has none."""
    if (key := find_key(of, env)) is None and not of.keyless:
        raise NotConfigured(
            f"No key for {of.title}: set {of.keys[0]} or run `friday auth set {of.name}`.",
            hint="`friday models` shows what can be used now.",
        )
    return key


def usable(settings: Settings, env: Mapping[str, str] | None = None, *, found: LocalServers | None = None) -> list[Row]:
    """Every service with what it offers, or why it cannot be used now. `found` is what a probe saw of local servers."""
    env = os.environ if env is None else env
    rows = [_row(name, settings, env, found) for name in names(settings.providers)]
    demo = Row("demo", "Offline demo", True, "scripted, no AI model", "", ("demo",), "demo", True)
    return [*rows, demo]


def _first(settings: Settings, env: Mapping[str, str]) -> tuple[ModelService, Key | None]:
    """The first service that has a key, or was given an address or a login instead."""
    for name, preset in PRESETS.items():
        if preset.local:
            continue
        of = service(name, settings.providers, env)
        key = find_key(of, env)
        if key is not None or of.login or (of.moved_by and of.keyless):
            return of, key
    raise NotConfigured(HELP)


def _choose(of: ModelService, model: str, effort: Effort | None, source: str) -> ModelChoice:
    model = _cloud_id(of, model)
    found = catalog.find(of.table, model, platform=of.own.platform, local=of.here)
    notes = []
    if found.ends and (note := _ending(model, found.ends)):
        notes.append(note)
    accepted = found.quirks.efforts
    if of.official and of.wire == "chat" and found.quirks.chat != "any":
        if found.quirks.chat == "never":
            notes.append(f'{model} takes no tools over Chat Completions: remove api = "chat" for {of.name}.')
        else:
            accepted = ("none",)
            effort = effort or "none"
    if effort and (near := clamp(effort, accepted)) != effort:
        notes.append(f"{model} does not take the effort {effort!r} ({', '.join(accepted)}): using {near!r}.")
        effort = near
    if of.base_url.startswith("http://") and not of.here:
        notes.append(f"The way to {of.host} is not encrypted (http).")
    window = of.own.window or found.window
    longest = of.own.max_output or min(found.max_output, window // 2)
    return ModelChoice(of.name, model, effort, window, longest, found.quirks, source, found.known, tuple(notes))


def _ending(model: str, ends: date) -> str:
    today = catalog.today()
    if ends < today:
        return f"{model} was to end on {ends}: it may no longer answer."
    return f"{model} ends on {ends}." if ends - today <= ENDS_SOON else ""


def _cloud_id(of: ModelService, model: str) -> str:
    """The id that a cloud knows a model by."""
    return f"anthropic.{model}" if of.own.platform == "bedrock" and model.startswith("claude-") else model


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
        hint="Write provider/model for one that Friday does not know; `friday models` lists those it does.",
    )


def _row(name: str, settings: Settings, env: Mapping[str, str], found: LocalServers | None) -> Row:
    title = PRESETS[name].title if name in PRESETS else name
    try:
        of = service(name, settings.providers, env)
        if of.local:
            return _local_row(of, found)
        key = find_key(of, env)
    except FridayError as error:
        return Row(name, title, False, str(error))
    models = tuple(f"{name}/{model}" for model in catalog.models_of(of.table))
    default = f"{name}/{catalog.default(name)}" if catalog.default(name) else ""
    if key is not None:
        return Row(name, title, True, f"key from {key.source}", of.host, models, default)
    if of.keyless:
        return Row(name, title, True, _without(of), of.host, models, default)
    return Row(name, title, False, f"set {of.keys[0]} or run `friday auth set {name}`", of.host, models, default)


def _without(of: ModelService) -> str:
    if of.own.platform:
        return f"with the credentials of {of.own.platform}"
    if of.login:
        return f"with the login of {of.login}"
    return f"without a key, by {of.moved_by or 'its own login'}"


def _local_row(of: ModelService, found: LocalServers | None) -> Row:
    server = next((s for s in (found.servers if found else ()) if s.provider == of.name), None)
    if server is None:
        why = "not looked for" if found is None else "no server answers"
        return Row(of.name, of.title, False, why, of.host, local=True)
    models = tuple(f"{of.name}/{m.id}" for m in server.models)
    why = "runs on this machine" if models else "runs, but has no model yet"
    return Row(of.name, of.title, bool(models), why, of.host, models, local=True)
