"""A question of the chat itself, over the screen: one line to choose.

Interface: `Chooser(title, choices, at=..., about=...)` gives a key or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.text.sanitize import sanitize, sanitize_line

from ..commands.context import NOTHING


class Chooser(ModalScreen[str | None]):
    """`choices` are (key, label); a digit, Enter or a click takes one, Esc none. `at` is where the cursor stands first;
    `about` says more of the key it stands on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        *(Binding(str(n), f"number({n})", show=False) for n in range(1, 10)),
    ]

    def __init__(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> None:
        super().__init__()
        self._title, self._choices, self._at, self._about = title, choices, at, about

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text("\n".join(sanitize_line(part, 300) for part in self._title.split("\n"))))
            yield OptionList(
                *(Option(Content(f"{n} {sanitize_line(label, 120)}")) for n, (_, label) in enumerate(self._choices, 1)),
                compact=True,
                classes="one-line" if self._about else "",
            )
            if self._about:
                yield Static(id="about")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = self._at
        options.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self._about:
            more = self._about.get(self._choices[event.option_index][0], "")
            self.query_one("#about", Static).update(Text(sanitize(more)))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_number(event.option_index + 1)

    def action_number(self, number: int) -> None:
        if number <= len(self._choices):
            self.dismiss(self._choices[number - 1][0])
