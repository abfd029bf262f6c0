"""One connection to an MCP server: opened when it is first needed, and closed with its session.

The library `mcp` takes almost a second to import. Only `client` imports it, which this module loads in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.messages import Image
from friday_cli.core.protocol.receipt import FileChange
from friday_cli.core.text.sanitize import sanitize_line

from .catalog import Catalog
from .entry import ServerEntry

T = TypeVar("T")
ServerClient = Any
"""`client.ServerClient`, which cannot be imported here: it loads the library."""
log = logging.getLogger(__name__)

LONGEST_CALL_S = 3600.0
"""Seconds of a call that reports progress, if its `timeout_s` is not longer."""
END_S = 6.0
"""Seconds that closing a connection may take: a server has 2 s to end by itself, then it is ended."""


class ServerError(ToolError):
    """A server could not be reached, or did not do what it was asked for. The message begins with its name."""


class ServerStream(Protocol):
    """A running stdio server."""

    @property
    def exit_code(self) -> int | None: ...
    @property
    def errors(self) -> str: ...
    async def read(self) -> bytes: ...
    async def write_all(self, data: bytes) -> None: ...
    async def wait(self) -> None: ...
    async def end(self) -> None: ...


class CallEffects(Protocol):
    """What a call did to files, known after it. `tampered` names those that run code later."""

    changed: tuple[FileChange, ...]
    unknown: tuple[str, ...]
    tampered: tuple[str, ...]


class ConnectionHost(msgspec.Struct, frozen=True):
    """The part of a session that a connection needs. `start` runs a stdio server. `roots` are the folders that a server is told.
    `sign_in` makes the `ServerAuth` of an HTTP server (None: one that uses stored logins). `report` shows a person one line.
    `changed` is called when the server says that its lists changed. `observed(entry, agent, tool)` determines what a call in its block
    does to files (None: nothing)."""

    start: Callable[[ServerEntry], Awaitable[ServerStream]]
    roots: Sequence[str] = ()
    sign_in: Callable[[ServerEntry], Any] | None = None
    report: Callable[[str], None] = lambda text: None
    changed: Callable[[str], None] = lambda server: None
    observed: Callable[[ServerEntry, str, str], contextlib.AbstractAsyncContextManager[CallEffects | None]] = (
        lambda entry, agent, tool: contextlib.nullcontext()
    )


class Reply(msgspec.Struct, frozen=True):
    """The result of a call, a resource or a prompt. `error`: the tool reports that it failed."""

    text: str
    images: tuple[Image, ...] = ()
    error: bool = False


async def _nobody(question: str, choices: Sequence[str]) -> str:
    raise ToolError("No person can answer questions here.")


class ServerCall:
    """A request while it is open. `asked` counts the questions of the server in it. `agent` sent it ("" for a person); `show` displays progress; `ask(question, choices)` asks a
    person and raises ToolError where nobody can answer. Progress restarts `timeout_s`, up to `longest_s` seconds in all. Neither
    runs while a person is asked."""

    def __init__(
        self,
        timeout_s: float,
        *,
        agent: str = "",
        show: Callable[[str], None] = lambda text: None,
        ask: Callable[[str, Sequence[str]], Awaitable[str]] = _nobody,
    ) -> None:
        self.agent, self.timeout_s, self.asked = agent, timeout_s, 0
        self.longest_s = max(LONGEST_CALL_S, timeout_s)
        self._show, self._ask = show, ask
        self._clock: asyncio.Timeout | None = None
        self._shown, self._reported = "", False
        self._asking, self._paused_at, self._ends = 0, 0.0, 0.0

    @contextlib.asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Raises TimeoutError in the block after `timeout_s` seconds without progress, or `longest_s`."""
        self._ends = _now() + self.longest_s
        async with asyncio.timeout(self.timeout_s) as self._clock:
            yield

    def progress(self, text: str = "") -> None:
        """The server is still at work; show `text` if it is new."""
        self._reported = True
        self._restart()
        line = sanitize_line(text, 300)
        if line and line != self._shown:
            self._shown = line
            self._show(line + "\n")

    async def ask(self, question: str, choices: Sequence[str] = ()) -> str:
        """Ask a person. Raises ToolError."""
        with self.paused():
            return await self._ask(question, choices)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Its time limits do not run in the block."""
        if not self._asking:
            self._paused_at = _now()
        self._asking += 1
        if self._clock is not None:
            self._clock.reschedule(None)
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._ends += _now() - self._paused_at
            self._restart()

    def why_late(self) -> str:
        """Which limit it has exceeded, as the rest of a sentence."""
        if self._reported and _now() >= self._ends:
            return f"no answer within {self.longest_s:g} s, only progress; the call was cancelled."
        return f"no answer within {self.timeout_s:g} s; the call was cancelled."

    def _restart(self) -> None:
        if self._clock is not None and not self._asking and not self._clock.expired():
            self._clock.reschedule(min(_now() + self.timeout_s, self._ends))


def _now() -> float:
    return asyncio.get_running_loop().time()


current_call: ContextVar[ServerCall | None] = ContextVar("mcp_call", default=None)
"""The call of this task, for requests of the server that come with its result."""


class ServerConnection:
    """A connection to the server of `entry`. `known` is what is remembered of it. All methods raise ServerError."""

    def __init__(self, entry: ServerEntry, host: ConnectionHost, known: Catalog | None = None) -> None:
        self.entry = entry
        self.state: Literal["closed", "opening", "open"] = "closed"
        self.last_error = ""
        self._host, self._known = host, known
        self._client: ServerClient | None = None
        self._task: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()
        self._opening = asyncio.Lock()
        self._closed = False
        self._calls: list[ServerCall] = []

    @property
    def _failed(self) -> str:
        return f"MCP server {self.entry.name}:"

    @property
    def connected(self) -> bool:
        """Whether it is open, and the server has not ended."""
        return self.state == "open" and self._client is not None and not self._client.ended

    # ---- opening and closing -------------------------------------------------------

    async def open(self) -> None:
        """Connect, if it is not connected. It takes `startup_timeout_s` seconds at most."""
        async with self._opening:
            if self._closed:
                raise ServerError(f"{self._failed} the session is closed.")
            if self.connected:
                return
            await self._close()  # its process may still be ending
            self.state, self._leave = "opening", asyncio.Event()
            opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._hold(opened), name=f"mcp {self.entry.name}")
            try:
                await asyncio.shield(opened)
            except ServerError as error:
                self.last_error = str(error)
                raise
            except asyncio.CancelledError:
                opened.add_done_callback(_retrieved)
                await asyncio.shield(self._close())
                raise

    async def close(self) -> None:
        """Close it for good, and end the server's process."""
        self._closed = True
        await self._close()

    async def reconnect(self) -> None:
        """Close it and connect again."""
        await self._close()
        await self.open()

    async def _close(self) -> None:
        self._leave.set()
        if self._task is not None:
            if self.state == "opening":
                self._task.cancel()  # it does not see `_leave` before it is connected
            _, running = await asyncio.wait([self._task], timeout=END_S)
            for task in running:
                task.cancel()
        self.state = "closed"

    async def _hold(self, opened: asyncio.Future[None]) -> None:
        """Connect, set `opened`, and stay connected until `_leave` is set or the connection ends. The library needs to be
        entered and left in the same task."""
        library: Any = None
        try:
            library = await asyncio.to_thread(importlib.import_module, "friday_cli.mcp.client")
            await self._connected(library, opened)
        except BaseException as error:
            problem = self._explain(library, error)
            if opened.done():
                self.last_error = self.last_error or problem
            else:
                opened.set_exception(ServerError(problem))
            if not isinstance(error, (Exception, BaseExceptionGroup)):
                raise
        finally:
            self.state, self._client = "closed", None

    async def _connected(self, library: Any, opened: asyncio.Future[None]) -> None:
        *others, last = library.modes(self._known)
        for mode in (*others, last):
            made: ServerClient = library.ServerClient(self.entry, self._host, self._calls_of, self._known)
            try:
                async with made.connected(mode):
                    self._client, self.state, self.last_error = made, "open", ""
                    opened.set_result(None)
                    if self._known is not None:
                        self._host.changed(self.entry.name)  # it may offer something else by now
                    await made.until(self._leave)
                if not self._leave.is_set():
                    self.last_error = f"{self._failed} {made.why_ended()}"
                return
            except Exception as error:
                if opened.done() or not library.refused(error):
                    raise
                if mode is last or made.denied:
                    raise ServerError(await made.what_failed(library.leaf(error), opening=True)) from None

    def _explain(self, library: Any, error: BaseException) -> str:
        if isinstance(error, ToolError):
            return f"{self._failed} {sanitize_line(str(error).removeprefix(self._failed).strip(), 500)}"
        if isinstance(error, TimeoutError):
            return f"{self._failed} it did not answer within {self.entry.startup_timeout_s:g} s."
        if library is None:
            return f"{self._failed} the library mcp cannot be loaded: {error}"
        return f"{self._failed} {sanitize_line(library.reason(error, self.entry), 500)}"

    # ---- requests --------------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any], call: ServerCall | None = None) -> Reply:
        """Call a tool. It is never called twice: what it did before the connection failed is not known."""
        return await self._request(lambda c: c.call(tool, arguments), call or ServerCall(self.entry.timeout_s))

    def observed(self, agent: str, tool: str) -> contextlib.AbstractAsyncContextManager[CallEffects | None]:
        """Determine what a call of `agent` in the block does to files."""
        return self._host.observed(self.entry, agent, tool)

    async def catalog(self) -> Catalog:
        """All lists of the server, as they are now; the next connection begins with what they say of the server."""
        found: Catalog = await self._twice(lambda c: c.catalog())
        self._known = found
        return found

    async def resources(self) -> list[str]:
        """One line for each resource and template: its address, name and description."""
        return await self._twice(lambda c: c.resources())

    async def read(self, uri: str, call: ServerCall | None = None) -> Reply:
        """The content of a resource."""
        return await self._twice(lambda c: c.read(uri), call)

    async def prompt(self, name: str, arguments: dict[str, str], call: ServerCall | None = None) -> Reply:
        """The messages of a prompt as text."""
        return await self._twice(lambda c: c.prompt(name, arguments), call)

    async def _twice(self, send: Callable[[ServerClient], Coroutine[Any, Any, T]], call: ServerCall | None = None) -> T:
        """The answer to a request that only reads. It is sent once more if the connection ends during it."""
        call = call or ServerCall(self.entry.timeout_s)
        await self.open()
        try:
            return await self._request(send, call)
        except ServerError:
            if self.connected or self._closed:
                raise
        return await self._request(send, call)

    async def _request(self, send: Callable[[ServerClient], Coroutine[Any, Any, T]], call: ServerCall) -> T:
        await self.open()
        made = self._client
        if made is None:
            raise ServerError(self.last_error or f"{self._failed} the connection was closed.")
        self._calls.append(call)
        token = current_call.set(call)
        try:
            async with call.limited():
                return await send(made)
        except TimeoutError:
            raise self._error(call.why_late()) from None
        except ToolError as error:
            raise self._error(str(error)) from None
        except Exception as error:
            raise self._error(await made.what_failed(error)) from None
        finally:
            current_call.reset(token)
            self._calls.remove(call)

    def _error(self, problem: str) -> ServerError:
        self.last_error = f"{self._failed} {sanitize_line(problem, 500)}"
        return ServerError(self.last_error)

    def _calls_of(self) -> list[ServerCall]:
        """The calls that a request of the server may belong to, the newest last: a server with a handshake does not say which."""
        return [call] if (call := current_call.get()) else list(self._calls)


def _retrieved(opened: asyncio.Future[None]) -> None:
    if not opened.cancelled():
        opened.exception()
