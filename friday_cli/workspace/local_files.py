"""File access of a workspace, restricted to its roots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import DirectoryEntry
from friday_cli.system import safe_files

from .checkpoints.write_hook import WriteHook
from .fs.roots import HINTS, Roots, reason
from .fs.transaction import FILE, FileContent, FileWrite, apply_atomically
from .process.output import OverflowFolder

T = TypeVar("T")


class WorkspaceFiles:
    """Files below `root` and the `extra` folders; long command output in `overflow` and what is below the
    folders in `readable` can be read as well. `written` maps paths to the sha256 of what was last written there. Raises UsageError for a folder that does not exist."""

    write_hook: WriteHook
    """It runs around every change."""

    def __init__(
        self, root: Path, extra: Sequence[Path], overflow: OverflowFolder, readable: list[Path] | None = None
    ) -> None:
        self.readable: list[Path] = [] if readable is None else readable
        self._allowed = Roots(root, extra, lambda: (*([overflow.path] if overflow.path else ()), *self.readable))
        self.root = self._allowed.root
        self.roots = self._allowed.all
        self.written: dict[str, str] = {}

    def resolve(self, path: str, *, write: bool = False) -> Path:
        return self._allowed.resolve(path, write=write)

    def label(self, path: str | Path) -> str:
        return self._allowed.label(self.resolve(path) if isinstance(path, str) else path)

    def labels(self, path: str, found: Path | None = None) -> tuple[str, ...]:
        return self._allowed.labels(path, found)

    async def stat(self, path: Path) -> DirectoryEntry | None:
        return await self._on_disk(safe_files.entry, path)

    async def entries(self, path: Path) -> list[DirectoryEntry]:
        return await self._on_disk(safe_files.entries, path)

    async def read(self, path: Path, *, limit: int, skip: int = 0) -> bytes:
        return await self._on_disk(safe_files.read, path, limit, skip)

    async def write(self, path: Path, data: bytes, *, expect: str | None, agent: str = "") -> str:
        async with self.write_hook.changing(agent, [(path, FileContent(FILE, data))]):
            digest = await self._on_disk(safe_files.write, path, data, expect, write=True)
        self.written[str(path)] = digest
        return digest

    def root_of(self, path: Path) -> Path | None:
        """The writable root that contains `path` (links not followed); None if this workspace may not write it."""
        return self._allowed.root_of(path, write=True)

    async def apply_writes(self, steps: Sequence[FileWrite], *, agent: str = "") -> None:
        """Change several files, all or none. `agent` makes the change, "" the user. Raises ToolError, also if a file does
        not have the content that its step expects."""
        rooted = [(self.root_of(step.path), step) for step in steps]
        if any(root is None or ".." in step.path.parts for root, step in rooted):
            raise ToolError("A file lies outside the workspace. Nothing was changed.")
        async with self.write_hook.changing(agent, [(step.path, step.new) for step in steps]):
            await asyncio.to_thread(apply_atomically, [(root, step) for root, step in rooted if root])
        self.written.update({str(step.path): step.digest for step in steps})

    async def _on_disk(self, operation: Callable[..., T], path: Path, *rest: object, write: bool = False) -> T:
        """Run `operation` in a thread; its errors become ToolErrors that name the file."""
        root = self._allowed.root_of(path, write=write)
        if root is None:
            raise ToolError(f"{path} lies outside the workspace.")
        try:
            return await asyncio.to_thread(operation, root, path, *rest)
        except ToolError as error:
            raise ToolError(f"{self.label(path)}: {error.message}", hint=error.hint) from None
        except OSError as error:
            raise ToolError(f"{self.label(path)}: {reason(error)}.", hint=HINTS.get(error.errno or 0, "")) from None
