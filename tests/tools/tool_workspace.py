"""A workspace on the disk for the tools that read, change, search and run, and calls as a model makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import KnownFiles, Output, Tool, ToolContext
from friday_cli.workspace.local import LocalWorkspace


class ToolHarness:
    """An agent at work in `root`; `shown` is the live output of its calls."""

    def __init__(self, root: Path, *tools: Tool, agent: str = "a", workspace: LocalWorkspace | None = None) -> None:
        self.root = root
        self.workspace = workspace or LocalWorkspace(root)
        self.tools = {tool.name: tool for tool in tools}
        self.shown: list[str] = []
        self.context = ToolContext(agent, "call", self.workspace, KnownFiles(), self.shown.append, None)  # type: ignore[arg-type]

    async def __call__(self, name: str, **arguments: Any) -> Output:
        """What a call comes to. Raises ToolError as the tool does."""
        tool = self.tools[name]
        args = tool.parse(arguments)
        tool.used(args, self.workspace)
        tool.title(args)
        return await tool.run(self.context, args)

    async def text(self, name: str, **arguments: Any) -> str:
        return (await self(name, **arguments)).text

    async def error(self, name: str, **arguments: Any) -> str:
        """The words a call is refused with."""
        try:
            output = await self(name, **arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"{name} was not refused: {output.text[:200]}")
