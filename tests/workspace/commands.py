"""Runs shell commands in a workspace."""

from __future__ import annotations

from collections.abc import Callable

from friday_cli.core.protocol.workspace import Access, CommandResult
from friday_cli.workspace.local import LocalWorkspace


async def run(
    workspace: LocalWorkspace,
    command: str,
    *,
    timeout_s: float = 60,
    agent: str = "a",
    access: Access = "",
    on_output: Callable[[str], None] = lambda text: None,
) -> CommandResult:
    return await workspace.run(command, agent=agent, timeout_s=timeout_s, on_output=on_output, access=access)
