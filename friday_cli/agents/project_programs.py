"""Whether a program that a trusted project starts may still run: agents can change what it runs while nobody sees it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from friday_cli.core.protocol.errors import FileError, ToolError
from friday_cli.extensions import trust
from friday_cli.workspace.checkpoints.write_hook import FirstChange
from friday_cli.workspace.local import LocalWorkspace

if TYPE_CHECKING:
    from friday_cli.extensions.hooks.hook import Hook
    from friday_cli.extensions.started_programs import ProgramText
    from friday_cli.mcp.entry import ServerEntry

AFTER_CHANGES = "what it runs is not checked, and agents changed files since you trusted the project; `friday trust` allows it again"


class ProjectPrograms:
    """The programs of the project `project`, which work in `workspace`. `apart`: its files are not in the folder of agents.
    `unconfined`: the person switched the sandbox off. `first_change` is that of agents in `workspace`."""

    def __init__(
        self,
        project: trust.Trust,
        workspace: LocalWorkspace,
        env: Mapping[str, str],
        *,
        unconfined: bool,
        apart: bool = False,
        first_change: FirstChange | None = None,
    ) -> None:
        self.project, self.workspace, self.env = project, workspace, env
        self.apart, self.unconfined, self._first_change = apart, unconfined, first_change

    def begin(self, hooks: Sequence[Hook], servers: Sequence[ServerEntry]) -> None:
        """These run in a session. If one may not run after a change by an agent, the first change is reported."""
        if self._first_change is None or not self.project.ok or self.apart or self.project.stale:
            return
        if any(self._needs_unchanged(hook) for hook in hooks) or any(map(self._is_unchecked, servers)):
            self._first_change.must_be_reported()

    def hook_refused(self, hook: Hook, workspace: LocalWorkspace) -> str:
        """Why a hook may not run now, "" if it may. Blocks."""
        changed = self.project.stale or (not self.apart and (self._changed or workspace.write_hook.agents_changed))
        return AFTER_CHANGES if changed and self._needs_unchanged(hook) else ""

    def require(self, entry: ServerEntry) -> None:
        """Raises ToolError if a server of the project may not be started now. Blocks."""
        if not (entry.of_project and entry.transport == "stdio"):
            return
        for name, sha in self._scripts(entry):
            try:
                data = trust.content(self.project.root / name, self.project.root)
            except FileError:
                data = None
            if sha and (data is None or trust.hash_of(data) != sha):
                raise ToolError(f"Not started: {name} has changed since it was trusted.", hint="Run `friday trust`.")
        if (self.project.stale or self._changed) and self._is_unchecked(entry):
            raise ToolError(f"Not started: {AFTER_CHANGES}.")

    @property
    def _changed(self) -> bool:
        return self.workspace.write_hook.agents_changed and not self.apart

    def _needs_unchanged(self, hook: Hook) -> bool:
        """Whether nobody checked what a hook runs, and it can do more than to deny, ask and add text."""
        if hook.source != "project" or not (hook.entry.writes or self.unconfined):
            return False
        from friday_cli.extensions.hooks.read import program_of
        from friday_cli.extensions.started_programs import is_unchecked

        return is_unchecked(program_of(hook.entry), self.project.root)

    def _is_unchecked(self, entry: ServerEntry) -> bool:
        if not (entry.of_project and entry.transport == "stdio"):
            return False
        from friday_cli.extensions.started_programs import is_unchecked, runs_elsewhere

        elsewhere = runs_elsewhere(entry.env, entry.cwd if entry.cwd != os.path.realpath(self.project.root) else "")
        return (
            elsewhere
            or is_unchecked(_program(entry), self.project.root)
            or not all(sha for _, sha in self._scripts(entry))
        )

    def _scripts(self, entry: ServerEntry) -> list[tuple[str, str]]:
        from friday_cli.extensions.started_programs import scripts_of

        return list(scripts_of(_program(entry), Path(self.project.root), self.project.files))


def _program(entry: ServerEntry) -> ProgramText:
    from friday_cli.extensions.started_programs import ProgramText

    return ProgramText(entry.command, entry.args)
