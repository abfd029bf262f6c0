"""The tool `glob`: finds files by name."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from friday_cli.core.protocol.call_arguments import PATH_ALIASES, ToolArguments
from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.tool_catalog import TOOLS

MAX_PATHS, MAX_CHARACTERS = 500, 30_000
"""Limits of one call: paths, and characters in total."""


class GlobArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {**PATH_ALIASES, "glob_pattern": "pattern"}
    pattern: Annotated[
        str, Meta(description="As `*.py`, `src/**/*.{ts,tsx}`, `[0-9]?`.", min_length=1, max_length=1000)
    ]
    path: Annotated[str, Meta(min_length=1)] = "."


async def _glob(context: ToolContext, args: GlobArguments) -> Output:
    from . import engine  # five modules, for a search only

    workspace = context.workspace
    base = workspace.resolve(args.path)
    found = await workspace.stat(base)
    if found is None or found.kind != "folder":
        raise ToolError(
            f"{workspace.label(base)} is not a folder.", hint="`path` is a folder; put the name into `pattern`."
        )
    prefix = engine.prefix(workspace.label(base))
    search = engine.SearchQuery(base, "list", glob=args.pattern, most=MAX_PATHS + 100, prefix=prefix)
    result = await engine.run_search(context, search)
    shown: list[str] = []
    remaining, secret, checked = MAX_CHARACTERS, 0, 0
    secrets = engine.secret(search, result.paths)
    for path in result.paths:
        checked += 1
        if path in secrets:
            secret += 1
            continue
        shown.append(engine.printable(prefix + path))
        remaining -= len(shown[-1]) + 1
        if len(shown) == MAX_PATHS or remaining < 0:
            break
    remarks = []
    if more := result.total - checked:
        remarks.append(f"{more:,} more; narrow the pattern or the path")
    if secret:
        remarks.append(f"{secret} omitted: may hold secrets")
    if result.withheld:
        remarks.append(f"{result.withheld} omitted: {engine.WITHHELD}")
    if result.partial:
        remarks.append(result.partial)
    lines = shown or [f"No file matches {args.pattern} in {workspace.label(base)}."]
    text = "\n".join((*lines, *(f"[{remark}]" for remark in remarks)))
    return Output(text, TextDisplay(f"{result.total - secret:,} files"))


GLOB_TOOL = Tool(
    _glob,
    TOOLS["glob"],
    args=GlobArguments,
    title=lambda args: args.pattern + (f" in {args.path}" if args.path != "." else ""),
    description=(
        "Find files by name, sorted by path. A pattern with `/` matches paths below `path` (`**`: any folders), "
        "one without matches names in any folder. Omits ignored files, and hidden ones unless a name in the "
        "pattern starts with a dot."
    ),
)
