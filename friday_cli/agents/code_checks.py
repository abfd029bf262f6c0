"""What the changes of agents did to the code: asks the language servers after each reply that changed files. Nothing of them is loaded
before the first change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from friday_cli.config.settings import LanguageServerSettings
from friday_cli.core.agent.agent import Agent
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.agent_path import PERSON, is_under
from friday_cli.core.protocol.background_tasks import BackgroundTasks
from friday_cli.core.protocol.code_check import CodeCheck, LanguageServerRow
from friday_cli.core.protocol.errors import FileError, UsageError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.tool_catalog import READ_FILE
from friday_cli.workspace.checkpoints.write_hook import ChangeWatch, FileText
from friday_cli.workspace.local import LocalWorkspace

if TYPE_CHECKING:
    from friday_cli.lsp.pool import Alternatives, LanguageServers

log = logging.getLogger(__name__)

NOT_SHOWN = "a problem that is not shown: a rule denies reading this file, or asks first"
LONGEST_S = 30.0
"""Seconds after which an answer that is late does not come any more: the server is ended."""

_Changes = dict[Path, tuple[FileText, FileText]]
"""The texts of files before and after what one agent did to them."""
_Asked = dict[asyncio.Task[CodeCheck], "Alternatives"]


class CodeChecks:
    """Implements `ChangeChecks` for a session. `make` makes the pool of servers when it is first needed; `warn` shows the person one
    line. A change that a server gave no answer about is asked about again with the next change, and at the end of the run."""

    def __init__(
        self,
        make: Callable[[], LanguageServers],
        settings: LanguageServerSettings,
        warn: Callable[[str], None],
        *,
        has_tool: bool,
    ) -> None:
        self._make, self.settings, self._warn = make, settings, warn
        self._made: LanguageServers | None = None
        self._fresh: dict[str, dict[Alternatives, _Changes]] = {}
        self._unanswered: dict[str, dict[Alternatives, _Changes]] = {}
        self._late: dict[str, _Asked] = {}
        self._held: dict[str, float] = {}
        """Seconds that changes of an agent were held since its last answer."""
        self._tasks = BackgroundTasks()
        self._ended: set[str] = set()
        """Agents whose run has ended: what is applied of their worktrees now, whoever is above them does."""
        self.has_tool = has_tool
        """Whether agents have the tool `code`."""
        self.off = False
        """Whether the person switched the checks off."""

    @property
    def watch(self) -> Callable[[LocalWorkspace], ChangeWatch] | None:
        """Makes what tells it of the changes in a workspace; None if they are not reported."""
        return partial(WorkspaceWatch, self) if self.settings.report != "off" else None

    @property
    def servers(self) -> LanguageServers:
        """The pool."""
        if self._made is None:
            self._made = self._make()
        return self._made

    async def rows(self) -> list[LanguageServerRow]:
        """The servers that were needed so far, and how much memory they take."""
        return await self._made.rows() if self._made is not None else []

    async def switch(self, action: Literal["restart", "off", "on"], name: str) -> str:
        """See `SwitchLanguageServers`."""
        if action != "restart":
            self.off = action == "off"
            return f"Checks of changes are {action}{' in this session' if self.off else ''}."
        names = {row.name for row in await self.rows()}
        if self._made is None or not names or (name and name not in names):
            known = f"Used so far: {', '.join(sorted(names))}." if names else "None has been needed so far."
            raise UsageError(
                f"There is no language server {name}." if name else "No language server is running.", hint=known
            )
        count = await self._made.restart(name)
        return f"{pluralize(count, 'language server')} stopped; the next question starts them again."

    def start(self, alternatives: Iterable[Alternatives]) -> None:
        """Start the servers for a file that is about to be changed."""
        from friday_cli.lsp.check import check_files

        for one in alternatives:
            self._tasks.start(check_files(one, {}, LONGEST_S, 1))

    @contextmanager
    def holding(self, agent: str) -> Iterator[None]:
        """Around what holds a change of an agent: its result waits so much less."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._held[agent] = self._held.get(agent, 0.0) + time.monotonic() - begun

    def restored(self, changes: Mapping[Alternatives, _Changes]) -> None:
        """The person had files restored: tell them what that broke, as soon as it is known."""

        async def check(asked: _Asked) -> None:
            for one in await asyncio.gather(*asked):
                if one.new:
                    self._warn(f"Files were restored. {one.warning}")

        self._tasks.start(check(self._ask("", changes)))

    def add(self, agent: str, changes: Mapping[Alternatives, _Changes]) -> None:
        """An agent changed files."""
        _join(self._fresh.setdefault(agent, {}), changes)

    async def checked(self, agent: Agent) -> Sequence[CodeCheck]:
        self._ended.discard(agent.path)
        late, changes = self._late.setdefault(agent.path, {}), self._taken(agent.path)
        wait_s = self.settings.wait_s - self._held.pop(agent.path, 0.0)
        again = self._unanswered.get(agent.path, {})
        asked: _Asked = {}
        if changes and not self.off:
            changes = _join({one: again.pop(one) for one in changes if one in again}, changes)
            asked = self._ask(agent.path, changes)
            late |= asked  # also if the wait is cancelled
            await asyncio.wait(asked, timeout=max(0.0, wait_s))
        found: list[CodeCheck] = []
        for task in [task for task in late if task.done()]:
            late.pop(task)
            _add(found, _readable(agent, task.result()))
        for one in (asked[task] for task in asked if not task.done()):
            name, state = _asked_now(one)
            why = f"no answer within {self.settings.wait_s:g} s" if state == "runs" else "it is still starting"
            found.append(CodeCheck(name, unknown=f"{why}; a later result will report it"))
        return found

    async def settled(self, agent: Agent) -> Sequence[CodeCheck]:
        self._ended.add(agent.path)
        late, changes = self._late.pop(agent.path, {}), self._taken(agent.path)
        changes = _join(self._unanswered.pop(agent.path, {}), changes)
        if not self.off:
            late |= self._ask(agent.path, changes)
        if late:
            await asyncio.wait(late, timeout=self.settings.end_s)
        self._unanswered.pop(agent.path, None)
        found: list[CodeCheck] = []
        for task, one in late.items():
            if task.done():
                _add(found, _readable(agent, task.result()))
            else:
                task.cancel()
                found.append(CodeCheck(_asked_now(one)[0], unknown="no answer before the work ended"))
        return found

    def _taken(self, agent: str) -> dict[Alternatives, _Changes]:
        """What an agent changed, and what was applied of those below it, since the last call."""
        below = [path for path in self._fresh if is_under(path, agent) and (path == agent or path in self._ended)]
        taken: dict[Alternatives, _Changes] = {}
        for path in below:
            _join(taken, self._fresh.pop(path))
        return taken

    def _ask(self, agent: str, changes: Mapping[Alternatives, _Changes]) -> _Asked:
        return {self._tasks.start(self._check(agent, one, files)): one for one, files in changes.items()}

    async def _check(self, agent: str, alternatives: Alternatives, changes: _Changes) -> CodeCheck:
        """What the first of these servers that runs says of changes. Raises only CancelledError."""
        from friday_cli.lsp.check import TextChange, check_files
        from friday_cli.lsp.problems import ERROR, WARNING

        known, name = dict[Path, TextChange](), alternatives[0].name
        for path, (old, new) in changes.items():
            if isinstance(old, FileError) or isinstance(new, FileError):
                return CodeCheck(name, unknown=str(old if isinstance(old, FileError) else new), final=True)
            if old != new:
                known[path] = TextChange(old, new)
        if not known:
            return CodeCheck(name, files=len(changes))
        try:
            worst = WARNING if self.settings.report == "warning" else ERROR
            check = await check_files(alternatives, known, LONGEST_S, worst)
        except Exception as error:
            log.exception("the check of %s failed", name)
            check = CodeCheck(name, unknown=f"the check failed: {type(error).__name__}")
        if check.unknown and agent:
            _join(self._unanswered.setdefault(agent, {}), {alternatives: changes}, later=False)
        return check

    async def close(self) -> None:
        await self._tasks.end()
        if self._made is not None:
            await self._made.close()


class WorkspaceWatch:
    """Implements `ChangeWatch`: collects what agents change in one workspace."""

    def __init__(self, checks: CodeChecks, workspace: LocalWorkspace) -> None:
        self._checks, self._workspace = checks, workspace

    async def before(self, agent: str, paths: Sequence[Path]) -> Mapping[Path, FileText]:
        if agent == PERSON or self._checks.off:
            return {}
        from friday_cli.lsp.project_files import read_text

        with self._checks.holding(agent):
            found = {path: await self._alternatives(path) for path in paths}
            wanted = [path for path, alternatives in found.items() if alternatives]
            if wanted and agent:
                self._checks.start(found[wanted[0]])
            return await asyncio.to_thread(lambda: {path: read_text(path) for path in wanted})

    async def changed(self, agent: str, before: Mapping[Path, FileText]) -> None:
        if agent == PERSON or self._checks.off:
            return
        from friday_cli.lsp.project_files import read_text

        changes: dict[Alternatives, _Changes] = {}
        with self._checks.holding(agent):
            found = {path: await self._alternatives(path) for path in before}
            now = await asyncio.to_thread(lambda: {path: read_text(path) for path in before if found[path]})
        for path, new in now.items():
            for one in found[path]:
                changes.setdefault(one, {})[path] = before[path], new
        if agent:
            self._checks.add(agent, changes)
        else:  # a rewind
            self._checks.restored(changes)

    async def _alternatives(self, path: Path) -> list[Alternatives]:
        servers = self._checks.servers
        return await servers.alternatives(self._workspace, path) if servers.wants(path) else []


def _join(
    into: dict[Alternatives, _Changes], changes: Mapping[Alternatives, _Changes], *, later: bool = True
) -> dict[Alternatives, _Changes]:
    """Add changes that came after those of `into`, or before them."""
    for one, files in changes.items():
        known = into.setdefault(one, {})
        for path, change in files.items():
            first, last = (known.get(path, change), change) if later else (change, known.get(path, change))
            known[path] = first[0], last[1]
    return into


def _readable(agent: Agent, check: CodeCheck) -> CodeCheck:
    """`check` without what a server says of files that a rule keeps from the agent: it may quote them."""
    paths = [problem.path for problem in (*check.new, *check.fixed)]
    if not (hidden := agent.rules.withheld(RuleInput(READ_FILE, "read"), paths)):
        return check
    new, fixed = (
        tuple(msgspec.structs.replace(one, message=NOT_SHOWN) if one.path in hidden else one for one in found)
        for found in (check.new, check.fixed)
    )
    return msgspec.structs.replace(check, new=new, fixed=fixed)


def _add(found: list[CodeCheck], check: CodeCheck) -> None:
    """Add an answer, to that of the same server about earlier changes."""
    for number, one in enumerate(found):
        if (one.server, one.unknown, check.unknown) == (check.server, "", ""):
            found[number] = one.followed_by(check)
            return
    found.append(check)


def _asked_now(alternatives: Alternatives) -> tuple[str, str]:
    """The name and the state of the server that is waited for."""
    one = next((one for one in alternatives if one.state != "off"), alternatives[0])
    return one.name, one.state
