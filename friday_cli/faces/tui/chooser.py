"""A question of the chat itself, over the screen: one line to choose. Interface: `Chooser(title, choices)` gives a key or None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.plain import line


class Chooser(ModalScreen[str | None]):
    """`choices` are (key, label); a digit, Enter or a click takes one, Esc none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        *(Binding(str(n), f"number({n})", show=False) for n in range(1, 10)),
    ]

    def __init__(self, title: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._title, self._choices = title, choices

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text("\n".join(line(part, 300) for part in self._title.split("\n"))))
            yield OptionList(
                *(Option(Content(f"{n} {line(label, 120)}")) for n, (_, label) in enumerate(self._choices, 1)),
                compact=True,
            )

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0
        self.query_one(OptionList).focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_number(event.option_index + 1)

    def action_number(self, number: int) -> None:
        if number <= len(self._choices):
            self.dismiss(self._choices[number - 1][0])
