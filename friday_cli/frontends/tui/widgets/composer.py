"""The composer: the prompt, 1 to 8 rows, with the completion list and the queue of unsent messages above it."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import OptionList, TextArea

from friday_cli.core.text.sanitize import sanitize_line

from ..state.file_index import FileIndex
from ..state.prompt_history import PromptHistory
from .chat_request import ChatRequest
from .completer import Completer, Suggest
from .completion_popup import Popup
from .message_queue import Draft, MessageQueue
from .paste_chips import PasteChips
from .text_input import Prompt, begin_typing

MAX_RESTORED = 50_000
"""Longest draft restored as text, in characters; a longer one is restored as a chip."""


class Composer(Vertical):
    """The prompt, with the completion list and the queue of unsent messages above it. `area` is the prompt, `queue` the messages that wait until the agent is idle."""

    @dataclass
    class Submitted(ChatRequest):
        """A message for the agent at `path`; "" means the main agent."""

        draft: Draft
        path: str

    @dataclass
    class ShellCommand(ChatRequest):
        """A command that the user wants to run. `keep`: the agent sees the command and its output."""

        command: str
        keep: bool

    class SendQueue(ChatRequest):
        """Enter on an empty prompt: send the queue now."""

    def __init__(self, history: PromptHistory, files: FileIndex, suggest: Suggest, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.history, self._files = history, files
        self.popup, self.queue, self.area = Popup(id="popup"), MessageQueue(id="queue"), Prompt()
        self.completer = Completer(self.area, self.popup, suggest, files=files, history=history)
        self._recipient = self._recipient_title = self._read_only_reason = ""
        self._mode = ""
        self._draft = ""

    def compose(self) -> ComposeResult:
        yield self.popup
        yield self.queue
        yield self.area

    def on_mount(self) -> None:
        self.area.cursor_blink = False  # no timer while nothing happens
        if draft := self.history.draft:
            self.put(self.area.chips.add_paste(draft) if len(draft) > MAX_RESTORED else draft)

    def keep_draft(self) -> None:
        """Keep what is typed and what is queued for the next start."""
        self.take_back_queue()
        self.history.keep_draft(self.area.chips.bare(self.area.text))

    async def on_unmount(self) -> None:
        waiting = "\n\n".join(draft.text for draft in self.queue.take_all())
        self.history.keep_draft("\n".join(text for text in (waiting, self._draft) if text))
        await self._files.close()

    @property
    def text(self) -> str:
        """What is typed, with pastes in place of their chips."""
        return self.area.full_text

    def put(self, text: str) -> None:
        """Replace what is typed. The cursor moves to the end."""
        self.area.put(text)
        self.completer.close()

    def clear(self) -> None:
        """Remove what is typed, and its pastes."""
        self.put("")
        self.area.chips.clear()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._draft = self.area.chips.bare(self.area.text)
        if self.area.ignore_change:
            self.area.ignore_change = False
        else:
            self.history.leave()
            self.completer.on_typed()

    def send(self) -> None:
        """Send what is typed, or accept a completion."""
        if self.completer.accept_on_enter():
            return
        text = self.text.strip("\n")
        if not text.strip():
            self.post_message(self.SendQueue())
            return
        chips, path = self.area.chips, self._recipient
        typed = chips.typed(self.area.text)
        pictures = chips.images(text)
        self.history.add(chips.bare(text))
        self.clear()
        begin_typing(self.area)
        if text.startswith("!") and not path:
            command = text.lstrip("!").strip()
            if command:
                self.post_message(self.ShellCommand(command, not text.startswith("!!")))
        else:
            self.post_message(self.Submitted(Draft(text, pictures, typed), path))

    def aim(self, path: str, label: str = "") -> None:
        """Send messages to the agent at `path` from now on; "" is the main agent."""
        self._recipient = path
        self._recipient_title = f"to {path} {sanitize_line(label, 40)} · Esc: back to the main agent" if path else ""
        self.set_class(bool(path), "aimed")
        self._update_title()
        self.area.focus()

    def watch_only(self, reason: str) -> None:
        """Show on the border why nothing can be sent; "" if it can."""
        if reason != self._read_only_reason:
            self._read_only_reason = reason
            self._update_title()

    def _update_title(self) -> None:
        self.area.border_title = self._read_only_reason or self._recipient_title

    def show_mode(self, mode: str) -> None:
        """Show the permission mode by the colour of the border."""
        if mode != self._mode:
            self.remove_class(f"mode-{self._mode}")
            self.add_class(f"mode-{mode}")
            self._mode = mode

    def _edit_queued(self, index: int = -1) -> bool:
        """Move a queued message back into the prompt. False if there is none."""
        draft = self.queue.take_one(index)
        if draft is None:
            return False
        self.put(f"{_shown(self.area.chips, draft)}\n{self.area.text}".rstrip("\n"))
        return True

    def on_message_queue_edit_requested(self, message: MessageQueue.EditRequested) -> None:
        message.stop()
        self._edit_queued(message.index)
        self.area.focus()

    def take_back_queue(self) -> None:
        """Put the queued messages back into the prompt, above what is typed: nothing of them is sent."""
        if drafts := self.queue.take_all():
            shown = "\n\n".join(_shown(self.area.chips, draft) for draft in drafts)
            shown = self.area.chips.add_paste(self.area.chips.full(shown)) if len(shown) > MAX_RESTORED else shown
            self.put(f"{shown}\n{self.area.text}".rstrip("\n"))

    def close_list(self) -> bool:
        """Close the list of completions. False if it is not open."""
        return self.completer.cancel()

    def aim_at_main(self) -> bool:
        """Write to the main agent again. False if the prompt does already."""
        aimed = bool(self._recipient)
        if aimed:
            self.aim("")
        return aimed

    def complete(self) -> bool:
        """Accept a completion. False if there is none."""
        return self.completer.accept()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click on a completion."""
        event.stop()
        self.complete()
        self.area.focus()

    def search_history(self) -> None:
        """Offer the earlier prompts that match what is typed."""
        self.completer.search_history()

    def up(self, *, first_row: bool) -> bool:
        """Go up in the list, the queue or the history. False if the cursor moves instead."""
        if self.popup.open:
            self.popup.move(-1)
            return True
        if not self.area.text and self._edit_queued():
            return True
        return first_row and self._put_earlier(self.history.older(self.area.text))

    def down(self, *, last_row: bool) -> bool:
        """Go down in the list or the history. False if the cursor moves instead."""
        if self.popup.open:
            self.popup.move(1)
            return True
        return last_row and self._put_earlier(self.history.newer())

    def _put_earlier(self, entry: str | None) -> bool:
        if entry is not None:
            self.put(entry)
        return entry is not None


def _shown(chips: PasteChips, draft: Draft) -> str:
    """A queued message in the prompt; one with a paste is a paste as a whole, so that nothing in that names files."""
    return draft.text if draft.typed is None else chips.add_paste(draft.text)
