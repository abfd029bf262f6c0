"""A connection to a running language server (LSP 3.17). Whatever the server does, a question has an answer in time: the
problems of a file, or why they are not known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.jsonrpc.connection import METHOD_NOT_FOUND, ConnectionEnded, RpcConnection, RpcError
from friday_cli.jsonrpc.framing import ContentLength, FramingError

LONGEST = 16 * 1024 * 1024
"""Bytes of one message."""
MOST_WAITING = 32 * 1024 * 1024
"""Bytes that may wait for a server that does not read."""
CLOSE_S = 0.3
"""Seconds that a server has to end by itself."""
QUIET_S = 0.3
"""Seconds without a further push after which one without a version counts."""
_ASK_AGAIN = (-32801, -32802)
"""ContentModified and ServerCancelled: the server wants to be asked again."""


class ServerPipe(Protocol):
    """The process of a server, as `workspace.process.server.ServerProcess`."""

    async def read(self) -> bytes:
        """The next bytes, b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send bytes. Raises OSError."""

    async def end(self, close_s: float) -> None:
        """End the process and all that it started, after at most `close_s` seconds."""


class NotKnown(Exception):
    """The server gave no answer; the text says why."""


class NoAnswer(NotKnown):
    """It did not answer in time."""


class _Channel:
    """Writing without waiting, for a connection whose other side may read slowly."""

    def __init__(self, stream: ServerPipe) -> None:
        self._stream = stream
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0

    async def read(self) -> bytes:
        return await self._stream.read()

    def write(self, data: bytes) -> None:
        self._waiting += len(data)
        if self._waiting > MOST_WAITING:
            raise OSError("the server does not read its input")
        self._queue.put_nowait(data)

    async def send(self) -> None:
        while True:
            data = await self._queue.get()
            await self._stream.write(data)
            self._waiting -= len(data)


class _Pushed:
    """What the server pushed last about one document."""

    def __init__(self) -> None:
        self.items: Any = None
        self.any = False
        self.arrived = asyncio.Event()


class LanguageServer:
    """Make one with `start`. `root` is an absolute folder; documents are absolute paths in it."""

    def __init__(
        self, stream: ServerPipe, root: Path, settings: Mapping[str, Any], report: Callable[[str], None]
    ) -> None:
        self._stream, self._root, self._settings = stream, root, settings
        self._channel = _Channel(stream)
        self._rpc = RpcConnection(
            self._channel,
            ContentLength(LONGEST),
            handle=self._handle,
            told=self._told,
            report_defect=lambda error: type(error).__name__,
            cancel=("$/cancelRequest", "id"),
            masked=False,  # it must see the file as it is
        )
        self._report = report
        self._versions: dict[Path, int] = {}
        self._pushed: dict[str, _Pushed] = {}
        self._pulls = asyncio.Event()
        """Set once it offers to be asked for the problems of a document, which some servers do a while after their start."""
        self.encoding = "utf-16"
        """What columns count."""
        self.abilities: dict[str, Any] = {}
        """What it said at its start that it can do."""
        self.version = ""
        """What it said at its start."""
        self._progress: set[str] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._read_project = False
        self._ended = ""
        self._over = asyncio.Event()
        self._tasks = [asyncio.create_task(self._serve()), asyncio.create_task(self._send())]

    @classmethod
    async def start(
        cls,
        stream: ServerPipe,
        root: Path,
        *,
        settings: Mapping[str, Any],
        options: Mapping[str, Any],
        report: Callable[[str], None],
        start_s: float,
    ) -> LanguageServer:
        """The server behind `stream` after its handshake. `settings` by section; `options` are those of its start; `report` gets the
        reason of an unexpected end. Raises NotKnown after at most `start_s` seconds; the process has ended then."""
        server = cls(stream, root, settings, report)
        try:
            reply = await server.ask("initialize", _hello(root, options), start_s)
        except BaseException:
            await server.close()
            raise
        server.abilities, about = _object(reply, "capabilities"), _object(reply, "serverInfo")
        server.version = sanitize_line(str(about.get("version", "")), 60)
        if server.abilities.get("diagnosticProvider") not in (None, False):
            server._pulls.set()
        if server.abilities.get("positionEncoding") == "utf-8":
            server.encoding = "utf-8"
        server._rpc.notify("initialized", {})
        return server

    @property
    def ended(self) -> str:
        """Why it answers no longer, empty while it does."""
        return self._ended

    @property
    def indexing(self) -> bool:
        """Whether it says that it is still at work on the whole project."""
        return bool(self._progress)

    async def read_project(self, path: Path, wait_s: float) -> None:
        """Wait until it knows the project of an open document: some know only the open files until they were asked for problems, and
        answer all the same. Raises NotKnown."""
        if not self._read_project:
            await self.problems(path, wait_s)
            self._read_project = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), wait_s)

    def write(self, path: Path, text: str, language: str) -> None:
        """Open a document with this text, or change it to this text."""
        uri, version = path.as_uri(), self._versions.get(path, 0) + 1
        self._versions[path] = version
        self._pushed[uri] = _Pushed()
        if version == 1:
            item = {"uri": uri, "languageId": language, "version": version, "text": text}
            self._rpc.notify("textDocument/didOpen", {"textDocument": item})
        else:
            changed = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
            self._rpc.notify("textDocument/didChange", changed)

    def forget(self, path: Path) -> None:
        """Close a document."""
        if self._versions.pop(path, None) is not None:
            self._pushed.pop(path.as_uri(), None)
            self._rpc.notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def changed_on_disk(self, paths: Mapping[Path, int]) -> None:
        """Tell of files that were made (1), changed (2) or deleted (3)."""
        changes = [{"uri": path.as_uri(), "type": kind} for path, kind in paths.items()]
        self._rpc.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    async def problems(self, path: Path, wait_s: float) -> Any:
        """The diagnostics of an open document as it was last written. Raises NotKnown after at most `wait_s` seconds."""
        until = asyncio.get_running_loop().time() + wait_s
        pushed = None if self._pulls.is_set() else await self._in_time(self._next_push(path), wait_s)
        if pushed is not None:
            items = pushed.items
        else:
            left = max(0.0, until - asyncio.get_running_loop().time())
            reply = await self.ask("textDocument/diagnostic", {"textDocument": {"uri": path.as_uri()}}, left)
            items = reply.get("items") if isinstance(reply, dict) else None
        if not isinstance(items, list):
            raise NotKnown("it gave an answer that is not a list of problems")
        return items

    async def close(self, reason: str = "it was ended") -> None:
        """End the process. Questions that wait raise NotKnown with the reason."""
        if not self._ended:
            self._ended = reason
            self._over.set()
            with suppress(RpcError, ConnectionEnded, TimeoutError):
                await asyncio.wait_for(self._rpc.request("shutdown", {}), CLOSE_S)
            self._rpc.notify("exit", {})
        try:
            await self._stream.end(CLOSE_S)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ask(self, method: str, params: dict[str, Any], wait_s: float) -> Any:
        """The answer to a request. Raises NotKnown after at most `wait_s` seconds."""

        async def ask() -> Any:
            while True:
                try:
                    return await self._rpc.request(method, params)
                except RpcError as error:
                    if error.code not in _ASK_AGAIN:
                        raise NotKnown(f"it answered with an error: {sanitize_line(error.message, 200)}") from None
                    await asyncio.sleep(0.05)

        return await self._in_time(ask(), wait_s)

    async def _in_time(self, answer: Any, wait_s: float) -> Any:
        """The answer, unless the time is over or the server ends first."""
        work, over = asyncio.ensure_future(answer), asyncio.create_task(self._over.wait())
        try:
            done, _ = await asyncio.wait((work, over), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                return work.result()
            if self._ended:
                raise NotKnown(self._ended)
            raise NoAnswer(f"no answer within {wait_s:.3g} s")
        except ConnectionEnded:
            raise NotKnown(self._ended or "it has ended") from None
        finally:
            work.cancel()
            over.cancel()
            await asyncio.gather(work, over, return_exceptions=True)

    async def _next_push(self, path: Path) -> _Pushed | None:
        """What it pushed of the document and did not correct for a moment; None if it offers to be asked instead."""
        pushed = self._pushed.get(path.as_uri())
        if pushed is None:
            raise NotKnown("the document is not open")
        offered = asyncio.create_task(self._pulls.wait())
        arrived = offered
        try:
            quiet = False
            while not (quiet or self._pulls.is_set()):  # some push an empty list before they have looked
                arrived = asyncio.create_task(pushed.arrived.wait())
                limit = QUIET_S if pushed.any else None
                done, _ = await asyncio.wait((arrived, offered), timeout=limit, return_when=asyncio.FIRST_COMPLETED)
                arrived.cancel()
                quiet = not done
                pushed.arrived.clear()
            return None if self._pulls.is_set() else pushed
        finally:
            offered.cancel()
            arrived.cancel()

    async def _serve(self) -> None:
        reason = "its process has ended"
        try:
            await self._rpc.serve()
        except FramingError as error:
            reason = f"what it sends cannot be read: {error}"
        except OSError as error:
            reason = f"its output cannot be read: {error.strerror}"
        self._fail(reason)

    async def _send(self) -> None:
        try:
            await self._channel.send()
        except OSError:
            self._fail("it does not read what it is sent")

    def _fail(self, reason: str) -> None:
        if not self._ended:
            self._ended = reason
            self._report(reason)
        self._over.set()

    def _told(self, method: str, params: dict[str, Any]) -> None:
        if method == "$/progress" and isinstance(value := params.get("value"), dict):
            token = str(params.get("token"))
            (self._progress.discard if value.get("kind") == "end" else self._progress.add)(token)
            (self._idle.clear if self._progress else self._idle.set)()
        if method != "textDocument/publishDiagnostics":
            return
        pushed, version = self._pushed.get(str(params.get("uri"))), params.get("version")
        if pushed is None:
            return
        current = next((v for path, v in self._versions.items() if path.as_uri() == params["uri"]), None)
        if type(version) is int and version != current:  # of an older text
            return
        pushed.items, pushed.any = params.get("diagnostics"), True
        pushed.arrived.set()

    async def _handle(self, method: str, params: dict[str, Any]) -> Any:
        """Requests of the server. It may ask for its settings; it may change nothing."""
        match method:
            case "workspace/configuration":
                items = params.get("items")
                return [_section(self._settings, item) for item in items] if isinstance(items, list) else []
            case "workspace/workspaceFolders":
                return [{"uri": self._root.as_uri(), "name": self._root.name}]
            case "client/registerCapability":
                offers = params.get("registrations")
                for one in offers if isinstance(offers, list) else ():
                    if isinstance(one, dict) and one.get("method") == "textDocument/diagnostic":
                        self._pulls.set()
                return None
            case "client/unregisterCapability" | "window/workDoneProgress/create" | "workspace/diagnostic/refresh":
                return None  # an error would end some servers
            case "workspace/applyEdit":
                return {"applied": False, "failureReason": "Friday does not change files for a server."}
            case "window/showDocument":
                return {"success": False}
        raise RpcError(METHOD_NOT_FOUND, f"{method} is not offered.")


def _object(data: Any, key: str) -> dict[str, Any]:
    found = data.get(key) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def _section(settings: Mapping[str, Any], item: Any) -> Any:
    section = item.get("section") if isinstance(item, dict) else None
    found: Any = settings
    for name in section.split(".") if isinstance(section, str) and section else ():
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _hello(root: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """`processId` is null: in a namespace of its own a server would not find us and end itself."""
    return {
        "processId": None,
        "clientInfo": {"name": "friday"},
        "rootUri": root.as_uri(),
        **({"initializationOptions": options} if options else {}),
        "workspaceFolders": [{"uri": root.as_uri(), "name": root.name}],
        "capabilities": {
            "window": {"workDoneProgress": True},
            "general": {"positionEncodings": ["utf-8", "utf-16"]},
            "workspace": {
                "configuration": True,
                "workspaceEdit": {"documentChanges": True},
                "workspaceFolders": True,
                "didChangeWatchedFiles": {"dynamicRegistration": True},
            },
            "textDocument": {
                "synchronization": {},
                "definition": {},
                "references": {},
                "hover": {"contentFormat": ["plaintext"]},
                "callHierarchy": {},
                "rename": {},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
                "publishDiagnostics": {"versionSupport": True},
                "diagnostic": {"dynamicRegistration": True},
            },
        },
    }
