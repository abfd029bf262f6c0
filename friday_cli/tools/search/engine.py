"""Runs searches with ripgrep, or with Python's `re` if ripgrep is not installed or does not support the pattern.

Both find the same files. Patterns that mean something else in Python are refused.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Collection, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Literal

import msgspec

from friday_cli.core.permissions.dangerous import secrets
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import ToolContext
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.system import gitignore, globs
from friday_cli.system.own_programs import find_program
from friday_cli.system.project_search import nearest_repository

from . import regex
from .scan import MAX_LINE_BYTES, ScanRequest

TIMEOUT_S, MAX_BYTES = 30.0, 16 * 1024 * 1024
"""Limits of a search: seconds, and bytes of output."""
_ROW = pattern(rb"(\d+)([:-])([^\n]*)\n")
_COUNT = pattern(rb"([^\0]+)\0(\d+)\r?\n")
_SCAN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import main; main()"

SearchMode = Literal["list", "content", "files", "count"]


class SearchQuery(msgspec.Struct, frozen=True):
    """A search in the folder `base`, or in its one file `only`; `glob` filters by name. `prefix` + path is the label of
    a found file. `most`: the number of paths wanted in mode "list"."""

    base: Path
    mode: SearchMode
    only: str = ""
    glob: str = ""
    pattern: str = ""
    ignore_case: bool = False
    literal: bool = False
    context: int = 0
    most: int = 0
    prefix: str = ""


class Line(msgspec.Struct, frozen=True):
    """A line of a file; `hit`: it matches, else it is context."""

    number: int
    hit: bool
    text: str


class SearchResult(msgspec.Struct, frozen=True):
    """Sorted `paths` relative to the base; in mode "list" the first ones of `total`. `rows`: the raw output for each
    path, either numbered lines or a count; parsed only for files that are shown. `partial`: why results may be missing,
    "" if complete. `secret`: the number of files omitted because they may hold secrets; `withheld`: because of rules."""

    paths: list[str]
    total: int
    rows: dict[str, bytes] = {}
    partial: str = ""
    secret: int = 0
    withheld: int = 0

    def lines(self, path: str) -> list[Line]:
        """The matching lines of a file, and their context."""
        return [
            Line(int(row[1]), row[2] == b":", row[3].decode("utf-8", "replace").rstrip("\r"))
            for row in _ROW().finditer(self.rows[path])
        ]

    def hits(self, path: str, *, around: bool) -> int:
        """The number of matching lines of a file; `around`: the output has context lines too."""
        if around:
            return sum(row[2] == b":" for row in _ROW().finditer(self.rows[path]))
        return self.rows[path].count(b"\n")


async def run_search(context: ToolContext, search: SearchQuery) -> SearchResult:
    """Run a search. Raises ToolError for an invalid pattern."""
    matches = _matcher(search.glob)
    hidden = globs.names_hidden(search.glob)
    argv = await _command(context, search, hidden)
    printed = await context.workspace.execute(
        argv, agent=context.agent, timeout_s=TIMEOUT_S, limit=MAX_BYTES, cwd=search.base, read_only=argv[0] == "rg"
    )
    if printed.exit_code not in (0, 1, None) and not printed.out and printed.err.strip():
        raise regex.refused(printed.err)
    partial = ""
    if printed.timed_out:
        partial = f"the search took longer than {TIMEOUT_S:.0f} s and was stopped"
    elif printed.cut:
        partial = "the output is too large; some results are missing"
    elif printed.exit_code not in (0, 1):
        partial = "the search ended early"
    skip_hidden = not (hidden or search.only)

    def collect() -> SearchResult:
        """Runs in a thread, because filtering 100,000 paths takes long."""
        is_ignored = _friday_ignore(context, search.base)

        def keep(paths: Collection[str]) -> Collection[str]:
            if matches is not None:
                paths = [path for path in paths if matches(path)]
            if skip_hidden:
                paths = [path for path in paths if "/." not in path and path[0] != "."]
            return paths if is_ignored is None else [path for path in paths if not is_ignored(path)]

        return _without_withheld(context, search, _parse_output(printed.out, search, keep, partial))

    return await asyncio.to_thread(collect)


def _without_withheld(context: ToolContext, search: SearchQuery, result: SearchResult) -> SearchResult:
    """`result` without the files that rules keep from the agent. The rules have judged a file that the caller named."""
    hidden = set() if search.only else context.withheld([search.prefix + path for path in result.paths])
    if not hidden:
        return result
    paths = [path for path in result.paths if search.prefix + path not in hidden]
    total = result.total - len(hidden)
    return msgspec.structs.replace(result, paths=paths, total=total, withheld=len(hidden))


WITHHELD = "a rule denies reading them, or asks first"
"""Why files are left out of the result of a search, where rules say so."""


def secret(search: SearchQuery, paths: Sequence[str]) -> set[str]:
    """The found paths that may hold secrets. A file named by the caller was already checked by the permission rules."""
    if search.only:
        return set()
    return {path[len(search.prefix) :] for path in secrets([search.prefix + path for path in paths])}


def prefix(label: str) -> str:
    """The prefix of found paths, from the label of the searched folder."""
    return "" if label == "." else f"{label.rstrip('/')}/"


def printable(path: str) -> str:
    """A path as printable text on one line."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text if text.isprintable() else repr(text)


def _parse_output(
    out: bytes, search: SearchQuery, keep: Callable[[Collection[str]], Collection[str]], partial: str
) -> SearchResult:
    rows: dict[str, bytes] = {}
    if search.mode in ("list", "files"):
        names = out.removeprefix(b"./") if search.only else out
        kept = keep(names.decode("utf-8", "surrogateescape").split("\0")[:-1])
    else:
        rows = _blocks(out) if search.mode == "content" else {_path(row[1]): row[2] for row in _COUNT().finditer(out)}
        kept = keep(rows)
    if search.mode == "list":
        return SearchResult(nsmallest(search.most, kept), len(kept), {}, partial)
    paths = sorted(kept)
    secrets_found = secret(search, paths)
    visible = [path for path in paths if path not in secrets_found] if secrets_found else paths
    return SearchResult(visible, len(visible), rows, partial, len(secrets_found))


def _path(printed: bytes) -> str:
    return printed.removeprefix(b"./").decode("utf-8", "surrogateescape")


def _blocks(out: bytes) -> dict[str, bytes]:
    """The rows of each file, from blocks of `path NUL rows` separated by an empty line. A path may contain an empty
    line; a row is never empty. Files that ripgrep finds to be binary halfway are omitted: the last of their rows starts
    with their path, so with a dot, while other rows start with a number."""
    whole = out[: out.rfind(b"\n") + 1].rstrip(b"\n") + b"\n\n"
    path, *pieces = whole.split(b"\0")
    if pieces and b"\n\r\n" in pieces[0]:  # ripgrep with one thread ends its empty lines this way
        path, *pieces = whole.replace(b"\n\r\n", b"\n\n").split(b"\0")
    blocks: dict[str, bytes] = {}
    pending = b""
    for piece in pieces:
        rows = pending + piece
        end = rows.find(b"\n\n")
        pending = rows + b"\0" if end < 0 else b""  # the NUL was inside a row
        if end >= 0:
            if not rows.startswith(b"./", rows.rfind(b"\n", 0, end) + 1):
                blocks[_path(path)] = rows[: end + 1]
            path = rows[end + 2 :]
    return blocks


async def _command(context: ToolContext, search: SearchQuery, hidden: bool) -> list[str]:
    """The command to run in the base folder."""
    ignored = False
    if not search.only and search.base not in context.workspace.roots:
        ignored = (await asyncio.to_thread(gitignore.level_of, search.base))[1]
    escaped = not search.literal and "\\n" in search.pattern.replace("\\\\", "")
    if escaped or "\n" in search.pattern:
        raise ToolError("The pattern contains a line end, but lines are searched one by one.", hint="Remove \\n.")
    if find_program("rg", None, context.workspace.roots) and (search.literal or not regex.needs_python(search.pattern)):
        return _ripgrep(search, hidden, ignored)
    if not search.literal:
        regex.check_python(search.pattern)
    name = globs.last_name(search.glob)
    request = ScanRequest(
        root=str(next((root for root in context.workspace.roots if search.base.is_relative_to(root)), search.base)),
        base=str(search.base),
        only=str(search.base / search.only) if search.only else "",
        mode=search.mode,
        pattern=re.escape(search.pattern) if search.literal else search.pattern,
        ignore_case=search.ignore_case,
        context=search.context,
        hidden=hidden,
        ignore=not ignored,
        name=globs.to_regex(name, braces=True) if name else "",
    )
    package, home = __name__.rpartition(".")[0], Path(__file__).parents[3]
    return [sys.executable, "-I", "-S", "-c", _SCAN.format(f"{package}.scan"), str(home), json.dumps(request)]


def _ripgrep(search: SearchQuery, hidden: bool, ignored: bool) -> list[str]:
    argv = ["rg", "--no-config", "--no-messages", "--null", "--color=never"]
    argv += ["--no-ignore-global", "--no-ignore-dot", "--glob=!.git"]  # an ignore file may re-include hidden files
    if ignored:
        argv.append("--no-ignore")
    elif nearest_repository(search.base) is None:
        # only outside a repository: with these options ripgrep 15 does not detect nested repositories
        argv += ["--no-require-git", "--no-ignore-parent"]
    if hidden:
        argv.append("--hidden")
    if name := globs.last_name(search.glob):
        argv += ["--type-add", f"wanted:{name}", "--type=wanted"]
    if search.mode == "list":
        return [*argv, "--files"]
    argv += ["--crlf", "--with-filename"]
    argv += ["--ignore-case"] * search.ignore_case + ["--fixed-strings"] * search.literal
    pattern = search.pattern if search.literal else regex.for_ripgrep(search.pattern)
    if search.mode == "content":
        argv += ["--line-number", f"--max-columns={MAX_LINE_BYTES}", "--max-columns-preview", "--no-context-separator"]
        argv += ["--heading", f"--context={search.context}"]
    else:
        argv.append("--files-with-matches" if search.mode == "files" else "--count")
    named = search.only or search.mode == "content"  # the leading dot distinguishes a path from a row
    return [*argv, f"--regexp={pattern}", *(["--", f"./{search.only}"] if named else ())]


def _matcher(glob: str) -> Callable[[str], object] | None:
    if not glob or glob in ("*", "**", "**/*") or globs.is_simple(glob):
        return None
    if ".." in glob.split("/"):
        raise ToolError("A pattern cannot contain '..'.", hint="Set `path` to the folder to search.")
    try:
        return globs.compile_glob(glob).fullmatch
    except ValueError as error:
        raise ToolError(f"{glob!r} is not a file name pattern: {error}.") from None


def _friday_ignore(context: ToolContext, base: Path) -> Callable[[str], bool] | None:
    """A predicate for paths ignored by the `.fridayignore` of the workspace folder; None without that file."""
    root = next((root for root in context.workspace.roots if base.is_relative_to(root)), None)
    if root is None or not (rules := gitignore.rules_in(root / ".fridayignore")):
        return None
    prefix = "" if base == root else f"{base.relative_to(root).as_posix()}/"

    def is_ignored(path: str) -> bool:
        parts = f"{prefix}{path}".split("/")
        return any(rules.is_ignored("/".join(parts[:count]), count < len(parts)) for count in range(1, len(parts) + 1))

    return is_ignored
