"""The background commands of a workspace, grouped by the agent that owns them."""

from __future__ import annotations

from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.tool_catalog import BASH_KILL

from .process.command import RunningCommand

MAX_RUNNING = 16
"""Background commands that one agent may have running at the same time."""


class BackgroundJobs:
    """The background commands of a workspace. An agent's job numbers continue when the agent is resumed."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, RunningCommand]] = {}
        self._numbers: dict[str, int] = {}

    def require_room(self, agent: str) -> None:
        """Raise ToolError if the agent has `MAX_RUNNING` commands running."""
        if sum(job.process.running for job in self._jobs.get(agent, {}).values()) >= MAX_RUNNING:
            raise ToolError(
                f"{MAX_RUNNING} background commands are already running.", hint=f"End one with {BASH_KILL} first."
            )

    def add(self, agent: str, running: RunningCommand) -> None:
        """Add a command and set its id."""
        self._numbers[agent] = number = self._numbers.get(agent, 0) + 1
        running.id = f"job-{number}"
        self._jobs.setdefault(agent, {})[running.id] = running

    def get(self, agent: str, job_id: str) -> RunningCommand:
        """The command `job_id` of an agent. Raises ToolError if it has no such command."""
        jobs = self._jobs.get(agent, {})
        if job_id not in jobs:
            raise ToolError(f"No such background command: {job_id!r}.", hint=f"Yours: {', '.join(jobs) or 'none'}.")
        return jobs[job_id]

    def drop(self, agent: str) -> bool:
        """Remove the commands of an agent; whether there were any."""
        return bool(self._jobs.pop(agent, None))
