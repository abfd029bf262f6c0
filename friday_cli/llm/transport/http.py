"""The `http` transport: a POST over `h11_client` if that supports the endpoint, else over httpx2.

Both keep connections alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from friday_cli import __version__
from friday_cli.core.protocol.errors import ProviderError
from friday_cli.core.protocol.trace_context import trace_fields

from . import error_mapping, h11_client
from .endpoint import ANSWERED, Endpoint
from .event_stream import decode, parse_events
from .idle_timeout import IdleTimeout
from .json_body import encode
from .text import dict_in

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

ERROR_BODY = 64 * 1024
"""Maximum bytes read from an error response."""
ERROR_BODY_S = 10.0
"""Maximum seconds to read them."""

_OF_THE_BODY = frozenset(("content-encoding", "content-length", "transfer-encoding"))
_USER_AGENT = f"friday-cli/{__version__}"
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, httpx2.AsyncClient]] = WeakKeyDictionary()


async def events(endpoint: Endpoint, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """POST `body` and yield each event of the response; see `friday_cli.llm.transport`."""
    idle_timeout = IdleTimeout(endpoint.idle_s, endpoint.event_idle_s, endpoint.first_s)
    response: h11_client.Response | httpx2.Response | None = None
    try:
        with idle_timeout.waiting():
            response = await _send(endpoint, path, body, "text/event-stream")
        await _check_status(endpoint, response)
        async with aclosing(parse_events(endpoint, response.aiter_bytes(), response.headers, idle_timeout)) as found:
            async for event in found:
                yield event
    except ProviderError:
        raise
    except Exception as error:
        from .wrong_service import named  # most requests do not fail

        failed = error_mapping.from_exception(endpoint, error)
        raise (await named(endpoint, failed) if response is None else failed) from error
    finally:
        idle_timeout.close()
        if response is not None:
            await response.aclose()


async def document(endpoint: Endpoint, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST `body` and return the JSON object of the response. Raises ProviderError."""
    response: h11_client.Response | httpx2.Response | None = None
    try:
        response = await _send(endpoint, path, body, "application/json")
        await _check_status(endpoint, response)
        read = b"".join([piece async for piece in response.aiter_bytes()])
        return dict_in(decode(read.decode("utf-8", "replace")))
    except ProviderError:
        raise
    except Exception as error:
        raise error_mapping.from_exception(endpoint, error) from error
    finally:
        if response is not None:
            await response.aclose()


async def _send(
    endpoint: Endpoint, path: str, body: dict[str, Any], accept: str
) -> h11_client.Response | httpx2.Response:
    check_headers(endpoint)
    headers = {"user-agent": _USER_AGENT, "content-type": "application/json", "accept": accept}
    headers |= {name.lower(): value for name, value in endpoint.headers.items()} | trace_fields()
    post = h11_client.post if h11_client.supports(endpoint) else _post
    return await post(endpoint, endpoint.url(path), encode(body), headers)


async def forward(
    endpoint: Endpoint, url: str, content: Sequence[bytes], headers: dict[str, str]
) -> h11_client.Response | httpx2.Response:
    """POST the pieces of a body that another program made, with its own headers; the answer may be an error of the service. Raises what the
    connection does."""
    if h11_client.supports(endpoint):
        return await h11_client.post(endpoint, url, content, headers)
    try:
        return await _post(endpoint, url, content, headers)
    except error_mapping.HTTPStatusError as error:
        import httpx2

        kept = {name: value for name, value in error.headers.items() if name.lower() not in _OF_THE_BODY}
        return httpx2.Response(error.status, headers=kept, content=error.body)


async def _check_status(endpoint: Endpoint, response: h11_client.Response | httpx2.Response) -> None:
    ANSWERED.add(endpoint.origin)
    if not 200 <= response.status_code < 300:
        read = await read_error_body(response)
        raise error_mapping.from_status(endpoint, response.status_code, response.headers, read)


async def _post(endpoint: Endpoint, url: str, content: Sequence[bytes], headers: dict[str, str]) -> httpx2.Response:
    from .proxy import require_usable  # without a proxy in the environment `h11_client` sends the request

    require_usable(endpoint)
    connection = client(endpoint)
    data = b"".join(content)
    request = connection.build_request("POST", url, content=data, headers=headers, timeout=timeout(endpoint))
    return await connection.send(request, stream=True, follow_redirects=False)


def client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """The running loop's client for this endpoint's origin. Proxies and certificates come from the environment."""
    import httpx2

    clients = _clients.setdefault(asyncio.get_running_loop(), {})
    found = clients.get(endpoint.origin)
    if found is None or found.is_closed:
        secure = endpoint.address.scheme != "http"
        found = clients[endpoint.origin] = httpx2.AsyncClient(
            follow_redirects=False,
            trust_env=secure or not endpoint.is_loopback,
            verify=secure,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=60.0),
            headers={"user-agent": _USER_AGENT},
            event_hooks={"response": [_raise_for_status]},
        )
    return found


async def aclose_all() -> None:
    """Close the idle connections of the running loop."""
    await h11_client.aclose_all()
    clients = _clients.pop(asyncio.get_running_loop(), {})
    await asyncio.gather(*(c.aclose() for c in clients.values()), return_exceptions=True)


def timeout(endpoint: Endpoint) -> httpx2.Timeout:
    """A timeout for connecting only. `IdleTimeout` limits the rest, because it tolerates a suspended machine."""
    import httpx2

    return httpx2.Timeout(None, connect=endpoint.connect_s)


async def read_error_body(response: h11_client.Response | httpx2.Response) -> bytes:
    """The first `ERROR_BODY` bytes of an error response, or those that arrived before an error or the time limit."""
    head = b""
    try:
        async with asyncio.timeout(ERROR_BODY_S):
            async for chunk in response.aiter_bytes():
                head += chunk
                if len(head) >= ERROR_BODY:
                    break
    except Exception:  # the status is enough
        log.debug("the body of an error was not read to its end", exc_info=True)
    return head[:ERROR_BODY]


def check_headers(endpoint: Endpoint) -> None:
    """Raise ProviderError for an invalid header, before a library raises an error that quotes its value."""
    for name, value in endpoint.headers.items():
        if not (name + value).isascii() or not (name + value.replace("\t", " ")).isprintable():
            raise error_mapping.invalid_header(endpoint, name)


async def _raise_for_status(response: httpx2.Response) -> None:
    """Raise HTTPStatusError here, because an SDK fails differently when an error body is incomplete.

    A 401 is let through: an SDK may be able to renew its credentials.
    """
    if response.status_code >= 300 and response.status_code != 401:
        raise error_mapping.HTTPStatusError(response.status_code, response.headers, await read_error_body(response))
