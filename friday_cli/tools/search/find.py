"""Finding files by name."""

from __future__ import annotations

from typing import Annotated

import msgspec

from friday_cli.core.protocol.displays import TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import Output, ToolContext, tool
from friday_cli.tool_catalog import TOOLS

from . import engine

PATHS, CHARACTERS = 500, 30_000
"""How many paths one call gives, and how many characters of them."""


class GlobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str,
        msgspec.Meta(
            description="File name pattern: `*.py` at any depth, `src/**/*.ts` below path, `{a,b}`, `[0-9]`, `?`.",
            min_length=1,
            max_length=1000,
        ),
    ]
    path: Annotated[str, msgspec.Meta(description="Folder to search in; '.' is the workspace.", min_length=1)] = "."


async def _glob(context: ToolContext, args: GlobArguments) -> Output:
    workspace = context.workspace
    base = workspace.resolve(args.path)
    found = await workspace.stat(base)
    if found is None or found.kind != "folder":
        raise ToolError(f"{workspace.label(base)} is no folder.", hint="Give a folder as path, the name as pattern.")
    prefix = engine.prefix(workspace.label(base))
    search = engine.SearchQuery(base, "list", glob=args.pattern, most=PATHS + 100, prefix=prefix)
    result = await engine.ask(context, search)
    shown: list[str] = []
    room, secret, looked = CHARACTERS, 0, 0
    hold = engine.secret(search, result.paths)
    for path in result.paths:
        looked += 1
        if path in hold:
            secret += 1
            continue
        shown.append(engine.printable(prefix + path))
        room -= len(shown[-1]) + 1
        if len(shown) == PATHS or room < 0:
            break
    remarks = []
    if more := result.total - looked:
        remarks.append(f"{more:,} more; narrow the pattern or the path")
    if secret:
        remarks.append(f"{secret} that may hold secrets left out")
    if result.partial:
        remarks.append(result.partial)
    lines = shown or [f"No file matches {args.pattern} below {workspace.label(base)}."]
    text = "\n".join((*lines, *(f"[{remark}]" for remark in remarks)))
    return Output(text, TextDisplay(f"{result.total - secret:,} files"))


GLOB = tool(
    _glob,
    TOOLS["glob"],
    args=GlobArguments,
    subjects=lambda args, workspace: workspace.labels(args.path),
    title=lambda args: args.pattern + (f" in {args.path}" if args.path != "." else ""),
    description=(
        "Find files by name, sorted by path. A pattern without `/` matches the file's name in any folder; with `/` it matches"
        " the path below `path`, where `**` stands for any folders. What .gitignore and .fridayignore name is left out, and"
        " so are hidden files unless the pattern itself has a name that begins with a dot (`.github/**`). Folders are not"
        " listed: use list_dir. To find files by content use grep."
    ),
)
