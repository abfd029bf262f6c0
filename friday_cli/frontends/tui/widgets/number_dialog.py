"""A dialog of the chat itself: the user types a number."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from friday_cli.core.text.sanitize import sanitize_line

from .text_field import TextField


class NumberDialog(ModalScreen[int | None]):
    """Returns the number that the user typed, at least 1; `proposed` if the user changed nothing, None after Esc."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]

    def __init__(self, title: str, proposed: int) -> None:
        super().__init__()
        self._title, self._proposed = title, proposed

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text("\n".join(sanitize_line(part, 300) for part in self._title.split("\n"))))
            yield TextField(str(self._proposed), type="integer", max_length=9, compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if (typed := event.value.strip()).isdecimal() and int(typed) > 0:
            self.dismiss(int(typed))
