"""What a program gets of a run: the result of an agent, with those of all its sub-agents."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec

from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.receipt import Finding, Receipt
from friday_cli.core.protocol.run_result import RunResult, Status, StopReason
from friday_cli.core.text.sanitize import map_strings, sanitize
from friday_cli.view import SessionView
from friday_cli.view.items import DeniedCall


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """The end of an agent's newest run."""

    session: str
    agent: str
    """Its path in `session`."""
    profile: str
    status: Status
    reason: StopReason
    """Why the run ended."""
    text: str = ""
    """Its answer."""
    data: Any = None
    """The answer as JSON data, if a schema was given and it fits."""
    partial: bool = False
    """The agent did not finish the text."""
    error: str = ""
    """What went wrong."""
    usage: Usage = Usage()
    """Of the agent and all below it, over their lives."""
    cost: float | None = None
    """US dollars of `usage`; None if a price is unknown."""
    receipt: Receipt = Receipt()
    """What Friday saw the agent do."""
    findings: tuple[Finding, ...] = ()
    """Its claims with evidence."""
    agents: tuple[AgentResult, ...] = ()
    """Its own sub-agents."""
    denials: tuple[DeniedCall, ...] = ()
    """The denied calls of it and of all below it."""

    @property
    def ok(self) -> bool:
        """Whether the agent finished its task."""
        return self.status == "completed"


def agent_result(view: SessionView, path: str, *, end: RunResult | None = None, as_data: bool = False) -> AgentResult:
    """The result of an agent from a view of its session. `end` is how its run ended, None as the view has it. `as_data`: its text
    is a JSON document."""
    agent, usage = view.agents[path], view.usage_of(path)
    end = end or agent.end or RunResult("running", "done")
    data = None
    if as_data and end.status == "completed":
        from friday_cli.agents.output_schema import unfenced  # most results are text

        with suppress(ValueError, RecursionError):
            data = map_strings(json.loads(unfenced(end.text)), sanitize)
    return AgentResult(
        session=view.session,
        agent=path,
        profile=agent.profile,
        status=end.status,
        reason=end.stop_reason,
        text=sanitize(end.text),
        data=data,
        partial=end.partial,
        error=sanitize(end.error),
        usage=usage,
        cost=usage.cost_usd,
        receipt=agent.receipt,
        findings=end.findings,
        agents=tuple(agent_result(view, child) for child, below in view.agents.items() if below.parent == path),
        denials=tuple(denied for denied in view.denials if is_under(denied.agent, path)),
    )
