"""Models, keys, local servers and the network settings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FridayError, NotConfigured
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.tool_info import WEB_SEARCH

from .fact import Fact, Facts, Level

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def model(settings: Settings, env: Mapping[str, str], named: str | None = None) -> Facts:
    """The model that would be used; `named`: the one on the command line, if any."""
    from friday_cli.llm.models import resolve
    from friday_cli.llm.models.presets import SCRIPTED, find_service
    from friday_cli.llm.models.resolve import require_key

    try:
        choice = resolve(named, settings, env=env)
        if choice.provider not in SCRIPTED:
            require_key(find_service(choice.provider, settings.providers, env), env)
    except NotConfigured as error:
        wanted = named or settings.model
        level: Level = "bad" if wanted else "note"
        text = error.message if wanted else "none: no model is set and no key was found"
        hint = 'Set a key (`friday auth set anthropic`), or try `friday ask --model demo "..."`.'
        yield Fact("would use", text, level, hint)
        return
    except FridayError as error:
        yield Fact("would use", str(error), "bad")
        return
    yield Fact("would use", f"{choice.name}, because of {choice.source}")
    yield Fact("context", f"{choice.window:,} tokens{'' if choice.known else ' (assumed)'}")
    for note in choice.notes:
        yield Fact("remark", note, "note")


def keys(settings: Settings, env: Mapping[str, str]) -> Facts:
    """Which services have a key and where it is stored (never the key itself), and which have none."""
    from friday_cli.llm.models.credentials import find_key, list_keys
    from friday_cli.llm.models.presets import find_service, service_names

    missing = []
    errors: dict[str, str] = {}
    sources: dict[str, list[str]] = {}
    for name in service_names(settings.providers):
        try:
            service = find_service(name, settings.providers, env)
            key = find_key(service, env)
        except FridayError as error:
            if str(error) not in errors.values():  # a damaged key file gives the same error for all
                yield Fact(name, str(error), "bad")
            errors[name] = str(error)
            continue
        if key is None and not service.local:
            missing.append(name)
        if key is not None and key.note:
            yield Fact(name, key.note, "note")
    try:
        rows = list_keys(settings.providers, env)
    except FridayError:
        return
    for row in rows:
        if row.provider in errors:
            continue
        sources.setdefault(row.provider, []).append(row.source + (" (used)" if row.used else " (not used)"))
    for name, found in sources.items():
        yield Fact(name, ", ".join(found))
    yield Fact("no key for", ", ".join(missing) or "(all have one)")


def servers(settings: Settings, env: Mapping[str, str]) -> Facts:
    """The local servers that respond, with their models and warnings."""
    import asyncio

    from friday_cli.llm.models.local_servers import probe

    found = asyncio.run(probe(settings.providers, env))
    for server in found.servers:
        count = len(server.models)
        yield Fact(server.provider, f"{server.base_url}: {pluralize(count, 'model')}")
        for model in server.models:
            for warning in model.warnings:
                yield Fact(model.id, warning, "note")
    if not found.servers:
        yield Fact("found", "none respond")
    for note in found.notes:
        yield Fact("not asked", note, "note")


def network(settings: Settings, env: Mapping[str, str]) -> Facts:
    """Proxies, certificates, and services whose address a variable changes. Opens no connection."""
    from friday_cli.llm.models.presets import find_service, service_names

    proxies = [name for upper in _PROXIES for name in (upper, upper.lower()) if env.get(name)]
    for name in proxies:
        yield Fact(name, without_credentials(env[name]))
    if not proxies:
        yield Fact("proxy", "none set")
    for name in _CERTIFICATES:
        if value := env.get(name):
            if os.access(value, os.R_OK):
                yield Fact(name, value)
                continue
            hint = "No https connection works until it names a readable file or folder. Correct or unset it."
            yield Fact(name, f"{value}: cannot be read", "bad", hint)
    if not any(env.get(name) for name in _CERTIFICATES):
        yield Fact("certificates", "of the system")
    for name in service_names(settings.providers):
        try:
            service = find_service(name, settings.providers, env)
        except FridayError:
            continue  # reported by `keys`
        if service.base_url_source:
            yield Fact(name, f"{service.host}, set by {service.base_url_source}")


def web_search(settings: Settings, env: Mapping[str, str], named: str | None = None) -> Facts:
    """What `web_search` uses with the model `named`, or that of the settings."""
    from friday_cli.llm import models
    from friday_cli.tools.web.search import VARIABLES, engine

    if service := engine(env):
        yield Fact("service", f"{service.name}, by {service.variable}")
        return
    with suppress(FridayError):  # reported by `model`
        choice = models.resolve(named, settings, env=env)
        if models.can_search(choice, settings, env=env):
            yield Fact("service", f"{choice.provider} searches the web for its own models, in a separate request")
            return
    hint = f"Set {', '.join(VARIABLES[:-1])} or {VARIABLES[-1]}."
    yield Fact("service", f"none: {WEB_SEARCH} is not available", "note", hint)


def without_credentials(value: str) -> str:
    """A proxy URL without its user name and password."""
    return re.sub(r"^((?:[a-z0-9+.-]+:)?//)?\S*@", r"\1…@", value, flags=re.I)
