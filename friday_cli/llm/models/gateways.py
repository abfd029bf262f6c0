"""Asks configured services for their models and context windows, for `friday models`. The answers are kept for a day.

Sources: the lists of models of OpenAI-compatible servers,
OpenRouter, vLLM, llama.cpp (`/props`) and litellm (`/model/info`). Their responses are untrusted data.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from friday_cli.config.settings import Settings
from friday_cli.core.protocol.errors import FridayError, ProviderError
from friday_cli.system import cache_file

from ..transport import error_mapping
from ..transport.endpoint import Endpoint
from ..transport.text import dict_in, dicts_in
from .credentials import find_key
from .factory import endpoint as endpoint_of
from .gateway_cache import GatewayModel, Listing, file_of, kept
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
_WINDOWS = ("max_input_tokens", "context_length", "context_window", "max_model_len", "max_context_length", "n_ctx")


async def ask_gateways(settings: Settings, env: Mapping[str, str]) -> dict[str, Listing]:
    """The models of all services with a configured base URL, by name: kept ones, else asked for now and kept."""
    services = []
    for name in settings.providers:
        with suppress(FridayError):  # the list of services shows it
            service = find_service(name, settings.providers, env)
            if service.settings.base_url and not service.local and not service.settings.platform:
                services.append(service)
    found = await asyncio.gather(*(_listing(service, env) for service in services))
    return {service.name: listing for service, listing in zip(services, found, strict=True)}


async def _listing(service: ModelService, env: Mapping[str, str]) -> Listing:
    before = kept(service, env)
    if 0 <= time.time() - before.at < FRESH_S:
        return before
    try:
        models = await _ask(service, env)
    except (FridayError, OSError, ValueError) as error:
        return msgspec.structs.replace(before, problem=f"{service.title} did not list its models: {error}")
    listing = Listing(time.time(), models)
    cache_file.write(file_of(service, env), msgspec.json.encode(listing))
    return listing


async def _ask(service: ModelService, env: Mapping[str, str]) -> tuple[GatewayModel, ...]:
    """Raises ProviderError, ValueError for a list that cannot be read, or FridayError for an invalid key."""
    import httpx2

    endpoint = endpoint_of(service, find_key(service, env), env=env)
    root = service.base_url.removesuffix("/v1")
    headers = {**({"anthropic-version": VERSION} if service.api == "messages" else {}), **endpoint.headers}
    async with httpx2.AsyncClient(
        headers=headers, trust_env=not service.on_this_machine, follow_redirects=False, timeout=SECONDS
    ) as client:
        get = partial(_get, client, endpoint)
        listed = await get(f"{root}/v1/models" if service.api == "messages" else f"{service.base_url}/models")
        if not isinstance(listed.get("data"), list):
            raise ValueError("the answer is not a list of models")
        models = {row["id"]: _window(row) for row in dicts_in(listed["data"]) if _is_name(row.get("id"))}
        if not all(models.values()):
            models |= await _more_windows(get, root, models)
    return tuple(GatewayModel(name, window) for name, window in list(models.items())[:_MAX_MODELS])


async def _more_windows(get: _Get, root: str, models: Mapping[str, int]) -> dict[str, int]:
    """Windows of listed models that litellm and llama.cpp report elsewhere."""
    answers: list[dict[str, Any]] = []
    for path in ("/model/info", "/props"):
        try:
            answers.append(await get(root + path))
        except (ProviderError, ValueError):
            answers.append({})
    info, props = answers
    named = {row.get("model_name"): _window(dict_in(row.get("model_info"))) for row in dicts_in(info.get("data"))}
    own = _window(dict_in(props.get("default_generation_settings")))
    return {name: named.get(name) or window or own for name, window in models.items()}


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
    found = [place.get(key) for key in _WINDOWS for place in places]
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool) and 0 < n < 2**31), 0)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable() and " " not in value
