"""Runs the commands of a suite: in the sandbox, without keys, without the network, and without a view of the suite."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from friday_cli.config.settings import SandboxSettings, Settings
from friday_cli.core.protocol.errors import UsageError
from friday_cli.session.sandbox import sandbox_policy
from friday_cli.system.paths import cache_dir
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.sandbox.detect import detect_sandbox

from .suite import Suite

CHECK_S = 600.0
"""Seconds for a check command."""
NOT_STARTED = (126, 127)
"""What a shell returns for a command that it cannot start."""
_ENVIRONMENTS = ("node_modules",)


class CommandEnd(NamedTuple):
    """How a command ended: its exit code (None: it did not end in time), its output, and seconds."""

    exit_code: int | None
    output: str
    seconds: float
    limit_s: float

    @property
    def how(self) -> str:
        """For people."""
        if self.exit_code is None:
            return f"did not end within {self.limit_s:g} s"
        return f"ended with exit code {self.exit_code}"


def trial_sandbox(suite: Suite, given: SandboxSettings) -> SandboxSettings:
    """The sandbox of agents and of checks: no network, and what `hidden_from_trials` names cannot be read, but environments with
    installed packages beside it."""
    denied = hidden_from_trials(suite)
    read = tuple(
        str(path)
        for folder in (suite.folder, *suite.repositories)
        if str(folder) not in denied
        for path in _environments(folder)
    )
    return replace(given, read=(*given.read, *read), read_deny=(*given.read_deny, *denied), network=False)


def hidden_from_trials(suite: Suite) -> tuple[str, ...]:
    """What neither agents nor checks may read: the suite and its repositories, except environments with installed packages."""
    found: list[str] = []
    for folder in (suite.folder, *suite.repositories):
        kept = _environments(folder)
        found += [str(path) for path in folder.iterdir() if path not in kept] if kept else [str(folder)]
    return tuple(dict.fromkeys(found))


def _environments(folder: Path) -> list[Path]:
    inside = folder.iterdir() if folder.is_dir() else ()
    return [path for path in inside if path.name in _ENVIRONMENTS or (path / "pyvenv.cfg").is_file()]


class ConfinedCommands:
    """Commands of a suite. `open` makes it, `close` ends what runs."""

    def __init__(self, workspace: LocalWorkspace, kind: str) -> None:
        self._workspace, self.kind = workspace, kind

    @classmethod
    async def open(cls, suite: Suite, folder: Path, settings: Settings, env: Mapping[str, str]) -> ConfinedCommands:
        """`folder` is where the copies are made. Raises UsageError where no sandbox works and none was chosen on purpose."""
        sandbox = settings.sandbox
        choice = await asyncio.to_thread(
            detect_sandbox, sandbox.kind, env, cache=cache_dir(env), workspace=(folder, Path(os.getcwd()))
        )
        if choice.kind == "none" and sandbox.kind != "none":
            raise UsageError(
                f"No sandbox works here, so the commands of the suite are not run: {choice.why}.",
                hint="`friday doctor` says more; FRIDAY_SANDBOX=none runs them without one on purpose.",
            )
        confined = replace(settings, sandbox=trial_sandbox(suite, sandbox))
        policy = sandbox_policy(confined, choice, env)
        return cls(LocalWorkspace(folder, CommandHost(environ=env, sandbox=policy)), choice.kind)

    async def run(self, command: str, folder: Path, timeout_s: float) -> CommandEnd:
        """Run a shell command in a folder, the only one that it can write. Raises ToolError if it cannot be started."""
        workspace = self._workspace.at(folder)
        try:
            ran = await workspace.run(command, agent="check", timeout_s=timeout_s, on_output=lambda text: None)
        finally:
            await workspace.close()
        if ran.output_file:
            os.unlink(ran.output_file)
        return CommandEnd(None if ran.timed_out else ran.exit_code, ran.output, ran.duration_s, timeout_s)

    async def first_failure(
        self, commands: Iterable[str], folder: Path, timeout_s: float
    ) -> tuple[str, CommandEnd] | None:
        """Run commands one after the other; the first that does not end with 0, None if all do. Raises ToolError."""
        for command in commands:
            ended = await self.run(command, folder, timeout_s)
            if ended.exit_code != 0:
                return command, ended
        return None

    async def close(self) -> None:
        await self._workspace.close()
