"""Background commands, by the agent that owns them."""

from __future__ import annotations

from friday_cli.core.protocol.errors import ToolError
from friday_cli.tool_catalog import BASH_KILL

from .process.command import RunningCommand

MOST = 16
"""Background commands one agent may have running."""


class BackgroundJobs:
    """The background commands of a workspace; their numbers go on where their agent is continued."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, RunningCommand]] = {}
        self._numbers: dict[str, int] = {}

    def require_room(self, agent: str) -> None:
        """Raises ToolError where an agent has as many running as it may."""
        if sum(job.process.running for job in self._jobs.get(agent, {}).values()) >= MOST:
            raise ToolError(f"{MOST} background commands are running already.", hint=f"End one with {BASH_KILL} first.")

    def add(self, agent: str, running: RunningCommand) -> None:
        """Give a command its id."""
        self._numbers[agent] = number = self._numbers.get(agent, 0) + 1
        running.id = f"job-{number}"
        self._jobs.setdefault(agent, {})[running.id] = running

    def get(self, agent: str, job_id: str) -> RunningCommand:
        """Raises ToolError where the agent has no such command."""
        mine = self._jobs.get(agent, {})
        if job_id not in mine:
            raise ToolError(f"There is no background command {job_id!r}.", hint=f"Yours: {', '.join(mine) or 'none'}.")
        return mine[job_id]

    def drop(self, agent: str) -> bool:
        """Forget the commands of an agent; whether there were any."""
        return bool(self._jobs.pop(agent, None))

    def clear(self) -> None:
        """Forget the commands of all agents."""
        self._jobs.clear()
