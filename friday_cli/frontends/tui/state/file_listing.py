"""Lists the files of a folder with ripgrep, else with git, else by a walk."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from itertools import chain, islice
from pathlib import Path

RIPGREP = ("rg", "--no-config", "--files", "--hidden", "--glob", "!.git", "--null")
GIT = ("git", "-c", "core.fsmonitor=false", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
PIECE, STEP = 65_536, 64
"""Bytes read and folders walked at once."""


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
    program = shutil.which(name)
    if program is None:
        raise _ListingFailed
    try:
        process = await asyncio.create_subprocess_exec(
            program, *arguments, cwd=root, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except OSError as error:
        raise _ListingFailed from error
    assert process.stdout is not None
    rest, any_listed = b"", False
    try:
        while data := await process.stdout.read(PIECE):
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
