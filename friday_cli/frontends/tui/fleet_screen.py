"""The list of all sessions as a screen. Questions are answered in the session itself, where all of what is asked is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.deceptive import show_deceptive
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.session.fleet import FleetRow
from friday_cli.system.paths import with_tilde

REFRESH_S = 0.5
"""Seconds between two looks at the session file."""
STYLES = {"needs you": "bold yellow", "working": "cyan", "idle": "", "interrupted": "red", "ended": "dim"}
KEYS = "Enter opens it · x stops it · q quits"
Read = Callable[[], list[FleetRow]]


class FleetApp(App[str]):
    """Returns the id of the session to open, None at the end. `read` gives the rows and blocks; `stop` ends a session."""

    TITLE = "Friday: sessions"
    CSS = """
    OptionList { height: 1fr; border: none; padding: 0 1; }
    #about { height: auto; max-height: 50%; border: round $primary; padding: 0 1; }
    #keys { height: 1; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,ctrl+c", "quit", "Quit", priority=True),
        Binding("x", "stop", "Stop"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, read: Read, stop: Callable[[str], Awaitable[object]], *, chosen: str = "") -> None:
        super().__init__()
        self._read, self._stop = read, stop
        self._rows: list[FleetRow] = []
        self._chosen, self._asked = chosen, ""

    def compose(self) -> ComposeResult:
        yield OptionList()
        with VerticalScroll(id="about", can_focus=False):
            yield Static()
        yield Static(Text(KEYS, style="dim"), id="keys")

    def on_mount(self) -> None:
        self.animation_level = "none"
        self.query_one(OptionList).focus()
        self.run_worker(self._follow())

    async def _follow(self) -> None:
        while True:
            try:
                rows = await asyncio.to_thread(self._read)
            except FridayError as error:
                self.notify(sanitize(str(error)), severity="error", markup=False)
            else:
                if rows != self._rows or not rows:
                    self._show(rows)
            await asyncio.sleep(REFRESH_S)

    def _show(self, rows: list[FleetRow]) -> None:
        """Show the rows; the same session stays chosen."""
        self._rows = rows
        waiting = sum(row.state == "needs you" for row in rows)
        self.title = f"Friday: {waiting} need you" if waiting else "Friday: sessions"
        options = self.query_one(OptionList)
        chosen = self._chosen
        options.clear_options()
        options.add_options([Option(_line(row, time.time()), id=row.id) for row in rows])
        if rows:
            options.highlighted = next((at for at, row in enumerate(rows) if row.id == chosen), 0)
        self._describe()

    def _describe(self) -> None:
        row = next((row for row in self._rows if row.id == self._chosen), None)
        text = 'No sessions. Start one: friday ask -b "TASK"' if row is None else _about(row)
        self.query_one("#about Static", Static).update(Text(text))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._chosen = event.option.id or ""
        self._describe()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.exit(event.option.id)

    async def action_stop(self) -> None:
        """Stop the session at the second press."""
        index = self.query_one(OptionList).highlighted  # a message about it may still wait
        row = self._rows[index] if index is not None and index < len(self._rows) else None
        if row is None or row.pid is None:
            return
        if self._asked != row.id:
            self._asked = row.id
            self.notify(f"x again stops {row.id[:8]} with {pluralize(row.at_work, 'agent')} at work.", markup=False)
            return
        try:
            await self._stop(row.id)
        except FridayError as error:
            self.notify(sanitize(str(error)), severity="error", markup=False)


def _line(row: FleetRow, now: float) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{row.id[:8]}  ", style="dim")
    text.append(f"{row.state:<11}  ", style=STYLES[row.state])
    text.append(f"{_age(now - row.updated):>4}  ", style="dim")
    if row.mode == "yolo":
        text.append("yolo  ", style="bold red")
    text.append(sanitize_line(row.title, 120) or "(untitled)")
    if row.questions:
        asked = row.questions[0]
        text.append(f"  {asked.tool or 'asks'}: {sanitize_line(asked.text, 120)}", style="yellow")
    text.append(f"  {with_tilde(sanitize_line(row.cwd, 200))}", style="dim")
    return text


def _about(row: FleetRow) -> str:
    """What is known of a session, with all of what it asks."""
    where = "" if row.pid is None else f" · process {row.pid}" + ("" if row.reachable else ", in a terminal")
    cost = "unknown" if row.cost_usd is None else f"${row.cost_usd:.2f}"
    lines = [
        sanitize_line(row.title, 400),
        f"{row.model} · {pluralize(row.at_work, 'agent')} at work · {row.tokens:,} tokens · cost {cost}{where}",
        with_tilde(sanitize_line(row.cwd, 400)),
    ]
    for asked in row.questions:
        lines += ["", f"{asked.agent} {'wants ' + asked.tool if asked.tool else 'asks'}:", show_deceptive(asked.text)]
        lines += [
            f"  {number} {sanitize_line(choice, 400)}" for number, choice in enumerate(asked.choices, 1) if choice
        ]
    return "\n".join(lines)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
