"""A dialog with a list that can be searched."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.text.sanitize import sanitize, sanitize_line

from ..commands.context import SearchList, SearchRow
from .choice_dialog import ListDialog
from .text_field import TextField

_KEYS = "Type to search · Enter chooses · Esc leaves"


class SearchDialog(ListDialog[str | None]):
    """Returns the key of the chosen row, or None after Esc. Typing filters the rows; see `CommandContext.search`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("enter", "choose", "Choose it", priority=True),
    ]

    def __init__(self, searched: SearchList) -> None:
        super().__init__()
        self._list, self._rows = searched, searched.rows
        self._shown: list[SearchRow] = []

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text("\n".join(sanitize_line(part, 300) for part in self._list.title.split("\n"))), id="title")
            yield TextField(placeholder=_KEYS, compact=True)
            yield OptionList(compact=True)
            yield Static(id="about")

    def on_mount(self) -> None:
        self._offer("", self._list.at)
        self.query_one(Input).focus()
        if self._list.later is not None:
            self._follow(self._list.later)

    @work
    async def _follow(self, later: AsyncGenerator[Sequence[SearchRow], None]) -> None:
        field = self.query_one(Input)
        field.placeholder = f"Asking your services ... · {_KEYS}"
        async with aclosing(later):
            async for self._rows in later:
                row = self._selected
                self._offer(field.value, row.key if row else self._list.at)
        field.placeholder = _KEYS

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value or len(self._shown) < len(self._rows):
            self._offer(event.value)

    def _offer(self, query: str, at: str = "") -> None:
        words = query.lower().split()
        self._shown = [row for row in self._rows if all(w in f"{row.label} {row.about}".lower() for w in words)]
        options = self.query_one(OptionList)
        options.clear_options()
        # columns are aligned by blanks, which `sanitize_line` would join
        options.add_options([Option(Content(sanitize(row.label).replace("\n", " "))) for row in self._shown])
        if self._shown:
            options.highlighted = next((n for n, row in enumerate(self._shown) if row.key == at), 0)
        else:
            self.query_one("#about", Static).update("No match.")

    def action_choose(self) -> None:
        if (row := self._selected) is not None:
            self.dismiss(row.key)

    @property
    def _selected(self) -> SearchRow | None:
        index = self.query_one(OptionList).highlighted
        return self._shown[index] if index is not None and index < len(self._shown) else None

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if (row := self._selected) is not None:
            self.query_one("#about", Static).update(Text(sanitize(row.about)))
            if self._list.on_highlight is not None:
                self._list.on_highlight(row.key)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_choose()
