"""Which agents the tree lists, in which order: who needs you first, then those at work; branches that ended in earlier prompts, and
completed items of a batch, are one row."""

from __future__ import annotations

from typing import Literal, NamedTuple

from friday_cli.view import AgentView, SessionView
from friday_cli.view.tree import shown_children

Filter = Literal["all", "running", "failed", "needs you"]
Order = Literal["start", "cost", "newest"]
Together = Literal["earlier", "done in a batch"]
EARLIER: Together = "earlier"
"""Branches that ended in earlier prompts."""
BATCH: Together = "done in a batch"
"""Completed items of a batch with many."""


class Branch(NamedTuple):
    """The position of an agent in the tree. A `flat` tree is a filtered list, which names each agent by its path."""

    first: str = ""
    """The margin of the first line."""
    rest: str = ""
    """The margin of the second line, and of the agents below."""
    folded: bool = False
    hidden: int = 0
    """How many agents are folded away below it."""
    asked: bool = False
    """Whether one of the hidden agents asks the user."""
    flat: bool = False
    paths: tuple[str, ...] = ()
    """The agents of a row that stands for several branches."""
    together: Together = EARLIER
    """What these have in common."""


class TreeRows:
    """The rows of one session's tree. `folded` are the paths of agents whose sub-agents are hidden, and what of `Together` is
    listed one by one."""

    def __init__(self, state: SessionView, *, filter: Filter, order: Order, folded: set[str]) -> None:
        self._state, self._filter, self._order, self._folded = state, filter, order, folded
        self._rows: list[tuple[AgentView, Branch]] = []

    def rows(self) -> list[tuple[AgentView, Branch]]:
        """Each listed agent with its place. A row of several branches has the newest of their agents."""
        if (root := self._state.root) is not None:
            self._add(root, "", "")
        return self._rows

    def _add(self, agent: AgentView, first: str, rest: str) -> None:
        flat, agents = self._filter != "all", self._state.agents
        folded = agent.path in self._folded and bool(agent.children) and not flat
        below = [a for path, a in agents.items() if path.startswith(agent.path + ".")] if folded else []
        if not flat or self._matches(agent):
            self._rows.append((agent, Branch(first, rest, folded, len(below), any(a.asks for a in below), flat)))
        if folded:
            return
        children = [agents[path] for path in agent.children if path in agents]
        earlier: list[AgentView] = []
        items: list[AgentView] = []
        if not flat:
            if BATCH not in self._folded:
                children, items = shown_children(children)
            if not agent.parent and EARLIER not in self._folded:
                earlier = [child for child in children if self._is_earlier(child, agent.asked_at)]
                earlier = earlier if len(earlier) > 1 else []
                children = [child for child in children if child not in earlier]
        children = self._sorted(children)
        for child in children:
            last = child is children[-1] and not earlier and not items
            if flat:
                self._add(child, "", "")
            else:
                self._add(child, rest + ("└" if last else "├"), rest + (" " if last else "│"))
        for together, hidden in ((BATCH, items), (EARLIER, earlier)):
            if hidden:
                corner, line = ("├", "│") if hidden is items and earlier else ("└", " ")
                paths = tuple(child.path for child in hidden)
                branch = Branch(rest + corner, rest + line, paths=paths, together=together)
                self._rows.append((hidden[-1], branch))

    def _is_earlier(self, agent: AgentView, asked_at: float) -> bool:
        """Whether an agent and all below it ended before the person's newest message."""
        below = [self._state.agents[path] for path in agent.children if path in self._state.agents]
        ended = agent.ended and (agent.finished or 0.0) < asked_at and not agent.asks
        return ended and all(self._is_earlier(child, asked_at) for child in below)

    def _sorted(self, agents: list[AgentView]) -> list[AgentView]:
        if self._order == "newest":
            return agents[::-1]
        if self._order == "cost":
            return sorted(agents, key=lambda a: -self._state.usage_of(a.path).billed)
        return sorted(agents, key=lambda a: 0 if self._asks(a) else 1 if not a.ended else 2)

    def _asks(self, agent: AgentView) -> bool:
        below = (self._state.agents[path] for path in agent.children if path in self._state.agents)
        return bool(agent.asks) or any(map(self._asks, below))

    def _matches(self, agent: AgentView) -> bool:
        if self._filter == "running":
            return not agent.ended
        if self._filter == "failed":
            return agent.status in ("failed", "timeout", "interrupted")
        return bool(agent.asks)
