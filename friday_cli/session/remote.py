"""A session that another process of this user owns, reached through its socket. It is a `SessionPort`, like `Session`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from friday_cli import __version__
from friday_cli.core.eventlog.log import AT_ONCE
from friday_cli.core.protocol.errors import FridayError, StoreError, UsageError
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.jsonrpc.connection import INVALID_PARAMS, METHOD_NOT_FOUND, ConnectionEnded, RpcConnection, RpcError
from friday_cli.jsonrpc.framing import FramingError, Lines
from friday_cli.store.listing import last_event, run_query
from friday_cli.store.store import Store
from friday_cli.system import session_socket
from friday_cli.system.paths import store_path

from . import wire
from .commands import Command, decoded, encoded, result_type
from .port import SessionFacts

if TYPE_CHECKING:
    from .rewind import RecordedRewinder

R = TypeVar("R")
MOST_WAITING = 2_000
"""Events that wait here for the frontend; with more, nothing is read from the socket, and the owner merges live events."""
AGAIN_S = 0.05
"""Seconds before a lost connection is made again."""
HELLO_S = 5.0
"""Seconds that an owner may take for its first answer."""


class _Link:
    """One connection to the owner. `events` are those that wait for the frontend."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.facts: SessionFacts | None = None
        self.version = ""
        """Of the owner's Friday."""
        self.events: deque[Envelope] = deque()
        self.came = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._outputs: dict[int, Callable[[str], None]] = {}
        self._numbers = count(1)
        self._channel = wire.StreamChannel(reader, writer)
        self._rpc = RpcConnection(
            self,
            Lines(wire.MOST_RECEIVED),
            wire.DIALECT,
            handle=self._refuse,
            told=self._told,
            report_defect=str,
        )
        self._serving = asyncio.create_task(self._serve(), name="connection to a session")

    @classmethod
    async def open(cls, session: str, env: Mapping[str, str] | None) -> _Link | None:
        """A connection after the first answer; None if nobody listens. Raises FridayError."""
        made = await asyncio.to_thread(session_socket.connect, session, env)
        if made is None:
            return None
        link = cls(*await asyncio.open_unix_connection(sock=made))
        try:
            async with asyncio.timeout(HELLO_S):
                told = await link._rpc.request("hello", {"protocol": wire.PROTOCOL, "friday": __version__})
            link.version = sanitize_line(str(told.get("friday", "")), 40)
            if told.get("protocol") != wire.PROTOCOL:
                raise wire.other_version(__version__, link.version)
            link.facts = decoded(told["facts"], SessionFacts)
            return link
        except RpcError as error:
            await link.close()
            raise UsageError(error.message) from None
        except ConnectionEnded:
            await link.close()
            return None
        except (TimeoutError, KeyError, AttributeError, msgspec.ValidationError):
            await link.close()
            raise UsageError(f"The process of session {session[:8]} does not answer.") from None
        except BaseException:
            await link.close()
            raise

    async def request(self, method: str, params: dict[str, Any], on_output: Callable[[str], None] | None = None) -> Any:
        """Send a request. Raises RpcError, ConnectionEnded."""
        key = next(self._numbers)
        if on_output is not None:
            self._outputs[key] = on_output
            params = {**params, "output": key}
        try:
            return await self._rpc.request(method, params)
        finally:
            self._outputs.pop(key, None)

    async def take(self) -> list[Envelope] | None:
        """The events that wait, at least one; None at the end of the connection."""
        while not self.events:
            if self._serving.done():
                return None
            self.came.clear()
            await self.came.wait()
        taken = list(self.events)
        self.events.clear()
        self._room.set()
        return taken

    async def close(self) -> None:
        """Close the connection."""
        self._channel.abort()
        self._room.set()
        self._serving.cancel()
        await asyncio.gather(self._serving, return_exceptions=True)

    async def read(self) -> bytes:
        """As `Channel.read`; waits while the frontend has much to read."""
        await self._room.wait()
        return await self._channel.read()

    def write(self, data: bytes) -> None:
        """As `Channel.write`."""
        self._channel.write(data)

    async def _serve(self) -> None:
        try:
            await self._rpc.serve()
        except FramingError:
            pass  # the end of what can be read
        finally:
            self.came.set()

    async def _refuse(self, method: str, params: dict[str, Any]) -> Any:
        raise RpcError(METHOD_NOT_FOUND, "A frontend answers no requests.")

    def _told(self, method: str, params: dict[str, Any]) -> None:
        try:
            self._take_in(method, params)
        except (KeyError, TypeError, msgspec.ValidationError):
            pass  # of another version; what matters is in the log

    def _take_in(self, method: str, params: dict[str, Any]) -> None:
        if method == "event":
            self.events.append(_envelope(params["event"]))
            self.came.set()
            if len(self.events) >= MOST_WAITING:
                self._room.clear()
        elif method == "facts":
            self.facts = decoded(params["facts"], SessionFacts)
        elif method == "output" and (on_output := self._outputs.get(params["output"])) is not None:
            on_output(str(params["text"]))


def _envelope(data: dict[str, Any]) -> Any:
    """An event; for a stored one that only another version knows, a notice in its place."""
    try:
        found: Envelope = decoded(data, Envelope)
    except msgspec.ValidationError:
        kind = sanitize_line(str(data["event"]["kind"]), 40)
        words = f"Event {data['seq']} ({kind}) is of another version of Friday and is not shown here."
        found = decoded(data | {"event": {"kind": "notice", "text": words, "level": "warning"}}, Envelope)
    return found


class RemoteSession:
    """Make one with `RemoteSession.connect`. It reads the log of the session first, then events of its owner, and connects
    again when the owner found it too slow."""

    def __init__(self, session: str, store: Store, link: _Link, since: int, env: Mapping[str, str] | None) -> None:
        assert link.facts is not None
        self.id = session
        self.since = since
        self.ended = asyncio.Event()
        """Set when the owner has ended, or this was closed."""
        self.ending = False
        """Whether this let the owner end."""
        self._facts, self._link = link.facts, link
        self._store, self._env = store, env
        self._closed = False

    @classmethod
    async def connect(cls, session: str, *, env: Mapping[str, str] | None = None) -> RemoteSession | None:
        """Connect to the owner of a session (a whole id); None if nobody listens. Raises FridayError."""
        link = await _Link.open(session, env)
        if link is None:
            return None
        path = store_path(env)
        try:
            since = await asyncio.to_thread(run_query, path, lambda db: last_event(db, session))
        except BaseException:
            await link.close()
            raise
        return cls(session, Store(path), link, since, env)

    @property
    def rewind(self) -> RecordedRewinder:
        """As `Session.rewind`."""
        from .rewind import RecordedRewinder  # loads what looks at files

        return RecordedRewinder(self.id, self._store, self._env)

    @property
    def facts(self) -> SessionFacts:
        """What was so when the owner last told."""
        self._facts = self._link.facts or self._facts
        return self._facts

    async def do(self, command: Command[R], on_output: Callable[[str], None] = lambda text: None) -> R:
        """As `Session.do`. Raises FridayError if the owner has ended."""
        told = await self._request("do", {"command": encoded(command)}, on_output)
        if "failed" in told:
            raise wire.raised(told["failed"])
        result: R = decoded(told.get("result"), result_type(command))
        return result

    async def reopen(self, wanted: wire.Reopening) -> None:
        """Let the owner open the session again with other options. Raises FridayError; then it has those that it had."""
        told = await self._request("reopen", {"with": encoded(wanted)})
        if "failed" in told:
            raise wire.raised(told["failed"])

    async def end(self) -> None:
        """Let the owner stop all agents and end."""
        await self._request("end", {})
        self.ending = True

    async def _request(
        self, method: str, params: dict[str, Any], on_output: Callable[[str], None] | None = None
    ) -> Any:
        try:
            return await self._link.request(method, params, on_output)
        except ConnectionEnded:
            raise FridayError(f"The process of session {self.id[:8]} has ended.") from None
        except RpcError as error:
            if error.code in (METHOD_NOT_FOUND, INVALID_PARAMS) and self._link.version != __version__:
                raise wire.unknown_there(self._link.version) from None
            raise FridayError(error.message) from None

    async def history(self) -> list[Envelope]:
        """All durable events so far."""
        return await self._store.events(self.id)

    async def events(self, after: int = 0, *, lull_s: float = 0.0, late: bool = False) -> AsyncIterator[Envelope]:
        """As `Session.events`, until the owner has ended or this is closed. `late` has no effect."""
        newest = after
        try:
            while not self._closed:
                for number, envelope in enumerate(await self._store.events(self.id, after=newest), 1):
                    newest = envelope.seq or newest
                    if number % AT_ONCE == 0:
                        await asyncio.sleep(0)
                    yield envelope
                try:
                    await self._link.request("follow", {"after": newest, "lull_s": lull_s})
                    while (taken := await self._link.take()) is not None:
                        for envelope in taken:
                            if envelope.seq is None or envelope.seq > newest:
                                newest = envelope.seq or newest
                                yield envelope
                except (ConnectionEnded, RpcError):
                    pass
                await asyncio.sleep(AGAIN_S)
                if self._closed or not await self._connect_again():
                    break
            if not self._closed:
                for envelope in await self._store.events(self.id, after=newest):
                    yield envelope
        except StoreError:
            if not self._closed:
                raise
        self.ended.set()

    async def _connect_again(self) -> bool:
        """Make the lost connection again; False if nobody listens."""
        again = await _Link.open(self.id, self._env)
        if again is None:
            return False
        await self._link.close()
        self._link = again
        if self._closed:  # meanwhile
            await again.close()
        return True

    async def close(self) -> None:
        """Leave the session, which runs on. May be called twice."""
        if not self._closed:
            self._closed = True
            await self._link.close()
            self.ended.set()
            await self._store.close()
