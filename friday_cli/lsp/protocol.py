"""What Friday reads of the Language Server Protocol (3.17). What else a server sends is left out; what cannot be read is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

from msgspec import Meta, Struct, field


class Position(Struct, frozen=True, gc=False):
    """A place in a text: its line and its column, from 0, as the server counts columns."""

    line: Annotated[int, Meta(ge=0)]
    character: Annotated[int, Meta(ge=0)]


class TextSpan(Struct, frozen=True, gc=False):
    """`Range` of the protocol."""

    start: Position
    end: Position


class Diagnostic(Struct, frozen=True, gc=False):
    """A problem. Severity 1 is an error, 2 a warning."""

    message: str
    range: TextSpan
    severity: int | None = None
    code: int | str | None = None


class DiagnosticReport(Struct, frozen=True):
    """The answer to `textDocument/diagnostic`."""

    items: list[Diagnostic]


class FilePlace(Struct, frozen=True):
    """A `Location`, a `LocationLink`, or an item of calls."""

    uri: str = ""
    range: TextSpan | None = None
    targetUri: str = ""
    targetSelectionRange: TextSpan | None = None


class SymbolInfo(Struct, frozen=True):
    """A `DocumentSymbol`, which has children, or a `SymbolInformation`, which has the name of its container."""

    name: str
    kind: int = 0
    selectionRange: TextSpan | None = None
    location: FilePlace | None = None
    containerName: str | None = None
    children: list[SymbolInfo] | None = None


class IncomingCall(Struct, frozen=True):
    """One caller, and where it calls."""

    caller: FilePlace = field(name="from")
    fromRanges: list[TextSpan]


class TextEdit(Struct, frozen=True):
    """A change of one place of a text."""

    range: TextSpan
    newText: str


class FileEdits(Struct, frozen=True):
    """A `TextDocumentEdit`; one with a `kind` makes, moves or deletes a file."""

    kind: str = ""
    textDocument: FilePlace = FilePlace()
    edits: list[TextEdit] = []


class WorkspaceEdit(Struct, frozen=True):
    """The answer to `textDocument/rename`."""

    changes: dict[str, list[TextEdit]] | None = None
    documentChanges: list[FileEdits] | None = None


class ServerInfo(Struct, frozen=True):
    """What a server says of itself."""

    version: str | None = None


class Abilities(Struct, frozen=True):
    """The answer to `initialize`."""

    capabilities: dict[str, object]
    serverInfo: ServerInfo | None = None


def path_of(uri: object) -> Path | None:
    """The file of an address; None for another one."""
    parts = urlsplit(uri) if isinstance(uri, str) else None
    return Path(unquote(parts.path)) if parts is not None and parts.scheme == "file" and parts.path else None
