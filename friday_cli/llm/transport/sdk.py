"""The `sdk` transport: the official SDKs, for the platforms and credentials that only they support.

They are imported only here, on first use. An SDK builds and signs the request and opens the stream. Its retries are
off and its accumulators are not used: the bytes go through `event_stream`, as those of the `http` transport.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.trace_context import trace_fields
from friday_cli.core.text.known_keys import mask_keys_in

from . import error_mapping, http
from .endpoint import ANSWERED, Endpoint
from .event_stream import empty_response, parse_events, read_events
from .idle_timeout import IdleTimeout
from .text import one_line, replace_surrogates_in

if TYPE_CHECKING:
    import httpx2

MODELS_LIMIT = 2000
"""Maximum models in a listing."""
COUNT_S = 30.0
"""Maximum seconds for a token count."""

_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, tuple[httpx2.AsyncClient, Any]]]
_clients = WeakKeyDictionary()


async def events(endpoint: Endpoint, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """POST `body` through the SDK and yield each event of the response; see `friday_cli.llm.transport`."""
    idle_timeout = IdleTimeout(endpoint.idle_s, endpoint.event_idle_s, endpoint.first_s)
    response: Any = None
    try:
        await _load(endpoint.sdk)
        sdk = client(endpoint)
        with idle_timeout.waiting():
            response = await _open(endpoint, sdk, path, mask_keys_in(replace_surrogates_in(body)))
        ANSWERED.add(endpoint.origin)
        if endpoint.platform == "bedrock":
            found = read_events(endpoint, aiter(response), idle_timeout, _events, lambda: empty_response(endpoint))
        else:
            found = parse_events(endpoint, response.aiter_bytes(), response.headers, idle_timeout)
        async with aclosing(found):
            async for event in found:
                yield event
    except ProviderError:
        raise
    except Exception as error:
        from .wrong_service import named  # most requests do not fail

        failed = provider_error(endpoint, error, opened=response is not None)
        raise (await named(endpoint, failed) if response is None else failed) from error
    finally:
        idle_timeout.close()
        if response is not None:
            await (response.aclose() if hasattr(response, "aclose") else response.close())


async def list_models(endpoint: Endpoint, *, seconds: float) -> list[dict[str, Any]]:
    """The models that the service offers to this key, as JSON with at least `id`.

    Raises ProviderError, also if the service needs more than `seconds`.
    """
    async with _short_request(endpoint, seconds) as sdk:
        if sdk.models is None:
            raise ProviderError("config", f"{endpoint.service} does not list its models on this platform.")
        found = []
        async for model in sdk.models.list(timeout=seconds, extra_headers=_auth(endpoint)):
            found.append(model.to_dict(mode="json"))
            if len(found) == MODELS_LIMIT:
                break
        return found


async def count_tokens(endpoint: Endpoint, path: str, body: dict[str, Any]) -> int:
    """Input tokens of a request, counted by the service at `path`. Raises ProviderError."""
    async with _short_request(endpoint, COUNT_S) as sdk:
        options: Any = {"headers": _auth(endpoint), "timeout": COUNT_S}
        answer = await sdk.post(path, body=mask_keys_in(replace_surrogates_in(body)), cast_to=object, options=options)
        count = answer.get("input_tokens") if isinstance(answer, dict) else None
        if not isinstance(count, int):
            raise ProviderError("garbled", f"{endpoint.service} did not report a token count.")
        return count


@asynccontextmanager
async def _short_request(endpoint: Endpoint, seconds: float) -> AsyncIterator[Any]:
    """The SDK client for at most `seconds`, in which the import of the SDK is not included. Raises ProviderError."""
    try:
        await _load(endpoint.sdk)
        async with asyncio.timeout(seconds):
            yield client(endpoint)
    except ProviderError:
        raise
    except Exception as error:
        raise provider_error(endpoint, error) from error


def client(endpoint: Endpoint) -> Any:
    """The SDK client for this endpoint on the running loop; it uses the same httpx2 client as `http`."""
    http.check_headers(endpoint)
    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    options = sorted(endpoint.options.items())
    key = repr((endpoint.sdk, endpoint.platform, endpoint.base_url, sorted(endpoint.headers.items()), options))
    connection = http.client(endpoint)
    known = clients.get(key)
    if known is None or known[0] is not connection:
        try:
            known = connection, _build(endpoint, connection)
        except Exception as error:
            raise ProviderError(
                "config",
                f"{endpoint.service}: {one_line(endpoint.redact(str(error))).rstrip('.')}.",
                hint=_extra_hint(error),
            ) from error
        clients[key] = known
    return known[1]


def provider_error(endpoint: Endpoint, error: BaseException, *, opened: bool = False) -> ProviderError:
    """The error for an exception of an SDK; the same as that of `http` for the same response.

    Before the response is `opened`, an error that is not about the connection is about credentials or settings.
    """
    response, body = getattr(error, "response", None), getattr(error, "body", None)
    status = getattr(error, "status_code", None)
    if response is not None and isinstance(status, int):
        if status < 300:
            return error_mapping.from_error(endpoint, body)
        text = body if isinstance(body, str | dict) else _text_of(response)
        return error_mapping.from_status(endpoint, status, response.headers, text)
    if type(error).__name__ in ("APIConnectionError", "APITimeoutError") and error.__cause__ is not None:
        return provider_error(endpoint, error.__cause__, opened=opened)
    if isinstance(error, TimeoutError):
        return ProviderError("stall", f"{endpoint.service} did not answer in time ({endpoint.host}).")
    origin = type(error).__module__.partition(".")[0]
    if isinstance(body, dict):
        return error_mapping.from_error(endpoint, body)
    local = origin in ("anthropic", "openai", "google", "botocore") or isinstance(error, TypeError | ImportError)
    if local and not opened:
        text = one_line(endpoint.redact(str(error) or type(error).__name__)).rstrip(".")
        if getattr(error, "retryable", False):
            return ProviderError("network", f"{endpoint.service}: {text}.")
        return ProviderError("config", f"{endpoint.service}: {text}.", hint=_extra_hint(error))
    return error_mapping.from_exception(endpoint, error)


async def _load(package: str) -> None:
    """Import an SDK in a thread: it takes about a second, which must not block the event loop."""
    if package not in sys.modules:
        await asyncio.to_thread(importlib.import_module, package)


def _build(endpoint: Endpoint, connection: httpx2.AsyncClient) -> Any:
    """Create the SDK client. For a cloud platform a bearer token in the headers becomes its `api_key` argument."""
    arguments: dict[str, Any] = {
        "http_client": connection,
        "max_retries": 0,
        "timeout": http.timeout(endpoint),
        "default_headers": endpoint.headers,
    }
    bearer = _bearer(endpoint)
    if endpoint.platform and bearer:
        arguments["api_key"] = bearer
        arguments["default_headers"] = {k: v for k, v in endpoint.headers.items() if k.lower() != "authorization"}
    if endpoint.base_url:
        arguments["base_url"] = endpoint.base_url
    arguments |= endpoint.options
    return _openai(endpoint, arguments, bearer) if endpoint.sdk == "openai" else _anthropic(endpoint, arguments, bearer)


def _anthropic(endpoint: Endpoint, arguments: dict[str, Any], bearer: str) -> Any:
    import anthropic

    if endpoint.platform == "":
        arguments["auth_token"] = bearer or "none"
    elif endpoint.platform == "vertex" and "api_key" in arguments:
        arguments["access_token"] = arguments.pop("api_key")
    classes = {
        "bedrock": "AsyncAnthropicBedrock",
        "mantle": "AsyncAnthropicBedrockMantle",
        "vertex": "AsyncAnthropicVertex",
        "foundry": "AsyncAnthropicFoundry",
    }
    return getattr(anthropic, classes.get(endpoint.platform, "AsyncAnthropic"))(**arguments)


def _openai(endpoint: Endpoint, arguments: dict[str, Any], bearer: str) -> Any:
    import openai

    if endpoint.platform == "azure":
        if endpoint.base_url and endpoint.address.path in ("", "/"):
            arguments["azure_endpoint"] = arguments.pop("base_url")
        return openai.AsyncAzureOpenAI(**arguments)
    if endpoint.platform == "":
        arguments.setdefault("api_key", bearer or "none")
    return openai.AsyncOpenAI(**arguments)


def _bearer(endpoint: Endpoint) -> str:
    header = next((value for name, value in endpoint.headers.items() if name.lower() == "authorization"), "")
    return header[7:] if header[:7].lower() == "bearer " else ""


def _auth(endpoint: Endpoint) -> dict[str, Any]:
    """Extra headers of each request: they stop the SDK from sending a placeholder key if none is configured."""
    if endpoint.platform or any(name.lower() == "authorization" for name in endpoint.headers):
        return {}
    return {"Authorization": sys.modules[endpoint.sdk].Omit()}


async def _open(endpoint: Endpoint, sdk: Any, path: str, body: dict[str, Any]) -> Any:
    """Send the request: an HTTP response, or the SDK's event iterator for Bedrock's binary event stream."""
    options: Any = {
        "headers": {"Accept": "text/event-stream", **_auth(endpoint), **trace_fields()},
        "follow_redirects": False,
    }
    options["timeout"] = http.timeout(endpoint)
    if endpoint.platform == "bedrock":
        import anthropic

        stream: Any = anthropic.AsyncStream[object]
        return await sdk.post(path, body=body, cast_to=object, options=options, stream=True, stream_cls=stream)
    import httpx2

    return await sdk.post(path, body=body, cast_to=httpx2.Response, options=options, stream=True)


def _events(item: object) -> list[dict[str, Any]]:
    return [item] if isinstance(item, dict) else []


def _text_of(response: Any) -> str:
    try:
        return str(response.text)
    except Exception:  # the body was not read or cannot be decoded; the status is enough
        return ""


def _extra_hint(error: BaseException) -> str:
    text = str(error)
    for library, extra in (("boto", "anthropic[bedrock]"), ("google-auth", "anthropic[vertex]")):
        if library in text or (isinstance(error, ImportError) and library.split("-")[0] in text):
            return f"Install {extra} in Friday's Python environment."
    return ""
