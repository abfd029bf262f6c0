"""What the external agents of a session share: how many may run, and where and with what each program is started."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.workspace import whole
from friday_cli.core.tool_catalog import BASH, EDIT_FILE, WRITE_FILE
from friday_cli.extensions.profiles.profile import Profile
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.environment import DEPTH, nesting_depth
from friday_cli.workspace.process.server import ServerProcess, ServerProgram

from .connection import ProgramFailed
from .programs import KnownProgram, program_of

PASSED = ("PATH", "LANG", "LC_ALL", "TZ")
"""Variables of the person that a program gets."""


class ExternalAgents:
    """Starts the programs of a session. At most `most` run at once. `folder` makes the folder of the session in which each has a home of its own.
    `confined`: programs run in the sandbox; otherwise the person has switched it off."""

    def __init__(
        self, services: Services, env: Mapping[str, str], folder: Callable[[], Path], *, most: int, confined: bool
    ) -> None:
        self.services = services
        self.places = asyncio.Semaphore(most)
        self._env, self._folder, self._confined = env, folder, confined

    def home(self, agent: Agent) -> Path:
        """The home of an agent's program: empty at first, so that no settings, hooks or rules of the person or the project count."""
        return self._folder() / f"home-{agent.path}"

    async def serve(self, agent: Agent, profile: Profile) -> ServerProcess:
        """Start the program of an agent. Raises ProgramFailed."""
        assert profile.external is not None, "only for such a profile"
        program, home = program_of(profile.external), self.home(agent)
        workspace = local(agent)
        writes = (home, *(workspace.roots if _may_write(agent) else ()))
        environ = self._environ(agent, program, profile, home)
        started = ServerProgram(
            program.argv, environ, workspace.root, confined=self._confined, network=True, data=home, writes=writes
        )
        try:
            return await workspace.serve(started, agent.path)
        except ToolError as error:
            raise ProgramFailed(*_not_started(profile, program, error)) from None

    def _environ(self, agent: Agent, program: KnownProgram, profile: Profile, home: Path) -> dict[str, str]:
        assert profile.external is not None
        passed = {name: self._env[name] for name in PASSED if name in self._env}
        login = {name: self._env[name] for name in program.login_env if name in self._env}
        depth = str(nesting_depth(self._env) + depth_of(agent.path) + 1)
        own = {"HOME": str(home), "TERM": "dumb", "NO_COLOR": "1", DEPTH: depth}
        return {**passed, **own, **program.env, **login, **profile.external.env}


def local(agent: Agent) -> LocalWorkspace:
    """The workspace of an agent. Raises ProgramFailed if no program can be started there."""
    workspace = whole(agent.workspace)
    if not isinstance(workspace, LocalWorkspace):
        raise ProgramFailed("An external agent needs a folder of this machine.")
    return workspace


def _may_write(agent: Agent) -> bool:
    """Whether the rights of an agent let it change files at all."""
    tools = agent.conversation.tools
    return agent.rules.effective_mode != "plan" and any(name in tools for name in (WRITE_FILE, EDIT_FILE, BASH))


def _not_started(profile: Profile, program: KnownProgram, error: ToolError) -> tuple[str]:
    name = profile.program
    if "was not found" in error.message:
        how = (
            f"npm i -g {program.package}"
            if program.package
            else f"put {os.path.basename(program.argv[0])} on your PATH"
        )
        return (f"{name} is not installed: {how}",)
    return (f"{name} could not be started: {error.message}",)
