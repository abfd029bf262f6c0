"""One agent of the tree in two lines: who it is and since when, then what it does or waits for and what it has used.

Where there is little room, what it does is kept longest; of the figures the cost of all of it goes last.
Interface: `draw(scene, agent, branch, width, now)` with a `Branch`, `used(agent, tokens)`, `bar(share, look)`.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import cost, is_demo, seconds, tokens
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import AgentView, SessionView, doing

from .agent_block import SIGNS, status_style
from .blocks import RenderContext
from .styles import Styles

BAR = 5
"""Cells of a budget's bar."""


class Branch(NamedTuple):
    """Where an agent hangs: the margins of its two lines, whether those below it are folded away, how many of them are,
    whether one of these needs the person, and whether the tree is a list of some agents, which names each by its path."""

    first: str = ""
    rest: str = ""
    folded: bool = False
    hidden: int = 0
    asked: bool = False
    flat: bool = False


def draw(scene: RenderContext, agent: AgentView, branch: Branch, width: int, now: float) -> list[Strip]:
    """The lines of an agent; `now` in Unix seconds."""
    pen, look, state = scene.pen, scene.pen.look, scene.state
    top = Text().append(branch.first, style=look.dim)
    below = bool(agent.children) and not branch.flat
    top.append("▸" if branch.folded else "▾" if below else " ", style=look.dim)
    top.append(f"{SIGNS[agent.status]} ", style=status_style(agent, pen))
    if branch.flat:
        top.append(f"{agent.path} ", style=look.dim)
    badges = _badges(agent, look, branch)
    top.append(sanitize_line(agent.profile, max(width - top.cell_len - badges.cell_len, 4)) or "friday", style="bold")
    top.append_text(badges)
    top.append(f" {sanitize_line(agent.task, 200)}", style=look.dim)
    low = Text().append(branch.rest + ("│ " if below and not branch.folded else "  "), style=look.dim)
    room = width - low.cell_len
    what = doing(state, agent)
    style = look.warn if agent.asks else look.text if not agent.ended else look.dim
    if agent.ended and agent.status != "completed":
        style = status_style(agent, pen)
    figures = _figures(state, agent, look, room - min(len(what), max(18, width * 2 // 5)) - bool(what))
    low.append(sanitize_line(what, max(room - figures.cell_len - 1, 0)), style=style)
    return [
        pen.line(_spread(top, Text(seconds(agent.active_s(now)), style=look.dim), width), width),
        pen.line(_spread(low, figures, width), width),
    ]


def _badges(agent: AgentView, look: Styles, branch: Branch) -> Text:
    badges = Text()
    if agent.asks or branch.asked:
        badges.append(" needs you", style=look.warn)
    if agent.background:
        badges.append(" bg", style=look.accent)
    if waits_apart(agent):
        badges.append(" worktree", style=look.warn)
    if branch.folded:
        badges.append(f" +{branch.hidden}", style=look.dim)
    return badges


def _spread(left: Text, right: Text, width: int) -> Text:
    """Both in one line, the second at its end."""
    left = left.copy()
    left.truncate(max(width - right.cell_len - bool(right), 1), overflow="ellipsis", pad=True)
    return left.append_text(Text(" ") + right) if right else left


def _figures(state: SessionView, agent: AgentView, look: Styles, room: int) -> Text:
    """Its tokens and cost, those of its subtree behind Σ, and how much of its budget is used: as much as there is room for."""
    own, whole = agent.usage, state.usage_of(agent.path)
    family = bool(agent.children)
    count, price = (f"Σ{tokens(whole)}", f"Σ{_price(whole)}") if family else (tokens(own), _price(own))
    demo = is_demo(agent.model)
    money = [] if demo else [price]
    choices = [[count, *money], money or [count]]
    if family:
        both = price if whole.cost_usd is None else f"{_price(own)} {price}"
        choices.insert(0, [f"{tokens(own)} {count}", *([] if demo else [both])])
    share = used(agent, whole.billed)
    for gauge in (True, False) if share is not None else (False,):
        for parts in choices:
            text = Text(" · ".join(parts), style=look.dim)
            if gauge and share is not None:
                text.append(" ").append_text(bar(share, look))
            if text.cell_len < room:
                return text
    return Text()


def _price(usage: Usage) -> str:
    """US dollars in few cells: two figures, `$ n/a` where a price is unknown."""
    if usage.cost_usd is None:
        return "$ n/a"
    if not usage.cost_usd or usage.cost_usd >= 0.0995:
        return f"${usage.cost_usd:.2f}" if usage.cost_usd else "$0"
    return f"${usage.cost_usd:.3f}" if usage.cost_usd >= 0.00995 else cost(usage)


def waits_apart(agent: AgentView) -> bool:
    """Whether its work lies in a worktree that nobody has decided on."""
    return agent.ended and agent.worktree is not None and agent.worktree.state == "changed"


def used(agent: AgentView, tokens_used: int) -> float | None:
    """How much of its budget an agent has used with its subtree, 0 to 1; None without a limit."""
    return min(tokens_used / agent.granted.tokens, 1.0) if agent.granted.tokens else None


def bar(share: float, look: Styles) -> Text:
    """A small bar, in the colour of how much is left."""
    count = round(share * BAR)
    text = Text("█" * count, style=look.ok if share < 0.7 else look.warn if share < 0.9 else look.error)
    return text.append("░" * (BAR - count), style=look.dim)
