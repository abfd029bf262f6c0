"""The methods of the Agent Client Protocol (version 1): which session a client means, and what it may do with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from friday_cli import __version__
from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.errors import FridayError, NotConfigured
from friday_cli.core.protocol.format import is_caller
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.diagnostics.log_file import report_defect
from friday_cli.jsonrpc.connection import (
    AGENT_CLIENT,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Channel,
    RpcConnection,
    RpcError,
)
from friday_cli.jsonrpc.framing import Lines
from friday_cli.session import lists
from friday_cli.session.session import Options

from .config_options import has_key
from .sessions import NOT_FOUND, AcpSession
from .updates import ClientAbilities

VERSION = 1
PAGE = 50
"""Sessions in one answer to `session/list`."""
LOGIN = "friday-login"
AUTH_REQUIRED = -32000
LONGEST = 64 * 1024 * 1024
"""Bytes of one message."""


class AcpAgent:
    """Answers the client behind `channel`. `given` are the options of the command line for every session."""

    def __init__(self, given: Options, channel: Channel) -> None:
        self._given = given
        self._client = ClientAbilities()
        self._terminal_login = False
        self._sessions: dict[str, AcpSession] = {}
        self._later = BackgroundTasks()
        self._changing = asyncio.Lock()
        """Held while stored sessions are opened and closed: two loads of one session come one after the other."""
        self.connection = RpcConnection(
            channel,
            Lines(LONGEST, most_parts=LONGEST),
            AGENT_CLIENT,
            handle=self.handle,
            told=self.told,
            report_defect=report_defect,
        )
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_config_option": self._set_config,
            "session/set_mode": self._set_mode,
        }

    async def handle(self, method: str, params: dict[str, Any]) -> Any:
        """Answer a request. Raises RpcError."""
        if method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"There is no method {sanitize_line(method, 80)!r}.")
        return await self._methods[method](params)

    def told(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification. An id that is not known any longer is not an error: the run may just have ended."""
        if method == "session/cancel" and (found := self._meant(params.get("sessionId"))) is not None:
            session, path = found
            self._later.start(session.cancel(path))

    async def close(self) -> None:
        """Close all sessions."""
        ends = await asyncio.gather(*(session.close() for session in self._sessions.values()), return_exceptions=True)
        for error in filter(None, ends):
            raise error

    # ---- the connection --------------------------------------------------------------

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        given = params.get("clientCapabilities")
        known: Mapping[str, Any] = given if isinstance(given, dict) else {}
        self._client = ClientAbilities.of(known)
        auth = known.get("auth")
        self._terminal_login = isinstance(auth, dict) and auth.get("terminal") is True
        return {
            "protocolVersion": VERSION,
            "agentInfo": {"name": "friday", "title": "Friday", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "embeddedContext": True},
                "mcpCapabilities": {"http": True},
                "sessionCapabilities": {
                    "list": {},
                    "resume": {},
                    "close": {},
                    "delete": {},
                    "additionalDirectories": {},
                },
            },
            "authMethods": await self._logins(),
        }

    async def _logins(self) -> list[dict[str, Any]]:
        """How to add a key, if there is none: in a terminal, if the client has one."""
        if not self._terminal_login or await asyncio.to_thread(has_key):
            return []
        about = "Asks for an API key in a terminal, and keeps it for later sessions."
        return [{"id": LOGIN, "name": "Add an API key", "type": "terminal", "description": about, "args": ["--login"]}]

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        raise RpcError(
            INVALID_PARAMS,
            "Friday has no login of its own. Run `friday auth set anthropic`, or set a variable such as ANTHROPIC_API_KEY.",
        )

    # ---- sessions --------------------------------------------------------------------

    async def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        session = await self._open(self._options(params))
        session.begin(replay=False)
        self._later.start(self._announce(session))
        return {"sessionId": session.id, "configOptions": session.config()}

    async def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._take_up(params, replay=True)

    async def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self._take_up(params, replay=False)

    async def _take_up(self, params: dict[str, Any], *, replay: bool) -> dict[str, Any]:
        name = _text(params, "sessionId")
        options = msgspec.structs.replace(self._options(params), resume=name)
        async with self._changing:
            await self._close_known(name)
            if name not in {row.id for row in await lists.sessions()}:
                raise RpcError(NOT_FOUND, f"There is no session {sanitize_line(name, 80)!r}.")
            session = await self._open(options)
        await session.begin(replay=replay).wait()
        self._later.start(self._announce(session))
        return {"configOptions": session.config()}

    async def _open(self, options: Options) -> AcpSession:
        try:
            session = await AcpSession.open(options, self.connection, self._client)
        except NotConfigured as error:
            raise RpcError(AUTH_REQUIRED, str(error)) from None
        except FridayError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from None
        self._sessions[session.id] = session
        return session

    async def _announce(self, session: AcpSession) -> None:
        await asyncio.sleep(0)  # behind the answer, before which a client does not know the session
        await session.announce()

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        cwd, cursor = params.get("cwd"), params.get("cursor")
        first = int(cursor) if isinstance(cursor, str) and cursor.isdigit() else 0
        rows = await lists.sessions(cwd if isinstance(cwd, str) else None)
        rows = [row for row in rows if not is_caller(row.model)]
        page = [
            {
                "sessionId": row.id,
                "cwd": row.cwd,
                "title": sanitize_line(row.title, 200),
                "updatedAt": _time(row.updated),
            }
            for row in rows[first : first + PAGE]
        ]
        return {"sessions": page, **({"nextCursor": str(first + PAGE)} if len(rows) > first + PAGE else {})}

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        async with self._changing:
            await self._close_known(_text(params, "sessionId"))
        return {}

    async def _close_known(self, name: str) -> None:
        if (session := self._sessions.pop(name, None)) is not None:
            await session.close()

    async def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        name = _text(params, "sessionId")
        async with self._changing:
            await self._close_known(name)
            try:
                await lists.delete(name)
            except FridayError as error:
                raise RpcError(NOT_FOUND, str(error)) from None
        return {}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._get(params)
        return await session.prompt(params.get("prompt"))

    async def _set_config(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._get(params)
        await session.set_config(_text(params, "configId"), _text(params, "value"))
        return {"configOptions": session.config()}

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        await self._get(params).set_config("mode", _text(params, "modeId"))
        return {}

    # ---- what a client means ---------------------------------------------------------

    def _get(self, params: dict[str, Any]) -> AcpSession:
        name = _text(params, "sessionId")
        if name in self._sessions:
            return self._sessions[name]
        if self._meant(name) is not None:
            raise RpcError(
                INVALID_PARAMS, "This is a sub-agent's session: its parent sends it messages. It can be cancelled."
            )
        raise RpcError(NOT_FOUND, f"There is no open session {sanitize_line(name, 80)!r}.")

    def _meant(self, name: Any) -> tuple[AcpSession, str] | None:
        """The session and the agent that an id names."""
        if not isinstance(name, str):
            return None
        for session in self._sessions.values():
            if (path := session.updates.path_of(name)) is not None:
                return session, path
        return None

    def _options(self, params: dict[str, Any]) -> Options:
        """The options of a session from a request. The client's folder is not trusted by being opened."""
        cwd = Path(_text(params, "cwd"))
        more = params.get("additionalDirectories") or []
        listed = isinstance(more, list) and all(isinstance(one, str) and Path(one).is_absolute() for one in more)
        if not cwd.is_absolute() or not listed:
            raise RpcError(INVALID_PARAMS, "cwd and additionalDirectories: paths must be absolute.")
        servers = _servers(params.get("mcpServers") or [])
        return msgspec.structs.replace(
            self._given,
            cwd=cwd,
            attended=True,
            add_dirs=(*self._given.add_dirs, *map(Path, more)),
            mcp_config=(*self._given.mcp_config, *([json.dumps({"mcpServers": servers})] if servers else [])),
        )


def _servers(given: Any) -> dict[str, Any]:
    """The client's MCP servers as entries of mcp.json. Raises RpcError."""
    found: dict[str, Any] = {}
    for one in given if isinstance(given, list) else [{}]:
        match one:
            case {"name": str(name), "command": str(command)} if isinstance(one.get("args") or [], list):
                found[name] = {"command": command, "args": list(one.get("args") or []), "env": _pairs(one.get("env"))}
            case {"name": str(name), "type": "http", "url": str(url)}:
                found[name] = {"type": "http", "url": url, "headers": _pairs(one.get("headers"))}
            case _:
                raise RpcError(
                    INVALID_PARAMS, "mcpServers: each needs a name, and a command or, with the type http, a url."
                )
    return found


def _pairs(given: Any) -> dict[str, str]:
    rows = given if isinstance(given, list) else []
    return {
        str(row["name"]): str(row["value"]) for row in rows if isinstance(row, dict) and {"name", "value"} <= row.keys()
    }


def _text(params: dict[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise RpcError(INVALID_PARAMS, f"{name}: expected text.")
    return value


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
