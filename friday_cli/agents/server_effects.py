"""What the MCP servers of a project do to files, where their entries let them write: during a call as for a command, and else what
could run code later."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import tamper_warning
from friday_cli.workspace.local import LocalWorkspace

if TYPE_CHECKING:
    from friday_cli.mcp.entry import ServerEntry
    from friday_cli.workspace.local_commands import WorkEffects
    from friday_cli.workspace.sandbox.tamper_check import ScannedFiles


class ServerEffects:
    """Looks at the files of `workspace`. `report` shows a person one line."""

    def __init__(self, workspace: LocalWorkspace, report: Callable[[str], None]) -> None:
        self._workspace, self._report = workspace, report
        self._seen: dict[str, ScannedFiles] = {}

    async def begun(self, entry: ServerEntry) -> None:
        """A server is about to start."""
        if _may_write(entry):
            self._seen[entry.name], _ = await self._workspace.commands.protected_since(None, entry.writes)

    async def ended(self, entry: ServerEntry) -> None:
        """A server has ended, or a call of it begins: report what run code later and has changed since its last call."""
        if (before := self._seen.get(entry.name)) is None:
            return
        try:
            self._seen[entry.name], names = await self._workspace.commands.protected_since(before, entry.writes)
        except ToolError:  # the workspace is closed
            return
        if names:
            shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
            self._report(
                f"{shown} can run code later. It changed while the MCP server {entry.name} ran, but no call of it: by the server, or by "
                "somebody else. Check it; a rewind does not undo it."
            )

    @asynccontextmanager
    async def observed(self, entry: ServerEntry, agent: str, tool: str) -> AsyncIterator[WorkEffects | None]:
        """Determine what a call in the block does; None for a server that may write nothing. Complete after the block."""
        if not _may_write(entry):
            yield None
            return
        await self.ended(entry)
        commands, text, found = self._workspace.commands, f"MCP server {entry.name}: {tool}", None
        try:
            async with commands.observed(agent, text) as found:
                yield found
        except ToolError:
            if found is not None and found.tampered:
                self._report(tamper_warning(text, found.tampered))
            raise
        finally:
            self._seen[entry.name], _ = await commands.protected_since(None, entry.writes)


def _may_write(entry: ServerEntry) -> bool:
    return entry.of_project and bool(entry.writes)
