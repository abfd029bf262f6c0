"""The tree of agents as lines of text, for `sessions show --tree` and exports."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from friday_cli.core.protocol.events import QuestionAsked, WorktreeChanged
from friday_cli.core.protocol.format import pluralize, price, seconds, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.server_calls import tool_label
from friday_cli.core.text.sanitize import masked_line, sanitize, sanitize_line

from .items import AgentView, count_findings, worktree_text
from .marks import AGENT_MARKS, agent_mark
from .state import SessionView, awaited_children

BUSY: dict[str | None, str | None] = {None: "the service is busy", "rate": "rate limit"}
"""Words for the reasons of a wait for a service that a person would not understand."""
BATCH_SHOWN = 5
"""A batch with more items does not show those that completed."""
RESULT_LINES, RESULT_CHARS = 3, 200
"""Lines of a sub-agent's result below it, and characters of each."""


def render_tree(
    state: SessionView,
    *,
    now: float | None = None,
    details: Literal["none", "results", "receipts"] = "receipts",
    top: str = "",
    fit: Callable[[str], str] = str,
) -> list[str]:
    """All agents, or only `top` and its descendants: one line for each agent, followed by the first lines of a sub-agent's
    result or its error and by its warnings, with "receipts" by its whole receipt. `now` (Unix seconds, default: the time of
    the last event) is for the time of running agents. `fit` cuts a line; it is not used for receipts and warnings.
    Untrusted text is sanitized."""
    at = state.at if now is None else now

    def branch(agent: AgentView, first: str, rest: str) -> Iterator[str]:
        """An agent and its descendants; `first` is the indent of its first line, `rest` that of the others."""
        yield fit(first + agent_line(state, agent, now=at))
        children, items = shown_children([state.agents[path] for path in agent.children])
        indent = f"{rest}{'│ ' if children or items else '  '}    "
        if details != "none" and agent.run:
            yield from (fit(indent + row) for row in _first_lines(agent.result if agent.parent else ""))
            if agent.end is not None and agent.end.findings:
                yield indent + count_findings(agent.end.findings)
            if agent.parent and agent.end is not None and agent.end.error:
                yield indent + masked_line(f"error: {agent.end.error}", 300)
            if agent.parent and agent.earlier:
                yield from (fit(indent + row) for row in ("Earlier result:", *_first_lines(agent.earlier.text)))
            facts = [row for row in agent.receipt.lines() if details == "receipts" or row.startswith("WARNING: ")]
            yield from (f"{indent}{sanitize(text, keep='')}" for text in facts)
        for child in children:
            last = child is children[-1] and not items
            yield from branch(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))
        if items:
            usage = sum((state.usage_of(item.path) for item in items), Usage())
            words = f"{pluralize(len(items), 'completed item')} of a batch"
            used = f"{tokens(usage)} tokens · {price(items[0].model, usage)}"
            yield fit(f"{rest}└─ {AGENT_MARKS['completed']} {words} · {used}")

    lines: list[str] = []
    for agent in state.agents.values():
        is_top = agent.path == top if top else agent.parent not in state.agents
        if is_top and (agent.run or agent.turns):
            lines += branch(agent, "", "")
    return lines


def shown_children(children: list[AgentView]) -> tuple[list[AgentView], list[AgentView]]:
    """The agents that are shown one by one, and those that are not: the completed items of a batch with many."""
    sizes = Counter(child.batch for child in children)
    hidden = [
        c for c in children if c.batch and sizes[c.batch] > BATCH_SHOWN and c.status == "completed" and not c.asks
    ]
    paths = {child.path for child in hidden}
    return [child for child in children if child.path not in paths], hidden


def batch_progress(agent: AgentView, call: str) -> str:
    """The newest line of progress of a call of `map_tasks`, or its title."""
    run = agent.calls.get(call)
    lines = run.output.text.strip().split("\n") if run is not None and run.output is not None else [""]
    return masked_line(lines[-1] or (run.title if run is not None else ""), 300)


def _first_lines(result: str) -> list[str]:
    """The first lines of a result, marked as a quotation."""
    rows = [row for row in result.splitlines() if row.strip()]
    more = [f"… {pluralize(len(rows) - RESULT_LINES, 'more line')}"] if len(rows) > RESULT_LINES else []
    return [*(f"> {masked_line(row, RESULT_CHARS)}" for row in rows[:RESULT_LINES]), *more]


class AgentRow(msgspec.Struct, frozen=True):
    """The row of an agent, as data. The strings are in one line and sanitized."""

    path: str
    profile: str
    task: str
    model: str
    activity: str
    """What it does or waits for, as `activity_text`."""
    own: Usage
    tree: Usage
    """With its descendants, as `SessionView.usage_of`."""
    active_s: float
    budget_share: float | None
    """The share of its tokens that it and its descendants have used, at most 1; None without a limit."""
    background: bool
    has_children: bool
    asks: bool
    """Whether it asks the person."""
    worktree: WorktreeChanged | None
    """Its worktree, unless that has no changes."""

    @classmethod
    def of(cls, state: SessionView, agent: AgentView, *, now: float) -> AgentRow:
        """The row of an agent; `now` as for `render_tree`."""
        tree, limit = state.usage_of(agent.path), agent.newest_start.tokens
        worktree = agent.worktree if agent.worktree is not None and agent.worktree.state != "unchanged" else None
        return cls(
            agent.path,
            sanitize_line(agent.profile, 200),
            masked_line(agent.task, 200),
            agent.model,
            activity_text(state, agent, now),
            agent.usage_now,
            tree,
            agent.active_s(now),
            min(tree.billed / limit, 1.0) if limit else None,
            agent.background,
            bool(agent.children),
            bool(agent.asks),
            worktree,
        )


def agent_line(state: SessionView, agent: AgentView, *, now: float) -> str:
    """One agent in one line: symbol, path, profile, status, tokens, cost, time and task."""
    row = AgentRow.of(state, agent, now=now)
    parts = [
        f"{agent_mark(agent)} {row.path} {sanitize_line(row.profile, 40)}".rstrip(),
        status_text(state, agent, now),
        f"{tokens(row.own)} tokens" + (f" (tree {tokens(row.tree)})" if row.has_children else ""),
        "" if row.own.cache_share is None else f"{row.own.cache_share:.0%} cached",
        price(row.model, row.tree),
        seconds(row.active_s),
        "background" if row.background else "",
        f"worktree {worktree_text(row.worktree)}" if row.worktree is not None else "",
        masked_line(row.task, 100),
    ]
    return " · ".join(part for part in parts if part)


def status_text(state: SessionView, agent: AgentView, now: float | None = None) -> str:
    """The status with what the agent waits for or runs, or the reason if it did not end with success. `now` as for
    `render_tree`."""
    if agent.end is not None:
        return agent.end.summary(agent.path)
    if agent.status.startswith("waiting"):
        return _waits(state, agent, state.at if now is None else now)
    if (current := agent.current) is not None:
        return f"{agent.status} ({masked_line(f'{current.label} {current.title}', 60)})"
    return agent.status


def _waits(state: SessionView, agent: AgentView, now: float) -> str:
    """The reason why an agent waits, for its row of the tree."""
    if agent.status == "waiting_user":
        return "taken over by you" if agent.taken_over else "waits for you"
    if agent.status == "waiting_child":
        paths = [child.path for child in awaited_children(state.agents, agent)]
        names = sanitize_line(" ".join(paths), 40) if 0 < len(paths) < 3 else f"{len(paths) or ''} agents".strip()
        return f"waits for {names}"
    if agent.status == "waiting_budget":
        return budget_wait(agent)
    if agent.waits_for_network:
        return network_wait(state, now)
    if (why := agent.waiting.reason) == "cache":
        return "waits for the service to cache the start of its request"
    if why == "batch":
        return "waits for a batch at the service"
    return f"waits {agent.waiting.wait_s or 0.0:.1f} s: {BUSY.get(why, why)}"


def budget_wait(agent: AgentView) -> str:
    """What an agent with the status `waiting_budget` waits for: a cap over all sessions, or a part of a limit that others have
    reserved."""
    if agent.waits_for_cap:
        return f"waiting: {sanitize_line(str(agent.waiting.cap), 100)}"
    return "waits for cost budget" if agent.waiting.reason == "cost" else "waits for tokens"


def cap_wait(state: SessionView) -> str:
    """The cap over all sessions that agents wait for; "" if none waits for one."""
    return next((budget_wait(agent) for agent in state.working if agent.waits_for_cap), "")


def network_wait(state: SessionView, now: float) -> str:
    """When the agents that have no connection try again, the same for all of them; "" if none waits for one."""
    waiting = [agent for agent in state.working if agent.waits_for_network]
    left = max((math.ceil(agent.wait_until - now) for agent in waiting), default=0)
    return f"no connection, trying again in {left} s" if left > 0 else "connecting again" if waiting else ""


def activity_text(state: SessionView, agent: AgentView, now: float | None = None) -> str:
    """What an agent does or waits for, for a line that shows the status as a symbol; after success only the
    warnings of its receipt, or the denied calls if its newest run has some. `now` as for `render_tree`."""
    if agent.end is not None:
        words = status_text(state, agent)
        why = f": {masked_line(agent.end.error, 200)}" if agent.end.error else ""
        if agent.warned:
            return masked_line("; ".join(agent.receipt.warnings), 200)
        if words == "completed" and agent.worktree is not None and agent.worktree.state == "changed":
            return worktree_text(agent.worktree).partition(": ")[2]
        if words != "completed":
            return words + why
        return sanitize_line(agent.receipt.denied_calls, 200) if agent.receipt.denied > agent.denied_before else ""
    if agent.asks and (ask := state.asks.get(next(iter(agent.asks)))) is not None:
        event = ask.event
        if isinstance(event, QuestionAsked):
            return sanitize_line(event.question, 200)
        run = agent.calls.get(event.call_id)
        return sanitize_line(f"{tool_label(event.tool)} {(run and run.title) or event.subject}", 200)
    if agent.status == "queued":
        return "waits for a slot"
    if agent.status.startswith("waiting"):
        return _waits(state, agent, state.at if now is None else now)
    if (current := agent.current) is not None:
        return masked_line(f"{current.label} {current.title}", 200)
    if (reply := agent.reply) is not None and (reply.calls or reply.text.size):
        return f"prepares {sanitize_line(list(reply.calls.values())[-1][0], 40)}" if reply.calls else "writes"
    return "thinks"
