"""JSON-RPC 2.0 over standard input and output, one message a line: the transport of the Agent Client Protocol.

Source: agentclientprotocol.com, "Transports". Standard output carries messages and nothing else: what anything else in the
process prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, BinaryIO

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.known_keys import mask_keys

LONGEST = 64 * 1024 * 1024
"""Bytes of one message; a longer one ends the connection."""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
AUTH_REQUIRED, NOT_FOUND = -32000, -32002


class RpcError(Exception):
    """An error answer to a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class RpcConnection:
    """Both directions of the protocol. `handle(method, params)` answers requests; `told(method, params)` takes notifications,
    in order. Requests run side by side, each in a task."""

    def __init__(
        self,
        source: BinaryIO,
        sink: BinaryIO,
        *,
        handle: Callable[[str, dict[str, Any]], Awaitable[Any]],
        told: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._source, self._sink = source, sink
        self._handle, self._told = handle, told
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._next = 0
        self._writing = threading.Lock()
        self.closed = False

    async def serve(self) -> None:
        """Read messages until the input ends. Requests that are being answered are cancelled then."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop, lines), daemon=True, name="acp input").start()
        while (line := await lines.get()) is not None:
            self._received(line)
        self.closed = True
        for future in self._waiting.values():
            future.cancel()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _read(self, loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes | None]) -> None:
        """In a thread: standard input may be a file, which an event loop cannot wait for."""
        line: bytes | None = b""
        while line is not None:
            read = self._source.readline(LONGEST)
            line = read if read.endswith(b"\n") else None
            try:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            except RuntimeError:
                return  # the loop is closed

    def _received(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._write(
                {"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": "This line is no JSON."}}
            )
            return
        if not isinstance(message, dict):
            self._invalid(None)
            return
        method, ident, params = message.get("method"), message.get("id"), message.get("params")
        if method is None:
            self._answered(message)
        elif not isinstance(method, str) or not isinstance(params if params is not None else {}, dict):
            self._invalid(ident)
        elif "id" not in message:
            self._told(method, params or {})
        else:
            task = asyncio.create_task(self._answer(ident, method, params or {}))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _invalid(self, ident: Any) -> None:
        error = {"code": INVALID_REQUEST, "message": "Expected a request, a notification or an answer of JSON-RPC 2.0."}
        self._write({"jsonrpc": "2.0", "id": ident, "error": error})

    def _answered(self, message: dict[str, Any]) -> None:
        ident = message.get("id")
        future = self._waiting.pop(ident, None) if type(ident) is int else None  # JSON's true is no number
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
            from friday_cli.diagnostics.log_file import report_defect

            reply = {"error": {"code": INTERNAL_ERROR, "message": report_defect(error)}}
        self._write({"jsonrpc": "2.0", "id": ident, **reply})

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and wait for its result. Raises RpcError. Cancelling withdraws the request: the client need not answer."""
        self._next += 1
        ident, future = self._next, asyncio.get_running_loop().create_future()
        self._waiting[ident] = future
        self._write({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})
        try:
            return await future
        except asyncio.CancelledError:
            self.notify("$/cancel_request", {"requestId": ident})
            raise
        finally:
            self._waiting.pop(ident, None)

    def _write(self, message: dict[str, Any]) -> None:
        """A client that has closed its end is noticed by the end of the input."""
        if self.closed:
            return
        data = mask_keys(json.dumps(message, ensure_ascii=False)).encode("utf-8", "replace") + b"\n"
        try:
            with self._writing:
                self._sink.write(data)
                self._sink.flush()
        except (OSError, ValueError):
            self.closed = True


def claim_stdout() -> BinaryIO:
    """The standard output for messages. From now on what else writes to file descriptor 1 is seen on standard error."""
    sys.stdout.flush()
    mine = os.fdopen(os.dup(1), "wb")  # a raw file may write a part only
    os.dup2(2, 1)
    return mine
