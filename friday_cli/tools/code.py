"""The tools `code` and `rename_symbol`: what a language server knows of names, where one is installed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import PATH_ALIASES, ToolArguments
from friday_cli.core.protocol.displays import DiffDisplay, DiffsDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.receipt import FileChange, ToolFacts
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.workspace import Workspace, whole
from friday_cli.core.text.code_lines import code_lines
from friday_cli.core.text.diff import difference
from friday_cli.core.text.untrusted import neutralize, neutralize_line
from friday_cli.core.tool_catalog import CODE, RENAME_SYMBOL, TOOLS
from friday_cli.workspace.fs.transaction import FileContent, FileWrite, read_content
from friday_cli.workspace.local import LocalWorkspace

if TYPE_CHECKING:
    from friday_cli.lsp.navigate import CodeQuestions
    from friday_cli.lsp.pool import LanguageServers
    from friday_cli.lsp.protocol import TextEdit

WAIT_S = 20.0
"""Seconds that an answer may take; a server that has to start takes some of them."""
LONGEST = 4_000_000
"""Bytes of a file that are looked at for its lines."""
MOST, LINE, HOVER = 100, 200, 2_000
"""Places of a result, characters of a line in it, and characters of what is known of a name."""
DIFF = 4_000
"""Characters of the diff of a rename that a model sees."""


class CodeArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {**PATH_ALIASES, "operation": "action", "symbol": "name"}
    action: Literal["symbols", "definition", "references", "calls", "hover", "problems"]
    path: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(max_length=200, description="As `Receipt.lines`.")] = ""
    line: Annotated[int, Meta(ge=0, description="If the name is not clear.")] = 0


class RenameArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {**PATH_ALIASES, "symbol": "name"}
    path: Annotated[str, Meta(min_length=1)]
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    new_name: Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^\S+$")]
    line: Annotated[int, Meta(ge=0)] = 0
    apply: bool = False


class CodeTools:
    """Makes the two tools. `servers` returns the pool of the session."""

    def __init__(self, servers: Callable[[], LanguageServers]) -> None:
        self._servers = servers
        self._renames: dict[tuple[Path, RenameArguments], dict[Path, tuple[str, str]]] = {}
        """What a rename that was shown would change: the texts before and after, by path."""
        self._judged: dict[int, tuple[RenameArguments, dict[Path, tuple[str, str]]]] = {}
        """What a call to write one was judged for, by the identity of its arguments: another agent may have the rename shown meanwhile."""

    def tools(self) -> list[Tool]:
        """The two tools."""
        return [
            Tool(
                self._code,
                TOOLS[CODE],
                args=CodeArguments,
                title=lambda args: f"{args.action} {args.name or args.path}",
                description=(
                    "Ask the language server: `symbols` (outline) or `problems` of a file; the `definition`, `references`, incoming "
                    "`calls` or type (`hover`) of a name in it. References are exact, unlike grep."
                ),
            ),
            Tool(
                self._rename,
                TOOLS[RENAME_SYMBOL],
                args=RenameArguments,
                subjects=self._touched,
                only_shows=lambda args: not args.apply,
                title=lambda args: f"{args.name} -> {args.new_name}{'' if args.apply else ' (preview)'}",
                description="Rename a name in all files. Shows the diff; call it again with `apply` to write it, all or none.",
            ),
        ]

    async def _code(self, ctx: ToolContext, args: CodeArguments) -> Output:
        if args.action not in ("symbols", "problems") and not args.name:
            raise ToolError(f"{args.action} needs a name.")
        async with self._opened(ctx.workspace, args.path) as opened:
            text, shown = await self._answer(ctx, args, opened)
        label = ctx.workspace.label(ctx.workspace.resolve(args.path))
        return Output(text, TextDisplay(shown), ToolFacts(read=(label,)))

    async def _answer(self, ctx: ToolContext, args: CodeArguments, opened: CodeQuestions) -> tuple[str, str]:
        """The answer for the model, and a line for people."""
        if args.action == "symbols":
            found = await opened.symbols()
            rows = [
                f"{one.line + 1}: {'  ' * len(one.around)}{one.kind} {one.name}".replace("  :", ":") for one in found
            ]
            return neutralize("\n".join(rows[: 3 * MOST])) or "It defines nothing.", pluralize(len(rows), "symbol")
        if args.action == "problems":
            rows = await opened.problems()
            more = [f"{len(rows) - MOST} more"] if len(rows) > MOST else []
            text = "\n".join((*rows[:MOST], *more)) or f"{opened.one.name}: no problems."
            return text, pluralize(len(rows), "problem")
        if args.action == "hover":
            text = neutralize(await opened.hover(args.name, args.line))[:HOVER]
            return text or "The server says nothing about it.", text.partition("\n")[0][:LINE]
        places = await opened.places(args.action, args.name, args.line)
        labels = {place.path: _label(ctx.workspace, place.path) for place in places}
        hidden = ctx.withheld([label for label in labels.values() if label])
        rows, files, count = [], dict[Path, list[str]](), 0
        for place in places:
            label = labels[place.path]
            if label in hidden or count >= MOST:
                continue
            if place.path not in files:
                files[place.path] = await _lines(ctx.workspace, label)
                rows.append(neutralize_line(label or str(place.path)))
            lines, count = files[place.path], count + 1
            line = lines[place.line - 1].strip()[:LINE] if place.line <= len(lines) else ""
            rows.append(f"{place.line}: {neutralize_line(line)}")
        if len(places) > count:
            rows.append(f"{len(places) - count} more")
        what = {"definition": "definition", "references": "reference", "calls": "call"}[args.action]
        return "\n".join(rows) or f"No {what} was found.", pluralize(len(places), what)

    @asynccontextmanager
    async def _opened(self, workspace: Workspace, name: str) -> AsyncIterator[CodeQuestions]:
        """A file, open in the first server for it. Raises ToolError if there is none, and if it does not answer."""
        from friday_cli.lsp.connection import NotKnown
        from friday_cli.lsp.navigate import CodeQuestions
        from friday_cli.lsp.pool import first_running

        host, path = whole(workspace), workspace.resolve(name)
        if not isinstance(host, LocalWorkspace):
            raise ToolError("There are no language servers in this workspace.")
        found = [some for some in await self._servers().alternatives(host, path) if not some[0].found.entry.lints]
        if not found:
            raise ToolError(f"No language server is installed for {path.suffix or path.name}.", hint="Use grep.")
        text = await asyncio.to_thread(_read, path)
        if text is None:
            raise ToolError(f"{name} is not a file that can be read.")
        try:
            one = await first_running(found[0])
            async with one.busy:
                server = await one.fresh()
                server.write(path, text)
                try:
                    await server.read_project(path, WAIT_S)
                    yield CodeQuestions(one, server, path, text, WAIT_S)
                finally:
                    server.close_documents()
        except NotKnown as error:
            raise ToolError(f"Not known, the language server gave no answer: {error}.", hint="Use grep.") from None

    # ---- rename ---------------------------------------------------------------------------

    def _touched(self, args: RenameArguments, workspace: Workspace) -> Sequence[str]:
        """Every file that the call writes, as rules name it: those of the diff that was shown. Raises ToolError if none was."""
        paths = [args.path]
        if args.apply:
            if (known := self._renames.get(_key(args, workspace))) is None:
                raise ToolError("Call it without apply first: it shows the diff that would be written.")
            self._judged[id(args)] = args, known
            paths = [str(path) for path in known]
        return tuple(dict.fromkeys(label for path in paths for label in workspace.labels(path)))

    async def _rename(self, ctx: ToolContext, args: RenameArguments) -> Output:
        if args.apply:
            return await self._apply(ctx, args)
        async with self._opened(ctx.workspace, args.path) as opened:
            edits = await opened.rename(args.name, args.line, args.new_name)
            texts = await _changed_texts(ctx.workspace, edits, opened.server.encoding)
            word = args.name.rpartition(".")[2]
            elsewhere = await asyncio.to_thread(opened.one.files.users, [word], texts)
        if not texts:
            raise ToolError(f"Nothing would change: {args.name} is not used.")
        if hidden := ctx.withheld([ctx.workspace.label(path) for path in texts]):
            raise ToolError(
                f"It would change {pluralize(len(hidden), 'file')} that you may not read. Nothing was changed."
            )
        self._renames[_key(args, ctx.workspace)] = texts
        shown = await asyncio.to_thread(_diffs, ctx.workspace, texts)
        text = "\n".join(f"{one.path}\n{one.diff}" for one in shown)
        rows = [
            f"{pluralize(len(texts), 'file')} would change. Call it again with apply=true to write this.",
            neutralize(text)[:DIFF],
        ]
        rows += [f"... ({len(text) - DIFF:,} more characters)"] if len(text) > DIFF else []
        labels = [ctx.workspace.label(path) for path in elsewhere]
        hidden = ctx.withheld(labels)
        if labels := [label for label in labels if label not in hidden]:
            names = ", ".join(map(neutralize_line, labels[:10]))
            more = f" and {len(labels) - 10} more" if len(labels) > 10 else ""
            rows.append(f"The word {word} also occurs in {names}{more}: not changed there.")
        return Output("\n".join(rows), DiffsDisplay(shown))

    async def _apply(self, ctx: ToolContext, args: RenameArguments) -> Output:
        (_, known), host = self._judged.pop(id(args)), whole(ctx.workspace)
        if not isinstance(host, LocalWorkspace):
            raise ToolError("Names cannot be renamed in this workspace.")
        self._renames.pop(_key(args, ctx.workspace), None)
        steps = await asyncio.to_thread(_steps, host, known)
        await host.apply_writes(steps, agent=ctx.agent)
        for step in steps:
            if str(step.path) in ctx.seen.hashes:
                ctx.seen.hashes[str(step.path)] = step.digest
        shown = await asyncio.to_thread(_diffs, ctx.workspace, known)
        hashes = {ctx.workspace.label(step.path): step.digest for step in steps}
        files = tuple(FileChange(one.path, one.added, one.removed, hashes[one.path]) for one in shown)
        text = f"Renamed {args.name} to {args.new_name} in {pluralize(len(files), 'file')}."
        return Output(text, DiffsDisplay(shown), ToolFacts(files=files))


def _key(args: RenameArguments, workspace: Workspace) -> tuple[Path, RenameArguments]:
    return workspace.root, RenameArguments(args.path, args.name, args.new_name, args.line)


async def _changed_texts(
    workspace: Workspace, edits: Mapping[Path, Sequence[TextEdit]], encoding: str
) -> dict[Path, tuple[str, str]]:
    """The texts of the files before and after `edits`. Raises ToolError for a file outside the workspace."""
    from friday_cli.lsp.navigate import edited

    texts: dict[Path, tuple[str, str]] = {}
    for path, wanted in edits.items():
        resolved = workspace.resolve(str(path), write=True)
        old = await asyncio.to_thread(_read, resolved)
        if old is None:
            raise ToolError(f"{workspace.label(resolved)} cannot be read. Nothing was changed.")
        new = edited(old, wanted, encoding)
        if new != old:
            texts[resolved] = old, new
    return texts


def _steps(workspace: LocalWorkspace, texts: dict[Path, tuple[str, str]]) -> list[FileWrite]:
    """The writes of a rename. Raises ToolError if a file changed since it was shown. Blocks."""
    steps = []
    for path, (old, new) in texts.items():
        root = workspace.root_of(path)
        content = read_content(root, path) if root is not None else None
        if content is None or content.data != old.encode():
            raise ToolError(
                f"{workspace.label(path)} changed since the diff was shown. Nothing was changed.", hint="Ask again."
            )
        steps.append(FileWrite(path, content, FileContent(content.mode, new.encode(), content.rights)))
    return steps


def _diffs(workspace: Workspace, texts: dict[Path, tuple[str, str]]) -> tuple[DiffDisplay, ...]:
    return tuple(DiffDisplay(workspace.label(path), *difference(old, new)) for path, (old, new) in texts.items())


def _label(workspace: Workspace, path: Path) -> str:
    """The name of a file of the workspace; "" for one outside."""
    try:
        return workspace.label(str(path))
    except ToolError:
        return ""


async def _lines(workspace: Workspace, label: str) -> list[str]:
    """The lines of a file of the workspace; none of one outside, of which the place is all that is told."""
    try:
        data = await workspace.read(workspace.resolve(label), limit=LONGEST) if label else b""
    except ToolError:
        return []
    return [line.rstrip("\r\n") for line in code_lines(data.decode("utf-8", "replace"))]


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode() if path.is_file() else None
    except (OSError, UnicodeDecodeError):
        return None


def tools(servers: Callable[[], LanguageServers]) -> list[Tool]:
    """The tools of this family."""
    return CodeTools(servers).tools()
