"""Copies ignored files into a new worktree if a list in the settings names them."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from .git_trees import GitTrees, shown

MOST_FILES, MOST_BYTES = 1_000, 100_000_000
"""Limits of the ignored files that are copied: their number, and their total bytes."""


async def copy(source: GitTrees, folder: Path, patterns: Sequence[str]) -> list[str]:
    """Copy the ignored files of a working tree that match one of `patterns` into `folder`. Returns remarks on files that
    were not copied.

    A pattern is a glob as in .gitignore: without a `/` it matches in every folder.
    """
    if not patterns:
        return []
    specs = [f":(top,glob){spec}" for pattern in patterns for spec in _specs(pattern)]
    words = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--", *specs)
    with source.repository.control(source.top, source.index, raw=True, hidden=source.hidden) as env:
        listed = await source.git(*words, cwd=source.top, env=env)
    names = [name for name in listed.split(b"\0")[:-1] if not name.endswith(b"/")]
    return await asyncio.to_thread(_copy, source.top, folder, names)


def _specs(pattern: str) -> list[str]:
    bare = pattern.removeprefix("./").strip("/")
    near = [bare] if "/" in pattern.rstrip("/") else [bare, f"**/{bare}"]
    return [*near, *(f"{spec}/**" for spec in near)]


def _copy(top: Path, folder: Path, names: Sequence[bytes]) -> list[str]:
    remarks, room = [], MOST_BYTES
    for count, name in enumerate(names):
        source, target = top / os.fsdecode(name), folder / os.fsdecode(name)
        try:
            found = source.lstat()
            room -= found.st_size
            if count >= MOST_FILES or room < 0:
                remarks.append(
                    f"{len(names) - count} ignored files exceed the limit and were not copied, from {shown(name)} on"
                )
                break
            target.parent.mkdir(parents=True, exist_ok=True)
            if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
                shutil.copy2(source, target, follow_symlinks=False)
        except OSError as error:
            remarks.append(f"{shown(name)} was not copied: {error.strerror}")
    return remarks
