"""The files of a folder for `@`: listed by ripgrep or git where they are, else by a walk; matched fuzzily.

Interface: `Files(root)`, `await refresh()`, `await matches(query)`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from bisect import bisect_right
from heapq import nsmallest
from itertools import accumulate
from pathlib import Path

SHOWN, MOST, FRESH_S = 200, 300_000, 20.0
CHUNK = 5_000
"""Names searched letter by letter between two breaths of the event loop."""


class Files:
    """File names below `root`, relative to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._listed = _Names([])
        self._at = 0.0
        self._listing: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """List the files, unless that was done a moment ago; nobody waits for a list that only may be out of date."""
        if time.monotonic() - self._at < FRESH_S and self._listed.names:
            return
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._list(), name="list files")
        if not self._listed.names:
            await asyncio.shield(self._listing)

    async def close(self) -> None:
        """Stop listing."""
        if self._listing is not None and not self._listing.done():
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    async def _list(self) -> None:
        names = await self._told("rg", "--no-config", "--files", "--hidden", "--glob", "!.git", "--null")
        if names is None:
            names = await self._told(
                "git", "-c", "core.fsmonitor=false", "ls-files", "--cached", "--others", "--exclude-standard", "-z"
            )
        if names is None:
            names = await asyncio.to_thread(_walk, self._root)
        self._listed = await asyncio.to_thread(_Names, names)
        self._at = time.monotonic()

    async def _told(self, *command: str) -> list[str] | None:
        """What a program lists, None where it cannot."""
        program = shutil.which(command[0])
        if program is None:
            return None
        try:
            process = await asyncio.create_subprocess_exec(
                program, *command[1:], cwd=self._root, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        except OSError:
            return None
        try:
            out, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode not in (0, 1, 2) or (process.returncode and not out):
            return None
        return os.fsdecode(out).rstrip("\0").split("\0")[:MOST]

    async def matches(self, query: str) -> list[str]:
        """The best names for `query`: those that have it as it stands, in the file's name before the folder's, then those
        with its letters in order; the shortest first."""
        wanted, names = query.lower(), self._listed
        if not wanted:
            return names.first
        found: dict[int, None] = {}
        for text, starts, needle in (
            (names.bases, names.base_starts, f"\n{wanted}"),
            (names.bases, names.base_starts, wanted),
            (names.paths, names.path_starts, wanted),
        ):
            at = text.find(needle)
            while at >= 0 and len(found) < SHOWN:
                row = bisect_right(starts, at + len(needle) - 1) - 1
                found[row] = None
                at = text.find(needle, starts[row + 1] - 1) if row + 1 < len(starts) else -1
        spelled = re.compile("\n" + "".join(f"[^{(e := re.escape(c))}\n]*{e}" for c in wanted))
        for row in range(0, len(names.path_starts), CHUNK):
            if len(found) >= SHOWN:
                break
            end = names.path_starts[row + CHUNK] - 1 if row + CHUNK < len(names.path_starts) else len(names.paths)
            for match in spelled.finditer(names.paths, names.path_starts[row] - 1, end):
                found[bisect_right(names.path_starts, match.end() - 1) - 1] = None
                if len(found) >= SHOWN:
                    break
            await asyncio.sleep(0)
        return [names.names[row] for row in found]


class _Names:
    """Names, the shortest first, in the form in which they are searched: each in lower case behind a line's end."""

    def __init__(self, names: list[str]) -> None:
        by_name = sorted([name for name in names if name and name.isprintable()])
        self.first = nsmallest(SHOWN, by_name, key=lambda name: name.count("/"))
        self.names = sorted(by_name, key=len)
        lower = "\n".join(self.names).lower().split("\n")
        self.paths, self.path_starts = _joined(lower)
        self.bases, self.base_starts = _joined([name.rpartition("/")[2] for name in lower])


def _joined(lines: list[str]) -> tuple[str, list[int]]:
    """The lines, each behind a line's end, and where each begins."""
    starts = list(accumulate([len(line) + 1 for line in lines], initial=1))
    return "\n" + "\n".join(lines), starts[:-1]


def _walk(root: Path) -> list[str]:
    names: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in ("node_modules", "__pycache__")
        ]
        base = os.path.relpath(folder, root)
        names += [name if base == "." else f"{base}/{name}" for name in files]
        if len(names) > MOST:
            break
    return names
