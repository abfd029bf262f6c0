"""Runs a check command where an agent worked: confined as its own commands are."""

from __future__ import annotations

import os
from typing import NamedTuple

from friday_cli.core.agent.agent import Agent
from friday_cli.core.text.sanitize import sanitize

CHECK_S = 600.0
"""Seconds for a check command."""
CHECK_CHARS = 4_000
"""Characters of a check's output that an agent reads."""


class CheckEnd(NamedTuple):
    """How a check ended, in words, and the end of its output."""

    passed: bool
    how: str
    output: str


async def run_check(agent: Agent, command: str, *, before: str = "") -> CheckEnd:
    """Run `command` in the workspace of an agent that does nothing else meanwhile. `before`: shell text that sets variables. Raises
    ToolError if it cannot be started."""
    await agent.slot.start_parallel(1, on_machine=True)
    try:
        ran = await agent.workspace.run(
            before + command, agent=agent.path, timeout_s=CHECK_S, on_output=lambda text: None
        )
    finally:
        await agent.slot.resume_single()
    if ran.output_file:
        os.unlink(ran.output_file)  # a check runs for each item: all of its output would fill the disk
    how = f"did not end within {CHECK_S:.0f} s" if ran.timed_out else f"ended with exit code {ran.exit_code}"
    return CheckEnd(ran.exit_code == 0 and not ran.timed_out, how, sanitize(ran.output).strip()[-CHECK_CHARS:])
