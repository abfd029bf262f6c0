"""The files of a folder for `@`: listed in the background, matched fuzzily, shown before all of them are known.

They are listed by ripgrep, else by git, else by a walk.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice
from pathlib import Path

from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.text.known_keys import without_keys
from friday_cli.system.git_command import ENVIRONMENT
from friday_cli.system.own_programs import find_program

RIPGREP = ("rg", "--no-config", "--files", "--hidden", "--glob", "!.git", "--null")
GIT = ("git", "-c", "core.fsmonitor=false", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
READ_BYTES, STEP = 65_536, 64
"""Bytes read and folders walked at once."""
SHOWN, MOST = 200, 300_000
"""Names offered, and files known, at most."""
ENOUGH = 20
"""With fewer names that contain the query, names that only have its letters in order are searched too."""
FRESH, FRESH_S = 20, 20.0
"""A list is fresh for this many times as long as it took to make, and for this many seconds at most."""
PACE_S = 0.25
"""Seconds between two updates of the known names while files are listed."""
PIECE = 100_000
"""Characters searched letter by letter before other tasks of the event loop run."""


@dataclass(frozen=True)
class FileMatches:
    """The matches of a query, the best first. `final`: all files are known; `note`: why not, for the user."""

    names: list[str]
    final: bool
    note: str = ""


class FileIndex:
    """File names below `root`, relative to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known, self._whole = _SearchableNames([]), False
        self._due = 0.0
        self._listing: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks()
        self._news = asyncio.Event()

    async def found(self, query: str, *, refresh: bool) -> AsyncGenerator[FileMatches, None]:
        """The matches of `query` known now, and again whenever more files are known. `refresh` lists the files again in the
        background if the list may be out of date."""
        if self._listing is None and (not self._whole or (refresh and time.monotonic() >= self._due)):
            self._listing = self._tasks.start(self._list(), name="list files")
        shown = None
        while True:
            news, known, whole = self._news, self._known, self._whole
            if shown != (known, whole):
                shown = known, whole
                yield FileMatches(await known.best(query), whole, self._note())
            elif self._listing is None:
                return
            else:
                await news.wait()

    def _note(self) -> str:
        count = len(self._known.by_name)
        if not self._whole and self._listing is not None:
            return f"still listing: {count:,} files so far"
        return f"among the first {count:,} files" if count >= MOST else ""

    def stop(self) -> None:
        """Stop listing. The files found so far stay known."""
        if self._listing is not None:
            self._listing.cancel()
            self._listing = None
            self._tell()

    async def close(self) -> None:
        """Stop listing, and wait for the end of its tasks."""
        self.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _list(self) -> None:
        begun, names, came = time.monotonic(), list[str](), asyncio.Event()
        reading = asyncio.create_task(self._read(names, came), name="read names of files")
        try:
            while not reading.done():
                await came.wait()
                came.clear()
                since = time.monotonic()
                if not self._whole and not reading.done() and len(names) > len(self._known.by_name):
                    self._known = await asyncio.to_thread(_SearchableNames.of, names.copy(), self._known)
                    self._tell()
                await asyncio.wait({reading}, timeout=max(PACE_S, 4 * (time.monotonic() - since)))
            reading.result()
            self._known, self._whole = await asyncio.to_thread(_SearchableNames.of, names, self._known), True
            self._due = (now := time.monotonic()) + min(FRESH * (now - begun), FRESH_S)
        finally:
            if self._listing is asyncio.current_task():
                self._listing = None
                self._tell()
            reading.cancel()
            await asyncio.wait({reading})

    async def _read(self, names: list[str], came: asyncio.Event) -> None:
        """Add the found names to `names`, without those that a terminal cannot show: they cannot be typed either."""
        try:
            async with aclosing(listed(self._root)) as parts:
                async for some in parts:
                    names += [name for name in some if name.isprintable()]
                    came.set()
                    if len(names) >= MOST:
                        del names[MOST:]
                        return
        finally:
            came.set()


class _SearchableNames:
    """Names in the form in which they are searched: the shortest first, each in lower case between two line ends."""

    def __init__(self, by_name: list[str]) -> None:
        self.by_name = by_name
        self.first = nsmallest(SHOWN, by_name, key=lambda name: name.count("/"))
        self.names = sorted(by_name, key=len)
        self.paths = "\n".join(["", *self.names, ""]).lower()
        self.bases = "\n".join([name.rpartition("/")[2] for name in self.paths.split("\n")])

    @classmethod
    def of(cls, names: list[str], before: _SearchableNames) -> _SearchableNames:
        """The names in this form; `before` if they are the same."""
        names.sort()
        return before if names == before.by_name else cls(names)

    async def best(self, query: str) -> list[str]:
        """Names that contain `query`, in the file's name first, then those with its letters in order; the shortest first."""
        wanted = query.lower()
        if not wanted:
            return self.first
        found: dict[int, None] = {}
        for text, needle in ((self.bases, f"\n{wanted}"), (self.bases, wanted), (self.paths, wanted)):
            row, counted, at = -1, 0, text.find(needle)
            while at >= 0 and len(found) < SHOWN:
                end = at + len(needle)
                row += text.count("\n", counted, end)
                found[row] = None
                counted, at = end, text.find(needle, text.find("\n", end))
        if len(found) < ENOUGH:
            await self._spelled(wanted, found)
        return [self.names[row] for row in found]

    async def _spelled(self, wanted: str, found: dict[int, None]) -> None:
        """Find the rows that have these letters in order."""
        spelled = re.compile("\n" + "".join(f"[^{(e := re.escape(c))}\n]*+{e}" for c in wanted))
        row, counted, start = -1, 0, 0
        while start + 1 < len(self.paths) and len(found) < SHOWN:
            stop = self.paths.find("\n", min(start + PIECE, len(self.paths) - 1))
            for match in spelled.finditer(self.paths, start, stop):
                row += self.paths.count("\n", counted, match.end())
                counted = match.end()
                found[row] = None
                if len(found) >= SHOWN:
                    break
            start = stop
            await asyncio.sleep(0)


class _ListingFailed(Exception):
    """A program cannot list this folder."""


async def listed(root: Path) -> AsyncGenerator[list[str], None]:
    """Names of the files below `root`, relative to it, some at a time and in no order. Close it (`aclosing`) to stop early."""
    for command in (RIPGREP, GIT):
        try:
            async with aclosing(_list_with(root, *command)) as parts:
                async for some in parts:
                    yield some
            return
        except _ListingFailed:
            continue
    walk = _walk(root)
    while folders := await asyncio.to_thread(lambda: list(islice(walk, STEP))):
        yield list(chain.from_iterable(folders))


async def _list_with(root: Path, name: str, *arguments: str) -> AsyncGenerator[list[str], None]:
    """The files that a program lists. Raises _ListingFailed."""
    program = find_program(name, None, (root,))
    if program is None:
        raise _ListingFailed
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            cwd=root,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**without_keys(os.environ), **ENVIRONMENT, "GIT_ALLOW_PROTOCOL": "none"},
        )
    except OSError as error:
        raise _ListingFailed from error
    assert process.stdout is not None
    rest, any_listed = b"", False
    try:
        while data := await process.stdout.read(READ_BYTES):
            whole, end, rest = (rest + data).rpartition(b"\0")
            if end:
                any_listed = True
                yield os.fsdecode(whole).split("\0")
        failed = await process.wait() != 0
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()  # what it wrote last would keep its pipe open
    if failed and not any_listed:
        raise _ListingFailed


def _walk(root: Path) -> Iterator[list[str]]:
    """The files of one folder after the other."""
    for folder, folders, files in os.walk(root):
        skipped = ("node_modules", "__pycache__")
        folders[:] = [name for name in folders if not name.startswith(".") and name not in skipped]
        base = os.path.relpath(folder, root)
        yield files if base == "." else [f"{base}/{name}" for name in files]
