"""Searching with ripgrep, or with Python's `re` where ripgrep is not installed or cannot search for the pattern.

Both find the same files. Their regular expressions differ: a pattern that means something else to Python is refused.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
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
from friday_cli.workspace.fs import gitignore, globs

from . import regex
from .scan import Question

SECONDS, BYTES = 30.0, 16 * 1024 * 1024
"""How long a search may take, and how much it may print."""
WIDTH = 2000
"""Bytes of a line that come back."""
_ROW = pattern(rb"(\d+)([:-])([^\n]*)\n")
_COUNT = pattern(rb"([^\0]+)\0(\d+)\r?\n")
_SCAN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {} import main; main()"

Mode = Literal["list", "content", "files", "count"]


class SearchQuery(msgspec.Struct, frozen=True):
    """Where to look for what: in the one file `only` of the folder `base`, else all below; `glob` filters by name.

    `prefix` stands before a found path to make its label; `most` is how many paths of a list are wanted at all.
    """

    base: Path
    mode: Mode
    only: str = ""
    glob: str = ""
    pattern: str = ""
    ignore_case: bool = False
    literal: bool = False
    context: int = 0
    most: int = 0
    prefix: str = ""


class Line(msgspec.Struct, frozen=True):
    """A line of a file; `hit` tells a match from what stands around it."""

    number: int
    hit: bool
    text: str


class SearchResult(msgspec.Struct, frozen=True):
    """`paths` relative to the base, sorted: of a list the first of `total`. `rows` gives what was printed for each: its
    lines with their numbers, or how many match. Only few files are shown, so the rest is never taken apart.

    `partial` says why there may be more, "" when this is all; `secret` counts files left out for what they may hold.
    """

    paths: list[str]
    total: int
    rows: dict[str, bytes] = {}
    partial: str = ""
    secret: int = 0

    def lines(self, path: str) -> list[Line]:
        """What was printed of a file: lines that match, and those around them."""
        return [
            Line(int(row[1]), row[2] == b":", row[3].decode("utf-8", "replace").rstrip("\r"))
            for row in _ROW().finditer(self.rows[path])
        ]

    def hits(self, path: str, *, around: bool) -> int:
        """How many of a file's lines match; `around` tells that others were printed, too."""
        if around:
            return sum(row[2] == b":" for row in _ROW().finditer(self.rows[path]))
        return self.rows[path].count(b"\n")


async def ask(context: ToolContext, search: SearchQuery) -> SearchResult:
    """Search. Raises ToolError for a pattern that is none."""
    wanted = _matcher(search.glob)
    hidden = globs.names_hidden(search.glob)
    printed = await context.workspace.execute(
        await _command(context, search, hidden), agent=context.agent, timeout_s=SECONDS, limit=BYTES, cwd=search.base
    )
    if printed.exit_code not in (0, 1, None) and not printed.out and printed.err.strip():
        raise _refused(printed.err)
    partial = ""
    if printed.timed_out:
        partial = f"the search took longer than {SECONDS:.0f} s and was stopped"
    elif printed.cut:
        partial = "there is more than can be looked through"
    elif printed.exit_code not in (0, 1):
        partial = "the search ended before it was through"
    dotted = not (hidden or search.only)

    def answer() -> SearchResult:
        """In a thread: a hundred thousand paths take a moment, though each question is asked of all of them at once."""
        hides = _friday_ignore(context, search.base)

        def sift(paths: Collection[str]) -> Collection[str]:
            if wanted is not None:
                paths = [path for path in paths if wanted(path)]
            if dotted:
                paths = [path for path in paths if "/." not in path and path[0] != "."]
            return paths if hides is None else [path for path in paths if not hides(path)]

        return _found(printed.out, search, sift, partial)

    return await asyncio.to_thread(answer)


def secret(search: SearchQuery, paths: Sequence[str]) -> set[str]:
    """Those of found paths that may hold keys; one that was asked for by name has been asked about already."""
    if search.only:
        return set()
    return {path[len(search.prefix) :] for path in secrets([search.prefix + path for path in paths])}


def prefix(label: str) -> str:
    """What stands before a found path, for the label of the folder it was found in."""
    return "" if label == "." else f"{label.rstrip('/')}/"


def printable(path: str) -> str:
    """A path as it can be shown: one line, and text."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text if text.isprintable() else repr(text)


def _found(
    out: bytes, search: SearchQuery, sift: Callable[[Collection[str]], Collection[str]], partial: str
) -> SearchResult:
    rows: dict[str, bytes] = {}
    if search.mode in ("list", "files"):
        names = out.removeprefix(b"./") if search.only else out
        kept = sift(names.decode("utf-8", "surrogateescape").split("\0")[:-1])
    else:
        rows = _blocks(out) if search.mode == "content" else {_path(row[1]): row[2] for row in _COUNT().finditer(out)}
        kept = sift(rows)
    if search.mode == "list":
        return SearchResult(nsmallest(search.most, kept), len(kept), {}, partial)
    paths = sorted(kept)
    hold = secret(search, paths)
    open_ = [path for path in paths if path not in hold] if hold else paths
    return SearchResult(open_, len(open_), rows, partial, len(hold))


def _path(printed: bytes) -> str:
    return printed.removeprefix(b"./").decode("utf-8", "surrogateescape")


def _blocks(out: bytes) -> dict[str, bytes]:
    """The rows of each file from `path NUL rows`, blocks parted by an empty line; a path may hold one, a row is never empty.

    Files that turned out to be binary halfway are left out: a remark that begins with their path, so with a dot, is
    the last of their rows, which begin with a number.
    """
    whole = out[: out.rfind(b"\n") + 1].rstrip(b"\n") + b"\n\n"
    path, *pieces = whole.split(b"\0")
    if pieces and b"\n\r\n" in pieces[0]:  # a ripgrep with one thread ends its empty lines so
        path, *pieces = whole.replace(b"\n\r\n", b"\n\n").split(b"\0")
    gathered: dict[str, bytes] = {}
    begun = b""
    for piece in pieces:
        rows = begun + piece
        end = rows.find(b"\n\n")
        begun = rows + b"\0" if end < 0 else b""  # the NUL stood in a row
        if end >= 0:
            if not rows.startswith(b"./", rows.rfind(b"\n", 0, end) + 1):
                gathered[_path(path)] = rows[: end + 1]
            path = rows[end + 2 :]
    return gathered


async def _command(context: ToolContext, search: SearchQuery, hidden: bool) -> list[str]:
    """What to run, in the base folder."""
    ignored = False
    if not search.only and search.base not in context.workspace.roots:
        ignored = (await asyncio.to_thread(gitignore.level_of, search.base))[1]
    escaped = not search.literal and "\\n" in search.pattern.replace("\\\\", "")
    if escaped or "\n" in search.pattern:
        raise ToolError("The pattern speaks of line ends, but each line is searched by itself.", hint="Drop the \\n.")
    if shutil.which("rg") and (search.literal or not regex.needs_python(search.pattern)):
        return _ripgrep(search, hidden, ignored)
    if not search.literal:
        regex.check_python(search.pattern)
    name = globs.last_name(search.glob)
    question = Question(
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
    return [sys.executable, "-I", "-S", "-c", _SCAN.format(f"{package}.scan"), str(home), json.dumps(question)]


def _ripgrep(search: SearchQuery, hidden: bool, ignored: bool) -> list[str]:
    argv = ["rg", "--no-config", "--no-messages", "--null", "--color=never"]
    argv += ["--no-ignore-global", "--no-ignore-dot", "--glob=!.git"]  # an ignore file may keep what is hidden
    if ignored:
        argv.append("--no-ignore")
    elif gitignore.top_of(search.base) is None:
        # only here: with it ripgrep 15 does not see where a nested repository begins
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
        argv += ["--line-number", f"--max-columns={WIDTH}", "--max-columns-preview", "--no-context-separator"]
        argv += ["--heading", f"--context={search.context}"]
    else:
        argv.append("--files-with-matches" if search.mode == "files" else "--count")
    named = search.only or search.mode == "content"  # by the dot a path is told from a row
    return [*argv, f"--regexp={pattern}", *(["--", f"./{search.only}"] if named else ())]


def _matcher(glob: str) -> Callable[[str], object] | None:
    if not glob or glob in ("*", "**", "**/*") or globs.is_simple(glob):
        return None
    if ".." in glob.split("/"):
        raise ToolError("A pattern cannot lead upwards ('..').", hint="Give the folder to search in as path.")
    try:
        return globs.compile_glob(glob).fullmatch
    except ValueError as error:
        raise ToolError(f"{glob!r} is not a file name pattern: {error}.") from None


def _friday_ignore(context: ToolContext, base: Path) -> Callable[[str], bool] | None:
    """What the `.fridayignore` of the workspace folder hides, whatever git says; None when there is none."""
    root = next((root for root in context.workspace.roots if base.is_relative_to(root)), None)
    if root is None or not (rules := gitignore.rules_in(root / ".fridayignore")):
        return None
    prefix = "" if base == root else f"{base.relative_to(root).as_posix()}/"

    def hides(path: str) -> bool:
        parts = f"{prefix}{path}".split("/")
        return any(rules.verdict("/".join(parts[:count]), count < len(parts)) for count in range(1, len(parts) + 1))

    return hides


def _refused(text: str) -> ToolError:
    errors = [line.removeprefix("error: ") for line in text.splitlines() if line.startswith("error: ")]
    return regex.invalid(errors[-1] if errors else " ".join(text.split())[:300])
