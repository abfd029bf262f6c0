"""Completion of what is typed in the prompt: commands after `/`, profiles and files after `@`, earlier prompts with Ctrl+R."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import aclosing

from friday_cli.core.text.sanitize import sanitize_line

from ..state.file_index import FileIndex
from ..state.prompt_history import PromptHistory
from .completion_popup import Completion, Popup
from .text_input import Prompt

_MENTION = re.compile(r"(?:^|\s)@([^\s@]*)$")

Suggest = Callable[[str, str], list[Completion]]
"""(kind, query) -> completions; the kind is "/" for commands or "@" for profiles."""


class Completer:
    """Completes commands, profiles, files and earlier prompts in the prompt. `popup` shows the completions of what is typed in `prompt`."""

    def __init__(
        self, prompt: Prompt, popup: Popup, suggest: Suggest, *, files: FileIndex, history: PromptHistory
    ) -> None:
        self._prompt, self._popup, self._suggest = prompt, popup, suggest
        self._files, self._history = files, history
        self._searching_history = False
        self._naming = False
        """Whether names are offered, or are being looked for."""
        self._offered_for = ""
        """The query whose names are offered."""
        self._note = ""
        """Why not all names are offered yet, as the prompt shows it; "" if there is nothing to say."""

    def on_typed(self) -> None:
        """Offer completions for the text that was just typed."""
        if self._searching_history:
            self._offer_history()
        else:
            self._offer_for_word()

    def search_history(self) -> None:
        """Offer the earlier prompts that match what is typed."""
        self._searching_history = True
        self._end_names()
        self._offer_history()

    def accept(self) -> bool:
        """Insert the selected completion. False if there is none."""
        self._update()
        choice = self._popup.chosen
        if choice is not None:
            self._insert(choice)
        return choice is not None

    def accept_on_enter(self) -> bool:
        """Insert what Enter accepts. False if the prompt is to be sent, also with a command that needs no argument."""
        self._update()
        text = self._prompt.full_text
        command = text.startswith("/") and not self._searching_history
        choice = self._popup.command_for(text.strip()) if command else self._popup.chosen
        if choice is None:
            return False
        sends = choice.text.startswith("/") and not choice.text.endswith(" ") and not self._searching_history
        self._insert(choice)
        self._searching_history = False
        return not sends

    def cancel(self) -> bool:
        """Close the list, also while names are looked for. False if there was nothing to close."""
        if not self._popup.open and not self._note:
            return False
        self._searching_history = False
        self.close()
        return True

    def close(self, *, keep_listing: bool = False) -> None:
        """Offer nothing. `keep_listing` lets a listing of files finish, for the next mention."""
        self._popup.offer([])
        self._end_names(keep_listing=keep_listing)

    def _end_names(self, *, keep_listing: bool = False) -> None:
        if self._naming:
            self._naming = False
            self._prompt.workers.cancel_group(self._prompt, "names")
            self._show_note("")
            if not keep_listing:
                self._files.stop()

    def _show_note(self, note: str) -> None:
        """Below the prompt, in place of the mode of vim."""
        self._note, vim = note, self._prompt.vim
        self._prompt.border_subtitle = note or (vim.shown if vim else "")

    def _offer_history(self) -> None:
        found = self._history.matches(self._prompt.text)
        self._popup.offer([Completion(text, sanitize_line(text, 200)) for text in found])
        if not found:
            self._searching_history = False

    def _offer_for_word(self) -> None:
        typed = self._prompt.text_before_cursor
        command = typed.startswith("/") and " " not in typed and "\n" not in typed
        if not command and (found := _MENTION.search(typed)):
            refresh, self._naming = not self._naming, True
            work = self._complete_names(found[1], refresh=refresh)
            self._prompt.run_worker(work, exclusive=True, group="names")
            return
        self._end_names()
        self._popup.offer(self._suggest("/", typed[1:]) if command else [])

    def _update(self) -> None:
        """Bring the list up to date with the prompt. The event of a change comes a moment later, and a key typed before
        it must not accept what was offered for an earlier text."""
        typed = self._prompt.text_before_cursor
        found = _MENTION.search(typed)
        if self._searching_history:
            self._offer_history()
        elif found is None or typed.startswith("/"):
            self._offer_for_word()
        elif found[1] != self._offered_for:
            self._popup.offer([])

    async def _complete_names(self, query: str, *, refresh: bool) -> None:
        alone = self._prompt.text_before_cursor.strip() == f"@{query}"  # profiles are addressed at the beginning only
        first = self._suggest("@", query) if alone and "/" not in query else []
        profiles = {choice.text for choice in self._suggest("@", "")} if alone else set()
        offered = False
        async with aclosing(self._files.found(query, refresh=refresh)) as found:
            async for matches in found:
                await asyncio.sleep(0)
                word = _MENTION.search(self._prompt.text_before_cursor)
                if word is None or word[1] != query:
                    return
                self._offered_for = query
                self._show_note(matches.note)
                choices = [*first, *(_file(name, profiles) for name in matches.names)]
                if offered:
                    self._popup.refine(choices, final=matches.final)
                else:
                    self._popup.offer(choices)
                offered = True

    def _insert(self, choice: Completion) -> None:
        if self._searching_history or choice.text.startswith("/"):
            self._prompt.put(choice.text)
        elif found := _MENTION.search(self._prompt.text_before_cursor):
            self._prompt.replace_before_cursor(len(found[1]) + 1, choice.text)
        self.close(keep_listing=True)


def _file(name: str, profiles: set[str]) -> Completion:
    """The mention of a file: quoted where its name needs that, and distinct from those of `profiles`."""
    if f"@{name} " in profiles:
        return Completion(f"@./{name} ", name)
    quote = ("'" if '"' in name else '"') if set(name) & set(" \"'`") else ""
    return Completion(f"@{quote}{name}{quote} ", name)
