"""What the external agents of a session share: how many may run, and where and with what each program is started."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from friday_cli.config import Settings
from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import FridayError, ToolError
from friday_cli.core.protocol.workspace import whole
from friday_cli.core.tool_catalog import BASH, EDIT_FILE, WRITE_FILE
from friday_cli.extensions.profiles.profile import Profile
from friday_cli.llm.models import catalog
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.environment import DEPTH, nesting_depth
from friday_cli.workspace.process.server import ServerProcess, ServerProgram

from .connection import ProgramFailed
from .login_folder import LoginFolder
from .meter import Meter
from .programs import KnownProgram, how_to_install, program_of
from .turns import Turns
from .upstream import upstream_of

PASSED = ("PATH", "LANG", "LC_ALL", "TZ")
"""Variables of the person that a program gets."""


class ExternalAgents:
    """Starts the programs of a session. `folder` makes the folder of the session in which each has a home of its own."""

    def __init__(
        self, services: Services, settings: Settings, env: Mapping[str, str], folder: Callable[[], Path]
    ) -> None:
        self.services = services
        self.places = asyncio.Semaphore(settings.external_agents.max_external)
        self._settings, self._env, self._folder = settings, env, folder

    async def meter(self, agent: Agent, program: KnownProgram, turns: Turns) -> Meter | None:
        """What counts the requests of an agent's program, open; None where Friday has no key for its service, so that it uses a login of its
        own. Raises ProgramFailed."""
        try:
            upstream = upstream_of(program.wire, self._settings, self._env)
        except FridayError as error:
            raise ProgramFailed(str(error)) from None
        if upstream is None:
            return None
        meter = Meter(agent, self.services, turns, upstream)
        await meter.open()
        turns.counted = True
        return meter

    async def login(self, program: KnownProgram) -> LoginFolder | None:
        """The folder with the login of a program whose requests are not counted; None without one."""
        variable, place = program.login_folder
        path = Path(self._env.get(variable) or os.path.join(self._env.get("HOME", "/"), place))
        return await asyncio.to_thread(lambda: LoginFolder(path) if variable and path.is_dir() else None)

    async def serve(
        self, agent: Agent, profile: Profile, meter: Meter | None, login: LoginFolder | None
    ) -> ServerProcess:
        """Start the program of an agent. Raises ProgramFailed."""
        assert profile.external is not None, "only for such a profile"
        confined = self._settings.sandbox.kind != "none"
        program, home, workspace = program_of(profile.external), self._folder() / f"home-{agent.path}", local(agent)
        try:
            if home.is_symlink():  # what a program without a sandbox left in its place
                home.unlink()
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ProgramFailed(f"The home of {profile.program} could not be prepared: {error.strerror}") from None
        environ = self._environ(agent, program, home, counted=meter is not None)
        environ |= {program.login_folder[0]: str(login.path)} if login is not None else {}
        told = {"{children}": "allow" if _may_do_unasked(agent, confined=confined) else "deny"}
        if meter is not None:
            model = profile.model or catalog.default(program.wire).rpartition("/")[2] or "default"
            model = json.dumps(model)[1:-1]  # some are told in JSON
            told |= {"{url}": meter.url, "{token}": meter.token, "{model}": model}
        for name, text in {**program.env, **(program.metered if meter else {})}.items():
            for key, value in told.items():
                text = text.replace(key, value)
            environ[name] = text
        writes = (home, *((login.path,) if login else ()), *(workspace.roots if _may_write(agent) else ()))
        started = ServerProgram(
            program.argv,
            {**environ, **profile.external.env},
            workspace.root,
            confined=confined,
            network=True,
            only_port=0 if meter is None or self._settings.sandbox.network else meter.port,
            record=confined,
            data=home,
            writes=writes,
            freeze=login.fixed if login else (),
        )
        try:
            return await workspace.serve(started, agent.path)
        except ToolError as error:
            if "was not found" in error.message:
                raise ProgramFailed(f"{profile.program} is not installed: {how_to_install(program)}") from None
            raise ProgramFailed(f"{profile.program} could not be started: {error.message}") from None

    def _environ(self, agent: Agent, program: KnownProgram, home: Path, *, counted: bool) -> dict[str, str]:
        """The variables of a program without those of its row. Its home is empty at first, so that no settings, hooks or rules of
        the person or the project count."""
        names = PASSED if counted else (*PASSED, *program.login_env)
        passed = {name: self._env[name] for name in names if name in self._env}
        depth = str(nesting_depth(self._env) + depth_of(agent.path) + 1)
        return {**passed, "HOME": str(home), "TERM": "dumb", "NO_COLOR": "1", DEPTH: depth}


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


def _may_do_unasked(agent: Agent, *, confined: bool) -> bool:
    """Whether an agent may change files and run commands without a question, and no rule is for what it may not."""
    tools, modes = agent.conversation.tools, ("auto", "yolo") if confined else ("yolo",)
    free = agent.rules.effective_mode in modes and not agent.rules.denying_or_asking()
    return free and WRITE_FILE in tools and BASH in tools
