"""A connection to a running language server (LSP 3.17). Whatever the server does, a question has an answer in time: the
problems of a file, or why they are not known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.jsonrpc.connection import METHOD_NOT_FOUND, ConnectionEnded, Dialect, RpcConnection, RpcError
from friday_cli.jsonrpc.framing import ContentLength, FramingError
from friday_cli.workspace.process.server import ServerProcess

from .find import FoundServer
from .protocol import Abilities, Diagnostic, DiagnosticReport, path_of

LONGEST = 16 * 1024 * 1024
"""Bytes of one message."""
MOST_WAITING = 32 * 1024 * 1024
"""Bytes that may wait for a server that does not read."""
CLOSE_S = 0.3
"""Seconds that a server has to end by itself."""
QUIET_S = 0.3
"""Seconds without a further push after which one without a version counts."""
LOAD_S = 10.0
"""Seconds after its start in which what a server pushes does not count while it says that it is at work, on the project."""
BEGIN_S = 3.0
"""Seconds in which a server begins to read the project that does so by itself."""
_ASK_AGAIN = (-32801, -32802)
"""ContentModified and ServerCancelled: the server wants to be asked again."""


class NotKnown(Exception):
    """The server gave no answer; the text says why."""


class NoAnswer(NotKnown):
    """It did not answer in time."""


class _Channel:
    """The pipes of a server. One that does not read what it is sent is `full` at last."""

    def __init__(self, stream: ServerProcess, full: Callable[[], None]) -> None:
        self._stream, self._full = stream, full

    async def read(self) -> bytes:
        return await self._stream.read()

    def write(self, data: bytes) -> None:
        if self._stream.unsent + len(data) > MOST_WAITING:
            self._full()
            raise OSError("the server does not read its input")
        self._stream.write(data)


class _OpenDocument:
    """A document that the server has: its version, and what it pushed of that (None: nothing yet)."""

    def __init__(self) -> None:
        self.version = 0
        self.pushed: object = None
        self.busy = False
        """Whether clangd says that it is not done with it: what it pushes meanwhile can be about older headers."""
        self.news = asyncio.Event()
        """Set when it pushed something, and when nothing more will come that way."""


class LanguageServer:
    """Make one with `start`. Documents are absolute paths."""

    def __init__(self, stream: ServerProcess, found: FoundServer) -> None:
        self._stream, self._found = stream, found
        self._rpc = RpcConnection(
            _Channel(stream, lambda: self._fail("it does not read what it is sent")),
            ContentLength(LONGEST),
            Dialect("$/cancelRequest", masked=False),  # it must see the file as it is
            handle=self._handle,
            told=self._told,
            report_defect=lambda error: type(error).__name__,
        )
        self._documents: dict[Path, _OpenDocument] = {}
        self._pulls = False
        """Whether it offers to be asked for the problems of a document, which some servers do a while after their start."""
        self._versioned = False
        """Whether it says to which version of a document a push belongs."""
        self.encoding = "utf-16"
        """What columns count."""
        self.abilities: Mapping[str, object] = {}
        """What it said at its start that it can do."""
        self.version = ""
        """What it said at its start."""
        self.ended = ""
        """Why it answers no longer, empty while it does."""
        self._loaded_at = time.monotonic() + LOAD_S
        self.progress: set[str] = set()
        """What it says that it is still at work on, in the whole project."""
        self._at_work = asyncio.Event()
        """Set once it said that it is at work on the project."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._read_project = False
        self._serving = asyncio.create_task(self._serve())

    @classmethod
    async def start(cls, stream: ServerProcess, found: FoundServer) -> LanguageServer:
        """The server behind `stream` after its handshake. Raises NotKnown after at most `start_ms` of its entry; the process has
        ended then."""
        server, entry = cls(stream, found), found.entry
        try:
            reply = await server.ask("initialize", _hello(found.root, entry.options), entry.start_ms / 1000, Abilities)
        except BaseException:
            await server.close()
            raise
        server.abilities = reply.capabilities
        server.version = sanitize_line((reply.serverInfo and reply.serverInfo.version) or "", 60)
        server._pulls = reply.capabilities.get("diagnosticProvider") not in (None, False)
        if reply.capabilities.get("positionEncoding") == "utf-8":
            server.encoding = "utf-8"
        server._rpc.notify("initialized", {})
        return server

    async def read_project(self, path: Path, wait_s: float) -> None:
        """Wait until it knows the project of an open document: some know only the open files until they were asked for problems, and
        answer all the same. Raises NotKnown."""
        if not self._read_project:
            await self.problems(path, wait_s)
            if not self._pulls:  # clangd says only a while after its start that it reads all files
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._at_work.wait(), BEGIN_S)
            self._read_project = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), wait_s)

    def write(self, path: Path, text: str) -> None:
        """Open a document with this text, or change it to this text."""
        known = self._documents.get(path)
        document = self._documents[path] = _OpenDocument()
        document.version = known.version + 1 if known is not None else 1
        item: dict[str, object] = {"uri": path.as_uri(), "version": document.version}
        if known is None:
            item |= {"languageId": self._found.entry.languages[path.suffix], "text": text}
            self._rpc.notify("textDocument/didOpen", {"textDocument": item})
        else:
            self._rpc.notify("textDocument/didChange", {"textDocument": item, "contentChanges": [{"text": text}]})

    def close_documents(self) -> None:
        """Close all documents."""
        for path in self._documents:
            self._rpc.notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})
        self._documents.clear()

    def changed_on_disk(self, paths: Mapping[Path, int]) -> None:
        """Tell of files that were made (1), changed (2) or deleted (3)."""
        changes = [{"uri": path.as_uri(), "type": kind} for path, kind in paths.items()]
        self._rpc.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    async def problems(self, path: Path, wait_s: float) -> list[Diagnostic]:
        """The diagnostics of an open document as it was last written. Raises NotKnown after at most `wait_s` seconds."""
        async with self._in_time(wait_s):
            document = self._documents[path]
            while not self._pulls:  # some push an empty list before they have looked
                try:
                    await asyncio.wait_for(
                        document.news.wait(), None if document.pushed is None or document.busy else QUIET_S
                    )
                except TimeoutError:
                    if self.progress and time.monotonic() < self._loaded_at:
                        continue
                    found: list[Diagnostic] = _read(document.pushed, list[Diagnostic])
                    return found
                if self.ended:
                    raise NotKnown(self.ended)
                document.news.clear()
            asked = {"textDocument": {"uri": path.as_uri()}}
            report: DiagnosticReport = await self._ask("textDocument/diagnostic", asked, DiagnosticReport)
            return report.items

    async def ask(self, method: str, params: Mapping[str, object], wait_s: float, kind: Any) -> Any:
        """The answer to a request, of the type `kind`. Raises NotKnown after at most `wait_s` seconds."""
        async with self._in_time(wait_s):
            return await self._ask(method, params, kind)

    async def _ask(self, method: str, params: Mapping[str, object], kind: Any) -> Any:
        while True:
            try:
                return _read(await self._rpc.request(method, dict(params)), kind)
            except RpcError as error:
                if error.code not in _ASK_AGAIN:
                    raise NotKnown(f"it answered with an error: {sanitize_line(error.message, 200)}") from None
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def _in_time(self, wait_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(wait_s):
                yield
        except TimeoutError:
            raise NoAnswer(f"no answer within {wait_s:.3g} s") from None
        except ConnectionEnded:
            raise NotKnown(self.ended or "its process has ended") from None

    async def close(self, reason: str = "it was ended") -> None:
        """End the process. Questions that wait raise NotKnown with the reason."""
        if not self.ended:
            self._end(reason)
            with suppress(RpcError, ConnectionEnded, TimeoutError):
                await asyncio.wait_for(self._rpc.request("shutdown", {}), CLOSE_S)
            self._rpc.notify("exit", {})
        try:
            await self._stream.end(CLOSE_S)
        finally:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    async def _serve(self) -> None:
        reason = "its process has ended"
        try:
            await self._rpc.serve()
        except FramingError as error:
            reason = f"what it sends cannot be read: {error}"
        except OSError as error:
            reason = f"its output cannot be read: {error.strerror}"
        finally:
            self._end(reason)

    def _fail(self, reason: str) -> None:
        self._end(reason)
        self._serving.cancel()

    def _end(self, reason: str) -> None:
        self.ended = self.ended or reason
        self._tell_documents()

    def _tell_documents(self) -> None:
        for document in self._documents.values():
            document.news.set()

    def _told(self, method: str, params: dict[str, Any]) -> None:
        if method == "$/progress" and isinstance(value := params.get("value"), dict):
            token = str(params.get("token"))
            (self.progress.discard if value.get("kind") == "end" else self.progress.add)(token)
            (self._idle.clear if self.progress else self._idle.set)()
            self._at_work.set()
        document = self._documents.get(path_of(params.get("uri")) or Path())
        if document is not None and method == "textDocument/clangd.fileStatus":
            document.busy = params.get("state") != "idle"
            document.news.set()
        if document is not None and method == "textDocument/publishDiagnostics":
            version = params.get("version")
            self._versioned = self._versioned or version is not None
            if version == document.version or not self._versioned:
                # else it is of an older text, or of a document that was closed
                document.pushed = params.get("diagnostics")
                document.news.set()

    async def _handle(self, method: str, params: dict[str, Any]) -> Any:
        """Requests of the server. It may ask for its settings; it may change nothing."""
        match method:
            case "workspace/configuration":
                items = params.get("items")
                settings = self._found.settings
                return [_section(settings, item) for item in items] if isinstance(items, list) else []
            case "workspace/workspaceFolders":
                return _folders(self._found.root)
            case "client/registerCapability":
                offers = params.get("registrations")
                for one in offers if isinstance(offers, list) else ():
                    if isinstance(one, dict) and one.get("method") == "textDocument/diagnostic":
                        self._pulls = True
                        self._tell_documents()
                return None
            case "client/unregisterCapability" | "window/workDoneProgress/create" | "workspace/diagnostic/refresh":
                return None  # an error would end some servers
            case "workspace/applyEdit":
                return {"applied": False, "failureReason": "Friday does not change files for a server."}
            case "window/showDocument":
                return {"success": False}
        raise RpcError(METHOD_NOT_FOUND, f"{method} is not offered.")


def _read(answer: object, kind: Any) -> Any:
    """What a server said, as `kind`. Raises NotKnown."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise NotKnown(f"its answer cannot be read: {sanitize_line(str(error), 200)}") from None


def _section(settings: Mapping[str, Any], item: Any) -> Any:
    section = item.get("section") if isinstance(item, dict) else None
    found: Any = settings
    for name in section.split(".") if isinstance(section, str) and section else ():
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _folders(root: Path) -> list[dict[str, str]]:
    return [{"uri": root.as_uri(), "name": root.name}]


def _hello(root: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """`processId` is null: in a namespace of its own a server would not find us and end itself."""
    return {
        "processId": None,
        "clientInfo": {"name": "friday"},
        "rootUri": root.as_uri(),
        **({"initializationOptions": options} if options else {}),
        "workspaceFolders": _folders(root),
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
