"""The models and context windows that configured services listed last (see `gateways`). Sessions read them, whatever their
age, and ask nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from friday_cli.config.settings import TokenPrices
from friday_cli.system import cache_file
from friday_cli.system.paths import cache_dir

from .presets import ModelService

WITH_PRICES = frozenset(("openrouter",))
"""Known services that report the prices of their models at their own URL."""


class GatewayModel(msgspec.Struct, frozen=True):
    """A model of a service. `window` is its context in tokens, 0 if it is not reported. `prices` are US dollars per million tokens,
    empty if they were not asked for or are not reported."""

    id: str
    window: int = 0
    prices: TokenPrices = TokenPrices()


class Listing(msgspec.Struct, frozen=True):
    """The models of one service and when it listed them (Unix seconds). `priced`: it was asked for prices, too. `problem` says why they
    could not be asked for."""

    at: float = 0.0
    models: tuple[GatewayModel, ...] = ()
    priced: bool = False
    problem: str = ""


def kept(service: ModelService, env: Mapping[str, str]) -> Listing:
    """What the service listed last; empty if it was never asked."""
    try:
        return msgspec.json.decode(cache_file.read(file_of(service, env)) or b"", type=Listing)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Listing()


def kept_window(service: ModelService, model: str, env: Mapping[str, str]) -> int:
    """The context window of a model in tokens as its service listed it; 0 if it is not known."""
    if not service.settings.base_url or service.local:
        return 0
    return next((row.window for row in kept(service, env).models if row.id == model), 0)


def kept_prices(service: ModelService, model: str, env: Mapping[str, str]) -> TokenPrices:
    """The prices of a model as its service reported them to `friday models --prices`; without any they are not `given`."""
    if service.local or service.settings.platform or not (service.settings.base_url or service.name in WITH_PRICES):
        return TokenPrices()
    return next((row.prices for row in kept(service, env).models if row.id == model), TokenPrices())


def file_of(service: ModelService, env: Mapping[str, str]) -> Path:
    """The file with what the service listed."""
    import hashlib

    address = urlsplit(service.base_url)
    name = hashlib.sha256(f"{address.scheme}://{address.netloc}{address.path}".encode()).hexdigest()[:16]
    return cache_dir(env) / "models" / f"{name}.json"
