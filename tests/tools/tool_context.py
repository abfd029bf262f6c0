"""Where a tool under test runs: a folder, an agent, a person who answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import KnownFiles, Output, Tool, ToolContext
from friday_cli.workspace.local import LocalWorkspace


def seat(root: Path, *, agent: str = "a", ask: Callable[[str, Sequence[str]], Any] | None = None) -> ToolContext:
    """A context for calls of `agent` in `root`; `ask` answers its questions."""

    async def answer(question: str, choices: Sequence[str]) -> str:
        if ask is None:
            raise ToolError("Nobody can answer here.")
        return str(ask(question, choices))

    return ToolContext(agent, "call", LocalWorkspace(root), KnownFiles(), lambda text: None, answer)


async def call(tool: Tool, ctx: ToolContext, **arguments: Any) -> Output:
    """What a model's call of `tool` comes to."""
    return await tool.run(ctx, tool.parse(arguments))
