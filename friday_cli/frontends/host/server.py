"""Serves an open session to frontends in other processes of the same user, through its socket (`session/wire.py`)."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from friday_cli import __version__
from friday_cli.core.protocol.errors import FridayError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.diagnostics.log_file import report_defect
from friday_cli.jsonrpc.connection import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcConnection, RpcError
from friday_cli.jsonrpc.framing import FramingError, Lines
from friday_cli.session import commands, wire
from friday_cli.session.port import SessionFacts, SessionPort
from friday_cli.system import session_socket

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from friday_cli.core.protocol.events import Envelope

FACTS_S = 0.2
"""Seconds between two looks for changed facts while a frontend is connected."""
LAG_S = 30.0
"""Seconds that a frontend may read nothing while events wait for it. Then its connection is closed: it reads the log when it
connects again, and live events that wait are merged meanwhile."""


class SessionOwner(Protocol):
    """The process of a session, as its frontends reach it."""

    session: SessionPort

    def end(self) -> None:
        """Let it stop all agents and end."""

    async def reopen(self, wanted: wire.Reopening) -> None:
        """Close the session and open it again with other options, or with those that it had where that fails. Raises FridayError."""

    def frontends_changed(self) -> None:
        """A frontend came or left."""


class SessionServer:
    """Listens from `open` to `close`, for the `owner` of a session."""

    def __init__(self, owner: SessionOwner) -> None:
        self.owner = owner
        self.opened = asyncio.Event()
        """Not set while the session is opened again."""
        self.opened.set()
        self._clients: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    @property
    def session(self) -> SessionPort:
        """The session that is open now."""
        return self.owner.session

    @property
    def clients(self) -> int:
        """The number of frontends that are connected."""
        return len(self._clients)

    def open(self) -> None:
        """Listen. Raises FridayError."""
        self._socket = session_socket.listen(self.session.id)
        self._accepting = asyncio.create_task(self._accept(self._socket), name="accept frontends")

    async def reopen(self, wanted: wire.Reopening) -> None:
        """See `SessionOwner.reopen`. The frontends stay connected. Raises UsageError while agents are at work."""
        if not self.opened.is_set():
            raise UsageError("The session is already being reopened.")
        if not self.session.facts.idle or self.session.facts.at_work:
            count = pluralize(self.session.facts.at_work or 1, "agent")
            raise UsageError(
                f"{count} at work; this would stop them.", hint="Esc stops them, or wait until they have ended."
            )
        self.opened.clear()
        try:
            await self.owner.reopen(wanted)
        finally:
            self.opened.set()

    async def close(self) -> None:
        """Close all connections and remove the socket."""
        if self._socket is None:
            return
        session_socket.remove(self.session.id)
        tasks = [task for task in (self._accepting, *self._clients) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()
        self._socket = None

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(0.1)  # for example too many open files
                continue
            try:
                known = session_socket.peer_uid(connection) == os.geteuid()
            except OSError:
                known = False
            if not known:
                connection.close()
                continue
            task = asyncio.create_task(self._serve(connection), name="serve a frontend")
            self._clients.add(task)
            task.add_done_callback(self._left)
            self.owner.frontends_changed()

    def _left(self, task: asyncio.Task[None]) -> None:
        self._clients.discard(task)
        self.owner.frontends_changed()

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        client = _ServedFrontend(self, wire.StreamChannel(reader, writer))
        try:
            await client.rpc.serve()
        except FramingError:
            pass  # no further message can be found
        finally:
            client.stop()
            writer.close()


class _ServedFrontend:
    """One connected frontend."""

    def __init__(self, server: SessionServer, channel: wire.StreamChannel) -> None:
        self._server, self._channel = server, channel
        self._greeted = False
        self._facts: SessionFacts | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.rpc = RpcConnection(
            channel,
            Lines(wire.MOST_SENT),
            wire.DIALECT,
            handle=self._handle,
            told=lambda method, params: self.rpc.cancel(params.get("id")),
            report_defect=report_defect,
        )

    def stop(self) -> None:
        """Send nothing more."""
        for task in self._tasks:
            task.cancel()

    async def _handle(self, method: str, params: dict[str, Any]) -> Any:
        if method == "hello":
            await self._server.opened.wait()
            return self._greet(params)
        if not self._greeted:
            raise RpcError(INVALID_REQUEST, "The first request must be `hello`.")
        if method != "reopen":
            await self._server.opened.wait()
        try:
            match method:
                case "follow":
                    self._follow(int(params["after"]), float(params.get("lull_s", 0.0)))
                    return {}
                case "reopen":
                    return await self._reopen(commands.decoded(params["with"], wire.Reopening))
                case "do":
                    return await self._do(
                        commands.decoded(params["command"], commands.AnyCommand), params.get("output")
                    )
                case "end":
                    self._server.owner.end()
                    return {}
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # msgspec.ValidationError is one
            raise RpcError(INVALID_PARAMS, f"Invalid parameters: {error}"[:300]) from None
        raise RpcError(METHOD_NOT_FOUND, f"Unknown method: {method[:40]}")

    def _greet(self, params: dict[str, Any]) -> dict[str, Any]:
        if params.get("protocol") != wire.PROTOCOL:
            theirs = str(params.get("friday", ""))[:40]
            raise RpcError(INVALID_REQUEST, str(wire.other_version(theirs, __version__)))
        if not self._greeted:
            self._greeted = True
            self._tasks.append(asyncio.create_task(self._watch_facts(), name="facts for a frontend"))
        self._facts = self._server.session.facts
        return {"protocol": wire.PROTOCOL, "friday": __version__, "facts": commands.encoded(self._facts)}

    async def _do(self, command: commands.Command[Any], output: object) -> dict[str, Any]:
        def on_output(text: str) -> None:
            if output is not None:
                self.rpc.notify("output", {"output": output, "text": text})

        try:
            result = await self._server.session.do(command, on_output)
        except FridayError as error:
            return {"failed": wire.failure(error)}
        finally:
            self._send_facts()
        return {"result": commands.encoded(result)}

    async def _reopen(self, wanted: wire.Reopening) -> dict[str, Any]:
        try:
            await self._server.reopen(wanted)
        except FridayError as error:
            return {"failed": wire.failure(error)}
        self._send_facts()
        return {}

    def _follow(self, after: int, lull_s: float) -> None:
        self._tasks.append(asyncio.create_task(self._send_events(after, lull_s), name="events for a frontend"))

    async def _send_events(self, after: int, lull_s: float) -> None:
        session: SessionPort | None = None
        while session is not self._server.session:  # another one when it was opened again
            session = self._server.session
            source = session.events(after, lull_s=min(max(lull_s, 0.0), 1.0))
            async with aclosing(cast("AsyncGenerator[Envelope, None]", source)) as events:
                try:
                    async for envelope in events:
                        after = envelope.seq or after
                        self._send_facts()
                        self.rpc.notify("event", {"event": msgspec.to_builtins(envelope)})
                        async with asyncio.timeout(LAG_S):
                            await self._channel.drain()
                except (TimeoutError, OSError):
                    return self._channel.abort()
            await self._server.opened.wait()
        self._channel.close()

    def _send_facts(self) -> None:
        if self._server.opened.is_set() and (now := self._server.session.facts) != self._facts:
            self._facts = now
            self.rpc.notify("facts", {"facts": commands.encoded(now)})

    async def _watch_facts(self) -> None:
        while True:
            await asyncio.sleep(FACTS_S)
            self._send_facts()
