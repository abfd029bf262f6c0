"""Runs shell commands in a workspace."""

from __future__ import annotations

import signal
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


def signals(mask: str | bytes) -> list[int]:
    """The signals in a mask of /proc/PID/status (hexadecimal) that a program can reset. The C library keeps 32 and 33 to itself: a
    program that was started with them ignored hands that on."""
    return [number for number in signal.valid_signals() if int(mask, 16) >> number - 1 & 1]
