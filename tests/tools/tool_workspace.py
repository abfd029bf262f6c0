"""A workspace on the disk for the tools that read, change, search and run, and calls as a model makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from friday_cli.core.permissions.dangerous import is_secret
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.tool import KnownFiles, Output, Tool, ToolContext
from friday_cli.core.protocol.workspace import for_one_call
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

    async def judged(self, name: str, **arguments: Any) -> str:
        """The text of a call that runs as an agent's does: with the paths that the rules judged. A secret is refused."""
        tool, workspace = self.tools[name], for_one_call(self.workspace)
        args = tool.parse(arguments)
        if any(is_secret(subject) for subject in tool.used(args, workspace)[0]):
            raise ToolError("it may hold secrets")
        return (await tool.run(msgspec.structs.replace(self.context, workspace=workspace), args)).text

    async def text(self, name: str, **arguments: Any) -> str:
        return (await self(name, **arguments)).text

    async def error(self, name: str, **arguments: Any) -> str:
        """The words a call is refused with."""
        try:
            output = await self(name, **arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"{name} was not refused: {output.text[:200]}")
