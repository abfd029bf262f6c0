"""The list above the prompt: commands after `/`, files and profiles after `@`, earlier prompts with Ctrl+R.

Interface: `Popup`, `offer(choices)`, `refine(choices, final=...)`, `hide()`, `move(by)`, `chosen` (a `Choice` or None),
`meant(typed)`, `open`.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from friday_cli.core.text.sanitize import sanitize_line

MOST = 200
"""Lines of the list."""


@dataclass(frozen=True)
class Completion:
    """One line of the list: `text` takes the place of what was typed, `label` and `note` are shown."""

    text: str
    label: str
    note: str = ""


class Popup(OptionList, can_focus=False):
    """See the module."""

    class Clicked(Message):
        """A person clicked on a line; it is `chosen` now."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._choices: list[Completion] = []
        self._moved = False
        self.display = False

    @property
    def open(self) -> bool:
        return bool(self.display)

    @property
    def chosen(self) -> Completion | None:
        index = self.highlighted
        return self._choices[index] if self.open and index is not None and index < len(self._choices) else None

    def meant(self, typed: str) -> Completion | None:
        """What Enter takes for the command `typed`: the line moved to, else the first that `typed` begins; none where
        `typed` is itself one of them."""
        if self._moved or self.chosen is None:
            return self.chosen
        if any(choice.text.strip() == typed for choice in self._choices):
            return None
        return next((choice for choice in self._choices if choice.text.startswith(typed)), None)

    def offer(self, choices: list[Completion]) -> None:
        """Show `choices`; none hides the list."""
        if choices[:MOST] == self._choices and self.open:
            return
        self._moved = False
        self._show(choices[:MOST])

    def refine(self, choices: list[Completion], *, final: bool) -> None:
        """Show what is known now for the words for which something was offered. Until it is `final`, the row of the cursor
        and those above it stay as they are; a row that a person went to stays theirs for good."""
        here, at, scrolled = self.chosen, self.highlighted or 0, self.scroll_offset.y
        if here is None:
            return self.offer(choices)
        if not final:
            above = dict.fromkeys(self._choices[: at + 1])
            choices, new = [*above, *(choice for choice in choices if choice not in above)], at
        elif not self._moved:
            new = 0
        elif here in (choices := choices[:MOST]):
            new = choices.index(here)
        else:
            choices, new = [*choices[:at], here, *choices[at:]], min(at, len(choices))
        if choices[:MOST] != self._choices:
            self._show(choices[:MOST], new)
            self.scroll_to(y=scrolled + new - at, animate=False, immediate=True)

    def _show(self, choices: list[Completion], cursor: int = 0) -> None:
        self._choices = choices
        self.display = bool(choices)
        self.clear_options()
        if choices:
            wide = min(max(len(choice.label) for choice in choices), 60)
            self.add_options([Option(_prompt(choice, wide)) for choice in choices])
            self.highlighted = cursor

    def hide(self) -> None:
        """Take the list away."""
        self.offer([])

    def move(self, by: int) -> None:
        """Move the cursor; it goes round."""
        if self._choices:
            self._moved = True
            self.highlighted = ((self.highlighted or 0) + by) % len(self._choices)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(self.Clicked())


def _prompt(choice: Completion, wide: int) -> Content:
    label = sanitize_line(choice.label, 200)
    if not choice.note:
        return Content(label)
    return Content.assemble(label.ljust(wide), "  ", (sanitize_line(choice.note, 200), "$text-muted"))
