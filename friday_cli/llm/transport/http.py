"""The plain transport: one POST, over `direct` where that will do and else over httpx2; connections are kept alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from friday_cli import __version__
from friday_cli.core.protocol.errors import ProviderError

from . import error_mapping, h11_client
from .endpoint import Endpoint
from .event_stream import events_in
from .idle_timeout import IdleTimeout
from .text import whole_json

if TYPE_CHECKING:
    import httpx2

ERROR_BODY = 64 * 1024
"""Bytes read of an answer that tells of an error."""
ERROR_BODY_S = 10.0
"""Seconds they may take."""

_AGENT = f"friday-cli/{__version__}"
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, httpx2.AsyncClient]] = WeakKeyDictionary()


async def events(endpoint: Endpoint, path: str, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """POST `body` and yield each event of the answer; see `friday_cli.llm.transport`."""
    watch = IdleTimeout(endpoint.idle_s, endpoint.event_idle_s)
    response: h11_client.Response | httpx2.Response | None = None
    try:
        check_headers(endpoint)
        post = h11_client.post if h11_client.serves(endpoint) else _post
        with watch.waiting():
            response = await post(endpoint, endpoint.url(path), encode(body), _headers(endpoint))
        if not 200 <= response.status_code < 300:
            raise error_mapping.from_status(endpoint, response.status_code, response.headers, await head_of(response))
        async with aclosing(events_in(endpoint, response.aiter_bytes(), watch)) as found:
            async for event in found:
                yield event
    except ProviderError:
        raise
    except Exception as error:
        raise error_mapping.from_exception(endpoint, error) from error
    finally:
        watch.close()
        if response is not None:
            await response.aclose()


async def _post(endpoint: Endpoint, url: str, content: bytes, headers: dict[str, str]) -> httpx2.Response:
    connection = client(endpoint)
    request = connection.build_request("POST", url, content=content, headers=headers, timeout=timeout(endpoint))
    return await connection.send(request, stream=True, follow_redirects=False)


def client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """The client of the running loop for this endpoint's origin; proxies and certificates come from the environment."""
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
            headers={"user-agent": _AGENT},
            event_hooks={"response": [_refuse]},
        )
    return found


async def aclose_all() -> None:
    """Close the connections of the running loop."""
    await h11_client.aclose_all()
    clients = _clients.pop(asyncio.get_running_loop(), {})
    await asyncio.gather(*(c.aclose() for c in clients.values()), return_exceptions=True)


def encode(body: dict[str, Any]) -> bytes:
    """`body` as JSON; what UTF-8 cannot hold is replaced."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_json(body))


def timeout(endpoint: Endpoint) -> httpx2.Timeout:
    """Only connecting is timed by httpx2; a `Watch` does the rest, since it survives a sleep of the machine."""
    import httpx2

    return httpx2.Timeout(None, connect=endpoint.connect_s)


async def head_of(response: h11_client.Response | httpx2.Response) -> bytes:
    """The first bytes of an error's body; fewer where they do not come."""
    head = b""
    try:
        async with asyncio.timeout(ERROR_BODY_S):
            async for chunk in response.aiter_bytes():
                head += chunk
                if len(head) >= ERROR_BODY:
                    break
    except Exception:  # the status tells enough; what its body breaks on does not matter
        pass
    return head[:ERROR_BODY]


def check_headers(endpoint: Endpoint) -> None:
    """Raise ProviderError for a header that cannot be sent, before a library quotes its value."""
    for name, value in endpoint.headers.items():
        if not (name + value).isascii() or not (name + value.replace("\t", " ")).isprintable():
            raise error_mapping.bad_header(endpoint, name)


async def _refuse(response: httpx2.Response) -> None:
    """Turn an answer that is no success into an error here, since an SDK trips over a body that breaks off.

    A 401 passes: an SDK may know how to get new credentials.
    """
    if response.status_code >= 300 and response.status_code != 401:
        raise error_mapping.Refused(response.status_code, response.headers, await head_of(response))


def _headers(endpoint: Endpoint) -> dict[str, str]:
    own = {name.lower(): value for name, value in endpoint.headers.items()}
    return {"user-agent": _AGENT, "content-type": "application/json", "accept": "text/event-stream", **own}
