"""What the commands of a workspace and of its worktrees share."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .output import HEAD, TAIL, OverflowFolder

if TYPE_CHECKING:
    from ..sandbox.policy import SandboxPolicy
    from .client import SupervisorClient


class CommandHost:
    """How commands run on this machine: their environment, sandbox and limits. Nothing is started before the first command."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        keep: Collection[str] = (),
        limits: Mapping[str, int] | None = None,
        shown: int = HEAD + TAIL,
        sandbox: SandboxPolicy | None = None,
        overflow_folder: Path | None = None,
    ) -> None:
        self._given = os.environ if environ is None else environ
        """What commands get without variables that look secret; default: the environment of this process."""
        self.keep = tuple(keep)
        """Names of variables that they get nevertheless, in a sandbox, too."""
        self._limits = {"core": 0, **(limits or {})}
        """Resource limits of each command by their lower-case POSIX names (`{"data": bytes, "cpu": seconds}`)."""
        self.shown = shown
        """Bytes of an output that are returned."""
        self.sandbox = sandbox
        """Confines the commands (None: they are not confined)."""
        self.overflow = OverflowFolder(overflow_folder)
        """For output too long for memory: a folder created with mode 0700; default: a temporary one."""

    @cached_property
    def _passed(self) -> dict[str, str]:
        from .environment import cleaned

        return cleaned(self._given, keep=self.keep)

    @cached_property
    def supervisor(self) -> SupervisorClient:
        """Starts the processes, and ends them with this one."""
        from .client import SupervisorClient

        return SupervisorClient(self._passed, self._limits)

    def environ(self, *, elsewhere: bool) -> dict[str, str]:
        """The variables of commands. `elsewhere`: in another folder, without those that point git to another repository."""
        from .environment import ELSEWHERE

        return {name: value for name, value in self._passed.items() if not (elsewhere and name in ELSEWHERE)}

    async def end_processes(self) -> None:
        """End the supervisor, if it was needed."""
        if "supervisor" in vars(self):
            await self.supervisor.close()
