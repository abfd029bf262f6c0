"""Detects model servers on this machine. They are offered to the user and never chosen automatically.

Only loopback addresses are queried, without credentials, proxies or redirects. Their responses are untrusted data.
Sources: API references of Ollama, LM Studio (REST API v0), llama.cpp server and vLLM.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from friday_cli.config.settings import ProviderSettings, Settings
from friday_cli.core.protocol.errors import UsageError

from ..transport.text import dict_in, dicts_in, size_in
from .presets import PRESETS, LocalModel, LocalServer, LocalServers, ModelService, find_service
from .resolve import ModelChoice

if TYPE_CHECKING:
    import httpx2

SECONDS = 0.3
"""Maximum seconds for one response of a server."""
_MAX_BYTES = 4_000_000
_MAX_MODELS = 64


async def probe(
    providers: Mapping[str, ProviderSettings], env: Mapping[str, str], *, seconds: float = SECONDS
) -> LocalServers:
    """Query all local services concurrently; `seconds` limits each response. Takes at most three times `seconds`."""
    queried, notes = [], []
    for name in (n for n, preset in PRESETS.items() if preset.local):
        try:
            service = find_service(name, providers, env)
        except UsageError as error:
            notes.append(str(error))
            continue
        if service.on_this_machine:
            queried.append(service)
        else:
            notes.append(
                f"{service.title}: {service.base_url_source} points to {service.host}, another machine: not checked."
            )
    answers = await asyncio.gather(*(ask(service, seconds=seconds) for service in queried))
    return LocalServers(tuple(a for a in answers if a is not None), tuple(notes))


async def ask(service: ModelService, *, seconds: float = SECONDS) -> LocalServer | None:
    """The models of one local service at the first of its URLs where a server of its kind answers, or None."""
    answers = await asyncio.gather(*(_ask_at(url, service, seconds) for url in service.urls))
    return next((answer for answer in answers if answer is not None), None)


def at_open_port(service: ModelService) -> ModelService:
    """A local service at the first of its URLs where a program listens on this machine; no request is sent."""
    for url in service.urls if len(service.urls) > 1 else ():
        address = urlsplit(url)
        with suppress(OSError), socket.socket() as probe:
            probe.settimeout(SECONDS)
            probe.connect((address.hostname, address.port))
            return structs.replace(service, base_url=url)
    return service


async def _ask_at(url: str, service: ModelService, seconds: float) -> LocalServer | None:
    import httpx2

    parts = urlsplit(url)  # the host is used without user name and password
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.removesuffix('/v1')}"
    tls = parts.scheme == "https"  # reading the certificates of the system takes 30 ms
    async with httpx2.AsyncClient(
        base_url=base, verify=tls, trust_env=False, follow_redirects=False, timeout=seconds
    ) as client:
        models, hint = await _READERS[service.name](partial(_get, client, seconds))
    return None if models is None else LocalServer(service.name, service.title, url, tuple(models), hint)


async def with_server_limits(
    choice: ModelChoice, settings: Settings, *, env: Mapping[str, str] | None = None, seconds: float = 1.0
) -> ModelChoice:
    """The choice with the context window that its local server reports, and notes on limitations.

    The choice is returned unchanged if it is not local or its server does not answer.
    """
    if choice.provider not in _READERS:
        return choice
    service = find_service(choice.provider, settings.providers, os.environ if env is None else env)
    server = await ask(service, seconds=seconds)
    if server is None:
        return choice
    names = (choice.model, f"{choice.model}:latest")
    model = next((m for m in server.models if m.id in names), None)
    if model is None:
        has = ", ".join(m.id for m in server.models[:8]) or "none yet"
        return structs.replace(
            choice, notes=(*choice.notes, f"{service.title} has no model {choice.model!r}. It has: {has}.")
        )
    notes = [f"{choice.model}: {text}." for text in model.warnings]
    window = choice.window
    if not service.settings.window:
        window = model.window or min(window, model.trained or window)
        notes += [] if model.window or not server.hint else [server.hint]
    longest = min(choice.max_output, window // 2)
    return structs.replace(choice, window=window, max_output=longest, notes=(*choice.notes, *notes))


async def _get(client: httpx2.AsyncClient, seconds: float, path: str, body: object = None) -> dict[str, Any]:
    """The JSON object at `path`; {} for any other response and on errors."""
    import httpx2

    read = b""
    try:
        async with asyncio.timeout(seconds):
            method, content = ("GET", None) if body is None else ("POST", msgspec.json.encode(body))
            async with client.stream(method, path, content=content) as response:
                if response.status_code != 200:
                    return {}
                async for piece in response.aiter_bytes():
                    read += piece
                    if len(read) > _MAX_BYTES:
                        return {}
        answer = msgspec.json.decode(read)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, msgspec.DecodeError):
        return {}
    return answer if isinstance(answer, dict) else {}


_Get = Callable[..., Awaitable[dict[str, Any]]]
_Answer = tuple[list[LocalModel] | None, str]


async def _ollama(get: _Get) -> _Answer:
    tags, running = await asyncio.gather(get("/api/tags"), get("/api/ps"))
    if not isinstance(tags.get("models"), list):
        return None, ""
    loaded = {_name(row): size_in(row.get("context_length")) for row in _rows(running, "models")}
    ids = [_name(row) for row in _rows(tags, "models")]
    shown = await asyncio.gather(*(get("/api/show", {"model": name}) for name in ids))
    models = []
    for name, show in zip(ids, shown, strict=True):
        lengths = [v for k, v in dict_in(show.get("model_info")).items() if k.endswith(".context_length")]
        can = show.get("capabilities")
        if isinstance(can, list) and "completion" not in can and "tools" not in can:
            continue  # an embedding model
        tools = "tools" in can if isinstance(can, list) else None
        window = loaded.get(name) or _num_ctx(show.get("parameters"))
        models.append(LocalModel(name, window, size_in(next(iter(lengths), 0)), tools))
    unsure = any(not m.window for m in models)
    hint = "Ollama can limit the context to 4,096 tokens: start it with OLLAMA_CONTEXT_LENGTH=32768 or more."
    return models, hint if unsure else ""


async def _lmstudio(get: _Get) -> _Answer:
    rich, plain = await asyncio.gather(get("/api/v0/models"), get("/v1/models"))
    if not isinstance(plain.get("data"), list):
        return None, ""
    details = {_name(row): row for row in _rows(rich, "data")}
    models = []
    for name in (_name(row) for row in _rows(plain, "data")):
        row = details.get(name, {})
        if row.get("type") == "embeddings":
            continue
        can = row.get("capabilities")
        tools = "tool_use" in can if isinstance(can, list) else None
        models.append(
            LocalModel(name, size_in(row.get("loaded_context_length")), size_in(row.get("max_context_length")), tools)
        )
    return models, ""


async def _llamacpp(get: _Get) -> _Answer:
    listing, props = await asyncio.gather(get("/v1/models"), get("/props"))
    settings = props.get("default_generation_settings")
    rows = _rows(listing, "data")
    owners = {row.get("owned_by") for row in rows if isinstance(row.get("owned_by"), str)}
    if not isinstance(settings, dict) and owners.isdisjoint(("llamacpp", "me")):  # "me": llama-cpp-python
        return None, ""
    window = size_in(dict_in(settings).get("n_ctx"))
    hint = "llama-cpp-python does not report its context, by default 2,048 tokens: start it with --n_ctx 32768 or more."
    models = [LocalModel(_name(row), window, size_in(dict_in(row.get("meta")).get("n_ctx_train"))) for row in rows]
    return models, hint if "me" in owners and not window else ""


async def _vllm(get: _Get) -> _Answer:
    rows = _rows(await get("/v1/models"), "data")
    if not any(row.get("owned_by") == "vllm" or "max_model_len" in row for row in rows):
        return None, ""
    return [LocalModel(_name(row), size_in(row.get("max_model_len"))) for row in rows], ""


_READERS = {"ollama": _ollama, "lmstudio": _lmstudio, "llamacpp": _llamacpp, "vllm": _vllm}


def _rows(answer: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [row for row in dicts_in(answer.get(key)) if _name(row)][:_MAX_MODELS]


def _name(row: dict[str, Any]) -> str:
    """A row's id; "" if it has characters that cannot be shown or typed."""
    name = row.get("id") or row.get("name")
    return name if isinstance(name, str) and name.isprintable() and " " not in name and len(name) <= 200 else ""


def _num_ctx(parameters: object) -> int:
    for line in parameters.splitlines() if isinstance(parameters, str) else ():
        words = line.split()
        if len(words) == 2 and words[0] == "num_ctx" and words[1].isdecimal():
            return size_in(int(words[1][:10]))
    return 0
