"""Asks configured services for their models and context windows, for `friday models`. The answers are kept for a day.

Sources: the lists of models of OpenAI-compatible servers,
OpenRouter, vLLM, llama.cpp (`/props`) and litellm (`/model/info`). Their responses are untrusted data.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from friday_cli.config.settings import Settings, TokenPrices
from friday_cli.core.protocol.errors import FridayError, ProviderError
from friday_cli.core.protocol.provider import EFFORTS
from friday_cli.system import cache_file

from ..transport import error_mapping
from ..transport.endpoint import Endpoint
from ..transport.text import dict_in, dicts_in, size_in
from .catalog import ModelQuirks
from .credentials import find_key
from .factory import endpoint as endpoint_of
from .gateway_cache import VENDORS, WITH_PRICES, GatewayModel, Listing, file_of, kept
from .presets import ModelService, find_service

if TYPE_CHECKING:
    import httpx2

SECONDS = 5.0
"""Maximum seconds for one response."""
FRESH_S = 86_400.0
"""Age in seconds up to which a kept list is not asked for again."""
VERSION = "2026-10-21"
"""The `anthropic-version` of a request for a list."""
_Get = Callable[[str], Awaitable[dict[str, Any]]]
_MAX_BYTES, _MAX_MODELS = 8_000_000, 500
_PRICES = {
    "input": ("prompt", "input_cost_per_token"),
    "output": ("completion", "output_cost_per_token"),
    "cache_read": ("input_cache_read", "cache_read_input_token_cost"),
    "cache_write": ("input_cache_write", "cache_creation_input_token_cost"),
}
"""Fields of `TokenPrices`, and what OpenRouter and litellm call them."""
_OFF: tuple[Literal["between_tools", "disabled"], ...] = ("between_tools", "disabled")
"""Values of `thinking.type` that switch thinking off, the better one first."""
_WINDOWS = ("max_input_tokens", "context_length", "context_window", "max_model_len", "max_context_length", "n_ctx")


async def ask_gateways(
    settings: Settings, env: Mapping[str, str], *, prices: bool = False, update: bool = False
) -> dict[str, Listing]:
    """The models of all services with a configured base URL, by name: kept ones, else asked for now and kept. With `prices` all are asked
    now, for what they charge too, and services that report their prices where they have a key; with `update` all, and the vendors whose list
    says what their models can."""
    return dict(await asyncio.gather(*gateway_requests(settings, env, prices=prices, update=update)))


def gateway_requests(
    settings: Settings, env: Mapping[str, str], *, prices: bool = False, update: bool = False
) -> list[Coroutine[Any, Any, tuple[str, Listing]]]:
    """What `ask_gateways` asks, one service each."""
    services = []
    own = (WITH_PRICES if prices else frozenset()) | (VENDORS if update else frozenset())
    for name in dict.fromkeys((*settings.providers, *sorted(own))):
        with suppress(FridayError):  # the list of services shows it
            service = find_service(name, settings.providers, env)
            wanted = service.settings.base_url or (name in own and find_key(service, env) is not None)
            if wanted and not service.local and not service.settings.platform:
                services.append(service)
    return [_listing(service, env, prices=prices, anew=prices or update) for service in services]


async def try_key(name: str, key: str, settings: Settings, env: Mapping[str, str]) -> tuple[str, ...]:
    """The models that a service lists for a key that is not stored. Raises ProviderError (of the kind "auth" when the service
    refuses the key), ValueError for a list that cannot be read, UsageError for a service or key that cannot be used."""
    service = find_service(name, settings.providers, env)
    found = await _ask(service, {**env, service.keys[0]: key}, prices=False)
    return tuple(model.id for model in found)


async def _listing(service: ModelService, env: Mapping[str, str], *, prices: bool, anew: bool) -> tuple[str, Listing]:
    before = kept(service, env)
    if not anew and 0 <= time.time() - before.at < FRESH_S:
        return service.name, before
    try:
        models = await _ask(service, env, prices=prices)
    except (FridayError, OSError, ValueError) as error:
        problem = f"{service.title} did not list its models: {error}"
        return service.name, msgspec.structs.replace(before, problem=problem)
    if before.priced and not prices:  # they are asked for by a person only
        paid = {model.id: model.prices for model in before.models}
        models = tuple(msgspec.structs.replace(model, prices=paid.get(model.id, model.prices)) for model in models)
    listing = Listing(time.time(), models, prices or before.priced)
    cache_file.write(file_of(service, env), msgspec.json.encode(listing))
    return service.name, listing


async def _ask(service: ModelService, env: Mapping[str, str], *, prices: bool) -> tuple[GatewayModel, ...]:
    """Raises ProviderError, ValueError for a list that cannot be read, or FridayError for an invalid key."""
    import httpx2

    endpoint = endpoint_of(service, find_key(service, env), env=env)
    root = service.base_url.removesuffix("/v1")
    headers = {**({"anthropic-version": VERSION} if service.api == "messages" else {}), **endpoint.headers}
    async with httpx2.AsyncClient(
        headers=headers, trust_env=not service.on_this_machine, follow_redirects=False, timeout=SECONDS
    ) as client:
        get = partial(_get, client, endpoint)
        path = f"{root}/v1/models" if service.api == "messages" else f"{service.base_url}/models"
        listed = await get(f"{path}?limit=1000" if service.official and service.api == "messages" else path)
        if not isinstance(listed.get("data"), list):
            raise ValueError("the answer is not a list of models")
        found = (
            row for row in dicts_in(listed["data"]) if _is_name(row.get("id")) and row.get("lifecycle") != "retired"
        )
        rows = {row["id"]: row for row in found}
        models = {name: _model(name, row, prices) for name, row in rows.items()}
        windows, priced = all(row.window for row in models.values()), any(row.prices.given for row in models.values())
        if not service.official and (not windows or (prices and not priced)):
            models = await _more(get, root, models, prices=prices)
    return tuple(list(models.values())[:_MAX_MODELS])


async def _more(get: _Get, root: str, models: Mapping[str, GatewayModel], *, prices: bool) -> dict[str, GatewayModel]:
    """Windows and prices of listed models that litellm and llama.cpp report elsewhere."""
    answers: list[dict[str, Any]] = []
    for path in ("/model/info", "/props"):
        try:
            answers.append(await get(root + path))
        except (ProviderError, ValueError):
            answers.append({})
    info, props = answers
    named = {str(row.get("model_name")): dict_in(row.get("model_info")) for row in dicts_in(info.get("data"))}
    own = _window(dict_in(props.get("default_generation_settings")))
    return {
        name: msgspec.structs.replace(
            row,
            window=_window(named.get(name, {})) or row.window or own,
            prices=row.prices if row.prices.given else _prices(named.get(name, {}), prices),
        )
        for name, row in models.items()
    }


def _model(name: str, row: Mapping[str, Any], prices: bool) -> GatewayModel:
    """A row of a list; of Anthropic with `capabilities` and `retires_at`, of OpenAI with `shutdown_date` (SDKs: `ModelInfo`, `Model`)."""
    longest = row.get("max_tokens") if "capabilities" in row else 0
    ends = None
    with suppress(ValueError):
        ends = date.fromisoformat(str(row.get("retires_at") or row.get("shutdown_date"))[:10])
    quirks = _quirks(dict_in(row.get("capabilities")))
    return GatewayModel(name, _window(row), _prices(row, prices), size_in(longest), quirks, ends)


def _quirks(capabilities: Mapping[str, Any]) -> ModelQuirks | None:
    """How a model of Anthropic thinks; None if the list does not say it."""
    thinking = dict_in(capabilities.get("thinking"))
    if not thinking:
        return None
    if not _supports(thinking):
        return ModelQuirks(thinking="none")
    types, efforts = dict_in(thinking.get("types")), dict_in(capabilities.get("effort"))
    offs = [name for name in _OFF if _supports(types.get(name))]
    levels = [name for name in EFFORTS if (name == "none" and offs) or _supports(efforts.get(name))]
    how: Literal["adaptive", "budget"] = "adaptive" if _supports(types.get("adaptive")) else "budget"
    return ModelQuirks(tuple(levels), how, offs[0] if offs else "never")


def _supports(capability: object) -> bool:
    return dict_in(capability).get("supported") is True


def _prices(row: Mapping[str, Any], wanted: bool) -> TokenPrices:
    """What a service charges for a model: OpenRouter's `pricing` (texts), or litellm's costs; both are US dollars a token."""
    pricing = dict_in(row.get("pricing"))
    found = {field: _price(pricing.get(names[0]), row.get(names[1])) for field, names in _PRICES.items()}
    complete = wanted and found["input"] is not None and found["output"] is not None
    return TokenPrices(**found) if complete else TokenPrices()


def _price(*values: object) -> float | None:
    """US dollars per million tokens of the first value that is a price of one token."""
    for value in values:
        try:
            price = float(value) * 1_000_000 if isinstance(value, str | int | float) and value is not True else -1.0
        except ValueError:
            continue
        if 0 <= price < math.inf:  # OpenRouter has -1 for a price that varies
            return price
    return None


async def _get(client: httpx2.AsyncClient, endpoint: Endpoint, url: str) -> dict[str, Any]:
    """The JSON object at a URL. Raises ProviderError, and ValueError for anything else than a JSON object."""
    read = b""
    try:
        async with asyncio.timeout(SECONDS), client.stream("GET", url) as response:
            async for piece in response.aiter_bytes():
                read += piece
                if len(read) > _MAX_BYTES:
                    raise ValueError("the answer is too long")
    except ValueError:
        raise
    except Exception as error:
        raise error_mapping.from_exception(endpoint, error) from None
    if response.status_code != 200:
        raise error_mapping.from_status(endpoint, response.status_code, response.headers, read)
    try:
        answer = msgspec.json.decode(read)
    except msgspec.DecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise ValueError("the answer is not a JSON object")
    return answer


def _window(row: Mapping[str, Any]) -> int:
    places = (row, dict_in(row.get("meta")), dict_in(row.get("model_info")))
    return next(filter(None, (size_in(place.get(key)) for key in _WINDOWS for place in places)), 0)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable() and " " not in value
