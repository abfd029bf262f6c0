"""The progress lines: the current activity of each agent, one line per agent, in fixed columns."""

from __future__ import annotations

import math

from rich.cells import cell_len

from friday_cli.core.protocol.format import short_cost, tokens
from friday_cli.core.protocol.tool_info import MAP_TASKS
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import AgentView, SessionView, agent_mark
from friday_cli.view.tree import batch_progress, budget_wait, network_wait

from .terminal import truncate_line

MAX_LINES = 10
"""Lines shown at once; the last one counts the agents that are not shown."""
SILENT_S = 20.0
"""Seconds without an event of the agent after which its line says so."""
_ACTIVITY_COLUMNS = 30
"""Columns for the activity of an agent, if the terminal is wide enough."""
_MIN_TASK_COLUMNS = 10
"""With fewer columns the task is left out."""


class ProgressLines:
    """Makes the lines. `last_event`: the time (Unix seconds) of the newest event of each agent."""

    def __init__(self, state: SessionView) -> None:
        self._state = state
        self.last_event: dict[str, float] = {}

    def lines(self, width: int, now: float) -> list[str]:
        """Lines of at most `width` columns for the working sub-agents, and for those that ended in this run with warnings.
        The root has one if it works alone and writes nothing. Without a network the first line says when it is tried
        again."""
        working = [agent for agent in self._state.working if agent.parent and not agent.batch]
        batches = {agent.batch: agent.parent for agent in self._state.working if agent.batch}
        if not working and not batches:
            working = [a for a in self._state.working if not (a.reply and a.reply.text.text)]
        agents = [
            *working,
            *(a for a in self._state.agents.values() if a.warned and not a.batch and a.path in self.last_event),
        ]
        shown = agents if len(agents) <= MAX_LINES else agents[: MAX_LINES - 1]
        names = [sanitize_line(f"{agent_mark(a)} {f'{a.path} ' * bool(a.parent)}{a.profile}", 40) for a in shown]
        columns = max(map(cell_len, names), default=0)
        lines = [self._line(agent, _fit(name, columns), width, now) for agent, name in zip(shown, names, strict=True)]
        lines += [
            truncate_line(f"▸ {MAP_TASKS}  {batch_progress(self._state.agents[path], call)}", width)
            for call, path in batches.items()
        ]
        if offline := network_wait(self._state, now):
            lines.insert(0, truncate_line(f"  {offline}", width))
        return [*lines, f"  … and {len(agents) - len(shown)} more"] if len(shown) < len(agents) else lines

    def _line(self, agent: AgentView, name: str, width: int, now: float) -> str:
        usage = agent.usage_now
        end = f"{_clock(agent.active_s(now)):>7}{tokens(usage) if usage.billed else '':>8}"
        if any(other.usage_now.cost_usd for other in self._state.working):
            end += f"{short_cost(usage) if usage.cost_usd else '':>9}"
        available = width - cell_len(name) - len(end) - 4
        activity = self._activity(agent, now)
        if not agent.parent:
            return truncate_line(f"{name}  {activity}  {end.strip()}", width)
        columns = min(_ACTIVITY_COLUMNS, available // 2)
        if columns < _MIN_TASK_COLUMNS:
            return truncate_line(f"{name}  {activity}", width)
        return f"{name}  {_fit(agent.task, available - columns - 1)}  {_fit(activity, columns)} {end}".rstrip()

    def _activity(self, agent: AgentView, now: float) -> str:
        match agent.status:
            case "completed":
                return "; ".join(agent.receipt.warnings)
            case "queued":
                return "waiting for a slot"
            case "waiting_child":
                return "waiting for sub-agents"
            case "waiting_user":
                return "waiting for an answer"
            case "waiting_budget":
                return budget_wait(agent)
            case "waiting_rate":
                left = math.ceil(agent.wait_until - now)
                if agent.waits_for_network:
                    return "no connection"
                if left <= 0:
                    return "waiting for its turn"
                return f"retrying in {left} s" if agent.waiting.reason else f"rate limit: {left} s"
        if (current := agent.current) is not None:
            return sanitize_line(f"{current.label} {current.title}", 80)
        silent = now - self.last_event.get(agent.path, now)
        if silent > SILENT_S:
            return f"no response for {silent:.0f} s"
        if agent.reply and agent.reply.calls:
            return f"calling {sanitize_line(max(agent.reply.calls.items())[1][0], 40)}"
        return "writing" if agent.reply and agent.reply.text.text else "thinking"


def _fit(text: str, width: int) -> str:
    """`text` cut or padded to `width` columns."""
    short = truncate_line(sanitize_line(text, 200), width)
    return short + " " * (width - cell_len(short))


def _clock(seconds: float) -> str:
    """Whole seconds: `4 s`, `1:05`, `2:01:40`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
