"""Renders a conversation as text and as data: messages, tool calls and started agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from friday_cli.core.protocol.displays import CommandDisplay
from friday_cli.core.protocol.events import Envelope
from friday_cli.core.protocol.format import cost, is_caller, is_demo, pluralize, seconds, tokens
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.view import (
    CALL_MARKS,
    AgentView,
    Item,
    MessageItem,
    NoteItem,
    ResultItem,
    SessionView,
    ToolRun,
    finding_text,
    not_started,
)
from friday_cli.view.tree import render_tree, status_text
from friday_cli.view.words import call_facts, call_status, call_time, hidden_failure

from . import output
from .output import Style, show_hanging, show_painted

StyledLine = tuple[tuple[str, Style], ...]
"""One line: parts with their styles. Of two parts, the second may wrap."""

_STYLES: dict[str, Style] = {
    "ok": "green",
    "error": "red",
    "denied": "yellow",
    "cancelled": "yellow",
    "waiting": "yellow",
}
"""Styles of the symbols of calls; one without a style has not begun, or runs."""
_BAR = "│ "
"""Before each line that a sub-agent wrote: none of them can be taken for one of the harness."""
_NOTES: dict[str, Style] = {"info": "dim", "warning": "yellow", "error": "red"}


def conversation(agent: AgentView, *, width: int = 0) -> Iterator[StyledLine]:
    """The transcript of one agent, line by line; tool lines are truncated to `width` columns (0: not)."""
    if not agent.transcript:
        yield (("(no messages)", "dim"),)
    before: Item | None = None
    for item in agent.transcript:
        yield from lines(agent, item, before, width=width)
        before = item


def lines(agent: AgentView, item: Item, before: Item | None, *, width: int = 0) -> Iterator[StyledLine]:
    """One item of an agent's transcript, line by line, after a blank line if it needs one after the item `before`."""
    if before is not None and not (isinstance(item, (ToolRun, NoteItem)) and isinstance(before, (ToolRun, NoteItem))):
        yield ()
    if isinstance(item, MessageItem):
        yield from _message(item, _BAR if agent.parent else "")
    elif isinstance(item, ToolRun):
        yield from _tool(item, width)
    elif isinstance(item, ResultItem):
        yield from _result(item, _BAR if agent.parent else "")
    else:
        yield (
            ("  · " if item.level == "info" else "  ! ", _NOTES[item.level]),
            (sanitize_line(item.text, 1000), _NOTES[item.level]),
        )


def show(parts: StyledLine) -> None:
    """Print one line of a transcript."""
    if len(parts) == 2:
        head = parts[0][0]
        show_hanging(len(head), *parts, margin=head if head == _BAR else "")
    else:
        show_painted(*parts)


_ACTIVITIES: dict[str, Style] = {
    "model": "cyan",
    "tool": "green",
    "person": "yellow",
    "rate": "red",
    "budget": "yellow",
    "child": "dim",
}


def show_timeline(state: SessionView, envelopes: Sequence[Envelope], top: str) -> None:
    """Print when each agent worked, or only `top` and its descendants."""
    from friday_cli.view.timeline import Timeline, render_timeline

    width = output.terminal_width() if output.on_terminal() else 100
    for row in render_timeline(state, Timeline.of(envelopes), width, top=top):
        show_painted(*((text, _ACTIVITIES.get(kind, "")) for text, kind in row))


def show_tree(state: SessionView, now: float, top: str) -> None:
    """Print the tree of agents with the receipts; lines about agents and their results are truncated to the terminal."""
    for row in render_tree(state, now=now, top=top, fit=output.truncate_line):
        output.show(row)


def _words(text: str, bar: str) -> Iterator[StyledLine]:
    """What an agent wrote, each line behind `bar`."""
    for row in sanitize(text).strip("\n").split("\n") if text else ():
        yield ((bar, "dim"), (row, "")) if bar else ((row, ""),)


def _message(item: MessageItem, bar: str) -> Iterator[StyledLine]:
    text = sanitize(item.text).strip("\n")
    if item.images:
        text += f"\n[{pluralize(item.images, 'image')}]"
    if item.role == "assistant":
        yield from _words(text, bar)
        return
    style: Style = "bold" if item.source == "person" else "dim"
    who = "" if item.source == "person" else f"({item.source}) "
    for number, row in enumerate(text.strip("\n").split("\n")):
        yield ((f"> {who if number == 0 else ''}{row}", style),)


def _tool(run: ToolRun, width: int) -> Iterator[StyledLine]:
    style = _STYLES.get(run.status, "dim")
    mark = CALL_MARKS[run.status] if run.status in _STYLES else "▸"
    tool, facts = sanitize_line(run.label, 60), "".join(f" · {fact}" for fact in _facts(run))
    limit = max(20, width - 5 - len(tool) - len(facts)) if width else 120
    title = run.title or next((str(value) for value in run.arguments.values()), "")  # denied before it had a title
    label = f" {sanitize_line(title, limit)}" if title else ""
    yield (f"  {mark} ", style), (tool, "cyan"), (label, ""), (facts, "dim")
    if isinstance(run.display, CommandDisplay) and (words := hidden_failure(run.display)):
        yield ("      ", ""), (words, "yellow")
    for text in not_started(run):
        yield ("      ", ""), (sanitize_line(text, 500), "red")
    if run.status in ("error", "denied") and not run.agents and not isinstance(run.display, CommandDisplay):
        yield ("      ", ""), (sanitize_line(run.text, 300), style)


def _result(item: ResultItem, bar: str) -> Iterator[StyledLine]:
    yield from _words(item.text, bar)
    for finding in item.findings:
        yield ("  · ", "dim"), (sanitize_line(finding_text(finding), 1000), "")
    for warning in item.receipt.warnings:
        yield ("  ! ", "yellow"), (sanitize_line(warning, 1000), "yellow")
    yield ("  · ", "dim"), (item.receipt.short(), "dim")


def _facts(run: ToolRun) -> Iterator[str]:
    yield from call_facts(run)
    if run.status == "running":
        yield call_status(run)
    if run.agents:
        yield f"started {', '.join(run.agents)}"
    yield from call_time(run)


def summary(state: SessionView, agent: AgentView, *, now: float) -> str:
    """One line about an agent with its sub-agents."""
    tree = state.usage_of(agent.path)
    price = "no cost (demo)" if is_demo(agent.model) else cost(tree)
    context = f"context {agent.context:,} of {agent.window:,}" if agent.window and not is_caller(agent.model) else ""
    facts = (
        agent.model,
        status_text(state, agent),
        f"{tokens(tree)} tokens",
        price,
        seconds(agent.active_s(now)),
        context,
    )
    return " · ".join(sanitize_line(fact, 120) for fact in facts if fact)


_FIELDS: dict[type, tuple[str, tuple[str, ...]]] = {
    MessageItem: ("message", ("role", "source", "text", "thinking", "images", "at")),
    NoteItem: ("note", ("level", "text", "at")),
    ResultItem: ("result", ("text", "at", "findings", "receipt")),
    ToolRun: ("tool", ("call_id", "tool", "title", "arguments", "status", "duration_s", "text", "agents")),
}


def as_data(agent: AgentView) -> list[dict[str, Any]]:
    """The transcript of one agent as JSON data."""
    found = [(item, *_FIELDS[type(item)]) for item in agent.transcript]
    data = [{"kind": kind, **{name: getattr(item, name) for name in fields}} for item, kind, fields in found]
    return list(msgspec.to_builtins(data))
