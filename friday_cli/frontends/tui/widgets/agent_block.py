"""A delegation in a transcript: profile, task, status, cost, summary, warnings and receipt of each sub-agent; unfolded,
its whole result and its transcript.

`make_block` makes the block of any item of a transcript.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.format import is_demo, pluralize, price, seconds, tokens
from friday_cli.core.protocol.run_result import RunResult
from friday_cli.core.protocol.tool_info import DELEGATE_TASK
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.core.tool_catalog import DELEGATE_TASKS
from friday_cli.view import (
    CALL_MARKS,
    AgentView,
    Item,
    MessageItem,
    NoteItem,
    ResultItem,
    SessionView,
    ToolRun,
    agent_mark,
    count_findings,
    finding_text,
    not_started,
)
from friday_cli.view.tree import status_text

from .block_list import BlockList
from .blocks import Block, NoteBlock, RenderContext, ReplyBlock, UserBlock
from .result_block import ResultBlock, draw_findings, draw_receipt, draw_result, draw_warnings
from .styles import TextRenderer, indented
from .tool_blocks import CallBlock, body

SUMMARY_LINES = 3
HEAD, RECEIPT = -1, -2
"""In place of a line of an unfolded transcript: a line above it, and a line of the receipt."""


def make_block(context: RenderContext, item: Item) -> Block:
    """The block for an item."""
    if isinstance(item, ToolRun):
        delegates = bool(item.agents) or item.tool in (DELEGATE_TASK, DELEGATE_TASKS)
        return AgentBlock(context, item) if delegates else CallBlock(context, item)
    if isinstance(item, NoteItem):
        return NoteBlock(context, item)
    if isinstance(item, ResultItem):
        return ResultBlock(context, item)
    assert isinstance(item, MessageItem)
    return UserBlock(context, item) if item.role == "user" else ReplyBlock(context, item)


class AgentBlock(Block):
    """A call that starts agents: a few lines for each."""

    compact = True
    done = False  # an agent that has ended can be resumed

    def __init__(self, context: RenderContext, run: ToolRun) -> None:
        super().__init__(context)
        self._run = run
        self._lists: dict[str, BlockList] = {}
        self._unfolded: set[str] = set()
        self._receipts: set[str] = set()
        """The paths of the agents whose receipt is unfolded."""
        self._rows: list[tuple[str, int]] = []
        """For each line: the path of the agent it is about, and the line of its unfolded transcript, `HEAD` or `RECEIPT`."""

    def _agents(self) -> list[AgentView]:
        agents = self.context.state.agents
        return [agents[path] for path in self._run.agents if path in agents]

    def version(self) -> object:
        parts: list[object] = [self.open, self._run.status, len(self._run.text), self._run.display is None]
        parts.append(len(self.context.state.notices))
        for agent in self._agents():
            clock = 0 if agent.ended else int(self.context.now())
            parts += [agent.status, agent.waiting, agent.run, agent.usage, len(agent.result), clock, agent.background]
            parts += [id(agent.current) if agent.current else 0, agent.path in self._receipts]
            if agent.path in self._unfolded:
                parts.append(self._list_of(agent.path).version())
        return tuple(parts)

    def text(self) -> str:
        rows = []
        for agent in self._agents():
            rows += [f"{agent.profile} {agent.task}", agent.result, agent.earlier.text if agent.earlier else ""]
            rows += map(finding_text, agent.end.findings if agent.end else ())
            rows += [*agent.receipt.warnings, agent.receipt.short()]
        return "\n".join([*rows, *not_started(self._run)]) or self._run.text

    def estimate(self, width: int) -> int:
        return max(1, len(self._run.agents)) * (3 + SUMMARY_LINES)

    def matches(self, what: str) -> bool:
        failed = self._run.status in ("error", "denied") or bool(not_started(self._run))
        failed = failed or any(a.status == "failed" or a.warned for a in self._agents())
        return what == "agent" or (what == "error" and failed)

    def agent_at(self, at: int) -> str:
        path, row = self._rows[at] if 0 <= at < len(self._rows) else ("", -1)
        if row >= 0 and (inner := self._list_of(path).agent_at(row)):
            return inner
        return path

    def toggle(self, at: int) -> bool:
        path, row = self._rows[at] if 0 <= at < len(self._rows) else ("", -1)
        if not path:
            self.open = not self.open
            return True
        if row >= 0:
            return self._list_of(path).toggle(row)
        folded = self._receipts if row == RECEIPT else self._unfolded
        folded ^= {path}
        return True

    def fold(self, open_: bool) -> None:
        self.open = open_
        self._unfolded = {agent.path for agent in self._agents()} if open_ else set()
        self._receipts = set(self._unfolded)

    def _list_of(self, path: str) -> BlockList:
        blocks = self._lists.setdefault(path, BlockList(self.context, path, without_result=True))
        blocks.follow()
        return blocks

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        out: list[Strip] = []
        self._rows = []
        agents = self._agents()
        if not agents:
            return _draw_call(self._run, self.open, renderer, width)
        said: set[str] = set()
        for agent in agents:
            unfolded = agent.path in self._unfolded
            lines = _draw_head(self.context, agent, unfolded, width, said)
            if agent.end is not None:
                lines += _draw_result(agent, agent.end, unfolded, renderer, width)
            self._rows += [(agent.path, HEAD)] * len(lines)
            out += lines
            if agent.end is not None:
                receipt = draw_receipt(agent.receipt, agent.path in self._receipts, renderer, width - 6)
                self._rows += [(agent.path, RECEIPT)] * len(receipt)
                out += indented(receipt, "      ", "      ", renderer.styles.dim)
            if unfolded:
                history = self._list_of(agent.path).all_strips(width - 4)
                out += indented(history, "  │ ", "  │ ", renderer.styles.accent)
                self._rows += [(agent.path, row) for row in range(len(history))]
        for text in not_started(self._run):
            lines = renderer.wrap(Text(sanitize_line(text, 500), style=renderer.styles.error), width - 4)
            out += indented(lines, "  ✗ ", "    ", renderer.styles.error)
        self.stops = list(_stops(self._rows, self._lists))
        return out


def _stops(rows: list[tuple[str, int]], lists: dict[str, BlockList]) -> Iterator[int]:
    """The first line of each agent and of its receipt, and the stops of its unfolded transcript."""
    before = ("", 0)
    for at, (path, row) in enumerate(rows):
        part = path, min(row, 0)
        if lists[path].is_stop(row) if row >= 0 else part != before:
            yield at
        before = part


def _draw_call(run: ToolRun, open_: bool, renderer: TextRenderer, width: int) -> list[Strip]:
    """A call that has started no agent."""
    styles = renderer.styles
    text = Text(
        f"{CALL_MARKS[run.status]} ", style=styles.error if run.status in ("error", "denied") else styles.accent
    )
    tasks = run.arguments.get("tasks")
    first = tasks[0] if isinstance(tasks, list) and tasks and isinstance(tasks[0], dict) else run.arguments
    text.append(f"[{sanitize_line(str(first.get('profile', 'sub-agent')), 40)}]", style=styles.accent)
    text.append(f" {sanitize_line(str(first.get('task', '')), 300)}")
    if isinstance(tasks, list) and len(tasks) > 1:
        text.append(f" · and {len(tasks) - 1} more", style=styles.dim)
    if run.status == "waiting":
        text.append(" · waits for you", style=styles.warn)
    out = [renderer.line(text, width)]
    if open_:
        out += indented(body(run, renderer, width - 4), "    ", "    ", styles.dim)
    elif run.status in ("error", "denied") and run.text:
        out.append(renderer.line(Text("    " + sanitize_line(run.text, 500), style=styles.error), width))
    return out


def _draw_head(context: RenderContext, agent: AgentView, unfolded: bool, width: int, said: set[str]) -> list[Strip]:
    """The status and the task of an agent, what it usually uses while it works or is unfolded, and what the harness warned of
    while it worked. `said`: the estimates that stand above; another is added."""
    renderer, styles, now = context.renderer, context.renderer.styles, context.now()
    text = Text("▾ " if unfolded else "▸ ", style=styles.dim)
    text.append(f"{status_mark(agent)} ", style=status_style(agent, renderer))
    text.append(f"[{sanitize_line(agent.profile, 40)}]", style=styles.accent)
    text.append(f" {agent.path}", style=styles.dim)
    text.append(" · " + " · ".join(summary(context.state, agent, now)), style=styles.dim)
    task = renderer.wrap(Text(sanitize_line(agent.task, 600)), width - 4)
    if len(task) > 2:
        task = [task[0], renderer.line(Text(task[1].text + "…"), width - 4)]
    out = [renderer.line(text, width), *indented(task, "    ", "    ", styles.dim)]
    expected = agent.newest_start.forecast
    known = expected is not None and expected.runs + expected.others and not is_demo(agent.model)
    if expected is not None and known and (unfolded or not agent.ended):
        if (estimate := f"{agent.profile}: {expected.usual()}") not in said:
            out.append(renderer.line(Text(f"    {sanitize_line(estimate, 200)}", style=styles.dim), width))
        said.add(estimate)
    for path, note in [] if unfolded else context.state.notices:  # unfolded, they are in the history
        if path == agent.path and note.level != "info":
            lines = renderer.wrap(Text(sanitize_line(note.text, 1000), style=styles.warn), width - 6)
            out += indented(lines, "    ! ", "      ", styles.warn)
    return out


def _draw_result(agent: AgentView, end: RunResult, unfolded: bool, renderer: TextRenderer, width: int) -> list[Strip]:
    """The result of an agent with its findings and warnings, and the result of an earlier run if this one has none as good:
    the first lines, or all of it."""
    styles, words = renderer.styles, partial(_draw_words, whole=unfolded, renderer=renderer, width=width)
    out: list[Strip] = []
    if end.text.strip():
        out += words(end.text, style=styles.dim if agent.status == "completed" else styles.error)
    if end.error:
        lines = renderer.wrap(Text(sanitize_line(end.error, 500), style=styles.error), width - 6)
        out += indented(lines, "      ", "      ", styles.error)
    findings = end.findings
    if agent.earlier:
        out.append(renderer.line(Text("      Earlier result:", style=styles.dim), width))
        out += words(agent.earlier.text, style=styles.dim)
        findings += agent.earlier.findings
    lines = draw_findings(findings, renderer, width - 6) if unfolded else []
    if findings and not unfolded:
        lines = [renderer.line(Text(count_findings(findings), style=styles.dim), width - 6)]
    lines += draw_warnings(agent.receipt, renderer, width - 6)
    return out + indented(lines, "      ", "      ", styles.dim)


def _draw_words(text: str, *, whole: bool, renderer: TextRenderer, width: int, style: Style) -> list[Strip]:
    """What a sub-agent wrote, the first lines or the `whole` text, behind a bar: no line of it can be taken for one of the
    harness."""
    if whole:
        lines = draw_result(text, renderer, width - 6)
    else:
        shown = [part for part in sanitize(text).split("\n") if part.strip()]
        texts = [Text(part[:1000], style=style) for part in shown[:SUMMARY_LINES]]
        if (left := len(shown) - SUMMARY_LINES) > 0:
            texts.append(Text(f"… {pluralize(left, 'more line')}", style=renderer.styles.dim))
        lines = [renderer.line(line, width - 6) for line in texts]
    return indented(lines, "    │ ", "    │ ", renderer.styles.dim)


def status_mark(agent: AgentView) -> str:
    """One character for the status of an agent."""
    return agent_mark(agent, running="●")  # a triangle means folding here


def summary(state: SessionView, agent: AgentView, now: float) -> tuple[str, str]:
    """The status of an agent, and what it and its sub-agents have used: time, tokens, cost if it is known."""
    usage = state.usage_of(agent.path)
    status = status_text(state, agent, now) + (" · background" if agent.background else "")
    cost = [price(agent.model, usage)] if usage.cost_usd is not None or is_demo(agent.model) else []
    return status, " · ".join((seconds(agent.active_s(now)), f"{tokens(usage)} tok", *cost))


def status_style(agent: AgentView, renderer: TextRenderer) -> Style:
    """The colour of the status of an agent."""
    styles = renderer.styles
    if agent.end is not None and agent.status == "completed":
        return styles.ok if agent.end.stop_reason == "done" and not agent.warned else styles.warn
    return {
        "failed": styles.error,
        "timeout": styles.error,
        "interrupted": styles.error,
        "cancelled": styles.warn,
        "waiting_user": styles.warn,
        "running": styles.accent,
    }.get(agent.status, styles.dim)
