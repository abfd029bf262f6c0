"""Which children an agent waits for, and whether its active time runs in the meantime."""

from __future__ import annotations

from collections.abc import Mapping

from .items import AgentView


def awaited_children(agents: Mapping[str, AgentView], agent: AgentView) -> list[AgentView]:
    """The children that an agent in status `waiting_child` waits for. With parallel calls the status names only one."""
    found = {*agent.waiting.split(), *agent.children} & agents.keys()
    children = (agents[path] for path in sorted(found, key=lambda path: (len(path), path)))
    return [child for child in children if not child.ended and not child.background]


def update_clocks(agents: Mapping[str, AgentView], agent: AgentView | None, at: float) -> None:
    """Start or stop, at time `at`, the clocks of `agent` and its ancestors that wait for children. Such a clock runs
    while the clock of one of the children runs."""
    while agent is not None:
        if agent.status == "waiting_child":
            live = awaited_children(agents, agent)
            agent.clock.set_running(not live or any(child.clock.runs for child in live), at)
        agent = agents.get(agent.parent)
