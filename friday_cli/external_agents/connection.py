"""A program that speaks the Agent Client Protocol: its process, and its requests and answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from friday_cli import __version__
from friday_cli.core.protocol.errors import FridayError, ToolError
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.jsonrpc.connection import AGENT_CLIENT, ConnectionEnded, RpcConnection, RpcError
from friday_cli.jsonrpc.framing import FramingError, Lines, LongMessage
from friday_cli.llm.transport.text import dict_in
from friday_cli.workspace.process.server import ServerProcess

log = logging.getLogger(__name__)

LONGEST = 8 * 1024 * 1024
"""Bytes of one message."""
MAX_STRAY_BYTES = 16 * 1024 * 1024
"""Bytes that a program may write besides messages before it is ended."""
INITIALIZE_S, SESSION_S = 30.0, 60.0
"""Seconds for its first answer, and for a session."""
CLOSE_S = 0.5
"""Seconds that a program has to end after its input was closed."""
REST_S = 1.0
"""Seconds for the rest of its output after its end, and for its exit code after the end of its output."""
NEEDS_LOGIN = -32000
"""The code of the protocol for a request that needs a login."""


class ProgramFailed(FridayError):
    """The program cannot be used, or has ended; the message is for a person. `login`: it needs one."""

    def __init__(self, message: str, *, login: bool = False) -> None:
        super().__init__(message)
        self.login = login


class _MessageLines(Lines):
    """Lines of which those are left out that cannot be messages: a program may print other text."""

    def __init__(self) -> None:
        super().__init__(LONGEST)
        self._stray = 0

    def feed(self, data: bytes) -> list[bytes | LongMessage]:
        found = []
        for line in super().feed(data):
            text = line.head if isinstance(line, LongMessage) else line
            if text.lstrip()[:1] == b"{":
                found.append(line)
                continue
            self._stray += line.size if isinstance(line, LongMessage) else len(line)
            if self._stray > MAX_STRAY_BYTES:
                raise FramingError(f"it wrote more than {MAX_STRAY_BYTES // 1024 // 1024} MB that are not messages")
        return found


class AcpConnection:
    """The connection with the program that runs as `server`. `name` is what people call it. `asked(method, params)` answers its requests, `told` takes its
    notifications."""

    def __init__(
        self,
        server: ServerProcess,
        name: str,
        asked: Callable[[str, dict[str, Any]], Awaitable[Any]],
        told: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self.server, self._name = server, name
        self._rpc = RpcConnection(server, _MessageLines(), AGENT_CLIENT, handle=asked, told=told, report_defect=_defect)
        self._problem = ""
        self._tasks = [asyncio.create_task(self._serve()), asyncio.create_task(self._until_exit())]
        self.ended = asyncio.Event()
        """Set when the program has ended, or nothing more of it can be read."""
        self.version = ""
        """Its version, as it says."""
        self.features: dict[str, Any] = {}
        """Its answer to `initialize`."""

    async def _serve(self) -> None:
        try:
            await self._rpc.serve()
        except FramingError as error:
            self._problem = str(error)
        finally:
            self.ended.set()

    async def _until_exit(self) -> None:
        """A death is seen at the process: what it started may hold its pipe open."""
        try:
            await self.server.wait()
        except ToolError as error:
            self._problem = str(error)
        await asyncio.wait([self._tasks[0]], timeout=REST_S)  # what it wrote last
        self._tasks[0].cancel()  # those who wait for an answer read that it ended

    async def request(self, method: str, params: dict[str, Any], timeout_s: float | None = None) -> Any:
        """Its answer. Raises ProgramFailed, RpcError."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._rpc.request(method, params)
        except ConnectionEnded:
            await asyncio.wait([self._tasks[1]], timeout=REST_S)  # its exit code
            raise self.failure() from None
        except TimeoutError:
            errors = self._errors()
            raise ProgramFailed(f"{self._name} did not answer {method} within {timeout_s:.0f} s.{errors}") from None
        except RpcError as error:
            if error.code == NEEDS_LOGIN:
                raise ProgramFailed(f"{self._name} needs a login.", login=True) from None
            raise

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell it something."""
        self._rpc.notify(method, params)

    def failure(self) -> ProgramFailed:
        """Why nothing more comes from it."""
        code = self.server.exit_code
        how = f" with exit code {code}" if code else ""
        why = f": {self._problem}" if self._problem else ""
        return ProgramFailed(f"{self._name} ended{how} before it was done{why}.{self._errors()}")

    def _errors(self) -> str:
        """The end of its standard error output."""
        text = sanitize_line(self.server.errors[-600:], 600)
        return f" It wrote: {text}" if text else ""

    async def initialize(self) -> None:
        """The first request. Raises ProgramFailed."""
        offered = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        params = {
            "protocolVersion": 1,
            "clientCapabilities": offered,
            "clientInfo": {"name": "friday", "title": "Friday", "version": __version__},
        }
        try:
            answer = await self.request("initialize", params, INITIALIZE_S)
        except RpcError as error:
            raise ProgramFailed(f"{self._name} refused to begin: {sanitize_line(error.message, 300)}") from None
        self.features = dict_in(answer)
        if self.features.get("protocolVersion") != 1:
            raise ProgramFailed(f"{self._name} does not speak version 1 of the Agent Client Protocol.")
        self.version = sanitize_line(str(dict_in(self.features.get("agentInfo")).get("version") or ""), 40)

    async def close(self) -> None:
        """End the program with everything that it started."""
        await self.server.end(CLOSE_S)
        for task in self._tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)


def _defect(error: BaseException) -> str:
    log.error("an external agent's request failed", exc_info=error)
    return f"Friday failed: {type(error).__name__}"
