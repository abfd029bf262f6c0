"""The lines above the transcript of a sub-agent: who it is, its status, its task, and what it has used."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.view import AgentView

from .agent_block import status_style, summary
from .agent_row import has_pending_worktree
from .blocks import RenderContext


class ChildHeader(Static):
    """See the module."""

    _text = Text()

    def show(self, context: RenderContext, agent: AgentView, width: int, *, full: bool) -> None:
        """Show an agent in `width` cells. Its usage has its own line if the first is too short (a `full` panel shows both)."""
        styles, renderer = context.renderer.styles, context.renderer
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"[{sanitize_line(agent.profile, 40)}] ", style=styles.accent)
        text.append(agent.path, style="bold")
        text.append(" · worktree waits: w" if has_pending_worktree(agent) else "", style=styles.warn)
        text.append(" · ", style=styles.dim)
        status, usage = summary(context.state, agent, context.now())
        text.append(status, style=status_style(agent, renderer))
        fits = text.cell_len + 3 + len(usage) <= width
        if fits or full:
            text.append(f" · {usage}", style=styles.dim)
        task = [strip.text for strip in renderer.wrap(Text(sanitize_line(sanitize(agent.task), 300)), width)] or [""]
        if fits and len(task) > 2:
            task = [task[0], f"{task[1]}…"]
        rows = task[:2] if fits else [f"{task[0]}…" if len(task) > 1 else task[0], usage]
        if queued := [message.text for message in agent.queued if message.source == "person"]:
            text.append(f"\n» at its next turn: {sanitize_line(queued[-1], 200)}", style=styles.accent)
        text.append("\n" + "\n".join(rows), style=styles.dim)
        if text != self._text:
            self._text = text
            self.update(text, layout=False)
