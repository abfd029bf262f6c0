"""The screen on which a session of the folder is chosen. Interface: `Picker(cwd)`, which gives an id or None."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.protocol.format import pluralize
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.paths import store_path
from friday_cli.store.records import SessionRow
from friday_cli.view import MessageItem, SessionView

from .blocks import without_notes
from .text_input import TextField

MARKED = 200
"""Sessions of which it is told whether they are open: the newest."""


class Picker(ModalScreen[str | None]):
    """Typing filters, Enter goes on with the session, Esc stays where one is."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("enter", "take", "Go on with it", priority=True),
    ]

    def __init__(self, cwd: Path) -> None:
        super().__init__()
        self._cwd = cwd
        self._rows: list[SessionRow] = []
        self._drivers: dict[str, int] = {}
        """The processes that drive sessions now."""
        self._shown: list[SessionRow] = []

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TextField(placeholder="Which session? Type to search", compact=True)
            yield OptionList()
            yield Static(id="preview")

    async def on_mount(self) -> None:
        from friday_cli.store import Store

        async with Store(store_path()) as store:
            self._rows = await store.list_sessions(self._cwd)
            for row in self._rows[:MARKED]:
                if (driver := await store.owner_pid(row.id)) is not None:
                    self._drivers[row.id] = driver
        self._offer("")
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._offer(event.value)

    def _offer(self, query: str) -> None:
        words = query.lower().split()
        self._shown = [r for r in self._rows if all(w in f"{r.id} {r.title} {r.model}".lower() for w in words)][:200]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(_line(row, self._drivers.get(row.id))) for row in self._shown])
        if self._shown:
            options.highlighted = 0
        else:
            self.query_one("#preview", Static).update(Text("No session of this folder fits."))

    def action_move(self, by: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()

    def action_take(self) -> None:
        index = self.query_one(OptionList).highlighted
        self.dismiss(self._shown[index].id if index is not None and index < len(self._shown) else None)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index < len(self._shown):
            self._preview(self._shown[event.option_index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_take()

    @work(exclusive=True)
    async def _preview(self, row: SessionRow) -> None:
        from friday_cli.store import Store

        async with Store(store_path()) as store:
            state = SessionView.of(await store.events(row.id, agent="a"))
        root = state.root
        said = [item for item in root.transcript if isinstance(item, MessageItem)][-6:] if root else []
        text = Text(no_wrap=True, overflow="ellipsis")
        for item in said:
            text.append(
                ("› " if item.role == "user" else "  ") + sanitize_line(without_notes(item.text)[1], 300) + "\n"
            )
        self.query_one("#preview", Static).update(text)


def _line(row: SessionRow, driver: int | None) -> Content:
    open_ = "" if driver is None else "open here · " if driver == os.getpid() else f"open in window {driver} · "
    when = time.strftime("%d %b %H:%M", time.localtime(row.updated))
    agents = f" · {pluralize(row.agents, 'sub-agent')}" if row.agents else ""
    return Content(f"{row.id[:8]}  {when}  {sanitize_line(row.title, 80)}  ({open_}{row.status}{agents})")
