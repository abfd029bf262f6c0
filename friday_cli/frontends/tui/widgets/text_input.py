"""The field in which the user writes messages. It handles keys in the order in which they were typed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import sanitize

from ..terminal import images
from .paste_chips import PasteChips
from .text_field import run_binding

if TYPE_CHECKING:
    from .vim_keys import VimKeys


class ComposerActions(Protocol):
    """What the keys of the prompt do in the composer around it, see `Composer`."""

    def send(self) -> None: ...
    def complete(self) -> bool: ...
    def search_history(self) -> None: ...
    def put(self, text: str) -> None: ...
    def clear(self) -> None: ...
    def up(self, *, first_row: bool) -> bool: ...
    def down(self, *, last_row: bool) -> bool: ...


class Prompt(TextArea):
    """The text that the user types, with long pastes and pictures as chips."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send; while the agent works: queue", id="prompt.send"),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", id="prompt.newline"),
        Binding("tab", "complete", "Complete, or go to the next pane", id="prompt.complete"),
        Binding("ctrl+r", "search_history", "Search earlier prompts", id="prompt.search"),
        Binding("ctrl+f", "app.find", "Search the chat", show=False, id="prompt.find"),
        Binding("ctrl+v", "picture", "Paste; a picture too", show=False, id="prompt.paste"),
        Binding("ctrl+g", "editor", "Write in your editor", id="prompt.editor"),
        Binding("ctrl+z,ctrl+underscore", "undo", "Undo", show=False, id="prompt.undo"),
        Binding("ctrl+c", "app.interrupt", "Stop; copy, clear; twice: quit", show=False, id="prompt.interrupt"),
        Binding("ctrl+d", "app.leave_empty", "Quit, when it is empty", show=False, id="prompt.quit"),
        Binding("pageup", "page(-1)", "Scroll the chat up", show=False, id="prompt.page_up"),
        Binding("pagedown", "page(1)", "Scroll the chat down", show=False, id="prompt.page_down"),
    ]

    @dataclass
    class ScrollChat(Message):
        """The user scrolls the chat by pages."""

        by: int

    def __init__(self) -> None:
        self.chips = PasteChips()
        super().__init__(
            id="prompt",
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask, or / for commands, @ for files, ! for a command",
        )
        self.ignore_change = False
        """Whether the next change is not typed, and completion ignores it."""
        self.vim: VimKeys | None = None
        self.left_mode = False
        """Whether the last Esc left a mode of vim: it does nothing else then, except to stop what runs."""

    async def _on_key(self, event: events.Key) -> None:
        if self.vim is not None and event.key == "escape":
            self.left_mode = self.vim.escape()
        elif self.vim is not None and self.vim.press(event.key, event.character):
            event.stop()
            event.prevent_default()
        elif not await run_binding(self, event):
            await super()._on_key(event)

    def validate_selection(self, selection: Selection) -> Selection:
        """A chip is one thing: neither the cursor nor the end of a selection is inside it."""
        return Selection(self.outside(selection.start), self.outside(selection.end))

    def get_cursor_left_location(self) -> tuple[int, int]:
        return self.outside(super().get_cursor_left_location(), left=True)

    def get_cursor_right_location(self) -> tuple[int, int]:
        return self.outside(super().get_cursor_right_location(), left=False)

    def get_cursor_word_left_location(self) -> tuple[int, int]:
        return self.outside(super().get_cursor_word_left_location(), left=True)

    def get_cursor_word_right_location(self) -> tuple[int, int]:
        return self.outside(super().get_cursor_word_right_location(), left=False)

    def outside(self, location: tuple[int, int], *, left: bool | None = None) -> tuple[int, int]:
        """`location` (row, column), moved to the begin or the end of the chip that it is inside of; without `left` to the
        nearer one."""
        row, column = location
        if row >= self.document.line_count:
            return location
        for begin, end in self.chips.spans(self.document.get_line(row)):
            if begin < column < end:
                return row, begin if left or (left is None and column - begin < end - column) else end
        return location

    @property
    def composer(self) -> ComposerActions:
        return cast(ComposerActions, self.parent)

    @property
    def text_before_cursor(self) -> str:
        return str(self.get_text_range((0, 0), self.cursor_location))

    @property
    def full_text(self) -> str:
        """What is typed, with pastes in place of their chips."""
        return self.chips.full(self.text)

    def put(self, text: str) -> None:
        """Replace what is typed. The cursor moves to the end."""
        self.ignore_change = True
        self.text = text
        self.move_cursor(self.document.end)

    def replace_before_cursor(self, count: int, text: str) -> None:
        """Replace `count` characters before the cursor, in its row."""
        row, column = self.cursor_location
        self.ignore_change = True
        self.replace(text, (row, column - count), (row, column))

    async def paste(self, text: str) -> bool:
        """Insert a paste at the cursor: as text, as a chip, or the pictures it names. False if there was nothing to insert.

        Terminals send an empty paste if the clipboard holds something that is not text.
        """
        try:
            if not text.strip():
                image = await images.on_clipboard()
                found = [(image, "")] if image else []
            else:
                paths = images.named(text)
                found = [(await asyncio.to_thread(images.read, path), path.name) for path in paths]
        except FridayError as error:
            self.app.notify(sanitize(str(error)), severity="warning", markup=False)
            found = []
        if found:
            self.insert(" ".join(self.chips.add_image(image, name) for image, name in found) + " ")
        elif text:
            self.insert(self.chips.add_paste(sanitize(text).replace("\r\n", "\n").replace("\r", "\n")))
        return bool(found or text)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        await self.paste(event.text)

    async def action_picture(self) -> None:
        if not await self.paste(""):
            self.action_paste()

    def action_send(self) -> None:
        if self.text_before_cursor.endswith("\\"):  # a backslash and Enter make a new line on every terminal
            self.action_delete_left()
            self.insert("\n")
            return
        self.composer.send()

    def action_newline(self) -> None:
        self.insert("\n")

    def action_complete(self) -> None:
        if not self.composer.complete():
            self.screen.focus_next()

    def action_search_history(self) -> None:
        self.composer.search_history()

    def action_editor(self) -> None:
        self.run_worker(self._edit(), exclusive=True, group="editor")

    async def _edit(self) -> None:
        """Write the message in $VISUAL or $EDITOR."""
        from ..terminal.external_editor import edited

        text = await edited(self.app, self.full_text)
        if text is not None:
            pasted = self.chips.pasted_names()
            self.composer.clear()
            self.chips.names += pasted
            self.composer.put(text)

    def action_page(self, by: int) -> None:
        self.post_message(self.ScrollChat(by))

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self.composer.up(first_row=self.cursor_location[0] == 0):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        last = self.document.line_count - 1
        if select or not self.composer.down(last_row=self.cursor_location[0] == last):
            super().action_cursor_down(select)


def begin_typing(prompt: Prompt) -> None:
    """What comes next is typed into the text, not a command of vim."""
    if prompt.vim is not None:
        prompt.vim.insert()
