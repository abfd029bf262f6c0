"""A delegation in a transcript: profile, task, state, summary and cost; unfolded, the child's whole history.

Interface: `block_of(scene, item)` for any item, `DelegationBlock(scene, run)`; `summary(state, agent, now)` says in a
few words how an agent stands and what it has used.
"""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import pluralize, price, seconds, tokens
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.tool_catalog import DELEGATE_TASK, DELEGATE_TASKS
from friday_cli.view import AgentView, Item, MessageItem, NoteItem, SessionView, ToolRun, status_words
from friday_cli.view.tree import GLYPHS

from .block_list import BlockList
from .blocks import Block, NoteBlock, RenderContext, ReplyBlock, UserBlock
from .styles import TextRenderer, indented
from .tool_blocks import MARKS, CallBlock, body

SUMMARY_LINES = 3
SIGNS = {**GLYPHS, "running": "●"}
"""One sign per status; a triangle is for folding here."""


def make_block(scene: RenderContext, item: Item) -> Block:
    """The block for an item."""
    if isinstance(item, ToolRun):
        return AgentBlock(scene, item) if is_delegation(item) else CallBlock(scene, item)
    if isinstance(item, NoteItem):
        return NoteBlock(scene, item)
    assert isinstance(item, MessageItem)
    return UserBlock(scene, item) if item.role == "user" else ReplyBlock(scene, item)


def is_delegation(run: ToolRun) -> bool:
    """Whether a call starts agents."""
    return bool(run.agents) or run.tool in (DELEGATE_TASK, DELEGATE_TASKS)


class AgentBlock(Block):
    """A call that starts agents: a few lines for each."""

    kind = "agent"
    compact = True
    done = False  # an agent that ended may be continued

    def __init__(self, scene: RenderContext, run: ToolRun) -> None:
        super().__init__(scene)
        self._run = run
        self._columns: dict[str, BlockList] = {}
        self._unfolded: set[str] = set()
        self._rows: list[tuple[str, int]] = []
        """Of each line: the agent it is about, and the line of that agent's history (-1: not of its history)."""

    def _agents(self) -> list[AgentView]:
        agents = self.scene.state.agents
        return [agents[path] for path in self._run.agents if path in agents]

    def version(self) -> object:
        signs: list[object] = [self.open, self._run.status, len(self._run.text)]
        for agent in self._agents():
            clock = 0 if agent.ended else int(self.scene.now())
            signs += [agent.status, agent.waiting, agent.run, agent.usage, len(agent.result), clock, agent.background]
            signs.append(id(agent.current) if agent.current else 0)
            if agent.path in self._unfolded:
                signs.append(self._column(agent.path).version())
        return tuple(signs)

    def text(self) -> str:
        return "\n".join(f"{a.profile} {a.task}\n{a.result}" for a in self._agents()) or self._run.text

    def guess(self, width: int) -> int:
        return max(1, len(self._run.agents)) * (2 + SUMMARY_LINES)

    def wants(self, what: str) -> bool:
        agents = self._agents()
        return what == "agent" or (
            what == "error" and (self._run.status in ("error", "denied") or any(a.status == "failed" for a in agents))
        )

    def agent_at(self, at: int) -> str:
        path, row = self._rows[at] if 0 <= at < len(self._rows) else ("", -1)
        if row >= 0 and (inner := self._column(path).agent_at(row)):
            return inner
        return path

    def toggle(self, at: int) -> bool:
        path, row = self._rows[at] if 0 <= at < len(self._rows) else ("", -1)
        if not path:
            self.open = not self.open
            return True
        if row >= 0:
            return self._column(path).toggle(row)
        self._unfolded ^= {path}
        return True

    def fold(self, open_: bool) -> None:
        self.open = open_
        self._unfolded = {agent.path for agent in self._agents()} if open_ else set()

    def _column(self, path: str) -> BlockList:
        if path not in self._columns:
            self._columns[path] = BlockList(self.scene, path)
        column = self._columns[path]
        column.follow()
        return column

    def _draw(self, pen: TextRenderer, width: int) -> list[Strip]:
        out: list[Strip] = []
        self._rows = []
        agents = self._agents()
        if not agents:
            out = self._wish(pen, width)
            self._rows = [("", -1)] * len(out)
            return out
        for agent in agents:
            lines = self._brief(agent, pen, width)
            self._rows += [(agent.path, -1)] * len(lines)
            out += lines
            if agent.path in self._unfolded:
                history = self._column(agent.path).every(width - 4)
                out += indented(history, "  │ ", "  │ ", pen.look.accent)
                self._rows += [(agent.path, row) for row in range(len(history))]
        return out

    def _wish(self, pen: TextRenderer, width: int) -> list[Strip]:
        """A call that has no agent yet, or got none."""
        run, look = self._run, pen.look
        text = Text(f"{MARKS[run.status]} ", style=look.error if run.status in ("error", "denied") else look.accent)
        tasks = run.arguments.get("tasks")
        wish = tasks[0] if isinstance(tasks, list) and tasks and isinstance(tasks[0], dict) else run.arguments
        text.append(f"[{sanitize_line(str(wish.get('profile', 'sub-agent')), 40)}]", style=look.accent)
        text.append(f" {sanitize_line(str(wish.get('task', '')), 300)}")
        if isinstance(tasks, list) and len(tasks) > 1:
            text.append(f" · and {len(tasks) - 1} more", style=look.dim)
        if run.status == "waiting":
            text.append(" · waits for you", style=look.warn)
        out = [pen.line(text, width)]
        if self.open:
            out += indented(body(run, pen, width - 4), "    ", "    ", look.dim)
        elif run.status in ("error", "denied") and run.text:
            out.append(pen.line(Text("    " + sanitize_line(run.text, 500), style=look.error), width))
        return out

    def _brief(self, agent: AgentView, pen: TextRenderer, width: int) -> list[Strip]:
        look, now = pen.look, self.scene.now()
        unfolded = agent.path in self._unfolded
        text = Text("▾ " if unfolded else "▸ ", style=look.dim)
        text.append(f"{SIGNS[agent.status]} ", style=status_style(agent, pen))
        text.append(f"[{sanitize_line(agent.profile, 40)}]", style=look.accent)
        text.append(f" {agent.path}", style=look.dim)
        text.append(" · " + " · ".join(summary(self.scene.state, agent, now)), style=look.dim)
        out = [pen.line(text, width)]
        task = pen.wrap(Text(sanitize_line(agent.task, 600)), width - 4)
        if len(task) > 2:
            task = [task[0], pen.line(Text(task[1].text + "…"), width - 4)]
        out += indented(task, "    ", "    ", look.dim)
        if agent.end is not None and not unfolded:
            words = agent.end.text if agent.end.text.strip() else agent.end.error
            shown = [part for part in sanitize(words).split("\n") if part.strip()]
            style = look.dim if agent.status == "completed" else look.error
            lines = [pen.line(Text(part[:1000], style=style), width - 6) for part in shown[:SUMMARY_LINES]]
            if len(shown) > SUMMARY_LINES:
                lines.append(
                    pen.line(Text(f"… {pluralize(len(shown) - SUMMARY_LINES, 'more line')}", style=look.dim), width - 6)
                )
            out += indented(lines, "    └ ", "      ", look.dim)
        return out


def summary(state: SessionView, agent: AgentView, now: float) -> tuple[str, str]:
    """How an agent stands, and what it has used with its subtree: time, tokens, cost."""
    usage = state.usage_of(agent.path)
    how = status_words(state, agent) + (" · background" if agent.background else "")
    return how, " · ".join((seconds(agent.active_s(now)), f"{tokens(usage)} tok", price(agent.model, usage)))


def status_style(agent: AgentView, pen: TextRenderer) -> Style:
    """The colour of an agent's state."""
    look = pen.look
    if agent.end is not None and agent.status == "completed":
        return look.ok if agent.end.stop_reason == "done" else look.warn
    return {"failed": look.error, "timeout": look.error, "interrupted": look.error, "cancelled": look.warn,
            "waiting_user": look.warn, "running": look.accent}.get(agent.status, look.dim)  # fmt: skip
