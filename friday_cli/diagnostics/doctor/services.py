"""Models, keys, local servers and the way to them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from friday_cli.config import Settings
from friday_cli.core.protocol.errors import FridayError, NotConfigured
from friday_cli.core.protocol.format import pluralize

from .fact import DoctorFact, Facts, Level

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def model(settings: Settings, env: Mapping[str, str], named: str | None = None) -> Facts:
    """The model that is used: the one that was `named` on the command line, if any."""
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
        text = error.message if wanted else "none: there is no key, and none is set"
        hint = 'Set a key (`friday auth set anthropic`), or try `friday ask --model demo "..."`.'
        yield DoctorFact("model", "would use", text, level, hint)
        return
    except FridayError as error:
        yield DoctorFact("model", "would use", str(error), "bad")
        return
    yield DoctorFact("model", "would use", f"{choice.name}, because of {choice.source}")
    yield DoctorFact("model", "context", f"{choice.window:,} tokens{'' if choice.known else ' (assumed)'}")
    for note in choice.notes:
        yield DoctorFact("model", "remark", note, "note")


def keys(settings: Settings, env: Mapping[str, str]) -> Facts:
    """Which services have a key and where it lies, never the key; and which have none."""
    from friday_cli.llm.models.credentials import find_key, list_keys
    from friday_cli.llm.models.presets import find_service, service_names

    missing = []
    wrong: dict[str, str] = {}
    places: dict[str, list[str]] = {}
    for name in service_names(settings.providers):
        try:
            service = find_service(name, settings.providers, env)
            key = find_key(service, env)
        except FridayError as error:
            if str(error) not in wrong.values():  # a damaged file of keys is the same for all
                yield DoctorFact("keys", name, str(error), "bad")
            wrong[name] = str(error)
            continue
        if key is None and not service.local:
            missing.append(name)
        if key is not None and key.note:
            yield DoctorFact("keys", name, key.note, "note")
    try:
        rows = list_keys(settings.providers, env)
    except FridayError:
        return
    for row in rows:
        if row.provider in wrong:
            continue
        places.setdefault(row.provider, []).append(row.source + (" (used)" if row.used else " (not used)"))
    for name, found in places.items():
        yield DoctorFact("keys", name, ", ".join(found))
    yield DoctorFact("keys", "no key for", ", ".join(missing) or "none of them")


def servers(settings: Settings, env: Mapping[str, str]) -> Facts:
    """The local servers that answer, with their models and what stands in their way."""
    import asyncio

    from friday_cli.llm.models.local_servers import probe

    found = asyncio.run(probe(settings.providers, env))
    for server in found.servers:
        count = len(server.models)
        yield DoctorFact("local servers", server.provider, f"{server.base_url}: {pluralize(count, 'model')}")
        for model in server.models:
            for words in model.warnings:
                yield DoctorFact("local servers", model.id, words, "note")
    if not found.servers:
        yield DoctorFact("local servers", "found", "none answers")
    for words in found.notes:
        yield DoctorFact("local servers", "not asked", words, "note")


def network(settings: Settings, env: Mapping[str, str]) -> Facts:
    """Proxies, certificates, and services that a variable has moved. Nothing is connected to."""
    from friday_cli.llm.models.presets import find_service, service_names

    set_ = [name for upper in _PROXIES for name in (upper, upper.lower()) if env.get(name)]
    for name in set_:
        yield DoctorFact("network", name, without_credentials(env[name]))
    if not set_:
        yield DoctorFact("network", "proxy", "none set")
    for name in _CERTIFICATES:
        if value := env.get(name):
            there = os.access(value, os.R_OK)
            hint = "" if there else "No https connection works before it names what is there; unset it or correct it."
            yield DoctorFact(
                "network", name, value if there else f"{value}: cannot be read", "ok" if there else "bad", hint
            )
    if not any(env.get(name) for name in _CERTIFICATES):
        yield DoctorFact("network", "certificates", "those of the system")
    for name in service_names(settings.providers):
        try:
            service = find_service(name, settings.providers, env)
        except FridayError:
            continue  # said under keys
        if service.base_url_source:
            yield DoctorFact("network", name, f"{service.host}, by {service.base_url_source}")


def without_credentials(value: str) -> str:
    """A proxy's address without the name and password in it."""
    return re.sub(r"^((?:[a-z0-9+.-]+:)?//)?\S*@", r"\1…@", value, flags=re.I)
