"""A connection of JSON-RPC 2.0: requests and notifications in both directions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.known_keys import mask_keys

from .framing import Framing, FramingError, LongMessage

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
_METHOD = re.compile(rb'\A\s*\{[^{}\[\]]*"method"\s*:')
"""The beginning of a request or a notification: an answer has no method."""
_LARGE = 100_000
"""Bytes of a message before which the event loop does other work: some milliseconds are gone with collecting it."""


class RpcError(Exception):
    """An error answer to a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class ConnectionEnded(Exception):
    """The connection ended before a request was answered."""


class Channel(Protocol):
    """Bytes from and to the other side."""

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""

    def write(self, data: bytes) -> None:
        """Send bytes. Raises OSError or ValueError if the other side reads no longer."""


class Dialect(NamedTuple):
    """How programs of one kind speak."""

    cancel: str
    """The notification that withdraws a request."""
    cancelled_id: str = "id"
    """The name of its parameter for the id of the request."""
    masked: bool = True
    """Whether keys are masked in what is sent: not where it is the text of files that must arrive unchanged."""


AGENT_CLIENT = Dialect("$/cancel_request", "requestId")
"""The Agent Client Protocol."""


class RpcConnection:
    """`handle(method, params)` answers requests, each in a task of its own; `told(method, params)` takes notifications, in
    order. `report_defect` makes one line of an exception that is Friday's own fault."""

    def __init__(
        self,
        channel: Channel,
        framing: Framing,
        dialect: Dialect,
        *,
        handle: Callable[[str, dict[str, Any]], Awaitable[Any]],
        told: Callable[[str, dict[str, Any]], None],
        report_defect: Callable[[BaseException], str],
    ) -> None:
        self._channel, self._framing = channel, framing
        self._handle, self._told, self._report_defect = handle, told, report_defect
        self._dialect = dialect
        self._mask = mask_keys if dialect.masked else str
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._running = BackgroundTasks()
        self._next = 0
        self._closed = False

    async def serve(self) -> None:
        """Read messages until they end. Requests that are being answered are cancelled then, and those that wait for an answer
        raise ConnectionEnded. Raises FramingError for bytes in which no further message can be found."""
        try:
            while data := await self._channel.read():
                for message in self._framing.feed(data):
                    if len(message) > _LARGE:
                        await asyncio.sleep(0)
                    self._received(message)
        finally:  # also when it is cancelled: whoever waits for an answer must not wait forever
            await self._end()

    async def _end(self) -> None:
        self._closed = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionEnded("The other side ended the connection."))
        await self._running.end()

    def _received(self, data: bytes | LongMessage) -> None:
        if isinstance(data, LongMessage):
            self._too_long(data)
            return
        if not data.strip():
            return
        try:
            message = _decoded(data)
        except (ValueError, RecursionError):
            self._refuse(None, PARSE_ERROR, "This message is not JSON.")
            return
        if not isinstance(message, dict):
            self._invalid(None)
            return
        method, ident, params = message.get("method"), message.get("id"), message.get("params")
        if method is None:
            self._answered(message)
        elif isinstance(method, str) and isinstance(params, list) and "id" not in message:
            pass  # a notification with parameters by position, which nothing here has: it gets no answer
        elif not isinstance(method, str) or not isinstance(params if params is not None else {}, dict):
            self._invalid(ident)
        elif "id" not in message:
            self._told(method, params or {})
        else:
            self._running.start(self._answer(ident, method, params or {}), name=_task_name(ident))

    def _too_long(self, message: LongMessage) -> None:
        """Fails the one request that it belongs to. Raises FramingError if that cannot be known: it might wait forever."""
        text = f"The message of {message.size:,} bytes is too long, or has too many parts."
        if message.ident is None:
            raise FramingError(text)
        if _METHOD.match(message.head):
            self._refuse(message.ident, INVALID_REQUEST, text)
        else:
            self._answered({"id": message.ident, "error": {"code": INTERNAL_ERROR, "message": text}})

    def _invalid(self, ident: Any) -> None:
        self._refuse(ident, INVALID_REQUEST, "Expected a request, a notification or an answer of JSON-RPC 2.0.")

    def _refuse(self, ident: Any, code: int, text: str) -> None:
        self._write({"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": text}})

    def _answered(self, message: dict[str, Any]) -> None:
        ident = message.get("id")
        future = self._waiting.pop(ident, None) if type(ident) is int else None  # JSON's true is not a number
        if future is None or future.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            code = error.get("code")
            future.set_exception(
                RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message") or ""))
            )
        else:
            future.set_result(message.get("result"))

    async def _answer(self, ident: Any, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any]
        try:
            reply = {"result": await self._handle(method, params)}
        except RpcError as error:
            reply = {"error": {"code": error.code, "message": error.message}}
        except FridayError as error:
            reply = {"error": {"code": INTERNAL_ERROR, "message": str(error)}}
        except asyncio.CancelledError:
            raise
        except Exception as error:
            reply = {"error": {"code": INTERNAL_ERROR, "message": self._report_defect(error)}}
        self._write({"jsonrpc": "2.0", "id": ident, **reply})

    def cancel(self, ident: Any) -> None:
        """Stop answering a request, which the other side has withdrawn."""
        for task in self._running:
            if task.get_name() == _task_name(ident):
                task.cancel()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and wait for its result. Raises RpcError, ConnectionEnded. Cancelling withdraws the request: the other
        side need not answer."""
        if self._closed:
            raise ConnectionEnded("The connection has ended.")
        self._next += 1
        ident, future = self._next, asyncio.get_running_loop().create_future()
        self._waiting[ident] = future
        self._write({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        try:
            return await future
        except asyncio.CancelledError:
            self.notify(self._dialect.cancel, {self._dialect.cancelled_id: ident})
            raise
        finally:
            self._waiting.pop(ident, None)

    def _write(self, message: dict[str, Any]) -> None:
        """Another side that reads no longer is noticed by the end of what it sends."""
        if self._closed:
            return
        data = self._mask(json.dumps(message, ensure_ascii=False)).encode("utf-8", "replace")
        try:
            self._channel.write(self._framing.frame(data))
        except (OSError, ValueError):
            self._closed = True


def _decoded(data: bytes) -> Any:
    """The value of JSON text. Raises ValueError, RecursionError."""
    try:
        return msgspec.json.decode(data)  # in two thirds of the time
    except ValueError:
        return json.loads(data)  # takes half of a surrogate pair, which JavaScript writes of a text that was cut


def _task_name(ident: Any) -> str:
    return f"answer {ident!r:.40}"
