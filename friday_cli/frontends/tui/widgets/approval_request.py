"""What an agent asks: who asks and for which task, and the question or the tool call in full."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from friday_cli.core.protocol.events import PermissionAsked, QuestionAsked
from friday_cli.core.protocol.tool_info import WEB_FETCH, WEB_SEARCH
from friday_cli.core.text.sanitize import sanitize_line, show_invisible
from friday_cli.tool_catalog import BASH, DELEGATE_TASK, DELEGATE_TASKS, EDIT_FILE, READ_FILE, WRITE_FILE
from friday_cli.view import PendingAsk, ToolRun

from .blocks import RenderContext
from .tool_blocks import draw_request

_ACTIONS = {
    BASH: "run a command", READ_FILE: "read a file", WRITE_FILE: "write a file", EDIT_FILE: "change a file",
    WEB_FETCH: "fetch a web page", WEB_SEARCH: "search the web",
    DELEGATE_TASK: "start a sub-agent", DELEGATE_TASKS: "start sub-agents",
}  # fmt: skip
"""What an agent wants to do with a tool, in words."""


def request_title(ask: PendingAsk) -> str:
    """Who asks for what, such as "Sub-agent a.1 (coder) wants to run a command"."""
    profile = sanitize_line(ask.profile, 40)
    who = "Friday" if ask.agent == "a" else f"Sub-agent {ask.agent}"
    who += f" ({profile})" if profile.lower() not in ("", "friday") else ""
    if isinstance(ask.event, QuestionAsked):
        return f"{who} asks"
    return f"{who} wants to {_ACTIONS.get(ask.event.tool) or f'use {sanitize_line(ask.event.tool, 40)}'}"


class RequestHead(Static):
    """Who asks, and for which task: in one row, or in two if the row is too narrow for a sub-agent's task."""

    rows = 1

    def show(self, ask: PendingAsk, context: RenderContext, width: int) -> None:
        """Show the head of an ask in `width` cells."""
        styles, asks = context.renderer.styles, list(context.state.asks.values())
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append("? ", style=styles.warn)
        text.append(request_title(ask), style=styles.accent)
        if len(asks) > 1:
            text.append(f" · {asks.index(ask) + 1} of {len(asks)} (← →)", style=styles.warn)
        task = Text(f"for: {sanitize_line(ask.task, 200)}", style=styles.dim, no_wrap=True, overflow="ellipsis")
        self.rows = 2 if ask.agent != "a" and text.cell_len + 3 + task.cell_len > width else 1
        self.update(Text("\n" if self.rows == 2 else " · ").join((text, task)))


class RequestBody(VerticalScroll, can_focus=False):
    """The question, or the call with all its arguments. Invisible characters are spelled out."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._text = Static(id="ask-body")

    def compose(self) -> ComposeResult:
        yield self._text

    def show(self, ask: PendingAsk, context: RenderContext, width: int) -> None:
        """Show an ask in `width` cells."""
        self._text.update(_request_text(ask, context, max(width - 1, 20)))


def _request_text(ask: PendingAsk, context: RenderContext, width: int) -> Text:
    event, renderer = ask.event, context.renderer
    if isinstance(event, QuestionAsked):
        return Text(show_invisible(event.question))
    text = Text().append(show_invisible(event.subject), style="bold")
    text.append(f"\n{show_invisible(event.reason)}" if event.reason else "", style=renderer.styles.dim)
    run = context.state.agents[ask.agent].calls.get(event.call_id)
    if run is not None:
        rest = other_arguments(run, event)
        for strip in draw_request(rest, renderer, width):
            text.append("\n")
            for segment in strip:
                text.append(segment.text, style=segment.style)
    return text


def other_arguments(run: ToolRun, event: PermissionAsked) -> dict[str, Any]:
    """The arguments of a call without the one that is its subject."""
    subject = event.subject.strip()
    arguments = run.arguments if event.arguments is None else event.arguments
    return {name: value for name, value in arguments.items() if str(value).strip() != subject}
