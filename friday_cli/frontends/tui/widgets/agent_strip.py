"""The strip above the prompt while the side panel is hidden: how many sub-agents there are and what they have used, then the
ones that need the user and those at work.

Without sub-agents it takes no row.
"""

from __future__ import annotations

from collections import Counter

from rich.text import Text
from textual.widgets import Static

from friday_cli.core.protocol.format import is_demo, pluralize, seconds, short_cost, status_word, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import AgentView
from friday_cli.view.tree import activity_text

from .agent_block import status_mark, status_style
from .agent_tree import spread
from .blocks import RenderContext

WITH_WARNINGS = "with warnings"
MAX_ROWS = 5
"""Rows of the strip on a screen with enough of them."""


class AgentStrip(Static):
    """The strip of agents above the prompt, while the side panel is hidden. `paths` are the agents in its rows, "" for a row that is not about one agent."""

    paths: tuple[str, ...] = ()
    _shown: Text | None = None

    def follow(self, context: RenderContext, *, hidden: bool) -> None:
        """Show what is new; nothing if it is `hidden` or there are no sub-agents."""
        agents = [agent for agent in context.state.agents.values() if agent.parent]
        self.display = bool(agents) and not hidden
        if not self.display:
            return
        screen = self.app.size
        rows = (screen.height - 16) // 4 if context.state.asks else screen.height // 4 - 1  # a question needs rows, too
        lines = _lines(context, agents, screen.width - 2, max(min(rows, MAX_ROWS), 1))
        text = Text("\n", no_wrap=True, overflow="ellipsis").join(line for _, line in lines)
        if text != self._shown:
            self._shown = text
            self.update(text, layout=len(lines) != len(self.paths))
        self.paths = tuple(path for path, _ in lines)


def _lines(context: RenderContext, agents: list[AgentView], width: int, rows: int) -> list[tuple[str, Text]]:
    """At most `rows` lines of `width` cells, each with the path of its agent."""
    asking = [agent for agent in agents if agent.asks]
    working = [agent for agent in agents if not agent.ended and not agent.asks and not agent.batch]
    shown = [*asking, *sorted(working, key=lambda agent: agent.status != "running")]
    lines = [("", _summary(context, agents, width))]
    if len(shown) >= rows > 2:
        hidden, shown = shown[rows - 2 :], shown[: rows - 2]
        more = Text(f"  … and {len(hidden)} more", style=context.renderer.styles.dim)
    else:
        more, shown = None, shown[: rows - 1]
    lines += [(agent.path, _row(context, agent, width)) for agent in shown]
    return [*lines, ("", more)] if more else lines


def _summary(context: RenderContext, agents: list[AgentView], width: int) -> Text:
    """The line of all sub-agents: how many work, need the user or have ended, and what they have used."""
    styles = context.renderer.styles
    text = Text(pluralize(len(agents), "sub-agent"), style=styles.accent)
    if asking := sum(bool(agent.asks) for agent in agents):
        text.append(f" · {asking} need{'s' if asking == 1 else ''} you", style=styles.warn)
    ordered = sorted(agents, key=lambda agent: (agent.ended, agent.status == "completed", not agent.warned))
    for words, count in Counter(map(_state, ordered)).items():
        style = styles.error if words in ("failed", "timeout", "interrupted") else styles.dim
        style = styles.warn if words == WITH_WARNINGS else style
        text.append(f" · {count} {words}" if words else "", style=style)
    usage = sum((agent.usage_now for agent in agents), Usage())
    return spread(text, _figures(context, [_used(usage, agents[0].model)]), width)


def _state(agent: AgentView) -> str:
    """The word for an agent in the counts of the summary; "" for one that needs the user."""
    if agent.ended:
        return WITH_WARNINGS if agent.warned else status_word(agent.status)
    return "" if agent.asks else "at work" if agent.status == "running" else "waiting"


def _row(context: RenderContext, agent: AgentView, width: int) -> Text:
    """The line of an agent that works or needs the user."""
    styles = context.renderer.styles
    text = Text(f"{status_mark(agent)} ", style=status_style(agent, context.renderer))
    text.append(f"{agent.path} ", style=styles.dim)
    text.append(sanitize_line(agent.profile, 20), style="bold")
    text.append(" needs you" if agent.asks else "", style=styles.warn)
    what = activity_text(context.state, agent, context.now())
    text.append(f" · {sanitize_line(what, 200)}", style=styles.warn if agent.asks else styles.text)
    text.append(f" · {sanitize_line(agent.task, 200)}", style=styles.dim)
    used = _used(agent.usage_now, agent.model)
    time = seconds(agent.active_s(context.now()))
    return spread(text, _figures(context, [time, used] if width >= 70 else [used]), width)


def _used(usage: Usage, model: str) -> str:
    price = (
        "" if usage.cost_usd is None or is_demo(model) else f" · {short_cost(usage)}"
    )  # the status line says n/a once
    return f"{tokens(usage)} tok{price}"


def _figures(context: RenderContext, parts: list[str]) -> Text:
    return Text(" · ".join(parts), style=context.renderer.styles.dim)
