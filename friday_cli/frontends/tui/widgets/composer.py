"""The prompt: what a person types, 1 to 8 rows; with its list above it and the queue of messages not sent yet.

Interface: `Composer(history, files, words)`; `text`, `clear()`, `put(text)`, `queue(draft)`, `take_queue()`, `escape()`
(True when it had something to close or give back), `aim(path, label)` (whom it writes to), `watch_only(words)`. Messages: `Sent(draft, path)`,
`Shell(command, keep)`, `Nudge` (Enter on an empty prompt: send the queue now), `Scroll(by)`.
Completion comes from `words`: commands for `/`, profiles for `@`; file names from `Files`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import TextArea

from friday_cli.core.protocol.errors import FridayError
from friday_cli.core.text.sanitize import sanitize, sanitize_line

from ..state.file_index import FileIndex
from ..state.prompt_history import PromptHistory
from ..terminal import images
from .completion_popup import Completion, Popup
from .message_queue import Draft, MessageQueue
from .paste_chips import Chips
from .text_input import Prompt

LONGEST = 50_000
"""Characters of a draft that come back as they were; a longer one, as a paste made it, comes back as a chip."""
_WORD = re.compile(r"(?:^|\s)@([^\s@]*)$")

Words = Callable[[str, str], list[Completion]]
"""(kind, query) -> choices; kind is "/" or "@"."""


def _file(name: str, profiles: set[str]) -> Completion:
    """A file as it is named in a message: in the quotes that its name needs, and as none of the `profiles`."""
    if f"@{name} " in profiles:
        return Completion(f"@./{name} ", name)
    quote = ("'" if '"' in name else '"') if set(name) & set(" \"'`") else ""
    return Completion(f"@{quote}{name}{quote} ", name)


class Composer(Vertical):
    """See the module."""

    class Submitted(Message):
        """A message for the agent at `path` ("" means the main one)."""

        def __init__(self, draft: Draft, path: str) -> None:
            self.draft, self.path = draft, path
            super().__init__()

    class ShellCommand(Message):
        """A command the person wants run; `keep` lets the agent know of it."""

        def __init__(self, command: str, keep: bool) -> None:
            self.command, self.keep = command, keep
            super().__init__()

    class Nudge(Message):
        """The queue should go now."""

    class ScrollChat(Message):
        """The chat should scroll by pages."""

        def __init__(self, by: int) -> None:
            self.by = by
            super().__init__()

    def __init__(self, history: PromptHistory, files: FileIndex, words: Words, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.history, self._files, self._words = history, files, words
        self._chips = Chips()
        self._aim = self._aimed = self._watching = ""
        self._recalling = False
        self._named = ""
        """For which name the list of names was made."""
        self._naming = False
        """Whether names are being offered, or looked for."""
        self._quiet = False
        self._mode = ""
        self._draft = ""

    def compose(self) -> ComposeResult:
        yield Popup(id="popup")
        yield MessageQueue(id="queue")
        yield Prompt(id="prompt", soft_wrap=True, show_line_numbers=False, tab_behavior="focus", compact=True,
                     highlight_cursor_line=False, placeholder="Ask, or / for commands, @ for files, ! for a command")  # fmt: skip

    def on_mount(self) -> None:
        self.area.cursor_blink = False  # no timer while nothing happens
        if draft := self.history.draft:
            self.put(self._chips.pasted(draft) if len(draft) > LONGEST else draft)

    async def on_unmount(self) -> None:
        self.history.keep_draft(self._draft)
        await self._files.close()

    @property
    def area(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def popup(self) -> Popup:
        return self.query_one(Popup)

    def turn(self, by: int) -> None:
        """Let the chat scroll by pages."""
        self.post_message(self.ScrollChat(by))

    def show_mode(self, mode: str) -> None:
        """Let the border say in which mode the agents are."""
        if mode != self._mode:
            self.remove_class(f"mode-{self._mode}")
            self.add_class(f"mode-{mode}")
            self._mode = mode

    # ---- text --------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """What is typed, pastes in full."""
        return self._chips.full(self.area.text)

    def put(self, text: str) -> None:
        """Set what is typed; the cursor goes to its end."""
        self._quiet = True
        self.area.text = text
        self.area.move_cursor(self.area.document.end)
        self.popup.hide()
        self._end_names()

    def clear(self) -> None:
        self.put("")
        self._chips.clear()

    async def paste(self, text: str) -> bool:
        """Put a paste where the cursor is: text, a chip, or pictures; False when there was nothing.

        An empty paste stands for what is on the clipboard and no text, as terminals send it.
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
            self.area.insert(" ".join(self._chips.pictured(image, name) for image, name in found) + " ")
        elif text:
            self.area.insert(self._chips.pasted(sanitize(text).replace("\r\n", "\n").replace("\r", "\n")))
        return bool(found or text)

    def aim(self, path: str, label: str = "") -> None:
        """Write to the agent at `path` from now on; "" is the main one again."""
        self._aim = path
        self._aimed = f"to {path} {sanitize_line(label, 40)} · Esc: back to the main agent" if path else ""
        self.set_class(bool(path), "aimed")
        self._name_border()
        self.area.focus()

    def watch_only(self, words: str) -> None:
        """Say on the border why nothing can be sent; "" where it can."""
        if words != self._watching:
            self._watching = words
            self._name_border()

    def _name_border(self) -> None:
        self.area.border_title = self._watching or self._aimed

    def send(self) -> None:
        """Send what is typed, or take what the list offers."""
        popup = self.popup
        self._settle()
        slash = self.text.startswith("/") and not self._recalling
        if popup.open and (choice := popup.meant(self.text.strip()) if slash else popup.chosen):
            whole = self._recalling or choice.text.startswith("/")
            self._take(choice)
            if not whole or self._recalling or choice.text.endswith(" "):
                self._recalling = False
                return
        text = self.text.strip("\n")
        if not text.strip():
            self.post_message(self.Nudge())
            return
        pictures = self._chips.images(text)
        self.history.add(self._chips.bare(text))
        path = self._aim
        self.clear()
        if text.startswith("!") and not path:
            command = text.lstrip("!").strip()
            if command:
                self.post_message(self.ShellCommand(command, not text.startswith("!!")))
        else:
            self.post_message(self.Submitted(Draft(text, pictures), path))

    # ---- queue ---------------------------------------------------------------------------

    @property
    def waiting(self) -> MessageQueue:
        return self.query_one(MessageQueue)

    def queue(self, draft: Draft, *, first: bool = False) -> None:
        """Keep a message until the agent has time."""
        self.waiting.put(draft, first=first)

    def take_queue(self) -> Draft | None:
        """What goes first of what waits."""
        return self.waiting.next()

    def _back(self, index: int = -1) -> bool:
        """Take a message that waits into the prompt again; False when there is none."""
        draft = self.waiting.back(index)
        if draft is None:
            return False
        self.put(f"{draft.text}\n{self.area.text}".rstrip("\n"))
        return True

    def on_message_queue_wanted(self, message: MessageQueue.Wanted) -> None:
        message.stop()
        self._back(message.index)
        self.area.focus()

    def escape(self) -> bool:
        """Close the nearest: the list, a queued message, the aim. False when there was nothing."""
        if self.popup.open or self.area.border_subtitle:
            self._recalling = False
            self.popup.hide()
            self._end_names()
        elif self._back():
            pass
        elif self._aim:
            self.aim("")
        else:
            return False
        return True

    # ---- completion and history --------------------------------------------------------------

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._draft = self._chips.bare(self.area.text)
        if self._quiet:
            self._quiet = False
            return
        self.history.leave()
        if self._recalling:
            self._offer_history()
        else:
            self._look()

    def _look(self) -> None:
        typed = self.area.before
        command = typed.startswith("/") and " " not in typed and "\n" not in typed
        if not command and (found := _WORD.search(typed)):
            self._complete_names(found[1], anew=not self._naming)
            self._naming = True
            return
        self._end_names()
        self.popup.offer(self._words("/", typed[1:]) if command else [])

    def _settle(self) -> None:
        """Let the list be about what stands in the prompt now: of a change it hears only a moment later, and what is typed
        fast must not run what was offered for its beginning."""
        found = _WORD.search(self.area.before)
        if self._recalling:
            self._offer_history()
        elif found is None or self.area.before.startswith("/"):
            self._look()
        elif found[1] != self._named:
            self.popup.hide()

    @work(exclusive=True, group="names")
    async def _complete_names(self, query: str, *, anew: bool) -> None:
        alone = self.area.before.strip() == f"@{query}"  # a profile is addressed at the beginning only
        first = self._words("@", query) if alone and "/" not in query else []
        profiles = {choice.text for choice in self._words("@", "")} if alone else set()
        begun = False
        async with aclosing(self._files.found(query, anew=anew)) as found:
            async for known in found:
                await asyncio.sleep(0)
                word = _WORD.search(self.area.before)
                if word is None or word[1] != query:
                    return
                self._named = query
                self.area.border_subtitle = known.note
                choices = [*first, *(_file(name, profiles) for name in known.names)]
                if begun:
                    self.popup.refine(choices, final=known.final)
                else:
                    self.popup.offer(choices)
                begun = True

    def _end_names(self, *, keep: bool = False) -> None:
        """Offer no more names; `keep` lets the listing come to its end all the same, for the next time."""
        if self._naming:
            self._naming = False
            self.workers.cancel_group(self, "names")
            self.area.border_subtitle = ""
            if not keep:
                self._files.stop()

    def complete(self) -> bool:
        """Take what the list offers; False when there is no list."""
        self._settle()
        choice = self.popup.chosen
        if choice is None:
            return False
        self._take(choice)
        return True

    def _take(self, choice: Completion) -> None:
        if self._recalling or choice.text.startswith("/"):
            self.put(choice.text)
        else:
            found = _WORD.search(self.area.before)
            if found:
                row, column = self.area.cursor_location
                start = (row, column - len(found[1]) - 1)
                self._quiet = True
                self.area.replace(choice.text, start, (row, column))
        self.popup.hide()
        self._end_names(keep=True)

    def on_popup_clicked(self, event: Popup.Clicked) -> None:
        event.stop()
        self.complete()
        self.area.focus()

    def recall(self) -> None:
        """Search the prompts of before with what is typed."""
        self._recalling = True
        self._end_names()
        self._offer_history()

    def _offer_history(self) -> None:
        found = self.history.matches(self.area.text)
        self.popup.offer([Completion(text, sanitize_line(text, 200)) for text in found])
        if not found:
            self._recalling = False

    def up(self, *, first_row: bool) -> bool:
        if self.popup.open:
            self.popup.move(-1)
            return True
        if not self.area.text and self._back():
            return True
        return first_row and self._from_history(self.history.older(self.area.text))

    def down(self, *, last_row: bool) -> bool:
        if self.popup.open:
            self.popup.move(1)
            return True
        return last_row and self._from_history(self.history.newer())

    def _from_history(self, entry: str | None) -> bool:
        if entry is not None:
            self.put(entry)
        return entry is not None

    @work(exclusive=True, group="editor")
    async def edit(self) -> None:
        """Write the message in $VISUAL or $EDITOR."""
        from ..terminal.external_editor import edited

        text = await edited(self.app, self.text)
        if text is not None:
            self.clear()
            self.put(text)
