"""The colours of the chat: dark, light or the terminal's own sixteen, as the settings say or as the terminal's background is.

`Themed` is the part of the app that knows this; `app.FridayApp` is the rest. The first screen is drawn as the last one was
(`taste`); the settings are known when the session is open.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App
from textual.message import Message

from friday_cli.core.protocol.errors import FridayError, UsageError

from .state import preferences
from .widgets.styles import uses_256_colors

if TYPE_CHECKING:
    from textual.driver import Driver

AUTO, DARK, LIGHT, ANSI = "auto", "dark", "light", "ansi"
NAMES = (AUTO, DARK, LIGHT, ANSI)
"""What a person chooses from, beside the names of Textual's themes."""
GREY = "#303030"
"""What lists and scroll bars are on where 256 colours have no tint so dark: it would be rounded to a bright blue."""


class Themed(App[int]):
    """See the module."""

    chosen = AUTO
    """What the person wants: one of `NAMES` or a theme."""
    _picked = False
    """Whether the person chose in this chat."""
    _light = False
    """Whether the terminal's background is light; dark until it says otherwise."""

    class Paper(Message):
        """The terminal said what its background is."""

        def __init__(self, *, light: bool) -> None:
            self.light = light
            super().__init__()

    def __init__(self) -> None:
        bare = bool(os.environ.get("NO_COLOR"))
        if not bare:
            os.environ.pop("NO_COLOR", None)  # an empty one means nothing; Textual would take it for a wish
        super().__init__(ansi_color=True if bare else None)

    def get_driver_class(self) -> type[Driver]:
        if sys.platform == "win32" or "TEXTUAL_DRIVER" in os.environ:
            return super().get_driver_class()
        from .terminal.driver import Listening

        return Listening

    def themes(self) -> list[str]:
        """All that can be chosen."""
        return [*NAMES, *sorted(self.available_themes)]

    def show_theme(self, name: str) -> None:
        """Draw in the colours that `name` means; a name that is none changes nothing."""
        if name not in self.themes():
            return
        self.chosen = name
        if name in (AUTO, ANSI) and not self.is_headless:
            from .terminal.driver import Listening

            if isinstance(self._driver, Listening):
                self._driver.ask(lambda light: self.post_message(self.Paper(light=light)))
        self._dress()

    def _dress(self) -> None:
        shade = LIGHT if self._light else DARK
        own = ANSI if self.chosen == AUTO and self._few_colours else self.chosen
        name = {AUTO: f"textual-{shade}", ANSI: f"ansi-{shade}"}.get(own, own)
        name = f"textual-{name}" if name in (DARK, LIGHT) else name
        name = f"ansi-{shade}" if self.no_color else name
        if name == f"textual-{DARK}" and uses_256_colors(self) and self.available_themes[name].panel != GREY:
            more = {**self.available_themes[name].variables, "block-cursor-background": "#0087d7", "scrollbar": GREY}
            self.register_theme(replace(self.available_themes[name], panel=GREY, variables=more))
            self.refresh_css(animate=False)
        if name != self.theme:
            self.theme = name

    @property
    def _few_colours(self) -> bool:
        """Whether the terminal names no more than sixteen: others would be rounded to them, text to that of its paper."""
        return not self.is_headless and self.console.color_system == "standard"

    def on_themed_paper(self, message: Themed.Paper) -> None:
        if self.chosen in (AUTO, ANSI):
            self._light = message.light
            self._dress()

    def settled_theme(self, name: str) -> None:
        """Draw as the settings say, and remember it for the next start."""
        if name != self.chosen and not self._picked:
            self.show_theme(name)
            preferences.keep(theme=self.chosen)

    def choose_theme(self, name: str) -> str:
        """Take a theme, or the next of `NAMES` for ""; gives its name. Raises FridayError: UsageError where it
        is none, others where the settings cannot be written; it holds for this chat then."""
        if self.no_color:
            raise UsageError("NO_COLOR is set: there are no colours to choose from.")
        if name and name not in self.themes():
            raise UsageError(f"There is no theme {name!r}.", hint=f"There are: {', '.join(self.themes())}.")
        if not name:
            name = NAMES[(NAMES.index(self.chosen) + 1) % len(NAMES)] if self.chosen in NAMES else AUTO
        self.show_theme(name)
        preferences.keep(theme=name)
        self._picked = True
        from friday_cli.config.edit import set_value

        set_value("theme", name)
        return name


def wanted(cwd: Path) -> str:
    """What the settings say, "" where they cannot be read."""
    from .commands.command_output import settings

    try:
        return settings(cwd).theme
    except FridayError:
        return ""
