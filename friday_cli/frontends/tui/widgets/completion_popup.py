"""The list of completions above the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from friday_cli.core.text.sanitize import sanitize_line

MAX_CHOICES = 200


@dataclass(frozen=True)
class Completion:
    """One line of the list: `text` replaces what was typed, `label` and `note` are shown."""

    text: str
    label: str
    note: str = ""


class Popup(OptionList, can_focus=False):
    """The list of completions above the prompt."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._choices: list[Completion] = []
        self._moved = False
        """Whether the user moved the cursor."""
        self.display = False

    @property
    def open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> Completion | None:
        index = self.highlighted
        return self._choices[index] if self.open and index is not None and index < len(self._choices) else None

    def command_for(self, typed: str) -> Completion | None:
        """What Enter accepts for the command `typed`: the line that the user moved to, else the first that begins with
        `typed`; None if `typed` is one of them itself."""
        if self._moved or self.chosen is None:
            return self.chosen
        if any(choice.text.strip() == typed for choice in self._choices):
            return None
        return next((choice for choice in self._choices if choice.text.startswith(typed)), None)

    def offer(self, choices: list[Completion]) -> None:
        """Show `choices`. An empty list hides the popup."""
        if choices[:MAX_CHOICES] == self._choices and self.open:
            return
        self._moved = False
        self._show(choices[:MAX_CHOICES])

    def refine(self, choices: list[Completion], *, final: bool) -> None:
        """Show more choices for the text that `offer` was called for. Until they are `final`, the row of the cursor and
        those above it stay. A row that the user moved to keeps the cursor in any case."""
        chosen, at, scrolled = self.chosen, self.highlighted or 0, self.scroll_offset.y
        if chosen is None:
            return self.offer(choices)
        if not final:
            above = dict.fromkeys(self._choices[: at + 1])
            choices, new = [*above, *(choice for choice in choices if choice not in above)], at
        elif not self._moved:
            new = 0
        elif chosen in (choices := choices[:MAX_CHOICES]):
            new = choices.index(chosen)
        else:
            choices, new = [*choices[:at], chosen, *choices[at:]], min(at, len(choices))
        if choices[:MAX_CHOICES] != self._choices:
            self._show(choices[:MAX_CHOICES], new)
            self.scroll_to(y=scrolled + new - at, animate=False, immediate=True)

    def _show(self, choices: list[Completion], cursor: int = 0) -> None:
        self._choices = choices
        self.display = bool(choices)
        self.clear_options()
        if choices:
            room = max(self.app.size.width * 2 // 5, 20)
            width = min(max(cell_len(choice.label) for choice in choices), room)
            self.add_options([Option(_line(choice, width)) for choice in choices])
            self.highlighted = cursor

    def move(self, by: int) -> None:
        """Move the cursor; it wraps around."""
        if self._choices:
            self._moved = True
            self.highlighted = ((self.highlighted or 0) + by) % len(self._choices)


def _line(choice: Completion, width: int) -> Content:
    label = Text(sanitize_line(choice.label, 200))
    if not choice.note:
        return Content(label.plain)
    label.truncate(width, overflow="ellipsis", pad=True)
    return Content.assemble(label.plain, "  ", (sanitize_line(choice.note, 200), "$text-muted"))
