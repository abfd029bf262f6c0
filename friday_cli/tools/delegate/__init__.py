"""Delegation as a model sees it: hand a task to a focused sub-agent, alone or in an ordered batch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from friday_cli.core.agent.agent import StopRun
from friday_cli.core.protocol.agent_path import depth_of, is_under
from friday_cli.core.protocol.displays import DelegationDisplay, TableDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import is_demo, pluralize
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.tool import Output, Tool, ToolContext, tool
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents.node import AgentRun, AgentSummary, SubagentTask
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.text.lazy_regex import pattern
from friday_cli.core.text.untrusted import neutralize
from friday_cli.tool_catalog import TOOLS

from .arguments import (
    BatchArguments,
    CancelArguments,
    MessageArguments,
    NoArguments,
    ResultArguments,
    SingleTaskArguments,
    TaskArguments,
)

HEAD = 0.65
"""Part of a result's room that its beginning gets; the end gets the rest (Arawn's proportion)."""
_HARNESS = pattern(
    r"^([ \t#>*-]*)(Receipt, made by the harness|delegate_id:|Result from '|WARNING:|error:)", re.M | re.I
)
_MARKED = pattern(r"\[((?:not )?seen by the harness|truncated: [^\]\n]*)\]", re.I)
SAME_TASK = 0.8
"""Part of two texts that they share, above which a task counts as handed on whole."""


class DelegationHost(Protocol):
    """What the delegation tools of one agent need of the session."""

    def allow_spawn(self, path: str, call_id: str, specs: Sequence[SubagentTask]) -> AbstractAsyncContextManager[None]:
        """Inside, the agent `path` may start `specs`. Raises ToolError if these are too many or too expensive."""
        ...

    async def create_workspace(self, path: str) -> Workspace:
        """A workspace of its own for a new child of the agent `path`. Raises ToolError."""
        ...

    async def cancel_workspace(self, workspace: Workspace) -> None:
        """Remove a workspace whose child was not started."""
        ...

    async def summarize(self, path: str, known: AgentSummary) -> str | None:
        """A summary of a long result for the agent `path`; None: show its beginning and end instead."""
        ...

    def worktree_report(self, path: str) -> str:
        """What an ended agent changed in its worktree; "" if it has none."""
        ...

    def pending_note(self, path: str) -> str:
        """Tells that changes in an agent's worktree wait for a decision; "" if none do."""
        ...


class DelegateSettings(msgspec.Struct, frozen=True):
    """`targets`: the profiles that the agent may delegate to, one a line; `isolated`: those whose agents always get a
    workspace of their own. `max_batch`: tasks in one call. `result_chars`: characters of a result that are shown at once."""

    targets: str
    isolated: frozenset[str] = frozenset()
    max_batch: int = 10
    result_chars: int = 24_000


def delegate_tools(tree: SubagentTree, host: DelegationHost, settings: DelegateSettings) -> list[Tool]:
    """The delegation tools of one agent."""
    return _DelegationTools(tree, host, settings).tools()


class _DelegationTools:
    def __init__(self, tree: SubagentTree, host: DelegationHost, settings: DelegateSettings) -> None:
        self._tree = tree
        self._host = host
        self._settings = settings
        self._handed_on = 0

    def tools(self) -> list[Tool]:
        return [
            tool(
                self._one,
                TOOLS["delegate_task"],
                args=SingleTaskArguments,
                description="Hand a self-contained task to a sub-agent and wait for its result. It has its own context, "
                "tools and budget, and returns a result with a receipt of what it really did. Several calls in one reply "
                f"run at the same time. Do not hand on your whole task, nor what one tool call would do.\n"
                f"Sub-agents:\n{self._settings.targets}",
                subjects=self._subject,
                title=lambda args: f"{args.resume or args.profile}: {_line(args.task)}",
            ),
            tool(
                self._many,
                TOOLS["delegate_tasks"],
                args=BatchArguments,
                description=f"Hand up to {self._settings.max_batch} independent tasks to sub-agents at once and wait for "
                "all. The results come in the order of the tasks; one that fails takes nothing from the others. "
                "Sub-agents as for delegate_task.",
                subjects=lambda args, workspace: tuple(dict.fromkeys(task.profile for task in args.tasks)),
                title=lambda args: f"{len(args.tasks)} tasks",
            ),
            tool(
                self._list,
                TOOLS["list_sub_agents"],
                args=NoArguments,
                description="All sub-agents you started, and theirs: id, profile, status, task. Finished ones stay listed.",
            ),
            tool(
                self._result,
                TOOLS["get_delegation_result"],
                args=ResultArguments,
                description="The result of a sub-agent again, or the rest of one that was too long (offset).",
                title=lambda args: args.id,
            ),
            tool(
                self._message,
                TOOLS["message_sub_agent"],
                args=MessageArguments,
                description="Tell a sub-agent at work something; it reads it at its next turn. One that has ended is "
                "continued with delegate_task(resume=...) instead.",
                title=lambda args: f"{args.id}: {_line(args.text, 60)}",
            ),
            tool(
                self._cancel,
                TOOLS["cancel_sub_agent"],
                args=CancelArguments,
                description="Stop a sub-agent and all below it, when its work is no longer needed. What it has is kept.",
                title=lambda args: f"{args.mode} {args.id}",
            ),
        ]

    def _subject(self, args: SingleTaskArguments, workspace: Workspace) -> Sequence[str]:
        """The profile that would work: rules speak of it also where an agent of that profile is continued."""
        known = self._tree.known(args.resume) if args.resume else None
        return (known.profile if known else args.profile,)

    async def _one(self, ctx: ToolContext, args: SingleTaskArguments) -> Output:
        if args.resume:
            known = self._mine(ctx, args.resume)
            if args.isolation:
                raise ToolError(
                    "Where a sub-agent works cannot change when it is continued.", hint="Leave isolation out."
                )
            spec = self._spec(args, ctx, profile=known.profile)
            node = await self._tree.resume(args.resume, spec, by=ctx.agent)
        else:
            if not args.profile:
                raise ToolError("delegate_task: name a profile (or an ended sub-agent to resume).")
            self._not_the_whole_task(ctx.agent, args.task)
            spec = self._spec(args, ctx)
            try:
                async with self._host.allow_spawn(ctx.agent, ctx.call_id, [spec]):
                    spec = await self._placed(ctx, args, spec)
                    node = self._tree.spawn(ctx.agent, spec)
            finally:
                await self._take_back([spec])
        if not args.background:
            await self._tree.wait(ctx.agent, [node])
        if node.background and not node.ended:
            return Output(_in_background(node), DelegationDisplay((node.path,)))
        return Output(
            await self._whole_report(ctx, node),
            DelegationDisplay((node.path,)),
            error=node.outcome.status != "completed",
        )

    async def _many(self, ctx: ToolContext, args: BatchArguments) -> Output:
        most = self._settings.max_batch
        if len(args.tasks) == 1:
            self._not_the_whole_task(ctx.agent, args.tasks[0].task)
        specs = [self._spec(task, ctx) for task in args.tasks[:most]]
        started: list[AgentRun | ToolError] = []
        placed: list[SubagentTask | ToolError] = []
        try:
            async with self._host.allow_spawn(ctx.agent, ctx.call_id, specs):
                for task, spec in zip(args.tasks, specs, strict=False):
                    try:
                        placed.append(await self._placed(ctx, task, spec))
                    except ToolError as error:
                        placed.append(error)
                started += [self._started(ctx, spec) for spec in placed]
        finally:
            await self._take_back(placed)
        nodes = [n for n in started if isinstance(n, AgentRun)]
        if nodes:
            await self._tree.wait(ctx.agent, nodes)
        reports = [
            await self._whole_report(ctx, n) if isinstance(n, AgentRun) else f"## Not started\nerror: {n}"
            for n in started
        ]
        over = f"## Not started\nerror: a batch has at most {most} tasks; send this one again in another call."
        reports += [over] * (len(args.tasks) - most)
        texts = [f"# Task {number} of {len(args.tasks)}\n{report}" for number, report in enumerate(reports, 1)]
        failed = not any(n.summary.status == "completed" or not n.ended for n in nodes)
        return Output("\n\n".join(texts), DelegationDisplay(tuple(n.path for n in nodes)), error=failed)

    async def _list(self, ctx: ToolContext, args: NoArguments) -> Output:
        known = self._tree.below(ctx.agent)
        rows = tuple((k.path, k.profile, self._status(k), _line(k.task)) for k in known)
        text = "\n".join(" | ".join(row) for row in rows) or "No sub-agents yet."
        return Output(text, TableDisplay(("id", "profile", "status", "task"), rows))

    def _status(self, known: AgentSummary) -> str:
        pending = self._host.pending_note(known.path)
        return f"{_standing(known)}; {pending}" if pending else _standing(known)

    async def _result(self, ctx: ToolContext, args: ResultArguments) -> Output:
        known = self._mine(ctx, args.id)
        if known.end is None:
            return Output(f"{known.path} ({known.profile}) is still {known.status}; it has no result yet.")
        return Output(self._report(known, args.offset), DelegationDisplay((known.path,)))

    async def _message(self, ctx: ToolContext, args: MessageArguments) -> Output:
        known = self._mine(ctx, args.id)
        await self._tree.send(known.path, args.text, "parent")
        return Output(f"{known.path} will read it at its next turn.")

    async def _cancel(self, ctx: ToolContext, args: CancelArguments) -> Output:
        known = self._mine(ctx, args.id)
        if known.end is not None:
            return Output(f"{known.path} has ended already: {_standing(known)}.")
        count = await self._tree.stop_for(ctx.agent, known.path, args.mode)
        after = self._mine(ctx, args.id)
        return Output(f"Stopped {pluralize(count, 'agent')}.\n{self._report(after)}", DelegationDisplay((known.path,)))

    def _mine(self, ctx: ToolContext, path: str) -> AgentSummary:
        """A descendant of the caller. Raises ToolError for any other agent: nobody reaches upward or sideways."""
        known = self._tree.known(path) if is_under(path, ctx.agent) and path != ctx.agent else None
        if known is None:
            ids = ", ".join(k.path for k in self._tree.below(ctx.agent))
            raise ToolError(f"You have no sub-agent {path!r}.", hint=f"Yours: {ids or 'none yet'}.")
        return known

    def _spec(self, task: TaskArguments, ctx: ToolContext, *, profile: str = "") -> SubagentTask:
        return SubagentTask(
            profile or task.profile, task.task, task.context, max_tokens=task.max_tokens,
            max_turns=task.max_iterations, timeout_s=task.timeout_s, call_id=ctx.call_id,
            background=isinstance(task, SingleTaskArguments) and task.background, fork=task.fork, schema=task.schema,
        )  # fmt: skip

    async def _placed(self, ctx: ToolContext, task: TaskArguments, spec: SubagentTask) -> SubagentTask:
        """`spec` with a worktree of its own, where the call or the profile wants one. Raises ToolError."""
        if not task.isolation and spec.profile not in self._settings.isolated:
            return spec
        return msgspec.structs.replace(spec, workspace=await self._host.create_workspace(ctx.agent))

    async def _take_back(self, specs: Sequence[SubagentTask | ToolError]) -> None:
        """Let go of the worktrees that no child was started in."""
        for spec in specs:
            if isinstance(spec, SubagentTask) and spec.workspace is not None:
                await self._host.cancel_workspace(spec.workspace)

    def _started(self, ctx: ToolContext, spec: SubagentTask | ToolError) -> AgentRun | ToolError:
        if isinstance(spec, ToolError):
            return spec
        try:
            return self._tree.spawn(ctx.agent, spec)
        except ToolError as error:
            return error

    async def _whole_report(self, ctx: ToolContext, node: AgentRun) -> str:
        """The report of a run; a long result may be summarised first."""
        if not node.ended:
            return _in_background(node)
        known = node.summary
        summary = None
        if known.end and len(known.end.text) > self._settings.result_chars:
            summary = await self._host.summarize(ctx.agent, known)
        return self._report(known, summary=summary)

    def _not_the_whole_task(self, path: str, task: str) -> None:
        """A child that hands its whole task on adds nothing: told once, stopped the second time."""
        if depth_of(path) == 0 or not _same(self._tree.node(path).spec.task, task):
            return
        self._handed_on += 1
        if self._handed_on > 1:
            raise StopRun("failed", "loop", "It handed its whole task on instead of working on it.")
        raise ToolError("That is your whole task: do it yourself, or delegate a part of it.")

    def _report(self, known: AgentSummary, offset: int = 0, *, summary: str | None = None) -> str:
        """A result as its parent reads it: the text, how it ended, and what the harness saw."""
        end = known.end or RunResult(known.status, "done")  # resumed by a person meanwhile
        lines = [f"## Result from {known.profile!r} ({known.path}): {_standing(known)}"]
        if end.error:
            lines.append(f"error: {_words(end.error)}")
        if summary is None:
            lines.append(_excerpt(_words(end.text), known.path, offset, self._settings.result_chars))
        else:
            lines.append(_words(summary))
            lines.append(
                f"[truncated: this is a summary of {len(end.text)} characters; "
                f"get_delegation_result(id={known.path!r}) has them all]"
            )
        if end.findings:
            lines.append("\nFindings:")
        for finding in end.findings:
            mark = "seen by the harness" if finding.seen else "NOT seen by the harness"
            lines.append(f"- {_words(finding.claim)}\n  Evidence: {_words(finding.evidence)} [{mark}]")
        lines.append(
            f"---\ndelegate_id: {known.path} | tokens: {known.usage.billed} | cost: {_cost(known)}"
            f" | time: {known.duration_s:.1f} s"
        )
        lines.append("Receipt, made by the harness and not by the sub-agent:")
        lines += [f"- {line}" for line in known.receipt.lines()]
        if worktree := self._host.worktree_report(known.path):
            lines.append(worktree)
        if below := self._tree.below(known.path):
            lines.append("Its own sub-agents: " + ", ".join(f"{k.path} {k.profile} {_standing(k)}" for k in below))
        return "\n".join(lines)


def _in_background(node: AgentRun) -> str:
    return (
        f"{node.path} ({node.agent.profile}) works in the background. You will be told when it has ended; "
        f"get_delegation_result(id={node.path!r}) then has its result. Do not wait for it by asking again and again."
    )


def _words(text: str) -> str:
    """What a sub-agent wrote, in which nothing looks like what the harness writes beside it."""
    return _MARKED().sub(r"‹\1›", _HARNESS().sub(r"\1‹its own words› \2", neutralize(text)))


def _cost(known: AgentSummary) -> str:
    if is_demo(known.model):
        return "none (demo)"
    return "unknown" if known.usage.cost_usd is None else f"${known.usage.cost_usd:.4f}"


def _standing(known: AgentSummary) -> str:
    return known.end.summary(known.path) if known.end else known.status


def _excerpt(text: str, path: str, offset: int, room: int) -> str:
    if offset:
        rest = text[offset : offset + room]
        end = offset + len(rest)
        more = f"\n[{end} of {len(text)} characters; go on with offset={end}]" if end < len(text) else ""
        return (rest or f"[the result has {len(text)} characters]") + more
    if len(text) <= room:
        return text or "[no text]"
    head = int(room * HEAD)
    tail = room - head
    note = f"\n[... truncated: {len(text)} characters in all; get_delegation_result(id={path!r}, offset={head}) goes on ...]\n"
    return text[:head] + note + text[-tail:]


def _same(own: str, task: str) -> bool:
    """Whether two tasks are as good as one: the runs of three letters that both have, so that a long text takes no longer
    than reading it."""
    a, b = (" ".join(t.lower().split()) for t in (own, task))
    if not a or not b:
        return False
    if a in b and len(b) < 1.5 * len(a):
        return True
    ours, theirs = (Counter(t[i : i + 3] for i in range(len(t) - 2)) for t in (a, b))
    both = ours.total() + theirs.total()
    return both > 0 and 2 * (ours & theirs).total() > SAME_TASK * both


def _line(text: str, room: int = 100) -> str:
    words = " ".join(text.split())
    return words if len(words) <= room else words[: room - 1] + "…"
