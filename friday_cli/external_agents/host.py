"""What the external agents of a session share: how many may run, and where and with what each program is started."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
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
from friday_cli.system.beneath import WALK
from friday_cli.system.safe_files import create_file
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.environment import DEPTH, nesting_depth
from friday_cli.workspace.process.server import ServerProcess, ServerProgram

from .connection import ProgramFailed
from .login_folder import LoginFolder
from .meter import Meter
from .programs import KnownProgram, program_of
from .turns import Turns
from .upstream import SERVICES, upstream_of

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

    async def meter(self, agent: Agent, profile: Profile, turns: Turns) -> Meter | None:
        """What counts the requests of an agent's program, open; None where Friday has no key for its service, so that it uses a login of its
        own. Raises ProgramFailed."""
        assert profile.external is not None, "only for such a profile"
        try:
            upstream = upstream_of(program_of(profile.external).wire, self._settings, self._env)
        except FridayError as error:
            raise ProgramFailed(str(error)) from None
        if upstream is None:
            return None
        meter = Meter(agent, self.services, turns, upstream)
        await meter.open()
        turns.counted = True
        return meter

    async def login(self, profile: Profile, meter: Meter | None) -> LoginFolder | None:
        """The folder with the login of a program, which it uses where its requests are not counted; None without one."""
        assert profile.external is not None, "only for such a profile"
        variable, place = program_of(profile.external).login_folder
        if meter is not None or not variable:
            return None
        path = Path(self._env.get(variable) or os.path.join(self._env.get("HOME", "/"), place))
        return await asyncio.to_thread(lambda: LoginFolder(path) if path.is_dir() else None)

    async def serve(
        self, agent: Agent, profile: Profile, meter: Meter | None, login: LoginFolder | None
    ) -> ServerProcess:
        """Start the program of an agent. Raises ProgramFailed."""
        assert profile.external is not None, "only for such a profile"
        program, home = program_of(profile.external), self._folder() / f"home-{agent.path}"
        workspace = local(agent)
        environ = self._environ(agent, program, home, counted=meter is not None)
        environ |= {program.login_folder[0]: str(login.path)} if login is not None else {}
        files = dict(program.files)
        if meter is not None:
            told = {"{url}": meter.url, "{token}": meter.token, "{model}": self._model(profile, program)}
            environ |= {name: _filled(text, told) for name, text in program.metered_env.items()}
            files |= {name: _filled(text, told) for name, text in program.metered_files.items()}
        try:
            await asyncio.to_thread(_write, home, files)
        except OSError as error:
            raise ProgramFailed(f"The home of {profile.program} could not be prepared: {error.strerror}") from None
        writes = (home, *((login.path,) if login else ()), *(workspace.roots if _may_write(agent) else ()))
        confined = self._settings.sandbox.kind != "none"
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
            raise ProgramFailed(_not_started(profile, program, error)) from None

    def _environ(self, agent: Agent, program: KnownProgram, home: Path, *, counted: bool) -> dict[str, str]:
        """The variables of a program without those that tell it of the meter. Its home is empty at first, so that no settings, hooks or rules of
        the person or the project count."""
        passed = {name: self._env[name] for name in PASSED if name in self._env}
        login = {name: self._env[name] for name in program.login_env if name in self._env and not counted}
        own = {name: _filled(text, {"{home}": str(home)}) for name, text in program.env.items()}
        depth = str(nesting_depth(self._env) + depth_of(agent.path) + 1)
        return {**passed, "HOME": str(home), "TERM": "dumb", "NO_COLOR": "1", DEPTH: depth, **own, **login}

    def _model(self, profile: Profile, program: KnownProgram) -> str:
        """The model that a program is told: that of the profile, else the default of the service."""
        return profile.model or catalog.default(SERVICES[program.wire]).rpartition("/")[2] or "default"


def _filled(text: str, told: Mapping[str, str]) -> str:
    for name, value in told.items():
        text = text.replace(name, value)
    return text


def _write(home: Path, files: Mapping[str, str]) -> None:
    """Write files of a program's home, which only this user can read. What the program left there in an earlier run is not trusted: a link
    or another file in the place of a folder is replaced, and so is whatever is in the place of a file. Raises OSError."""
    if home.is_symlink() or not home.is_dir():
        home.unlink(missing_ok=True)
        home.mkdir(parents=True, mode=0o700)
    for name, text in files.items():
        *above, last = name.split("/")
        folder = os.open(home, WALK)
        try:
            for part in above:
                below = _folder_in(folder, part)
                os.close(folder)
                folder = below
            _remove(folder, last)
            create_file(folder, last, text.encode(), None, lambda _: 0o600)
        finally:
            os.close(folder)


def _folder_in(folder: int, name: str) -> int:
    """A descriptor of the folder `name`, which is made where there is none. Raises OSError."""
    try:
        return os.open(name, WALK, dir_fd=folder)
    except OSError:
        _remove(folder, name)
        os.mkdir(name, 0o700, dir_fd=folder)
        return os.open(name, WALK, dir_fd=folder)


def _remove(folder: int, name: str) -> None:
    """Remove what is there under a name, and nothing that a link leads to. Raises OSError."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)


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


def _not_started(profile: Profile, program: KnownProgram, error: ToolError) -> str:
    name = profile.program
    if "was not found" in error.message:
        how = (
            f"npm i -g {program.package}"
            if program.package
            else f"put {os.path.basename(program.argv[0])} on your PATH"
        )
        return f"{name} is not installed: {how}"
    return f"{name} could not be started: {error.message}"
