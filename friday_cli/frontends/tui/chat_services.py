"""What the parts of the chat have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from textual.app import App

from friday_cli.core.text.sanitize import sanitize

from .commands.context import NOTHING, SearchList
from .controller import SessionController
from .keys.double_press import DoublePress
from .state.keymap import Keys
from .terminal.clipboard import copy


@dataclass
class ChatServices:
    """Made once by the app. Parts know it and each other, never the app itself."""

    app: App[int]
    """As Textual has it: workers, dialogs, the focus, the size."""
    cwd: Path
    controller: SessionController
    presses: DoublePress
    keys: Keys
    """The user's own keys."""
    schedule_refresh: Callable[[], None]
    """Plans an update of the screen."""
    refresh: Callable[[], None]
    """Updates the screen now."""
    failure: BaseException | None = None
    """The error that ended the app."""

    def say_note(self, text: str, level: Literal["information", "warning", "error"] = "information") -> None:
        """Show a text for some seconds; it is never markup."""
        timeout = 3 if level == "information" else 6
        self.app.notify(sanitize(text), severity=level, markup=False, timeout=timeout)

    async def choose(
        self, title: str, choices: Sequence[tuple[str, str]], *, at: int = 0, about: Mapping[str, str] = NOTHING
    ) -> str | None:
        """Let the user choose one of (key, label); see `CommandContext.choose`."""
        from .widgets.choice_dialog import Chooser

        return await self.app.push_screen_wait(Chooser(title, choices, at=at, about=about))

    async def search(self, searched: SearchList) -> str | None:
        """Let the user search a list and choose a row; see `CommandContext.search`."""
        from .widgets.search_dialog import SearchDialog

        return await self.app.push_screen_wait(SearchDialog(searched))

    async def copy_text(self, text: str) -> None:
        """Copy a text to the clipboards. Raises UsageError when there is none."""
        await copy(self.app, text)
        self.say_note(f"Copied {len(text):,} characters.")

    def fail(self, error: Exception) -> None:
        """End the app with an error, which is printed when the screen is gone."""
        self.failure = error
        self.app.exit()
