"""Runs one hook as a process: under the process supervisor, without keys, a project's in the sandbox."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from friday_cli.core.protocol.errors import FileError, ToolError
from friday_cli.extensions.hooks.answer import Answer, failed, only_tightening, read_answer
from friday_cli.extensions.hooks.hook import Hook
from friday_cli.extensions.hooks.read import program_of
from friday_cli.extensions.started_programs import scripts_of
from friday_cli.extensions.trust import content, hash_of
from friday_cli.system.own_programs import find_program
from friday_cli.system.paths import writable_below
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.process.environment import cleaned, with_trace
from friday_cli.workspace.process.piped import PipedProgram, PipedResult

from ..project_programs import ProjectPrograms

LIMIT = 1024 * 1024
"""Bytes that a hook may write to its output, and to its errors."""
_PASSED = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
    "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "SYSTEMROOT",
))  # fmt: skip


class HookProcesses:
    """Starts hooks. The folder of the project is what they get as `FRIDAY_PROJECT_DIR` and `CLAUDE_PROJECT_DIR`. `programs`
    says which of a project's may run, and where: `unconfined`, without a sandbox, since the person switched it off; `apart`, in the
    folder of the project, since the files in the folder of agents are not trusted."""

    def __init__(self, env: Mapping[str, str], programs: ProjectPrograms) -> None:
        given = {name: value for name, value in env.items() if name in _PASSED or name.startswith("LC_")}
        project = Path(os.path.realpath(programs.project.root))
        folder = str(project)
        self._environ = {**cleaned(given), "FRIDAY_PROJECT_DIR": folder, "CLAUDE_PROJECT_DIR": folder}
        self._project, self._unconfined, self._apart = project, programs.unconfined, programs.apart
        self._programs = programs

    async def run(self, hook: Hook, given: bytes, workspace: LocalWorkspace, agent: str) -> Answer:
        """The answer of a hook to the input `given`. Raises only CancelledError."""
        confined = hook.source == "project" and not self._unconfined
        if confined and not workspace.sandbox_access(""):
            return failed(Answer(hook, problem="not run: a project's hook runs only in a sandbox, and none works here"))
        folder = self._project if self._apart and hook.source == "project" else workspace.root
        if changed := await asyncio.to_thread(self._changed, hook, folder):
            return failed(Answer(hook, problem=f"not run: {changed} has changed since it was trusted"))
        if why := await asyncio.to_thread(self._programs.hook_refused, hook, workspace):
            return failed(Answer(hook, problem=f"not run: {why}"))
        try:
            program = PipedProgram(
                self._argv(hook, workspace, folder),
                given,
                with_trace(self._environ),
                timeout_s=hook.entry.timeout,
                limit=LIMIT,
                cwd=folder,
                confined=confined,
                writes=await asyncio.to_thread(writable_below, folder, hook.entry.writes),
            )
            ran = await workspace.piped(program, agent)
        except ToolError as error:
            return failed(Answer(hook, problem=f"it could not be started: {error.message}"))
        answer = _answer(hook, ran)
        return failed(only_tightening(answer) if hook.source == "project" else answer)

    def _argv(self, hook: Hook, workspace: LocalWorkspace, folder: Path) -> list[str]:
        """The program and its words. Raises ToolError if there is none."""
        path, entry = self._environ.get("PATH"), hook.entry
        if entry.args is None:
            return [find_program("bash", path, (*workspace.roots, folder)) or "/bin/sh", "-c", entry.command]
        name = os.path.expanduser(entry.command)
        found = shutil.which(os.path.join(folder, name) if "/" in name else name, path=path)
        if found is None:
            raise ToolError(f"The program {entry.command} was not found.")
        return [found, *entry.args]

    def _changed(self, hook: Hook, cwd: Path) -> str:
        """A script of a project's hook that is not the trusted one, "" if all are. One that was made since the session began is
        not trusted, and in a worktree (`cwd`) the copy there is the one that runs."""
        if hook.source != "project":
            return ""
        trusted = dict(hook.scripts)
        named = [(self._project, name) for name in trusted]
        for folder in dict.fromkeys((self._project, cwd)):
            found = scripts_of(program_of(hook.entry), folder, {}, project=self._project)
            named += [(folder, name) for name, _ in found]
        for folder, name in dict.fromkeys(named):
            try:
                data = content(folder / name, folder)
            except FileError:
                data = None
            if data is None or hash_of(data) != trusted.get(name):
                return name
        return ""


def _answer(hook: Hook, ran: PipedResult) -> Answer:
    if ran.ended == "timeout":
        return Answer(hook, problem=f"it did not end within {hook.entry.timeout:g} s and was stopped")
    if ran.ended == "output":
        return Answer(hook, problem=f"it wrote more than {LIMIT:,} bytes and was stopped")
    if ran.exit_code is None:
        return Answer(hook, problem="it was killed together with its supervisor")
    if ran.exit_code < 0:
        return Answer(hook, problem=f"it was killed by signal {-ran.exit_code}")
    return read_answer(hook, ran.exit_code, ran.out, ran.err)
