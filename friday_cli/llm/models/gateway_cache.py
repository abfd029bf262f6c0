"""The models and context windows that configured services listed last (see `gateways`). Sessions read them, whatever their
age, and ask nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from friday_cli.config.settings import TokenPrices
from friday_cli.system import cache_file
from friday_cli.system.paths import cache_dir

from . import catalog
from .presets import ModelService

WITH_PRICES = frozenset(("openrouter",))
"""Known services that report the prices of their models at their own URL."""
VENDORS = frozenset(("anthropic", "openai"))
"""Known services whose own list says what their models can; `friday models --update` asks for it."""


class GatewayModel(msgspec.Struct, frozen=True):
    """A model of a service. `window` is its context and `max_output` its longest reply in tokens, 0 if it is not reported. `prices` are US
    dollars per million tokens, empty if they were not asked for or are not reported. `quirks` are what the service says of its thinking (None:
    nothing), `ends` its announced last day."""

    id: str
    window: int = 0
    prices: TokenPrices = TokenPrices()
    max_output: int = 0
    quirks: catalog.ModelQuirks | None = None
    ends: date | None = None


class Listing(msgspec.Struct, frozen=True):
    """The models of one service and when it listed them (Unix seconds). `priced`: it was asked for prices, too. `problem` says why they
    could not be asked for."""

    at: float = 0.0
    models: tuple[GatewayModel, ...] = ()
    priced: bool = False
    problem: str = ""


def kept(service: ModelService, env: Mapping[str, str]) -> Listing:
    """The newest list of models of the service; empty if it was never asked."""
    try:
        return msgspec.json.decode(cache_file.read(file_of(service, env)) or b"", type=Listing)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Listing()


def kept_model(service: ModelService, model: str, env: Mapping[str, str]) -> GatewayModel:
    """A model as its service listed it; without numbers if that is not known. The table of models counts more than a vendor's list."""
    new = service.name in VENDORS and service.official and (service.name, model) not in catalog.known()
    if service.local or not (service.settings.base_url or new):
        return GatewayModel(model)
    return next((row for row in kept(service, env).models if row.id == model), GatewayModel(model))


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
