"""What is known of each model that can be used now: its context window, its price and how hard it can think."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from friday_cli.config.settings import Settings
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Effort

from . import catalog
from .factory import cost_function
from .gateway_cache import kept_model
from .presets import LocalServers, find_service
from .resolve import ServiceRow


class ListedModel(msgspec.Struct, frozen=True):
    """A model as a person compares it with others."""

    name: str
    """The full name, `provider/model`."""
    service: str
    """The title of its service."""
    how: str
    """Why it can be used, such as where the key is from."""
    window: int
    """Its context window in tokens, 0 if it is not known."""
    guess: bool
    """Whether the window is a guess."""
    input: float | None
    """US dollars per million tokens of input, None if the price is not known."""
    output: float | None
    """US dollars per million tokens of output."""
    efforts: tuple[Effort, ...]
    """How hard it can think; empty if it is not known."""


def list_models(rows: Sequence[ServiceRow], settings: Settings, found: LocalServers) -> list[ListedModel]:
    """The models of the services that can be used now. `found`: the servers of this machine that answered."""
    return [describe_model(name, row, settings, found) for row in rows if row.usable for name in row.models]


def describe_model(name: str, row: ServiceRow, settings: Settings, found: LocalServers) -> ListedModel:
    """A model as a row: its window in tokens, its prices in US dollars per million tokens, its efforts."""
    window, guess = window_of(name, row, settings, found)
    into, out = prices_of(name, row, settings)
    efforts = _efforts(name, row, settings)
    return ListedModel(name, row.title, row.why, window=window, guess=guess, input=into, output=out, efforts=efforts)


def window_of(name: str, row: ServiceRow, settings: Settings, found: LocalServers) -> tuple[int, bool]:
    """The context window of a model in tokens (0: unknown), and whether it is a guess."""
    if row.provider == "demo":
        return 0, False
    model = name.partition("/")[2]
    server = next((s for s in found.servers if s.provider == row.provider), None)
    if server is not None:
        sizes = (
            (m.window, min(m.trained or catalog.LOCAL_WINDOW, catalog.LOCAL_WINDOW))
            for m in server.models
            if m.id == model
        )
        size, assumed = next(sizes, (0, 0))
        return size or assumed, not size and bool(assumed)
    service = find_service(row.provider, settings.providers, os.environ)
    if known_size := service.settings.window or kept_model(service, model, os.environ).window:
        return known_size, False
    entry = _entry(model, row, settings, os.environ)
    return entry.window, not entry.known


def prices_of(name: str, row: ServiceRow, settings: Settings) -> tuple[float | None, float | None]:
    """US dollars per million tokens of input and output; None if unknown."""
    if row.provider == "demo":
        return None, None
    price = cost_function(find_service(row.provider, settings.providers, os.environ), name.partition("/")[2])
    into, out = price(Usage(input=1000)), price(Usage(output=1000))
    return None if into is None else into * 1000, None if out is None else out * 1000


def _efforts(name: str, row: ServiceRow, settings: Settings) -> tuple[Effort, ...]:
    if row.provider == "demo":
        return ()
    return _entry(name.partition("/")[2], row, settings, os.environ).quirks.efforts


def _entry(model: str, row: ServiceRow, settings: Settings, env: Mapping[str, str]) -> catalog.Model:
    service = find_service(row.provider, settings.providers, env)
    platform, local = service.settings.platform, service.on_this_machine
    return catalog.find(service.catalog_name, model, platform=platform, local=local)
