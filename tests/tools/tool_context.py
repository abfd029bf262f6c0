"""Where a tool under test runs: a folder, an agent, a person who answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import KnownFiles, Output, Tool, ToolContext


class Folder:
    """A workspace that can only be read."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.roots = (self.root,)

    def resolve(self, path: str) -> Path:
        found = (self.root / path).resolve()
        if not found.is_relative_to(self.root):
            raise ToolError(f"{path} lies outside the workspace.")
        return found

    def label(self, path: str | Path) -> str:
        return (self.root / path).resolve().relative_to(self.root).as_posix()

    async def read(self, path: Path, *, limit: int) -> bytes:
        return await asyncio.to_thread(_bytes, path, limit)


def _bytes(path: Path, limit: int) -> bytes:
    if not path.is_file():
        raise ToolError(f"{path.name}: no such file.")
    with path.open("rb") as file:
        return file.read(limit)


def seat(root: Path, *, agent: str = "a", ask: Callable[[str, Sequence[str]], Any] | None = None) -> ToolContext:
    """A context for calls of `agent` in `root`; `ask` answers its questions."""

    async def answer(question: str, choices: Sequence[str]) -> str:
        if ask is None:
            raise ToolError("Nobody can answer here.")
        return str(ask(question, choices))

    return ToolContext(agent, "call", Folder(root), KnownFiles(), lambda text: None, answer)  # type: ignore[arg-type]


async def call(tool: Tool, ctx: ToolContext, **arguments: Any) -> Output:
    """What a model's call of `tool` comes to."""
    return await tool.run(ctx, tool.parse(arguments))
