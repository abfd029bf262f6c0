"""Notifies running agents of what happened to their sub-agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..agent.agent import Agent
from ..eventlog import notices
from ..protocol.agent_path import depth_of, parent_of
from ..protocol.events import InboxMessage
from .node import AgentRun


class NotifierHost(Protocol):
    """The part of the tree of agents that notices need."""

    root: Agent

    def wake(self, path: str) -> None:
        """Start a run of the main agent, if `path` is its path and it is idle."""


class ParentNotifier:
    """Puts notices into the inboxes of agents. `runs` are the runs of `tree` by path."""

    def __init__(self, runs: Mapping[str, AgentRun], tree: NotifierHost) -> None:
        self._runs = runs
        self._tree = tree

    async def notify_parent(self, path: str, text: str) -> None:
        """Notify the nearest running ancestor of what a person did with an agent. The notice does not wake it."""
        if depth_of(path):
            await self._deliver(parent_of(path), InboxMessage(text, "harness", quiet=True))

    async def report_end(self, node: AgentRun) -> None:
        """Notify the nearest running ancestor of an end that it does not wait for, and pass on unread notices."""
        above, agent = parent_of(node.path), node.agent
        for unread in agent.inbox.take_notices():
            await self._deliver(above, unread)
        if (node.background or not node.waiter) and node.reports_to != self._nearest_running_ancestor(above):
            run = notices.EndedRun(
                node.path, agent.profile, node.spec.task, node.outcome, agent.receipt.warnings, node.summary.earlier
            )
            await self._deliver(above, notices.ended(run, by_person=not node.background))

    def _nearest_running_ancestor(self, path: str) -> str:
        """The agent itself when it is running, else its nearest running ancestor."""
        while depth_of(path) and (path not in self._runs or self._runs[path].ending):
            path = parent_of(path)
        return path

    async def _deliver(self, path: str, message: InboxMessage) -> None:
        """Put a message into the inbox of an agent, or of its nearest running ancestor."""
        path = self._nearest_running_ancestor(path)
        target = self._runs.get(path)
        agent = target.agent if target else self._tree.root
        await agent.inbox.put(message)
        # A stopped agent waits for a person.
        if target and target.ended and not message.quiet and target.outcome.status != "cancelled":
            self._tree.wake(path)
