"""The tool `grep`: finds text in files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta

from friday_cli.core.permissions.dangerous import masked
from friday_cli.core.protocol.call_arguments import PATH_ALIASES, ToolArguments
from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.tool_catalog import TOOLS

if TYPE_CHECKING:
    from . import engine

MAX_CHARACTERS, MAX_LINE_CHARACTERS = 30_000, 500
"""Limits of one call: characters in total, and of one line."""
MAX_RESULTS = 2000
_MODES = {"files_with_matches": "files", "files_only": "files"}
_FILE_TYPES = {
    "py": "*.py", "js": "*.{js,jsx,mjs,cjs}", "ts": "*.{ts,tsx,mts,cts}", "go": "*.go", "rust": "*.rs", "java": "*.java",
    "md": "*.md", "json": "*.json", "css": "*.css", "html": "*.{html,htm}", "yaml": "*.{yaml,yml}", "toml": "*.toml",
}  # fmt: skip
"""File types of ripgrep as globs."""


class GrepArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {
        **PATH_ALIASES, "include": "glob", "include_pattern": "glob", "output_mode": "mode", "-i": "ignore_case",
        "head_limit": "limit", "total_max_matches": "limit", "max_results": "limit", "fixed_strings": "literal",
    }  # fmt: skip
    pattern: Annotated[str, Meta(description="Regular expression for a line.", min_length=1, max_length=2000)]
    path: Annotated[str, Meta(description="File or folder.", min_length=1)] = "."
    glob: Annotated[str, Meta(description="Only these files, as in glob.")] = ""
    mode: Annotated[
        Literal["content", "files", "count"],
        Meta(description="Lines, lines per file, or only paths."),
    ] = "content"
    context: Annotated[int, Meta(ge=0, le=20)] = 0
    ignore_case: bool = False
    literal: Annotated[bool, Meta(description="The pattern is not a regex.")] = False
    limit: Annotated[int, Meta(description="Most lines, or files.", ge=1, le=MAX_RESULTS)] = 200

    @classmethod
    def adapt(cls, sent: dict[str, Any]) -> None:
        """Other programs have the flags of grep, and more modes."""
        mode = sent.get("output_mode")
        if isinstance(mode, str):
            sent["output_mode"] = _MODES.get(mode, mode)
        if sent.get("names_only") is True and "mode" not in sent:
            del sent["names_only"]
            sent["mode"] = "files"
        if isinstance(sent.get("case_sensitive"), bool) and "ignore_case" not in sent:
            sent["ignore_case"] = not sent.pop("case_sensitive")
        if sent.get("-n") in (True, False):  # lines always have numbers
            del sent["-n"]
        around = [sent[name] for name in ("-A", "-B", "-C", "after", "before") if isinstance(sent.get(name), int)]
        if around and "context" not in sent:
            sent["context"] = max(around)
            for name in ("-A", "-B", "-C", "after", "before"):
                sent.pop(name, None)
        if sent.get("head_limit") == 0:  # Claude Code: no limit
            sent["head_limit"] = MAX_RESULTS
        if str(sent.get("type")) in _FILE_TYPES and not {"glob", "include"}.intersection(sent):
            sent["glob"] = _FILE_TYPES[sent.pop("type")]


class _ResultPage:
    """The lines of one result; limits: lines or files, and characters."""

    def __init__(self, limit: int) -> None:
        self.lines: list[str] = []
        self.seen: dict[str, list[tuple[int, int]]] = {}  # first and last of the lines shown, per file
        self.results_left, self.characters_left = limit, MAX_CHARACTERS
        self.shown = 0

    def full(self) -> bool:
        return self.results_left <= 0 or self.characters_left <= 0

    def add(self, line: str, *, counts: bool) -> None:
        self.lines.append(line)
        self.characters_left -= len(line) + 1
        self.results_left -= counts
        self.shown += counts


async def _grep(context: ToolContext, args: GrepArguments) -> Output:
    from . import engine  # five modules, for a search only

    workspace = context.workspace
    base = workspace.resolve(args.path)
    found = await workspace.stat(base)
    if found is None:
        raise ToolError(f"{workspace.label(base)} does not exist.", hint="Use list_dir or glob.")
    only = ""
    if found.kind != "folder":
        if b"\0" in await workspace.read(base, limit=65536):
            raise ToolError(f"{workspace.label(base)} is binary; only text can be searched.")
        base, only = base.parent, base.name
    prefix = engine.prefix(workspace.label(base))
    search = engine.SearchQuery(
        base=base,
        mode=args.mode,
        only=only,
        glob="" if only else args.glob,
        pattern=args.pattern,
        ignore_case=args.ignore_case,
        literal=args.literal,
        context=args.context,
        prefix=prefix,
    )
    result = await engine.run_search(context, search)
    page, total, left = _ResultPage(args.limit), 0, iter(result.paths)
    for path in left:
        name = engine.printable(prefix + path)
        if args.mode == "content":
            total += _content(page, name, result, path, args.context)
        else:
            total += 1
            count = f": {result.rows[path].decode()}" if args.mode == "count" else ""
            page.add(f"{name}{count}", counts=True)
        if page.full():
            break
    total += sum(result.hits(path, around=args.context > 0) if args.mode == "content" else 1 for path in left)
    return _output(args, page, total, result)


def _content(page: _ResultPage, name: str, result: engine.SearchResult, path: str, around: int) -> int:
    """Add the lines of one file that fit; returns how many lines match."""
    lines = result.lines(path)
    if page.lines:
        page.add("", counts=False)
    page.add(name, counts=False)
    spans = page.seen[name] = []
    before = 0
    for line in lines:
        if page.full():
            break
        if around and before and line.number > before + 1:
            page.add("--", counts=False)
        first = spans.pop()[0] if spans and line.number == before + 1 else line.number
        spans.append((first, before := line.number))
        text = masked(name, line.text)
        text = text if len(text) <= MAX_LINE_CHARACTERS else f"{text[:MAX_LINE_CHARACTERS]} [truncated]"
        page.add(f"{line.number}{':' if line.hit else '-'}{text}", counts=line.hit)
    return sum(line.hit for line in lines)


def _output(args: GrepArguments, page: _ResultPage, total: int, result: engine.SearchResult) -> Output:
    from . import engine

    unit = "matching lines" if args.mode == "content" else "files"
    remarks = []
    if more := total - page.shown:
        remarks.append(f"{more:,} more {unit}; narrow the pattern, path or glob, or raise limit")
    if result.secret:
        remarks.append(f"{result.secret} matching files omitted: may hold secrets")
    if result.withheld:
        remarks.append(f"{result.withheld} matching files omitted: {engine.WITHHELD}")
    if result.partial:
        remarks.append(result.partial)
    lines = page.lines or ["No match."]
    text = "\n".join((*lines, *(f"[{remark}]" for remark in remarks)))
    files = f" in {len(result.paths):,} files" if args.mode == "content" else ""
    facts = ToolFacts(read=tuple(page.seen), lines={name: tuple(spans) for name, spans in page.seen.items()})
    return Output(text, TextDisplay(f"{total:,} {unit}{files}"), facts)


GREP_TOOL = Tool(
    _grep,
    TOOLS["grep"],
    args=GrepArguments,
    title=lambda args: (
        args.pattern + (f" in {args.path}" if args.path != "." else "") + (f" ({args.glob})" if args.glob else "")
    ),
    description=(
        "Search files line by line, sorted by path. `content` returns each path, then `NUMBER:line` "
        "(`NUMBER-line`: context). Omits ignored, hidden and binary files, unless `path` or `glob` names them."
    ),
)
