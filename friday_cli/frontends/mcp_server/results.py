"""Results of calls for a client: a text for its model, and the same as data that fits the output schema of the tool."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
from mcp_types import CallToolResult, TextContent

from friday_cli.agents.output_schema import unfenced
from friday_cli.core.limits.budget import Budget
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.receipt import Receipt
from friday_cli.core.subagents.node import AgentSummary
from friday_cli.core.text.sanitize import clean, mask, sanitize
from friday_cli.tools.delegate.report import report
from friday_cli.view import AgentView, SessionView, ToolRun, not_started, worktree_text

from .serve_settings import server_caps, usage_data


def delegation_result(
    view: SessionView, run: ToolRun, budget: Budget, *, batch: bool, offset: int = 0
) -> CallToolResult:
    """The result of a delegation call: of one task, or of a `batch` in the order of its tasks."""
    known = [view.agents[path] for path in run.agents if path in view.agents]
    missing = list(not_started(run))
    if not known:
        return failure(run.text)
    texts = [agent_report(view, agent, offset) for agent in known]
    rows = [
        agent_data(view, agent, budget, schema=_schema(run, index, batch), offset=offset)
        for index, agent in enumerate(known)
    ]
    failed = all(agent.status != "completed" for agent in known)
    data: dict[str, Any] = {"delegations": rows, "not_started": missing} if batch else rows[0]
    return result("\n\n".join([*texts, *missing]), data, is_error=failed)


def result(text: str, data: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    """A result with a text and data, both without control characters and keys."""
    content = TextContent(text=mask(sanitize(text)))
    return CallToolResult(content=[content], structured_content=clean(data), is_error=is_error)


def failure(text: str) -> CallToolResult:
    """A result that says why there is none. It has no data, so that it need not fit the output schema."""
    return CallToolResult(content=[TextContent(text=mask(sanitize(text)) or "The call failed.")], is_error=True)


def agent_report(view: SessionView, agent: AgentView, offset: int = 0) -> str:
    """The report on an agent as a delegating model reads it, with ids that name the session."""
    below = [_summary(view, other) for other in view.agents.values() if _is_below(other, agent)]
    worktree = f"Worktree {worktree_text(agent.worktree)}" if agent.worktree else ""
    return report(_summary(view, agent), below, worktree=worktree, offset=offset)


def agent_data(
    view: SessionView, agent: AgentView, budget: Budget | None, *, schema: bool = False, offset: int = 0
) -> dict[str, Any]:
    """An agent and its newest result as data. `schema`: the result had to be a JSON document."""
    end, tree, start = agent.end, view.usage_of(agent.path), agent.newest_start
    text = (agent.earlier or end).text if end else ""
    shown = text[offset : offset + start.result_chars]
    data: dict[str, Any] = {
        "id": f"{view.session}:{agent.path}",
        "profile": agent.profile,
        "status": agent.status,
        "reason": end.stop_reason if end else "",
        "error": end.error if end else "",
        "result": shown,
        "truncated": len(shown) < len(text),
        "result_chars": len(text),
        "partial": end is not None and end.partial,
        "findings": [msgspec.to_builtins(finding) for finding in end.findings] if end else [],
        "receipt": receipt_data(agent.receipt),
        "usage": usage_data(tree),
        "cost_usd": tree.cost_usd,
        "duration_s": round(agent.active_s(view.at), 1),
        "budget_left": {
            "tokens": max(0, start.tokens - tree.billed) if start.tokens else None,
            "cost_usd": None
            if start.cost_usd is None or tree.cost_usd is None
            else max(0.0, start.cost_usd - tree.cost_usd),
        },
        "sub_agents": [
            {"id": f"{view.session}:{other.path}", "profile": other.profile, "status": other.status}
            for other in view.agents.values()
            if _is_below(other, agent)
        ],
    }
    if schema:
        with suppress(ValueError, RecursionError):
            data["data"] = json.loads(unfenced(text))
    if agent.worktree is not None:
        files = [{"path": f.path, "added": f.added, "removed": f.removed} for f in agent.worktree.files]
        data["worktree"] = {"branch": agent.worktree.branch, "state": agent.worktree.state, "files": files}
    if budget is not None:
        data["server_budget_left"] = server_caps(budget)
    return data


def receipt_data(receipt: Receipt) -> dict[str, Any]:
    """What the harness saw an agent do, as data."""
    return {
        "tools": receipt.tools,
        "failed": receipt.failed,
        "denied": receipt.denied,
        "files": [{"path": f.path, "added": f.added, "removed": f.removed, "seen": f.seen} for f in receipt.files],
        "commands": [
            {"command": c.command, "exit_code": c.exit_code, "timed_out": c.timed_out, "running": c.running}
            for c in receipt.commands
        ],
        "urls": list(receipt.urls),
        "warnings": list(receipt.warnings),
        "not_known": list(receipt.unknown),
    }


def _summary(view: SessionView, agent: AgentView) -> AgentSummary:
    return AgentSummary(
        f"{view.session}:{agent.path}",
        agent.profile,
        agent.task,
        agent.status,
        end=agent.end,
        usage=view.usage_of(agent.path),
        duration_s=agent.active_s(view.at),
        receipt=agent.receipt,
        model=agent.model,
        kept=agent.kept,
        result_chars=agent.newest_start.result_chars,
    )


def _is_below(other: AgentView, agent: AgentView) -> bool:
    return bool(other.run) and other.path != agent.path and is_under(other.path, agent.path)


def _schema(run: ToolRun, index: int, batch: bool) -> bool:
    """Whether the task of the agent at `index` asked for a JSON document."""
    if not batch:
        return bool(run.arguments.get("schema"))
    tasks = run.arguments.get("tasks")
    if not isinstance(tasks, list) or len(tasks) != len(run.agents):  # one was not started
        return False
    return isinstance(tasks[index], dict) and bool(tasks[index].get("schema"))
