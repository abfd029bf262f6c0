"""The files of a workspace: found, read and written below its roots, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import DirectoryEntry

from .checkpoints.write_hook import WriteHook
from .fs import safe_files
from .fs.roots import HINTS, Roots, reason
from .fs.transaction import FILE, FileContent, FileWrite, apply_atomically
from .process.output import OverflowFolder

T = TypeVar("T")


class WorkspaceFiles:
    """Files below `root` and the `extra` folders; long output in `spill` can be read as well. `guard` stands beside every
    change. Raises UsageError where a folder is none."""

    def __init__(self, root: Path, extra: Sequence[Path], spill: OverflowFolder) -> None:
        self._places = Roots(root, extra, lambda: spill.path)
        self.root = self._places.root
        self.roots = self._places.all
        self.guard = WriteHook(self.above)
        self._written: dict[str, str] = {}

    def resolve(self, path: str, *, write: bool = False) -> Path:
        return self._places.resolve(path, write=write)

    def label(self, path: str | Path) -> str:
        return self._places.shown(self.resolve(path) if isinstance(path, str) else path)

    def labels(self, path: str) -> tuple[str, ...]:
        return self._places.labels(path)

    async def stat(self, path: Path) -> DirectoryEntry | None:
        return await self._on_disk(safe_files.entry, path)

    async def entries(self, path: Path) -> list[DirectoryEntry]:
        return await self._on_disk(safe_files.entries, path)

    async def read(self, path: Path, *, limit: int) -> bytes:
        return await self._on_disk(safe_files.read, path, limit)

    async def write(self, path: Path, data: bytes, *, expect: str | None, agent: str = "") -> str:
        async with self.guard.changing(agent, [(path, FileContent(FILE, data))]):
            digest = await self._on_disk(safe_files.write, path, data, expect, write=True)
        self._written[str(path)] = digest
        return digest

    def above(self, path: Path) -> Path | None:
        """The root that `path`, taken as it is written, lies below; None where this workspace may not write it."""
        return self._places.above(path, write=True)

    async def land(self, steps: Sequence[FileWrite], *, agent: str = "") -> None:
        """Make several changes of files, all or none, on what each file is known to hold; `agent` wants it, "" the
        person. Raises ToolError."""
        rooted = [(self.above(step.path), step) for step in steps]
        if any(root is None or ".." in step.path.parts for root, step in rooted):
            raise ToolError("A file lies outside the workspace. Nothing was changed.")
        async with self.guard.changing(agent, [(step.path, step.new) for step in steps]):
            await asyncio.to_thread(apply_atomically, [(root, step) for root, step in rooted if root])
        self._written.update({str(step.path): step.digest for step in steps})

    async def _on_disk(self, act: Callable[..., T], path: Path, *rest: object, write: bool = False) -> T:
        """`act` in a thread, with errors in words that name the file."""
        root = self._places.above(path, write=write)
        if root is None:
            raise ToolError(f"{path} lies outside the workspace.")
        try:
            return await asyncio.to_thread(act, root, path, *rest)
        except ToolError as error:
            raise ToolError(f"{self.label(path)}: {error.message}", hint=error.hint) from None
        except OSError as error:
            raise ToolError(f"{self.label(path)}: {reason(error)}.", hint=HINTS.get(error.errno or 0, "")) from None
