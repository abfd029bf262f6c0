"""Questions about a name in a file: where it is defined, who uses it, what its type is, and what a rename would change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.text.code_lines import code_lines

from .connection import LanguageServer

Asked = Literal["definition", "references", "calls", "hover"]
_OFFERS = {
    "definition": "definitionProvider", "references": "referencesProvider", "calls": "callHierarchyProvider",
    "hover": "hoverProvider", "symbols": "documentSymbolProvider", "rename": "renameProvider",
}  # fmt: skip
_KINDS = {
    2: "module", 3: "namespace", 5: "class", 6: "method", 7: "property", 8: "field", 9: "constructor", 10: "enum", 11: "interface",
    12: "function", 13: "variable", 14: "constant", 22: "member", 23: "struct", 26: "type parameter",
}  # fmt: skip
"""SymbolKind of the protocol."""
MOST_SYMBOLS = 2_000


class CodePlace(NamedTuple):
    """A line of a file, from 1."""

    path: Path
    line: int


class CodeSymbol(NamedTuple):
    """What a file defines. `line` and `character` are those of its name as the server counts them; `depth`: how many are around it."""

    name: str
    kind: str
    line: int
    character: int
    depth: int
    around: tuple[str, ...]


class CodeQuestions:
    """Asks one server about an open document, whose text is `text`. Raises NotKnown after `wait_s` seconds."""

    def __init__(self, server: LanguageServer, path: Path, text: str, wait_s: float) -> None:
        self._server, self._path, self._text, self._wait_s = server, path, text, wait_s

    async def symbols(self) -> list[CodeSymbol]:
        """What the file defines, in order."""
        reply = await self._ask("symbols", "textDocument/documentSymbol", {})
        return list(_symbols(reply))[:MOST_SYMBOLS]

    async def places(
        self, asked: Literal["definition", "references", "calls"], name: str, line: int
    ) -> list[CodePlace]:
        """The definition of a name, its uses without that, or what calls it. Raises ToolError if the name is not there, or not clear."""
        at = await self._position(name, line)
        if asked == "calls":
            items = await self._ask("calls", "textDocument/prepareCallHierarchy", {"position": at})
            found: list[Any] = []
            for item in items if isinstance(items, list) else ():
                calls = await self._server.ask("callHierarchy/incomingCalls", {"item": item}, self._wait_s)
                for call in calls if isinstance(calls, list) else ():
                    uri = (
                        call["from"].get("uri")
                        if isinstance(call, dict) and isinstance(call.get("from"), dict)
                        else None
                    )
                    ranges = call.get("fromRanges")
                    found += [{"uri": uri, "range": one} for one in (ranges if isinstance(ranges, list) else ())]
            return _places(found)
        more = {"context": {"includeDeclaration": False}} if asked == "references" else {}
        return _places(await self._ask(asked, f"textDocument/{asked}", {"position": at, **more}))

    async def hover(self, name: str, line: int) -> str:
        """What the server says of a name, as text."""
        reply = await self._ask("hover", "textDocument/hover", {"position": await self._position(name, line)})
        return _text_of(reply.get("contents")) if isinstance(reply, dict) else ""

    async def rename(self, name: str, line: int, new: str) -> dict[Path, list[Any]]:
        """The edits of a rename by file. Raises ToolError if it would do more than edit files."""
        at = await self._position(name, line)
        reply = await self._ask("rename", "textDocument/rename", {"position": at, "newName": new})
        edits: dict[Path, list[Any]] = {}
        if not isinstance(reply, dict):
            raise ToolError(f"{name} cannot be renamed here.")
        changes = list((reply.get("changes") or {}).items())
        for part in reply.get("documentChanges") or ():
            if not isinstance(part, dict) or "kind" in part:
                raise ToolError("The rename would also move files. Nothing was changed.")
            changes.append((part.get("textDocument", {}).get("uri"), part.get("edits")))
        for uri, wanted in changes:
            path = path_of(uri)
            if path is None or not isinstance(wanted, list):
                raise ToolError("The server's answer to the rename cannot be read. Nothing was changed.")
            edits.setdefault(path, []).extend(wanted)
        return edits

    async def _ask(self, asked: str, method: str, params: dict[str, Any]) -> Any:
        if self._server.abilities.get(_OFFERS[asked]) in (None, False):
            raise ToolError(f"The language server does not offer {asked}.", hint="Use grep.")
        return await self._server.ask(method, {"textDocument": {"uri": self._path.as_uri()}, **params}, self._wait_s)

    async def _position(self, name: str, line: int) -> dict[str, int]:
        """Where a name such as `Receipt.lines` stands; `line` (from 1) says which, 0 for the only one."""
        *around, last = name.split(".")
        lines = [line.rstrip("\r\n") for line in code_lines(self._text)]
        if line:
            column = _word(last, lines[line - 1]) if line <= len(lines) else None
            if column is None:
                raise ToolError(f"Line {line} has no {last}.", hint="Read the file again.")
            return {"line": line - 1, "character": columns(lines[line - 1], column, self._server.encoding)}
        found: list[CodeSymbol] = []
        try:
            symbols = await self.symbols()
        except ToolError:
            symbols = []
        for one in symbols:
            if one.name.partition("(")[0] == last and (not around or list(one.around[-len(around) :]) == around):
                found.append(one)
        if len({one.line for one in found}) > 1 and not around:
            found = [one for one in found if one.depth == min(two.depth for two in found)]
        if len({one.line for one in found}) > 1:
            where = ", ".join(f"{'.'.join((*one.around, one.name))} in line {one.line + 1}" for one in found[:8])
            raise ToolError(f"{name} occurs more than once: {where}.", hint="Give its line.")
        if found:
            return {"line": found[0].line, "character": found[0].character}
        for number, text in enumerate(lines if not around else ()):
            if (column := _word(last, text)) is not None:
                return {"line": number, "character": columns(text, column, self._server.encoding)}
        raise ToolError(f"There is no {name} in this file.", hint="`symbols` lists what it defines.")


def columns(line: str, index: int, encoding: str) -> int:
    """The column of the character at `index` as the server counts it."""
    before = line[:index]
    return (
        len(before.encode("utf-8", "replace"))
        if encoding == "utf-8"
        else len(before.encode("utf-16-le", "replace")) // 2
    )


def edited(text: str, edits: Sequence[Any], encoding: str) -> str:
    """`text` after the edits of a server. Raises ToolError for edits that overlap or are outside."""
    lines = code_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(position: Any) -> int:
        try:
            line, column = int(position["line"]), int(position["character"])
            row = lines[line] if line < len(lines) else ""
            data = row.encode("utf-8") if encoding == "utf-8" else row.encode("utf-16-le")
            size = column if encoding == "utf-8" else 2 * column
            if line < 0 or size < 0 or size > len(data):
                raise ValueError
            return starts[line] + len(data[:size].decode("utf-8" if encoding == "utf-8" else "utf-16-le"))
        except (TypeError, KeyError, ValueError, IndexError):
            raise ToolError("The server wants to change a place that does not exist. Nothing was changed.") from None

    spans: list[tuple[int, int, str]] = []
    for one in edits:
        if (
            not isinstance(one, dict)
            or not isinstance(one.get("range"), dict)
            or not isinstance(one.get("newText"), str)
        ):
            raise ToolError("The server's answer cannot be read. Nothing was changed.")
        spans.append((offset(one["range"].get("start")), offset(one["range"].get("end")), one["newText"]))
    out, at = [], 0
    for start, end, new in sorted(set(spans)):
        if start < at or end < start:
            raise ToolError("The server's edits overlap. Nothing was changed.")
        out += [text[at:start], new]
        at = end
    return "".join((*out, text[at:]))


def path_of(uri: Any) -> Path | None:
    """The file of an address; None for another one."""
    parts = urlsplit(uri) if isinstance(uri, str) else None
    return Path(unquote(parts.path)) if parts is not None and parts.scheme == "file" and parts.path else None


def _word(name: str, line: str) -> int | None:
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line)
    return found.start() if found else None


def _symbols(items: Any, around: tuple[str, ...] = ()) -> Iterator[CodeSymbol]:
    """Both forms: with children, and flat with the name of the container."""
    if len(around) > 20:
        return
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            continue
        place = item.get("location")
        span = item.get("selectionRange") or (place.get("range") if isinstance(place, dict) else None)
        start = span.get("start") if isinstance(span, dict) else None
        if not isinstance(start, dict) or type(start.get("line")) is not int or type(start.get("character")) is not int:
            continue
        container = item.get("containerName")
        above = around or ((container,) if isinstance(container, str) and container else ())
        kind = _KINDS.get(item.get("kind"), "")  # type: ignore[arg-type]
        yield CodeSymbol(item["name"], kind, start["line"], start["character"], len(above), above)
        yield from _symbols(item.get("children"), (*above, item["name"]))


def _places(items: Any) -> list[CodePlace]:
    found: dict[CodePlace, None] = {}
    for item in [items] if isinstance(items, dict) else items if isinstance(items, list) else ():
        if not isinstance(item, Mapping):
            continue
        path = path_of(item.get("uri") or item.get("targetUri"))
        span = item.get("range") or item.get("targetSelectionRange")
        start = span.get("start") if isinstance(span, dict) else None
        line = start.get("line") if isinstance(start, dict) else None
        if path is not None and type(line) is int:
            found[CodePlace(path, line + 1)] = None
    return sorted(found)


def _text_of(contents: Any) -> str:
    if isinstance(contents, list):
        return "\n".join(filter(None, map(_text_of, contents)))
    if isinstance(contents, dict):
        contents = contents.get("value")
    return contents if isinstance(contents, str) else ""
