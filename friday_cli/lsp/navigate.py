"""Questions about a name in a file: where it is defined, who uses it, what its type is, and what a rename would change."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.code_lines import code_lines

from .connection import LanguageServer
from .pool import RunningServer
from .problems import WARNING, read_problems
from .protocol import FilePlace, IncomingCall, Position, SymbolInfo, TextEdit, WorkspaceEdit, path_of

_KINDS = {
    2: "module", 3: "namespace", 5: "class", 6: "method", 7: "property", 8: "field", 9: "constructor", 10: "enum", 11: "interface",
    12: "function", 13: "variable", 14: "constant", 22: "member", 23: "struct", 26: "type parameter",
}  # fmt: skip
"""SymbolKind of the protocol."""


class CodePlace(NamedTuple):
    """A line of a file, from 1."""

    path: Path
    line: int


class CodeSymbol(NamedTuple):
    """What a file defines. `line` and `character` are those of its name as the server counts them; `around` what it is in."""

    name: str
    kind: str
    line: int
    character: int
    around: tuple[str, ...]


class CodeQuestions:
    """Asks one server about an open document, whose text is `text`. Raises NotKnown after `wait_s` seconds."""

    def __init__(self, one: RunningServer, server: LanguageServer, path: Path, text: str, wait_s: float) -> None:
        self.one, self.server, self._path, self._text, self._wait_s = one, server, path, text, wait_s

    async def problems(self) -> list[str]:
        """The errors and warnings of the file, a line each."""
        items = await self.server.problems(self._path, self._wait_s)
        found = await asyncio.to_thread(read_problems, {self.one.label(self._path): items}, WARNING)
        return [problem.text + (" (warning)" if problem.severity == WARNING else "") for problem in found]

    async def symbols(self) -> list[CodeSymbol]:
        """What the file defines, in order."""
        reply = await self._ask("documentSymbol", {}, list[SymbolInfo] | None)
        return list(_symbols(reply or ()))

    async def places(
        self, asked: Literal["definition", "references", "calls"], name: str, line: int
    ) -> list[CodePlace]:
        """The definition of a name, its uses without that, or what calls it. Raises ToolError if the name is not there, or not clear."""
        at = {"position": await self._position(name, line)}
        if asked != "calls":
            more = {"context": {"includeDeclaration": False}} if asked == "references" else {}
            found = await self._ask(asked, {**at, **more}, list[FilePlace] | FilePlace | None)
            return _places([found] if isinstance(found, FilePlace) else found or ())
        places: list[FilePlace] = []
        for item in await self._ask("prepareCallHierarchy", at, list[dict[str, Any]] | None) or ():
            calls: list[IncomingCall] | None = await self.server.ask(
                "callHierarchy/incomingCalls", {"item": item}, self._wait_s, list[IncomingCall] | None
            )
            places += [FilePlace(call.caller.uri, one) for call in calls or () for one in call.fromRanges]
        return _places(places)

    async def hover(self, name: str, line: int) -> str:
        """What the server says of a name, as text."""
        at = {"position": await self._position(name, line)}
        reply = await self._ask("hover", at, dict[str, Any] | None)
        return _text_of((reply or {}).get("contents"))

    async def rename(self, name: str, line: int, new: str) -> dict[Path, list[TextEdit]]:
        """The edits of a rename by file. Raises ToolError if it would do more than edit files, or could miss some."""
        if self.server.progress:
            text = f"{self.one.name} is still reading the project; a rename could miss files."
            raise ToolError(text, hint="Try again.")
        asked = {"position": await self._position(name, line), "newName": new}
        reply: WorkspaceEdit | None = await self._ask("rename", asked, WorkspaceEdit | None)
        if reply is None:
            raise ToolError(f"{name} cannot be renamed here.")
        parts = reply.documentChanges or ()
        if any(part.kind for part in parts):
            raise ToolError("The rename would also move files. Nothing was changed.")
        edits: dict[Path, list[TextEdit]] = {}
        for uri, wanted in [*(reply.changes or {}).items(), *((part.textDocument.uri, part.edits) for part in parts)]:
            path = path_of(uri)
            if path is None:
                raise ToolError("The rename would change something that is not a file. Nothing was changed.")
            edits.setdefault(path, []).extend(wanted)
        return edits

    async def _ask(self, method: str, params: Mapping[str, object], kind: Any) -> Any:
        """The answer to a request `textDocument/...`. Raises ToolError if the server does not offer it."""
        offer = {"prepareCallHierarchy": "callHierarchy"}.get(method, method)
        if self.server.abilities.get(f"{offer}Provider") in (None, False):
            raise ToolError(f"The language server does not offer {offer}.", hint="Use grep.")
        about = {"textDocument": {"uri": self._path.as_uri()}, **params}
        return await self.server.ask(f"textDocument/{method}", about, self._wait_s, kind)

    async def _position(self, name: str, line: int) -> dict[str, int]:
        """Where a name such as `Receipt.lines` stands; `line` (from 1) says which, 0 for the only one."""
        *around, last = name.split(".")
        lines = [line.rstrip("\r\n") for line in code_lines(self._text)]
        if line:
            column = self._column(last, lines[line - 1]) if line <= len(lines) else None
            if column is None:
                raise ToolError(f"Line {line} has no {last}.", hint="Read the file again.")
            return {"line": line - 1, "character": column}
        try:
            symbols = await self.symbols()
        except ToolError:
            symbols = []
        found = [
            one
            for one in symbols
            if one.name.partition("(")[0] == last and (not around or list(one.around[-len(around) :]) == around)
        ]
        if not around:
            outer = min((len(one.around) for one in found), default=0)
            found = [one for one in found if len(one.around) == outer]
        if len({one.line for one in found}) > 1:
            where = ", ".join(f"{'.'.join((*one.around, one.name))} in line {one.line + 1}" for one in found[:8])
            raise ToolError(f"{name} occurs more than once: {where}.", hint="Give its line.")
        if found:
            return {"line": found[0].line, "character": found[0].character}
        for number, text in enumerate(lines if not around else ()):
            if (column := self._column(last, text)) is not None:
                return {"line": number, "character": column}
        raise ToolError(f"There is no {name} in this file.", hint="`symbols` lists what it defines.")

    def _column(self, name: str, line: str) -> int | None:
        """Where a name stands in a line, as the server counts it; None if it does not."""
        found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line)
        if found is None:
            return None
        before = line[: found.start()]
        if self.server.encoding == "utf-8":
            return len(before.encode("utf-8", "replace"))
        return len(before.encode("utf-16-le", "replace")) // 2


def edited(text: str, edits: Sequence[TextEdit], encoding: str) -> str:
    """`text` after the edits of a server. Raises ToolError for edits that overlap or are outside."""
    lines = code_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    code, unit = ("utf-8", 1) if encoding == "utf-8" else ("utf-16-le", 2)

    def offset(position: Position) -> int:
        row = lines[position.line] if position.line < len(lines) else ""
        data, size = row.encode(code), unit * position.character
        try:
            if size > len(data):
                raise ValueError
            return starts[position.line] + len(data[:size].decode(code))
        except (ValueError, IndexError):
            raise ToolError("The server wants to change a place that does not exist. Nothing was changed.") from None

    spans = {(offset(one.range.start), offset(one.range.end), one.newText) for one in edits}
    out, at = [], 0
    for start, end, new in sorted(spans):
        if start < at or end < start:
            raise ToolError("The server's edits overlap. Nothing was changed.")
        out += [text[at:start], new]
        at = end
    return "".join((*out, text[at:]))


def _symbols(items: Sequence[SymbolInfo], around: tuple[str, ...] = ()) -> Iterator[CodeSymbol]:
    """Both forms: with children, and flat with the name of the container."""
    for item in items if len(around) <= 20 else ():
        span = item.location.range if item.location is not None else item.selectionRange
        if span is None:
            continue
        above = around or ((item.containerName,) if item.containerName else ())
        start, kind = span.start, _KINDS.get(item.kind, "")
        yield CodeSymbol(item.name, kind, start.line, start.character, above)
        yield from _symbols(item.children or (), (*above, item.name))


def _places(items: Sequence[FilePlace]) -> list[CodePlace]:
    found = ((path_of(item.uri or item.targetUri), item.range or item.targetSelectionRange) for item in items)
    return sorted(
        {CodePlace(path, span.start.line + 1) for path, span in found if path is not None and span is not None}
    )


def _text_of(contents: Any) -> str:
    if isinstance(contents, list):
        return "\n".join(filter(None, map(_text_of, contents)))
    if isinstance(contents, dict):
        contents = contents.get("value")
    return contents if isinstance(contents, str) else ""
