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
from friday_cli.core.text.sanitize import sanitize
from friday_cli.view import SessionView
from friday_cli.view.items import DeniedCall


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the newest run of an agent ended. `agent` is its path in `session`. `text` is its answer, `data` the same as JSON data
    if a schema was given and it fits. `partial`: the agent did not finish the text. `reason` says why the run ended, `error`
    what went wrong.

    `usage` and `cost` (US dollars, None if a price is unknown) are those of the agent and all below it, over their lives.
    `receipt` is what Friday saw the agent do, `findings` its claims with evidence. `agents` are its own sub-agents, `denials`
    the calls of it and all below it that were denied."""

    session: str
    agent: str
    profile: str
    status: Status
    reason: StopReason
    text: str = ""
    data: Any = None
    partial: bool = False
    error: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    receipt: Receipt = Receipt()
    findings: tuple[Finding, ...] = ()
    agents: tuple[AgentResult, ...] = ()
    denials: tuple[DeniedCall, ...] = ()

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
            data = _clean(json.loads(unfenced(end.text)))
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


def _clean(value: Any) -> Any:
    """`value` without escape sequences in its strings."""
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, dict):
        return {sanitize(name): _clean(item) for name, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value
