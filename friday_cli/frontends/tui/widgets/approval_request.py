"""What an agent asks: who asks and for which task, and the question or the tool call in full."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from friday_cli.core.protocol.events import PermissionAsked, QuestionAsked
from friday_cli.core.protocol.plan import PLAN_CHOICES
from friday_cli.core.protocol.server_calls import server_and_tool
from friday_cli.core.protocol.tool_info import DELEGATE_TASK, WEB_FETCH, WEB_SEARCH
from friday_cli.core.text.deceptive import deception_note, show_deceptive
from friday_cli.core.text.sanitize import sanitize_line, show_invisible
from friday_cli.core.tool_catalog import BASH, DELEGATE_TASKS, EDIT_FILE, EXTERNAL, READ_FILE, WRITE_FILE
from friday_cli.view import PendingAsk, ToolRun

from .blocks import RenderContext
from .folded_command import command_rows
from .tool_blocks import draw_change, draw_request

_ACTIONS = {
    BASH: "run a command", READ_FILE: "read a file", WRITE_FILE: "write a file", EDIT_FILE: "change a file",
    WEB_FETCH: "fetch a web page", WEB_SEARCH: "search the web",
    DELEGATE_TASK: "start a sub-agent", DELEGATE_TASKS: "start sub-agents", EXTERNAL: "do something of its own",
}  # fmt: skip
"""What an agent wants to do with a tool, in words."""
MAX_ARGUMENT_ROWS = 3
"""Rows of other arguments for which a long command makes room."""


def request_title(ask: PendingAsk) -> str:
    """Who asks for what, such as "Sub-agent a.1 (coder) wants to run a command"."""
    profile = sanitize_line(ask.profile, 40)
    who = "Friday" if ask.agent == "a" else f"Sub-agent {ask.agent}"
    who += f" ({profile})" if profile.lower() not in ("", "friday") else ""
    if isinstance(ask.event, QuestionAsked):
        return f"{who} hands in a plan" if ask.event.choices == PLAN_CHOICES else f"{who} asks"
    return f"{who} wants to {_ACTIONS.get(ask.event.tool) or _use(ask.event.tool)}"


def _use(tool: str) -> str:
    server, name = (sanitize_line(part, 64) for part in server_and_tool(tool))
    return f"use the MCP server {server}: {name}" if server else f"use {name}"


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
    """The question, or why a call is asked about and the call with all its arguments. A long command is folded in the middle.
    Misleading characters are spelled out."""

    read_changed: reactive[int] = reactive(0)
    """Changes when `read` or `folded` may have changed."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._text = Static(id="ask-body")
        self._ask_id = ""
        self._waits = self._opened = self._end_seen = False
        self.explanation: list[str] = []
        """What is shown in place of the call; its first words and indents say what is a head."""
        self.shows_change = False
        self.folded = False
        """Whether a part of the command is left out."""

    def compose(self) -> ComposeResult:
        yield self._text

    def on_mount(self) -> None:
        self.watch(self, "scroll_y", self._scrolled)
        self.watch(self, "virtual_size", self._scrolled)

    def on_resize(self) -> None:
        self._scrolled()

    def watch_read_changed(self) -> None:
        """Show the hint at the border of the panel."""
        if isinstance(self.parent, Widget):
            self.parent.border_subtitle = self.hint

    def _scrolled(self) -> None:
        self._end_seen = self._end_seen or (self.max_scroll_y > 0 and self.is_vertical_scroll_end)
        self.read_changed += 1

    @property
    def explains(self) -> bool:
        """Whether an explanation is shown in place of the call."""
        return bool(self.explanation)

    @property
    def read(self) -> bool:
        """Whether the person may agree: nothing is folded, and the end of what would run was on the screen."""
        return not self._waits or (not self.folded and (self._end_seen or self.max_scroll_y == 0))

    @property
    def hint(self) -> str:
        """How to see the rest, and what a yes waits for."""
        there = isinstance(self.parent, Widget) and self.parent.has_focus_within
        if not self.read:
            keys = "PgDn" if there else "Ctrl+Y PgDn"
            return f"See all of it first: {keys} {'opens the fold' if self.folded else 'shows the end'}"
        return f"{'' if there else 'Ctrl+Y '}PgUp PgDn: the rest of it" if self.max_scroll_y else ""

    def show(self, ask: PendingAsk, context: RenderContext, width: int, rows: int) -> None:
        """Show an ask in `width` cells. A command is folded so that all of the ask fits in `rows`, if that is possible."""
        event = ask.event
        if event.id != self._ask_id:
            self._ask_id, self._opened, self._end_seen = event.id, False, False
            self.scroll_home(animate=False)
        self._waits = isinstance(event, PermissionAsked) and event.tool not in (EDIT_FILE, WRITE_FILE)
        self.folded = False
        width = max(width - 1, 20)
        self.shows_change = False
        if isinstance(event, QuestionAsked) and event.choices == PLAN_CHOICES:
            from . import markdown  # takes 30 ms

            self.shows_change = True
            strips = markdown.draw(show_invisible(event.question), context.renderer, width)
            shown = [Text.assemble(*((s.text, s.style or "") for s in strip)) for strip in strips]
            self._text.update(Text("\n").join(shown))
        elif isinstance(event, QuestionAsked):
            self._text.update(Text(show_invisible(event.question)))
        elif self.explanation:
            self._text.update(_explained(self.explanation, context, width))
        else:
            self._text.update(self._call(ask, event, context, width, rows))
        self.read_changed += 1

    def read_on(self) -> None:
        """Open the fold, or scroll down one page."""
        if self.folded:
            self._opened = True
            self._end_seen = self._end_seen or self.max_scroll_y == 0  # it was visible below the fold
        else:
            self.page(1)

    def page(self, by: int) -> None:
        """Scroll so many pages down."""
        self.scroll_relative(y=by * max(self.size.height - 1, 1), animate=False)

    def _call(self, ask: PendingAsk, event: PermissionAsked, context: RenderContext, width: int, rows: int) -> Text:
        styles, renderer = context.renderer.styles, context.renderer
        run = context.state.agents[ask.agent].calls.get(event.call_id)
        values = other_arguments(run, event) if run is not None else {}
        self.shows_change = event.change is not None
        strips = draw_change(event.change, renderer, width) if event.change else draw_request(values, renderer, width)
        arguments = [Text.assemble(*((s.text, s.style or "") for s in strip)) for strip in strips]
        top: list[Text] = []
        for text, style in ((show_deceptive(event.reason), styles.text), (deception_note(event.subject), styles.warn)):
            top += Text(text, style=style).wrap(renderer.console, width, overflow="fold") if text else []
        more = Text(f"To remember: {show_deceptive(event.allows)}" if event.allows else "", style=styles.dim)
        below = list(more.wrap(renderer.console, width, overflow="fold")) if event.allows else []
        left = rows - len(top) - len(below) - min(len(arguments), MAX_ARGUMENT_ROWS)
        command = command_rows(call_subject(event, values), width, None if self._opened or not self._waits else left)
        self.folded = bool(command.fold)
        fold = [Text(command.fold, style=styles.warn)] if command.fold else []
        return Text("\n").join(
            [
                *top,
                *(Text(row, style="bold") for row in command.head),
                *fold,
                *(Text(row, style="bold") for row in command.tail),
                *arguments,
                *below,
            ]
        )


def _explained(lines: list[str], context: RenderContext, width: int) -> Text:
    """Lines of untrusted text, the heads among them emphasized."""
    renderer, rows = context.renderer, []
    for line in lines:
        margin = " " * (len(line) - len(line.lstrip()))
        text = Text(show_deceptive(line.strip()), style="" if margin else renderer.styles.accent)
        for part in text.wrap(renderer.console, max(width - len(margin), 10), overflow="fold"):
            rows.append(Text(margin).append_text(part))
    return Text("\n").join(rows)


def call_subject(event: PermissionAsked, shown: dict[str, Any]) -> str:
    """What a call works on, in addition to its arguments `shown`: those of a server's tool are the whole of it."""
    return "" if shown and server_and_tool(event.tool)[0] else event.subject


def other_arguments(run: ToolRun, event: PermissionAsked) -> dict[str, Any]:
    """The arguments of a call without the one that is its subject."""
    subject = event.subject.strip()
    arguments = run.arguments if event.arguments is None else event.arguments
    return {name: value for name, value in arguments.items() if str(value).strip() != subject}
