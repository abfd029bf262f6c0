"""A conversation as readable text and as data: what was said, which tools ran, which agents were started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from friday_cli.core.protocol.displays import CommandDisplay, DiffDisplay, DiffsDisplay
from friday_cli.core.protocol.format import cost, diffstat, is_demo, pluralize, seconds, tokens
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.view import AgentView, Item, MessageItem, NoteItem, SessionView, ToolRun, status_text

from .output import Style, show_hanging, show_painted

Painted = tuple[tuple[str, Style], ...]
"""One line: its parts with their styles. Of two parts the second is text that may wrap beside the first."""

_MARKS: dict[str, tuple[str, Style]] = {
    "ok": ("✓", "green"),
    "error": ("✗", "red"),
    "denied": ("⊘", "yellow"),
    "cancelled": ("■", "yellow"),
    "waiting": ("?", "yellow"),
}
_NOTES: dict[str, Style] = {"info": "dim", "warning": "yellow", "error": "red"}


def conversation(agent: AgentView, *, room: int = 0) -> Iterator[Painted]:
    """The transcript of one agent, line by line; what a tool did is shortened to `room` places (0: not)."""
    if not agent.transcript:
        yield (("(nothing was said)", "dim"),)
    before: Item | None = None
    for item in agent.transcript:
        yield from lines(item, before, room=room)
        before = item


def lines(item: Item, before: Item | None, *, room: int = 0) -> Iterator[Painted]:
    """One item of a transcript, line by line, with a blank one where it stands apart from the one `before` it."""
    if before is not None and not (isinstance(item, (ToolRun, NoteItem)) and isinstance(before, (ToolRun, NoteItem))):
        yield ()
    if isinstance(item, MessageItem):
        yield from _said(item)
    elif isinstance(item, ToolRun):
        yield from _tool(item, room)
    else:
        yield ("  ! ", _NOTES[item.level]), (sanitize_line(item.text, 1000), _NOTES[item.level])


def show(parts: Painted) -> None:
    """Print one line of a transcript."""
    if len(parts) == 2:
        show_hanging(len(parts[0][0]), *parts)
    else:
        show_painted(*parts)


def _said(item: MessageItem) -> Iterator[Painted]:
    text = item.text.strip("\n")
    if item.images:
        text += f"\n[{pluralize(item.images, 'picture')}]"
    if item.role == "assistant":
        for row in text.split("\n") if text else ():
            yield ((row, ""),)
        return
    style: Style = "bold" if item.source == "person" else "dim"
    who = "" if item.source == "person" else f"({item.source}) "
    for number, row in enumerate(text.strip("\n").split("\n")):
        yield ((f"> {who if number == 0 else ''}{row}", style),)


def _tool(run: ToolRun, room: int) -> Iterator[Painted]:
    mark, style = _MARKS.get(run.status, ("▸", "dim"))
    tool, facts = sanitize_line(run.tool, 60), "".join(f" · {fact}" for fact in _facts(run))
    limit = max(20, room - 5 - len(tool) - len(facts)) if room else 120
    title = run.title or next((str(value) for value in run.arguments.values()), "")  # refused before it had one
    words = f" {sanitize_line(title, limit)}" if title else ""
    yield (f"  {mark} ", style), (tool, "cyan"), (words, ""), (facts, "dim")
    if run.status in ("error", "denied") and not isinstance(run.display, CommandDisplay):
        yield ("      ", ""), (sanitize_line(run.text, 300), style)


def _facts(run: ToolRun) -> Iterator[str]:
    if isinstance(run.display, DiffDisplay):
        yield f"+{run.display.added} -{run.display.removed}"
    if isinstance(run.display, DiffsDisplay):
        rows = run.display.files
        yield f"{pluralize(len(rows), 'file')} {diffstat(rows)}"
    if isinstance(run.display, CommandDisplay) and run.display.exit_code is not None:
        yield f"exit {run.display.exit_code}"
    if run.agents:
        yield f"started {', '.join(run.agents)}"
    if run.status in ("denied", "cancelled", "pending", "waiting", "running"):
        yield run.status
    elif run.duration_s >= 0.05:
        yield seconds(run.duration_s)


def summary(state: SessionView, agent: AgentView, *, now: float) -> str:
    """An agent with all below it in one line of facts."""
    tree = state.usage_of(agent.path)
    price = "no cost (demo)" if is_demo(agent.model) else cost(tree)
    held = f"context {agent.context:,} of {agent.window:,}" if agent.window else ""
    facts = [
        agent.model,
        status_text(state, agent),
        f"{tokens(tree)} tokens",
        price,
        seconds(agent.active_s(now)),
        held,
    ]
    return " · ".join(sanitize_line(fact, 120) for fact in facts if fact)


def as_data(agent: AgentView) -> list[dict[str, Any]]:
    """The transcript of one agent for programs."""
    return [_data(item) for item in agent.transcript]


def _data(item: MessageItem | ToolRun | NoteItem) -> dict[str, Any]:
    if isinstance(item, MessageItem):
        return {
            "kind": "message",
            "role": item.role,
            "source": item.source,
            "text": item.text,
            "thinking": item.thinking,
            "images": item.images,
            "at": item.at,
        }
    if isinstance(item, NoteItem):
        return {"kind": "note", "level": item.level, "text": item.text, "at": item.at}
    return {
        "kind": "tool",
        "call_id": item.call_id,
        "tool": item.tool,
        "title": item.title,
        "arguments": item.arguments,
        "status": item.status,
        "duration_s": item.duration_s,
        "text": item.text,
        "agents": item.agents,
    }
