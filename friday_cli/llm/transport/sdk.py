"""The second transport: the official SDKs, for the platforms and credentials that only they know.

They are imported here, on first use, and nowhere else. They build and sign the request and open the stream; their
retries are off and their accumulators unused: the bytes go through the same `reading` as those of `http`.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from friday_cli.core.protocol.errors import ProviderError

from . import error_mapping, http
from .endpoint import Endpoint
from .event_stream import AFTER_END_S, ENDS, events_in, judged
from .idle_timeout import IdleTimeout, StreamIdle
from .text import plain, whole_json

if TYPE_CHECKING:
    import httpx2

MODELS_LIMIT = 2000
"""Models listed at most."""
LIST_S = 30.0
"""Seconds a listing or a count may take."""

_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, tuple[httpx2.AsyncClient, Any]]]
_clients = WeakKeyDictionary()


async def events(endpoint: Endpoint, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """POST `body` through the SDK and yield each event of the answer; see `friday_cli.llm.transport`."""
    watch = IdleTimeout(endpoint.idle_s, endpoint.event_idle_s)
    response: Any = None
    try:
        await _load(endpoint.sdk)
        sdk = client(endpoint)
        with watch.waiting():
            response = await _open(endpoint, sdk, path, _encodable(body))
        if endpoint.platform == "bedrock":
            found = _decoded(endpoint, response, watch)
        else:
            found = events_in(endpoint, response.aiter_bytes(), watch)
        async with aclosing(found):
            async for event in found:
                yield event
    except ProviderError:
        raise
    except Exception as error:
        raise failure(endpoint, error, opened=response is not None) from error
    finally:
        watch.close()
        if response is not None:
            await _close(response)


async def list_models(endpoint: Endpoint, *, seconds: float = LIST_S) -> list[dict[str, Any]]:
    """The models the service offers to this key, as it describes them (`id` at least). Raises ProviderError, also where the
    service takes longer than `seconds`; the time in which the SDK is loaded does not count."""
    try:
        await _load(endpoint.sdk)
        async with asyncio.timeout(seconds):
            models = client(endpoint).models
            if models is None:
                raise ProviderError("config", f"{endpoint.service} offers no list of models on this platform.")
            found = []
            async for model in models.list(timeout=seconds, extra_headers=_auth(endpoint)):
                found.append(model.to_dict(mode="json"))
                if len(found) == MODELS_LIMIT:
                    break
            return found
    except ProviderError:
        raise
    except Exception as error:
        raise failure(endpoint, error) from error


async def count_tokens(endpoint: Endpoint, path: str, body: dict[str, Any]) -> int:
    """Input tokens of a request as the service counts them (`path` is its counting address). Raises ProviderError."""
    try:
        await _load(endpoint.sdk)
        async with asyncio.timeout(LIST_S):
            options: Any = {"headers": _auth(endpoint), "timeout": LIST_S}
            answer = await client(endpoint).post(path, body=_encodable(body), cast_to=object, options=options)
        count = answer.get("input_tokens") if isinstance(answer, dict) else None
        if not isinstance(count, int):
            raise ProviderError("garbled", f"{endpoint.service} did not tell a count of tokens.")
        return count
    except ProviderError:
        raise
    except Exception as error:
        raise failure(endpoint, error) from error


def client(endpoint: Endpoint) -> Any:
    """The SDK's client for this endpoint on the running loop, over the same connections as `http`."""
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
                f"{endpoint.service}: {plain(endpoint.redact(str(error))).rstrip('.')}.",
                hint=_extra_hint(error),
            ) from error
        clients[key] = known
    return known[1]


def failure(endpoint: Endpoint, error: BaseException, *, opened: bool = False) -> ProviderError:
    """The error for what an SDK raises, the same as `http` gives for the same answer.

    Before the answer is `opened`, what is no matter of the connection is one of credentials or settings.
    """
    response, body = getattr(error, "response", None), getattr(error, "body", None)
    status = getattr(error, "status_code", None)
    if response is not None and isinstance(status, int):
        if status < 300:
            return error_mapping.from_error(endpoint, body)
        text = body if isinstance(body, str | dict) else _text_of(response)
        return error_mapping.from_status(endpoint, status, response.headers, text)
    if type(error).__name__ in ("APIConnectionError", "APITimeoutError") and error.__cause__ is not None:
        return failure(endpoint, error.__cause__, opened=opened)
    if isinstance(error, TimeoutError):
        return ProviderError("stall", f"{endpoint.service} did not answer in time ({endpoint.host}).")
    origin = type(error).__module__.partition(".")[0]
    if isinstance(body, dict):
        return error_mapping.from_error(endpoint, body)
    ours = origin in ("anthropic", "openai", "google", "botocore") or isinstance(error, TypeError | ImportError)
    if ours and not opened:
        words = plain(endpoint.redact(str(error) or type(error).__name__)).rstrip(".")
        if getattr(error, "retryable", False):
            return ProviderError("network", f"{endpoint.service}: {words}.")
        return ProviderError("config", f"{endpoint.service}: {words}.", hint=_extra_hint(error))
    return error_mapping.from_exception(endpoint, error)


async def _load(package: str) -> None:
    """Import an SDK beside the loop, which has others to serve in the second that it takes."""
    if package not in sys.modules:
        await asyncio.to_thread(importlib.import_module, package)


def _build(endpoint: Endpoint, connection: httpx2.AsyncClient) -> Any:
    """The SDK's client. A bearer in the headers is the key of a platform too, under the name it has there."""
    given: dict[str, Any] = {
        "http_client": connection,
        "max_retries": 0,
        "timeout": http.timeout(endpoint),
        "default_headers": endpoint.headers,
    }
    bearer = _bearer(endpoint)
    if endpoint.platform and bearer:
        given["api_key"] = bearer
        given["default_headers"] = {k: v for k, v in endpoint.headers.items() if k.lower() != "authorization"}
    if endpoint.base_url:
        given["base_url"] = endpoint.base_url
    given |= endpoint.options
    return _openai(endpoint, given, bearer) if endpoint.sdk == "openai" else _anthropic(endpoint, given, bearer)


def _anthropic(endpoint: Endpoint, given: dict[str, Any], bearer: str) -> Any:
    import anthropic

    if endpoint.platform == "":
        given["auth_token"] = bearer or "none"
    elif endpoint.platform == "vertex" and "api_key" in given:
        given["access_token"] = given.pop("api_key")
    classes = {
        "bedrock": "AsyncAnthropicBedrock",
        "mantle": "AsyncAnthropicBedrockMantle",
        "vertex": "AsyncAnthropicVertex",
        "foundry": "AsyncAnthropicFoundry",
    }
    return getattr(anthropic, classes.get(endpoint.platform, "AsyncAnthropic"))(**given)


def _openai(endpoint: Endpoint, given: dict[str, Any], bearer: str) -> Any:
    import openai

    if endpoint.platform == "azure":
        if endpoint.base_url and endpoint.address.path in ("", "/"):
            given["azure_endpoint"] = given.pop("base_url")
        return openai.AsyncAzureOpenAI(**given)
    if endpoint.platform == "":
        given.setdefault("api_key", bearer or "none")
    return openai.AsyncOpenAI(**given)


def _bearer(endpoint: Endpoint) -> str:
    for name, value in endpoint.headers.items():
        if name.lower() == "authorization" and value[:7].lower() == "bearer ":
            return value[7:]
    return ""


def _auth(endpoint: Endpoint) -> dict[str, Any]:
    """Headers of each request: no made-up key is sent where none is configured."""
    if endpoint.platform or any(name.lower() == "authorization" for name in endpoint.headers):
        return {}
    if endpoint.sdk == "openai":
        import openai

        return {"Authorization": openai.Omit()}
    import anthropic

    return {"Authorization": anthropic.Omit()}


async def _open(endpoint: Endpoint, sdk: Any, path: str, body: dict[str, Any]) -> Any:
    """The opened answer: a plain HTTP response, or the SDK's event iterator where the bytes are no event stream."""
    options: Any = {"headers": {"Accept": "text/event-stream", **_auth(endpoint)}, "follow_redirects": False}
    options["timeout"] = http.timeout(endpoint)
    if endpoint.platform == "bedrock":
        import anthropic

        stream: Any = anthropic.AsyncStream[object]
        return await sdk.post(path, body=body, cast_to=object, options=options, stream=True, stream_cls=stream)
    import httpx2

    return await sdk.post(path, body=body, cast_to=httpx2.Response, options=options, stream=True)


async def _decoded(endpoint: Endpoint, stream: Any, watch: IdleTimeout) -> AsyncGenerator[dict[str, Any], None]:
    """The events of a stream whose framing only the SDK reads."""
    items: AsyncIterator[Any] = aiter(stream)
    ended = seen = False
    while True:
        try:
            with watch.waiting():
                event = await anext(items, None)
        except StreamIdle:
            if ended:
                return
            raise
        if event is None:
            break
        if isinstance(event, dict):
            seen = True
            judged(endpoint, event, watch)
            yield event
            if not ended and event.get("type") in ENDS:
                ended = True
                watch.shorten(AFTER_END_S)
    if not seen:
        raise ProviderError("empty", f"{endpoint.service} sent an empty answer ({endpoint.host}).")


async def _close(response: Any) -> None:
    await (response.aclose() if hasattr(response, "aclose") else response.close())


def _encodable(body: dict[str, Any]) -> dict[str, Any]:
    """`body`, with what UTF-8 cannot hold replaced."""
    try:
        msgspec.json.encode(body)
    except UnicodeEncodeError:
        cleaned: dict[str, Any] = whole_json(body)
        return cleaned
    return body


def _text_of(response: Any) -> str:
    try:
        return str(response.text)
    except Exception:  # a body that was never read or cannot be decoded; the status tells enough
        return ""


def _extra_hint(error: BaseException) -> str:
    text = str(error)
    for library, extra in (("boto", "anthropic[bedrock]"), ("google-auth", "anthropic[vertex]")):
        if library in text or (isinstance(error, ImportError) and library.split("-")[0] in text):
            return f"Install {extra} beside Friday."
    return ""
