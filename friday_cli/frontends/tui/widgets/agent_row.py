"""An agent of the tree in two lines: profile, task and time, then its activity and what it has used.

In a narrow column the activity is kept longest, and of the figures the cost of the whole subtree.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import is_demo, seconds, short_cost, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import AgentRow, AgentView

from .agent_block import status_mark, status_style
from .blocks import RenderContext
from .styles import Styles

BAR_CELLS = 5
"""Length of the bar of a budget."""
NARROW_ROW = 36
"""Cells below which a row begins with the task; the profile is in its second line, and an unknown cost is left out."""


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
    earlier: tuple[str, ...] = ()
    """The agents of a row that stands for branches which ended in earlier prompts."""


def draw(context: RenderContext, agent: AgentView, branch: Branch, width: int, now: float) -> list[Strip]:
    """The two lines of an agent; `width` in cells, `now` in Unix seconds."""
    renderer, styles = context.renderer, context.renderer.styles
    if branch.earlier:
        return _draw_earlier(context, branch, width)
    row = AgentRow.of(context.state, agent, now=now)
    top = Text().append(branch.first, style=styles.dim)
    has_branch = row.has_children and not branch.flat
    top.append("▸" if branch.folded else "▾" if has_branch else " ", style=styles.dim)
    top.append(f"{status_mark(agent)} ", style=status_style(agent, renderer))
    if branch.flat:
        top.append(f"{row.path} ", style=styles.dim)
    badges = _badges(agent, styles, branch)
    narrow = width < NARROW_ROW and bool(agent.parent)  # what tells the agents apart comes first
    profile = sanitize_line(row.profile, max(width - top.cell_len - badges.cell_len, 4)) or "friday"
    if narrow:
        top.append_text(Text(badges.plain.strip() + " " if badges else "", style=styles.warn))
        top.append(row.task)
    else:
        top.append(profile, style="bold")
        top.append_text(badges)
        top.append(f" {row.task}", style=styles.dim)
    bottom = Text().append(branch.rest + ("│ " if has_branch and not branch.folded else "  "), style=styles.dim)
    available = width - bottom.cell_len
    style = styles.warn if row.asks else styles.text if not agent.ended else styles.dim
    if agent.ended and (agent.status != "completed" or agent.warned):
        style = status_style(agent, renderer)
    activity = f"{row.activity} · {profile}".removeprefix(" · ") if narrow else row.activity
    kept = min(len(row.activity), max(18, width * 2 // 5)) + bool(activity)
    figures = _figures(row, styles, available - kept, narrow=narrow)
    bottom.append(sanitize_line(activity, max(available - figures.cell_len - 1, 0)), style=style)
    return [
        renderer.line(spread(top, Text(seconds(row.active_s), style=styles.dim), width), width),
        renderer.line(spread(bottom, figures, width), width),
    ]


def _badges(agent: AgentView, styles: Styles, branch: Branch) -> Text:
    badges = Text()
    if agent.asks or branch.asked:
        badges.append(" needs you", style=styles.warn)
    if agent.background:
        badges.append(" bg", style=styles.accent)
    if has_pending_worktree(agent):
        badges.append(" worktree", style=styles.warn)
    if branch.folded:
        badges.append(f" +{branch.hidden}", style=styles.dim)
    return badges


def spread(left: Text, right: Text, width: int) -> Text:
    """Both texts in one line, the second at its end."""
    left = left.copy()
    left.truncate(max(width - right.cell_len - bool(right), 1), overflow="ellipsis", pad=True)
    return left.append_text(Text(" ") + right) if right else left


def _draw_earlier(context: RenderContext, branch: Branch, width: int) -> list[Strip]:
    """The two lines of the branches that ended in earlier prompts: how many agents, and what they used."""
    state, styles = context.state, context.renderer.styles
    agents = [
        a
        for path, a in state.agents.items()
        if any(path == one or path.startswith(f"{one}.") for one in branch.earlier)
    ]
    usage = sum((state.usage_of(path) for path in branch.earlier), Usage())
    failed = sum(agent.status not in ("completed", "cancelled") for agent in agents)
    top = Text(f"{branch.first}▸", style=styles.dim).append(f"{len(agents)} earlier", style=styles.text)
    top.append(f" · {failed} failed" if failed else "", style=styles.error)
    price = "" if usage.cost_usd is None or is_demo(agents[0].model) else f" · {short_cost(usage)}"
    top.append(f" · {tokens(usage)} tok{price}", style=styles.dim)
    bottom = Text(f"{branch.rest} Space unfolds", style=styles.dim)
    return [context.renderer.line(line, width) for line in (top, bottom)]


def _figures(row: AgentRow, styles: Styles, width: int, *, narrow: bool) -> Text:
    """Tokens and cost of the agent, those of its subtree after Σ, and a bar of its budget: as much as fits into `width`."""
    own, subtree, has_children = row.own, row.tree, row.has_children
    count, price = (
        (f"Σ{tokens(subtree)}", f"Σ{short_cost(subtree)}") if has_children else (tokens(own), short_cost(own))
    )
    demo = is_demo(row.model)
    unknown = narrow and (subtree if has_children else own).cost_usd is None
    prices = [] if demo or unknown else [price]
    variants = [[count, *prices], prices or [count]]
    if has_children:
        both = price if subtree.cost_usd is None else f"{short_cost(own)} {price}"
        variants.insert(0, [f"{tokens(own)} {count}", *([] if demo else [both])])
    share = row.budget_share
    for with_bar in (True, False) if share is not None else (False,):
        for parts in variants:
            text = Text(" · ".join(parts), style=styles.dim)
            if with_bar and share is not None:
                text.append(" ").append_text(_budget_bar(share, styles))
            if text.cell_len < width:
                return text
    return Text()


def has_pending_worktree(agent: AgentView) -> bool:
    """Whether the agent left changes in a worktree that the user has not decided on."""
    return agent.ended and agent.worktree is not None and agent.worktree.state == "changed"


def _budget_bar(share: float, styles: Styles) -> Text:
    """A bar of `BAR_CELLS` cells for a share from 0 to 1. Its colour warns when little is left."""
    count = round(share * BAR_CELLS)
    text = Text("█" * count, style=styles.ok if share < 0.7 else styles.warn if share < 0.9 else styles.error)
    return text.append("░" * (BAR_CELLS - count), style=styles.dim)
