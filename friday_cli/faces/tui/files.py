"""The files of a folder for `@`: listed by ripgrep or git where they are, else by a walk; matched fuzzily.

Interface: `Files(root)`, `await refresh()`, `await matches(query)`.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from pathlib import Path

SHOWN, MOST, FRESH_S = 200, 300_000, 20.0
CHUNK = 20_000
"""Names matched between two breaths of the event loop."""


class Files:
    """File names below `root`, relative to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: list[str] = []
        self._lower: list[str] = []
        self._at = 0.0
        self._listing: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """List the files, unless that was done a moment ago."""
        if time.monotonic() - self._at < FRESH_S and self._names:
            return
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._list(), name="list files")
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
        self._names = sorted(name for name in names if name.isprintable())
        self._lower = [name.lower() for name in self._names]
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
        return [os.fsdecode(part) for part in out.split(b"\0")[:MOST] if part]

    async def matches(self, query: str) -> list[str]:
        """The best names for `query`: those that have it as it stands first, then those with its letters in order."""
        wanted = query.lower()
        if not wanted:
            return sorted(self._names, key=lambda name: (name.count("/"), name))[:SHOWN]
        spelled = re.compile("[^\n]*?".join(re.escape(c) for c in wanted))
        exact: list[int] = []
        loose: list[int] = []
        for start in range(0, len(self._lower), CHUNK):
            part = self._lower[start : start + CHUNK]
            exact += [start + i for i, name in enumerate(part) if wanted in name]
            if len(exact) < SHOWN:
                loose += [start + i for i, name in enumerate(part) if spelled.search(name) and wanted not in name]
            await asyncio.sleep(0)

        def rank(index: int) -> tuple[int, int, str]:
            name = self._lower[index]
            base = name.rpartition("/")[2]
            place = 0 if base.startswith(wanted) else 1 if wanted in base else 2 if wanted in name else 3
            return place, len(name), name

        found = sorted(exact, key=rank)[:SHOWN]
        if len(found) < SHOWN:
            found += sorted(loose, key=rank)[: SHOWN - len(found)]
        return [self._names[index] for index in found]


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
