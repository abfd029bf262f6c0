"""Children that work apart: their worktrees from the call that asks for one to the word on what becomes of the work."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli.core.agent.agent import Agent, Services
from friday_cli.core.eventlog.replay import AgentRecord
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.protocol.agent_path import is_under, parent_of
from friday_cli.core.protocol.errors import PermissionDenied, ToolError
from friday_cli.core.protocol.events import AnyEvent, Notice, WorktreeChanged
from friday_cli.core.protocol.tool import ToolContext
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents.run import finish_despite_cancel
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.text.untrusted import neutralize, neutralize_line
from friday_cli.tool_catalog import APPLY_DELEGATION, DISCARD_DELEGATION
from friday_cli.tools.worktree import Landed, WorktreeSettings
from friday_cli.workspace.local import LocalWorkspace

from .system_prompt import Environment

if TYPE_CHECKING:
    from friday_cli.workspace.worktrees import Own, Worktree, Worktrees

log = logging.getLogger(__name__)
LISTED = 60
"""Changed files named in a report."""


class WorktreeIsolation:
    """Ties worktrees to agents. `main` is the workspace of the session; `tree` is set before anything is asked.

    The worktrees themselves, which `make` gives and whose folder is `folder`, are made when one is first needed.
    """

    tree: SubagentTree

    def __init__(self, folder: Path, make: Callable[[Path], Worktrees], world: Services) -> None:
        self._folder = Path(os.path.realpath(folder))
        self._make = make
        self._made: Worktrees | None = None
        self._world = world
        self._asked: dict[str, tuple[str, ...]] = {}
        self._lock = asyncio.Lock()
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def worktrees(self) -> Worktrees:
        if self._made is None:
            self._made = self._make(self._folder)
        return self._made

    def _of(self, path: str) -> Worktree | None:
        return self._made.of(path) if self._made else None

    def _at(self, workspace: Workspace) -> Worktree | None:
        return self._made.at(workspace) if self._made else None

    @property
    def main(self) -> LocalWorkspace:
        """The workspace of the session. Raises ToolError where it is not on this machine."""
        return _on_this_machine(self._world.workspace)

    @property
    def settings(self) -> WorktreeSettings:
        """What the tools need."""
        return WorktreeSettings(self.touched, self.apply, self.discard)

    # ---- before a run -----------------------------------------------------------------

    async def create(self, path: str) -> LocalWorkspace:
        """A worktree for a new child of `path`: its parent's files as they are. Raises ToolError."""
        return await self._open(self.tree.node(path).agent)

    async def _open(self, parent: Agent, *, again: str = "") -> LocalWorkspace:
        made = await self.worktrees.open(_on_this_machine(parent.workspace), again=again)
        assert made.workspace is not None
        return made.workspace

    async def cancel(self, workspace: Workspace) -> None:
        """Remove a worktree whose child was not started after all, even for a call that is stopped at this moment."""
        found = self._at(workspace)
        if found is not None and not found.path:
            await finish_despite_cancel(self.worktrees.discard(found))

    async def workspace_for_resume(self, parent: Agent, path: str) -> LocalWorkspace | None:
        """Where an ended agent goes on: its worktree, or a new one where that is gone; None: where its parent works."""
        async with self._lock:
            own = self._of(path)
            if own is None:
                return None
            if own.open:
                return self.worktrees.enter(own, self.main)
            return await self._open(parent, again=own.card.name)

    def assign(self, agent: Agent) -> None:
        """Give the worktree that `agent` is to start in to it, for good."""
        made = self._made.claim(agent.workspace, agent.path) if self._made else None
        if made is not None:
            made.state = "opened"
            agent.start_events.append(made.event)
            agent.start_events += [Notice(f"Worktree of {agent.path}: {text}", "warning") for text in made.notes]

    def environment_for(self, workspace: Workspace, here: Environment) -> Environment:
        """The surroundings of an agent that works in `workspace`."""
        inside = self._at(workspace)
        if inside is None:
            return here
        main = str(Path(inside.card.top) / inside.card.within)
        return msgspec.structs.replace(
            here, folder=str(workspace.root), branch=inside.card.branch, folders=(), copy_of=main
        )

    # ---- after a run --------------------------------------------------------------------

    async def update_state(self, path: str) -> None:
        """An agent ended, or was not continued after all: see what is in the worktrees it worked in or below, wherever
        nobody is at work any more. Never raises."""
        while path:
            inside = self._of(path)
            if inside is not None:
                await self._update_state(inside)
            path = parent_of(path)

    async def _update_state(self, inside: Worktree) -> None:
        async with self._lock:
            if inside.state != "opened" or self.tree.running(inside.path):
                return
            try:
                await self.worktrees.look(inside)
                inside.problem = ""
            except ToolError as error:
                inside.state, inside.problem = "changed", str(error)
            except Exception as error:
                log.exception("worktree of %s", inside.path)
                inside.state, inside.problem = "changed", f"{type(error).__name__}: {error}"
            await self._world.log.emit(inside.path, *_news(inside))

    async def restore(self, records: Mapping[str, AgentRecord]) -> None:
        """Take up the worktrees that an earlier process of this session left."""
        left = await self.worktrees.recall() if await asyncio.to_thread(self._folder.is_dir) else []
        found = {worktree.path: worktree for worktree in left}
        for path, worktree in found.items():
            known = records.get(path)
            if known is not None and known.worktree != worktree.event:
                await self._world.log.emit(path, *_news(worktree))
        for path, record in records.items():
            if record.worktree is not None and path not in found:
                gone = _past(path, record.worktree, self.worktrees)
                self.worktrees.remember(gone)
                if gone.state != record.worktree.state:  # somebody removed it from outside
                    await self._world.log.emit(path, *_news(gone))

    def sweep(self, own: Own, environ: Mapping[str, str]) -> None:
        """Begin to look through what dead processes left: what is empty goes, and of work here the person is told."""
        if self._folder.parent.is_dir():
            self._sweeping = asyncio.create_task(self._sweep(own, environ), name="worktrees of dead processes")

    async def _sweep(self, own: Own, environ: Mapping[str, str]) -> None:
        from friday_cli.workspace.worktrees import look_through

        here = str(self.main.root)
        found = await look_through(self._folder.parent, own, environ, skip=self._folder.name)
        if mine := [left.worktree for left in found.left if not left.living and left.worktree.card.home == here]:
            names = ", ".join(worktree.card.name for worktree in mine[:5]) + (" ..." if len(mine) > 5 else "")
            text = f"Work of sub-agents of earlier sessions was never taken over: {names}. See `friday worktrees list`."
            await self._world.log.emit("a", Notice(text, "warning"))

    def report(self, path: str) -> str:
        """What the parent of an ended agent should know of its worktree, "" where it has none."""
        made = self._of(path)
        if made is None:
            return ""
        about = f"Worktree (branch {made.card.branch}):"
        if made.state == "unchanged":
            return f"{about} nothing was changed in it; it is removed."
        if made.state in ("applied", "discarded", "kept"):
            return f"{about} {made.state}."
        if below := [node.path for node in self.tree.running(path)]:
            return f"{about} still in use by {', '.join(below)}."
        if made.problem:
            return f"{about} what changed in it could not be told: {made.problem}"
        lines = [f"{about} {len(made.files)} files changed. They are NOT in your files yet:"]
        lines += [
            f"- {neutralize_line(row.path)} +{row.added} -{row.removed}{f' ({row.seen})' if row.seen else ''}"
            for row in made.files[:LISTED]
        ]
        if len(made.files) > LISTED:
            lines.append(f"- and {len(made.files) - LISTED} more")
        lines.append(
            f"{APPLY_DELEGATION}(id={path!r}) takes them over, {DISCARD_DELEGATION}(id={path!r}) throws them away "
            "(keep_branch=true: keeps them on the branch)."
        )
        return neutralize("\n".join([*lines, "The difference:", made.text]))

    def pending_note(self, path: str) -> str:
        """In a few words: whether the work of an agent waits in its worktree, "" when it does not."""
        made = self._of(path)
        waits = made is not None and made.state == "changed" and not self.tree.running(path)
        return f"its changes wait in its worktree: {APPLY_DELEGATION} or {DISCARD_DELEGATION}" if waits else ""

    def compaction_note(self, others: Callable[[str], str]) -> Callable[[str], str]:
        """What a compacted agent must not forget: what `others` say, and the work that waits for its word."""

        def remember(path: str) -> str:
            mine = [w.path for w in (self._made.all if self._made else ()) if w.path != path and is_under(w.path, path)]
            lines = [f"{p}: {words}" for p in dict.fromkeys(mine) if (words := self.pending_note(p))]
            return "\n".join(filter(None, [others(path), *lines]))

        return remember

    # ---- what becomes of the work -------------------------------------------------------

    def touched(self, path: str, workspace: Workspace) -> Sequence[str]:
        """Every path that taking over the work of `path` would change, as rules name it."""
        made = self._of(path)
        if made is None or not made.open or not isinstance(workspace, LocalWorkspace):
            return ()
        self._asked[path] = self.worktrees.touched(made, workspace)
        return self._asked[path]

    async def apply(self, ctx: ToolContext, path: str) -> Landed:
        """Take the work of a descendant of the caller over into the caller's files. Raises ToolError."""
        self._ready(path, by=ctx.agent)
        target = _on_this_machine(ctx.workspace)
        allowed = self._asked.get(path, ())
        await self._may_write(ctx, allowed)
        return await self._apply(path, target, allowed)

    async def discard(self, ctx: ToolContext, path: str, keep_branch: bool) -> str:
        """Remove the worktree of a descendant of the caller; what became of the work, in words. Raises ToolError."""
        self._ready(path, by=ctx.agent)
        return await self._discard(path, keep_branch)

    async def apply_for_person(self, path: str) -> Landed:
        """Take the work of an agent over into the files of the session. Raises ToolError."""
        return await self._apply(path, self.main, None)

    async def discard_for_person(self, path: str, *, keep_branch: bool) -> str:
        """As `discard`, for a person."""
        return await self._discard(path, keep_branch)

    def _ready(self, path: str, *, by: str = "") -> Worktree:
        made = self._of(path)
        if made is None or (by and (not is_under(path, by) or path == by)):
            raise ToolError(f"{path} has no worktree{' of yours to decide on' if by else ''}.")
        if below := [node.path for node in self.tree.running(path)]:
            raise ToolError(f"{', '.join(below)} still works in that worktree.", hint="Wait for its end, or cancel it.")
        return made

    async def _apply(self, path: str, target: LocalWorkspace, allowed: Sequence[str] | None) -> Landed:
        async with self.tree.resuming, self._lock:
            made = self._ready(path)  # while a person was asked its agent may have been continued
            before = made.state
            try:
                applied = await self.worktrees.apply(made, target, allowed=allowed)
            finally:
                if made.state != before:
                    await self._world.log.emit(made.path, *_news(made))
        return Landed(applied.files, applied.merged, applied.diffs)

    async def _discard(self, path: str, keep_branch: bool) -> str:
        async with self.tree.resuming, self._lock:
            made = self._ready(path)
            await self.worktrees.discard(made, keep_branch=keep_branch)
            await self._world.log.emit(made.path, *_news(made))
        if keep_branch:
            return f"The work of {made.path} is on the branch {made.card.branch}; its folder is gone."
        return f"The worktree of {made.path} and its branch are gone, with what was changed there."

    async def _may_write(self, ctx: ToolContext, labels: Sequence[str]) -> None:
        """Rules about writing files hold here, too: a call must not do what the same files edited would be refused."""
        rules = self.tree.node(ctx.agent).agent.rules
        asked = ""
        for label in labels:
            for call in rules.file_calls("write", (label,)):
                verdict = rules.decide(call)
                if verdict.decision == "deny" and verdict.rule:
                    raise PermissionDenied(f"Not permitted: {label}: {verdict.reason}. Nothing was applied.")
                if verdict.decision == "ask" and verdict.rule:
                    asked = asked or f"{label}: {verdict.reason}"
        if asked:
            await self._ask(ctx, RuleInput(APPLY_DELEGATION, "write", tuple(labels)), asked)

    async def _ask(self, ctx: ToolContext, call: RuleInput, reason: str) -> None:
        desk, agent = self._world.approvals, self.tree.node(ctx.agent).agent
        if not desk.interactive:
            raise PermissionDenied(f"Not permitted: {reason}, and nobody can be asked here. Nothing was applied.")
        async with agent.slot.waiting("waiting_user", ctx.call_id):
            answer = await desk.permission(ctx.agent, ctx.call_id, call, reason=reason)
        if answer.decision == "deny":
            raise PermissionDenied(f"The user said no to applying this. {answer.reason}".strip())

    async def close(self) -> None:
        """Wait for what is being done with worktrees."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])
        async with self._lock:
            if self._made is not None:
                await self._made.close()


def _on_this_machine(workspace: Workspace) -> LocalWorkspace:
    if not isinstance(workspace, LocalWorkspace):
        raise ToolError("There are no worktrees here.")
    return workspace


def _news(worktree: Worktree) -> list[AnyEvent]:
    events: list[AnyEvent] = [worktree.event]
    if worktree.problem:
        events.append(Notice(f"The worktree {worktree.folder} could not be compared: {worktree.problem}", "warning"))
    return events


def _past(path: str, event: WorktreeChanged, worktrees: Worktrees) -> Worktree:
    """A worktree that is not there any more, as the log knows it."""
    from friday_cli.workspace.worktrees import Worktree, WorktreeMetadata

    card = WorktreeMetadata(
        worktrees.session, Path(event.folder).name, event.branch, event.folder, "", "", "", "", path, base=event.base
    )
    state = event.state if event.state not in ("opened", "changed") else "discarded"
    return Worktree(card, worktrees.folder, state, files=event.files)
