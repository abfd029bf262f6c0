"""A dialog of the chat itself: the user chooses one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, ScreenResultType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from friday_cli.core.text.sanitize import sanitize, sanitize_line


class ListDialog(ModalScreen[ScreenResultType]):
    """A dialog with one list."""

    CSS_PATH = "../dialogs.tcss"

    def action_move(self, by: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_down if by > 0 else options.action_cursor_up)()


class Chooser(ListDialog[str | None]):
    """Returns the key of the chosen line, or None after Esc. `choices` are (key, label), `at` is the index of the line
    selected first, `about` holds a longer text for some keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back"),
        *(Binding(str(n), f"number({n})", show=False) for n in range(1, 10)),
    ]

    def __init__(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._title, self._choices, self._first, self._about = title, choices, at, about or {}

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text("\n".join(sanitize_line(part, 300) for part in self._title.split("\n"))))
            labels = [f"{n} {sanitize_line(label, 120)}" for n, (_, label) in enumerate(self._choices, 1)]
            options = [Option(Content(label)) for label in labels]
            yield OptionList(*options, compact=True, classes="one-line" if self._about else "")
            if self._about:
                yield Static(id="about")

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = self._first
        options.focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self._about:
            text = self._about.get(self._choices[event.option_index][0], "")
            self.query_one("#about", Static).update(Text(sanitize(text)))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.action_number(event.option_index + 1)

    def action_number(self, number: int) -> None:
        if number <= len(self._choices):
            self.dismiss(self._choices[number - 1][0])
