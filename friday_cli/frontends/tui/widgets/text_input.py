"""Text fields whose keys act in the order in which they were typed. Interface: `Field`, of one line; `Area`, `before`; `Prompt`,
the one in the prompt."""

from __future__ import annotations

from typing import ClassVar, Protocol, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, TextArea

from ..state import keymap


async def _acted(widget: Widget, event: events.Key) -> bool:
    """Do here what a key means to a widget: elsewhere it would come after letters behind it or before those in front of it,
    and mean nothing when the window has lost the focus since. False when it means nothing of its own."""
    for binding in () if event.is_printable else keymap.held(widget).get(event.key, ()):
        event.stop()
        event.prevent_default()
        await widget.run_action(binding.action)
        return True
    return False


class TextField(Input):
    """See the module."""

    async def _on_key(self, event: events.Key) -> None:
        if not await _acted(self, event):
            await super()._on_key(event)


class Area(TextArea):
    """See the module."""

    async def _on_key(self, event: events.Key) -> None:
        if not await _acted(self, event):
            await super()._on_key(event)

    @property
    def before(self) -> str:
        """The text before the cursor."""
        return str(self.get_text_range((0, 0), self.cursor_location))


class ComposerActions(Protocol):
    """What stands around the prompt and does what its keys wish."""

    def send(self) -> None:
        """Send what is typed, or take what the list offers."""

    def complete(self) -> bool:
        """Take what the list offers; False when there is no list."""

    def recall(self) -> None:
        """Search the prompts of before."""

    def edit(self) -> None:
        """Write the message in an editor."""

    def turn(self, by: int) -> None:
        """Let the chat scroll by pages."""

    def up(self, *, first_row: bool) -> bool:
        """Go up in the list, the queue or the history; False when the cursor is meant."""

    def down(self, *, last_row: bool) -> bool:
        """Go down in the list or the history; False when the cursor is meant."""

    async def paste(self, text: str) -> bool:
        """Put a paste where the cursor is; False when there was nothing."""


class Prompt(Area):
    """The text that a person types; what its keys do, the composer around it does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send; while the agent works: queue", id="prompt.send"),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", id="prompt.newline"),
        Binding("tab", "complete", "Complete, or go to the next pane", id="prompt.complete"),
        Binding("ctrl+r", "recall", "Search earlier prompts", id="prompt.search"),
        Binding("ctrl+f", "app.find", "Search the chat", show=False, id="prompt.find"),
        Binding("ctrl+v", "picture", "Paste; a picture too", show=False, id="prompt.paste"),
        Binding("ctrl+g", "editor", "Write in your editor", id="prompt.editor"),
        Binding("ctrl+c", "app.interrupt", "Copy, clear, interrupt; twice: quit", show=False, id="prompt.interrupt"),
        Binding("ctrl+d", "app.leave_empty", "Quit, when it is empty", show=False, id="prompt.quit"),
        Binding("pageup", "page(-1)", "Scroll the chat up", show=False, id="prompt.page_up"),
        Binding("pagedown", "page(1)", "Scroll the chat down", show=False, id="prompt.page_down"),
    ]

    @property
    def composer(self) -> ComposerActions:
        return cast(ComposerActions, self.parent)

    def action_send(self) -> None:
        if self.before.endswith("\\"):  # a backslash and Enter is a new line on every terminal
            self.action_delete_left()
            self.insert("\n")
            return
        self.composer.send()

    def action_newline(self) -> None:
        self.insert("\n")

    def action_complete(self) -> None:
        if not self.composer.complete():
            self.screen.focus_next()

    def action_recall(self) -> None:
        self.composer.recall()

    def action_editor(self) -> None:
        self.composer.edit()

    def action_page(self, by: int) -> None:
        self.composer.turn(by)

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self.composer.up(first_row=self.cursor_location[0] == 0):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        last = self.document.line_count - 1
        if select or not self.composer.down(last_row=self.cursor_location[0] == last):
            super().action_cursor_down(select)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        await self.composer.paste(event.text)

    async def action_picture(self) -> None:
        if not await self.composer.paste(""):
            self.action_paste()
