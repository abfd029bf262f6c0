"""What the changes of agents did to the code: asks the language servers after each reply that changed files. Nothing of them is loaded
before the first change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from friday_cli.config.settings import LanguageServerSettings
from friday_cli.core.agent.agent import Agent
from friday_cli.core.protocol.agent_path import PERSON, is_under
from friday_cli.core.protocol.code_check import CodeCheck, LanguageServerRow
from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.workspace.local import LocalWorkspace

if TYPE_CHECKING:
    from friday_cli.lsp.pool import LanguageServers

LONGEST_S = 30.0
"""Seconds after which an answer that is late does not come any more: the server is ended."""


class _Change(NamedTuple):
    """The texts of a file before and after what one agent did to it; None: it does not exist."""

    old: str | None
    new: str | None


_Changes = dict[LocalWorkspace, dict[Path, _Change]]


class CodeChecks:
    """Implements `ChangeChecks` for a session. `make` makes the pool of servers when it is first needed; `warn` shows the person one
    line."""

    def __init__(
        self, make: Callable[[], LanguageServers], settings: LanguageServerSettings, warn: Callable[[str], None]
    ) -> None:
        self._make, self.settings, self._warn = make, settings, warn
        self._made: LanguageServers | None = None
        self._pending: dict[str, _Changes] = {}
        self._late: dict[str, list[asyncio.Task[list[CodeCheck]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: set[str] = set()
        """Agents whose run has ended: what is applied of their worktrees now, whoever is above them does."""
        self.has_tool = False
        """Whether agents have the tool `code`."""
        self.off = False
        """Whether the person switched the checks off."""

    @property
    def servers(self) -> LanguageServers:
        """The pool."""
        if self._made is None:
            self._made = self._make()
        return self._made

    async def rows(self) -> list[LanguageServerRow]:
        """The servers that were needed so far, and how much memory they take."""
        return await self._made.measured() if self._made is not None else []

    async def switch(self, action: Literal["restart", "off", "on"], name: str) -> str:
        """See `SwitchLanguageServers`."""
        if action != "restart":
            self.off = action == "off"
            return f"Checks of changes are {action}{' in this session' if self.off else ''}."
        names = {row.name for row in self._made.states()} if self._made is not None else set()
        if self._made is None or not names or (name and name not in names):
            known = f"Used so far: {', '.join(sorted(names))}." if names else "None has been needed so far."
            raise UsageError(
                f"There is no language server {name}." if name else "No language server is running.", hint=known
            )
        count = await self._made.restart(name)
        return f"{pluralize(count, 'language server')} stopped; the next question starts them again."

    def watch(self, workspace: LocalWorkspace) -> WorkspaceWatch:
        """What a workspace tells of its changes."""
        return WorkspaceWatch(self, workspace)

    def expect(self, workspace: LocalWorkspace, path: Path) -> None:
        """Start the servers for a file that is about to be changed."""

        async def start() -> None:
            from friday_cli.lsp.connection import NotKnown

            try:
                for one in await self.servers.for_file(workspace, path):
                    await asyncio.to_thread(one.files.scan)
            except NotKnown:
                pass  # the check says it

        self._in_background(start())

    def rewound(self, workspace: LocalWorkspace, changes: Mapping[Path, _Change]) -> None:
        """The person had files restored: tell them what that broke, as soon as it is known."""

        async def check() -> None:
            for one in await self._check({workspace: dict(changes)}):
                if one.new:
                    self._warn(f"Files were restored. {one.warning}")

        self._in_background(check())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def add(self, agent: str, workspace: LocalWorkspace, path: Path, change: _Change) -> None:
        """An agent changed a file."""
        files = self._pending.setdefault(agent, {}).setdefault(workspace, {})
        first = files.get(path, change)
        files[path] = _Change(first.old, change.new)

    async def checked(self, agent: Agent) -> Sequence[CodeCheck]:
        late = [task for task in self._late.get(agent.path, ()) if task.done()]
        found = [check for task in late for check in _result(task)]
        self._ended.discard(agent.path)
        changes = self._taken(agent.path)
        self._late[agent.path] = [task for task in self._late.get(agent.path, ()) if task not in late]
        if changes and not self.off:
            for check in await self._waited(agent.path, changes, self.settings.wait_s):
                earlier = next(
                    (one for one in found if (one.server, one.unknown, check.unknown) == (check.server, "", "")), None
                )
                if earlier is not None:
                    found.remove(earlier)
                    check = earlier.followed_by(check)
                found.append(check)
        return found

    async def settled(self, agent: Agent) -> Sequence[CodeCheck]:
        late, changes = self._late.pop(agent.path, []), self._taken(agent.path)
        self._ended.add(agent.path)
        if changes and not self.off:
            late.append(asyncio.create_task(self._check(changes)))
        if not late:
            return ()
        done, missing = await asyncio.wait(late, timeout=self.settings.end_s)
        for task in missing:
            task.cancel()
        await asyncio.gather(*missing, return_exceptions=True)
        found = [check for task in done for check in _result(task)]
        names = ", ".join(sorted({one.name for one in self.servers.states() if one.state != "off"}))
        return [
            *found,
            *([CodeCheck(names, unknown="no answer before the work ended")] if missing and names else []),
        ]

    def _taken(self, agent: str) -> _Changes:
        """What an agent changed, and what was applied of those below it, since the last call."""
        below = [path for path in self._pending if is_under(path, agent) and (path == agent or path in self._ended)]
        taken: _Changes = {}
        for path in below:
            for workspace, files in self._pending.pop(path).items():
                known = taken.setdefault(workspace, {})
                for name, change in files.items():
                    known[name] = _Change(known.get(name, change).old, change.new)
        return taken

    async def _waited(self, agent: str, changes: _Changes, wait_s: float) -> list[CodeCheck]:
        """The checks of these changes; after `wait_s` seconds only that they are not known, and they come later."""
        task = asyncio.create_task(self._check(changes))
        try:
            done, _ = await asyncio.wait([task], timeout=wait_s)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            return _result(task)
        self._late.setdefault(agent, []).append(task)
        states = {one.name: one.state for one in self.servers.states()}
        waiting = [name for name, state in states.items() if state in ("starts", "runs")] or list(states)
        why = "it is still starting" if "starts" in states.values() else f"no answer within {wait_s:g} s"
        return [CodeCheck(", ".join(waiting), unknown=f"{why}; a later result will report it")] if waiting else []

    async def _check(self, changes: _Changes) -> list[CodeCheck]:
        from friday_cli.lsp.check import check_files
        from friday_cli.lsp.problems import ERROR, WARNING

        found: list[CodeCheck] = []
        worst = WARNING if self.settings.report == "warning" else ERROR
        for workspace, files in changes.items():
            changed = (path for path, change in files.items() if change.old != change.new)
            groups, unknown = await self.servers.by_server(workspace, changed)
            checks = (
                check_files(one, {path: files[path] for path in paths}, workspace.label, LONGEST_S, worst)
                for one, paths in groups.items()
            )
            found += [*unknown, *await asyncio.gather(*checks)]
        return found

    async def close(self) -> None:
        tasks = [*self._tasks, *(task for tasks in self._late.values() for task in tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._made is not None:
            await self._made.close()


class WorkspaceWatch:
    """Implements `ChangeWatch`: collects what agents change in one workspace."""

    def __init__(self, checks: CodeChecks, workspace: LocalWorkspace) -> None:
        self._checks, self._workspace = checks, workspace

    async def before(self, agent: str, paths: Sequence[Path]) -> Mapping[Path, str | None]:
        if agent == PERSON or self._checks.off:
            return {}
        from friday_cli.lsp.project_files import read_text

        wanted = [path for path in paths if self._checks.servers.wants(path)]
        if wanted and agent:
            self._checks.expect(self._workspace, wanted[0])
        return {path: await asyncio.to_thread(read_text, path) for path in wanted}

    async def changed(self, agent: str, before: Mapping[Path, str | None]) -> None:
        from friday_cli.lsp.project_files import read_text

        changes = {
            path: _Change(old, await asyncio.to_thread(read_text, path))
            for path, old in before.items()
            if self._checks.servers.wants(path)
        }
        if not agent:  # a rewind
            return self._checks.rewound(self._workspace, changes)
        for path, change in changes.items():
            self._checks.add(agent, self._workspace, path, change)


def _result(task: asyncio.Task[list[CodeCheck]]) -> list[CodeCheck]:
    """What a check found; a defect in it counts as not known."""
    if task.cancelled():
        return []
    if error := task.exception():
        return [CodeCheck("language server", unknown=f"the check failed: {type(error).__name__}")]
    return task.result()
