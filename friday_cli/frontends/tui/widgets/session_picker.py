"""The screen that resumes a session of the folder."""

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
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.protocol.format import pluralize, status_word
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.session import lists
from friday_cli.store.records import SessionRow
from friday_cli.view import MessageItem

from .choice_dialog import ListDialog
from .text_field import TextField

MARKED = 200
"""How many of the newest sessions are marked if they are open."""


class Picker(ListDialog[str | None]):
    """Returns the id of the chosen session, or None after Esc. Typing filters the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("enter", "choose", "Resume it", priority=True),
    ]

    def __init__(self, cwd: Path) -> None:
        super().__init__()
        self._cwd = cwd
        self._rows: list[SessionRow] = []
        self._owners: dict[str, int] = {}
        """The ids of the processes in which sessions are open."""
        self._shown: list[SessionRow] = []

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TextField(placeholder="Which session? Type to search", compact=True)
            yield OptionList()
            yield Static(id="preview")

    async def on_mount(self) -> None:
        self._rows = await lists.sessions(self._cwd)
        self._owners = await lists.owners([row.id for row in self._rows[:MARKED]])
        self._offer("")
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._offer(event.value)

    def _offer(self, query: str) -> None:
        words = query.lower().split()
        self._shown = [r for r in self._rows if all(w in f"{r.id} {r.title} {r.model}".lower() for w in words)][:200]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options([Option(_line(row, self._owners.get(row.id))) for row in self._shown])
        if self._shown:
            options.highlighted = 0
        else:
            self.query_one("#preview", Static).update(Text("No session of this folder matches."))

    def action_choose(self) -> None:
        index = self.query_one(OptionList).highlighted
        self.dismiss(self._shown[index].id if index is not None and index < len(self._shown) else None)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index < len(self._shown):
            self._preview(self._shown[event.option_index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_choose()

    @work(exclusive=True)
    async def _preview(self, row: SessionRow) -> None:
        root = (await lists.main_transcript(row.id)).root
        messages = [item for item in root.transcript if isinstance(item, MessageItem)][-6:] if root else []
        text = Text(no_wrap=True, overflow="ellipsis")
        for item in messages:
            text.append(("› " if item.role == "user" else "  ") + sanitize_line(item.text, 300) + "\n")
        self.query_one("#preview", Static).update(text)


def _line(row: SessionRow, owner: int | None) -> Content:
    open_ = "" if owner is None else "open here · " if owner == os.getpid() else f"open in process {owner} · "
    when = time.strftime("%d %b %H:%M", time.localtime(row.updated))
    agents = f" · {pluralize(row.agents, 'sub-agent')}" if row.agents else ""
    return Content(f"{row.id[:8]}  {when}  {sanitize_line(row.title, 80)}  ({open_}{status_word(row.status)}{agents})")
