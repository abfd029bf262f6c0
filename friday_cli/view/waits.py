"""Whom an agent waits for, and whether its time runs meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from .items import AgentView


def awaited(agents: Mapping[str, AgentView], agent: AgentView) -> list[AgentView]:
    """Whom it waits for while it is `waiting_child`: of calls side by side the status names the first alone."""
    found = {*agent.waiting.split(), *agent.children} & agents.keys()
    waited = (agents[path] for path in sorted(found, key=lambda path: (len(path), path)))
    return [child for child in waited if not child.ended and not child.background]


def follow(agents: Mapping[str, AgentView], agent: AgentView | None, at: float) -> None:
    """From `at` on the time of whoever waits for sub-agents alone runs while that of one of them does, and so upward."""
    while agent is not None:
        if agent.status == "waiting_child":
            live = awaited(agents, agent)
            agent.clock.set_running(not live or any(child.clock.runs for child in live), at)
        agent = agents.get(agent.parent)
