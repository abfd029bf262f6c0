"""The delegation tools: start, list, message, resume and stop sub-agents."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from itertools import takewhile
from typing import Protocol

import msgspec

from friday_cli.core.agent.agent import StopRun
from friday_cli.core.agent.task_stop import being_stopped
from friday_cli.core.protocol.agent_path import depth_of, is_under
from friday_cli.core.protocol.displays import DelegationDisplay, TableDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents.node import AgentRun, AgentSummary, SubagentTask
from friday_cli.core.subagents.tree import SubagentTree, stop_for
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.word_search import Described
from friday_cli.core.tool_catalog import TOOLS

from .arguments import (
    BatchArguments,
    CancelArguments,
    MessageArguments,
    NoArguments,
    ResultArguments,
    SingleTaskArguments,
    TaskArguments,
    task_count,
)
from .report import report, status_text

SAME_TASK = 0.8
"""Similarity above which a delegated task counts as the whole task of the agent."""


class DelegationHost(Protocol):
    """The part of the session that the delegation tools of one agent need."""

    async def with_forecasts(self, path: str, specs: Sequence[SubagentTask]) -> list[SubagentTask]:
        """`specs` with what such delegations usually use."""

    def allow_spawn(
        self, path: str, call_id: str, specs: Sequence[SubagentTask], *, again: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Inside, the agent `path` may start `specs`; `again`: resume them. Raises ToolError if these are too many or too
        expensive."""
        ...

    async def create_workspace(self, path: str) -> Workspace:
        """A separate workspace for a new child of the agent `path`. Raises ToolError."""
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
    """`searchable`: the profiles that the agent may delegate to, if it needs a search for them; `isolated`: those whose agents always get a
    workspace of their own. `max_batch`: tasks in one reply."""

    searchable: tuple[Described, ...] = ()
    isolated: frozenset[str] = frozenset()
    max_batch: int = 10


def delegate_tools(tree: SubagentTree, host: DelegationHost, settings: DelegateSettings) -> list[Tool]:
    """The delegation tools of one agent."""
    return _DelegationTools(tree, host, settings).tools()


class _DelegationTools:
    def __init__(self, tree: SubagentTree, host: DelegationHost, settings: DelegateSettings) -> None:
        self._tree = tree
        self._host = host
        self._settings = settings
        self._whole_task_count = 0

    def tools(self) -> list[Tool]:
        search: list[Tool] = []
        if self._settings.searchable:  # only where the prompt cannot list all profiles
            from .profile_search import search_tool

            search = [search_tool(self._settings.searchable)]
        return [
            *search,
            Tool(
                self._delegate_one,
                TOOLS["delegate_task"],
                args=SingleTaskArguments,
                description="Delegate a task to a sub-agent and wait for its result, with a receipt of what it did.",
                subjects=self._subject,
                title=lambda args: f"{args.resume or args.profile}: {sanitize_line(args.task, 100)}",
            ),
            Tool(
                self._delegate_many,
                TOOLS["delegate_tasks"],
                args=BatchArguments,
                description=f"Delegate up to {self._settings.max_batch} independent tasks in parallel and wait for all.",
                title=lambda args: f"{len(args.tasks)} tasks",
            ),
            Tool(
                self._list,
                TOOLS["list_sub_agents"],
                args=NoArguments,
                description="All your sub-agents and theirs, also finished ones: id, profile, status, task.",
            ),
            Tool(
                self._result,
                TOOLS["get_delegation_result"],
                args=ResultArguments,
                description="Read the result of a sub-agent again, or the rest of a long one.",
                title=lambda args: args.id,
            ),
            Tool(
                self._message,
                TOOLS["message_sub_agent"],
                args=MessageArguments,
                description="Send a message to a running sub-agent, for its next turn. An ended one: delegate_task(resume).",
                title=lambda args: f"{args.id}: {sanitize_line(args.text, 60)}",
            ),
            Tool(
                self._cancel,
                TOOLS["cancel_sub_agent"],
                args=CancelArguments,
                description="Stop a sub-agent and all its sub-agents. Its partial result is kept.",
                title=lambda args: f"{args.mode} {args.id}",
            ),
        ]

    def _subject(self, args: SingleTaskArguments, workspace: Workspace) -> Sequence[str]:
        """The profile that permission rules check, also when an agent of it is resumed."""
        known = self._tree.known(args.resume) if args.resume else None
        return (known.profile if known else args.profile,)

    async def _delegate_one(self, ctx: ToolContext, args: SingleTaskArguments) -> Output:
        if not self._tasks_left(ctx):
            raise ToolError(f"Not started: {self._too_many()}")
        if args.resume:
            known = self._own_sub_agent(ctx, args.resume)
            if args.isolation:
                raise ToolError("A resumed sub-agent keeps its folder: isolation cannot be set with resume.")
            specs = await self._host.with_forecasts(ctx.agent, [self._spec(args, ctx, profile=known.profile)])
            async with self._host.allow_spawn(ctx.agent, ctx.call_id, specs, again=True):
                node = await self._tree.resumer.resume(args.resume, specs[0], by=ctx.agent)
        else:
            self._refuse_whole_task(ctx.agent, args.task)
            (started,) = await self._start(ctx, [args])
            if isinstance(started, ToolError):
                raise started
            node = started
        if not args.background:
            await self._wait(ctx, [node])
        if node.background and not node.ended:
            return Output(in_background(node), DelegationDisplay((node.path,)))
        text = await self._finished_report(ctx, node)
        return Output(text, DelegationDisplay((node.path,)), error=node.outcome.status != "completed")

    async def _delegate_many(self, ctx: ToolContext, args: BatchArguments) -> Output:
        accepted = args.tasks[: self._tasks_left(ctx)]
        if len(args.tasks) == 1:
            self._refuse_whole_task(ctx.agent, args.tasks[0].task)
        started = await self._start(ctx, accepted) if accepted else []
        nodes = [n for n in started if isinstance(n, AgentRun)]
        if nodes:
            await self._wait(ctx, nodes)
        excess = [ToolError(self._too_many())] * (len(args.tasks) - len(accepted))
        texts: list[str] = []
        not_started: list[str] = []
        for number, one in enumerate([*started, *excess], 1):
            head = f"Task {number} of {len(args.tasks)}"
            if isinstance(one, AgentRun):
                texts.append(f"# {head}\n{await self._finished_report(ctx, one)}")
            else:
                texts.append(f"# {head}\n## Not started\nerror: {one}")
                not_started.append(f"{head} was not started: {one}")
        failed = all(n.ended and n.summary.status != "completed" for n in nodes)
        display = DelegationDisplay(tuple(n.path for n in nodes), tuple(not_started))
        return Output("\n\n".join(texts), display, error=failed)

    def _tasks_left(self, ctx: ToolContext) -> int:
        """How many tasks the calls of this reply may still delegate, the earlier ones counted in their order."""
        history = self._tree.node(ctx.agent).agent.conversation.history
        calls = next(m.calls for m in reversed(history) if any(call.id == ctx.call_id for call in m.calls))
        earlier = takewhile(lambda call: call.id != ctx.call_id, calls)
        return max(0, self._settings.max_batch - sum(map(task_count, earlier)))

    def _too_many(self) -> str:
        limit = pluralize(self._settings.max_batch, "task")
        return f"one reply delegates at most {limit}; send this one in another reply."

    async def _list(self, ctx: ToolContext, args: NoArguments) -> Output:
        known = self._tree.below(ctx.agent)
        rows = tuple((k.path, k.profile, self._status(k), sanitize_line(k.task, 100)) for k in known)
        text = "\n".join(" | ".join(row) for row in rows) or "No sub-agents yet."
        return Output(text, TableDisplay(("id", "profile", "status", "task"), rows))

    def _status(self, known: AgentSummary) -> str:
        pending = self._host.pending_note(known.path)
        return f"{status_text(known)}; {pending}" if pending else status_text(known)

    async def _result(self, ctx: ToolContext, args: ResultArguments) -> Output:
        known = self._own_sub_agent(ctx, args.id)
        if known.end is None and known.earlier is None:
            return Output(f"{known.path} ({known.profile}) has no result yet: {known.status}.")
        return Output(self._report(known, args.offset), DelegationDisplay((known.path,)))

    async def _message(self, ctx: ToolContext, args: MessageArguments) -> Output:
        known = self._own_sub_agent(ctx, args.id)
        await self._tree.send(known.path, args.text, "parent")
        return Output(f"Sent. {known.path} reads it at its next turn.")

    async def _cancel(self, ctx: ToolContext, args: CancelArguments) -> Output:
        known = self._own_sub_agent(ctx, args.id)
        if known.end is not None:
            return Output(f"{known.path} has already ended: {status_text(known)}.")
        count = await stop_for(self._tree, ctx.agent, known.path, args.mode)
        after = self._own_sub_agent(ctx, args.id)
        return Output(f"Stopped {pluralize(count, 'agent')}.\n{self._report(after)}", DelegationDisplay((known.path,)))

    def _own_sub_agent(self, ctx: ToolContext, path: str) -> AgentSummary:
        """A descendant of the caller. Raises ToolError for any other agent."""
        known = self._tree.known(path) if is_under(path, ctx.agent) and path != ctx.agent else None
        if known is None:
            ids = ", ".join(k.path for k in self._tree.below(ctx.agent))
            raise ToolError(f"You have no sub-agent {path!r}.", hint=f"Your sub-agents: {ids or 'none'}.")
        return known

    def _spec(self, task: TaskArguments, ctx: ToolContext, *, profile: str = "") -> SubagentTask:
        return SubagentTask(
            profile or task.profile,
            task.task,
            task.context,
            limits=Limits(task.max_tokens, turns=task.max_iterations, time_s=task.timeout_s),
            max_depth=task.max_depth,
            call_id=ctx.call_id,
            background=isinstance(task, SingleTaskArguments) and task.background,
            fork=task.fork,
            schema=task.schema,
        )

    async def _with_workspace(self, ctx: ToolContext, task: TaskArguments, spec: SubagentTask) -> SubagentTask:
        """`spec` with a new worktree, if the call or the profile asks for isolation. Raises ToolError."""
        if not task.isolation and spec.profile not in self._settings.isolated:
            return spec
        return msgspec.structs.replace(spec, workspace=await self._host.create_workspace(ctx.agent))

    async def _start(self, ctx: ToolContext, tasks: Sequence[TaskArguments]) -> list[AgentRun | ToolError]:
        """Start a child for each task, or tell why it cannot start. Raises ToolError if starting them is refused."""
        specs = await self._host.with_forecasts(ctx.agent, [self._spec(task, ctx) for task in tasks])
        prepared: list[SubagentTask | ToolError] = []
        try:
            async with self._host.allow_spawn(ctx.agent, ctx.call_id, specs):
                for task, spec in zip(tasks, specs, strict=True):
                    try:
                        prepared.append(await self._with_workspace(ctx, task, spec))
                    except ToolError as error:
                        prepared.append(error)
                return [self._spawn(ctx, spec) for spec in prepared]
        finally:  # remove the worktrees in which no child was started
            for one in prepared:
                if isinstance(one, SubagentTask) and one.workspace is not None:
                    await self._host.cancel_workspace(one.workspace)

    def _spawn(self, ctx: ToolContext, spec: SubagentTask | ToolError) -> AgentRun | ToolError:
        if isinstance(spec, ToolError):
            return spec
        try:
            return self._tree.spawn(ctx.agent, spec)
        except ToolError as error:
            return error

    async def _wait(self, ctx: ToolContext, nodes: Sequence[AgentRun]) -> None:
        """Wait until all ended or went to the background. They also end when the call is stopped: it returns what they
        have."""
        with suppress(asyncio.CancelledError):
            await self._tree.wait(ctx.agent, nodes)

    async def _finished_report(self, ctx: ToolContext, node: AgentRun) -> str:
        """The report of a run; a long result may be summarized first, unless the call is stopped."""
        if not node.ended:
            return in_background(node)
        known = node.summary
        summary = None
        long = known.end and len(known.end.text) > known.result_chars
        if long and not known.earlier and not being_stopped():
            with suppress(asyncio.CancelledError):
                summary = await self._host.summarize(ctx.agent, known)
        return self._report(known, summary=summary)

    def _refuse_whole_task(self, path: str, task: str) -> None:
        """Refuse to delegate the whole task of a sub-agent: a ToolError first, the second time its run is stopped."""
        if depth_of(path) == 0 or not _same_task(self._tree.node(path).spec.task, task):
            return
        self._whole_task_count += 1
        if self._whole_task_count > 1:
            raise StopRun("loop", "It delegated its whole task instead of working on it.")
        raise ToolError("This is your whole task: do it yourself, or delegate a part of it.")

    def _report(self, known: AgentSummary, offset: int = 0, *, summary: str | None = None) -> str:
        """A result as its parent reads it."""
        below, worktree = self._tree.below(known.path), self._host.worktree_report(known.path)
        return report(known, below, worktree=worktree, offset=offset, summary=summary)


def in_background(node: AgentRun) -> str:
    """What an agent is told of a sub-agent that it does not wait for."""
    return (
        f"{node.path} ({node.agent.profile}) runs in the background. You are notified when it ends, with the beginning of "
        f"its result; get_delegation_result(id={node.path!r}) returns all of it. Do not poll."
    )


def _same_task(own: str, task: str) -> bool:
    """Whether two tasks are nearly the same, by shared trigrams (linear time)."""
    a, b = (" ".join(t.lower().split()) for t in (own, task))
    if not a or not b:
        return False
    if a in b and len(b) < 1.5 * len(a):
        return True
    ours, theirs = (Counter(t[i : i + 3] for i in range(len(t) - 2)) for t in (a, b))
    both = ours.total() + theirs.total()
    return both > 0 and 2 * (ours & theirs).total() > SAME_TASK * both
