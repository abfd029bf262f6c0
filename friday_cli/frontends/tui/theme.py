"""The colours of the chat: dark, light or the terminal's sixteen colours, from the settings or the terminal's background.

The settings are known only when the session is open, so the first screen uses the theme of the last chat
(`state.preferences`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from textual.app import App

from friday_cli.core.protocol.errors import UsageError

from .commands.context import SearchList, SearchRow
from .state import preferences
from .widgets.styles import uses_256_colors

AUTO, DARK, LIGHT, ANSI = "auto", "dark", "light", "ansi"
NAMES = (AUTO, DARK, LIGHT, ANSI)
"""Friday's names, offered beside the names of Textual's themes."""
_ABOUT = {
    AUTO: "Dark or light, as the terminal's background is.", DARK: "For a dark background.", LIGHT: "For a light background.",
    ANSI: "The terminal's own sixteen colours.",
}  # fmt: skip
GREY = "#303030"
"""Background of lists and scroll bars in 256 colours, which have no darker tint: the theme's would be rounded to a bright
blue."""


class ThemeController:
    """Chooses and applies the theme of an app."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self.chosen = AUTO
        """What the user wants: one of `NAMES`, or the name of a theme."""
        self._chosen_in_this_chat = False
        self._light_background = False
        """Whether the terminal's background is light; False until the terminal reports it."""

    def names(self) -> list[str]:
        """All names that can be chosen."""
        return [*NAMES, *sorted(self._app.available_themes)]

    def show(self, name: str) -> None:
        """Use the theme of that name; an unknown name changes nothing."""
        if name not in self.names():
            return
        self.chosen = name
        if name in (AUTO, ANSI) and not self._app.is_headless:
            from .terminal.driver import Listening

            if isinstance(driver := self._app._driver, Listening):
                driver.ask("11", lambda colour: self._app.call_later(self._background_reported, colour))
        self._apply()

    def _apply(self) -> None:
        app = self._app
        shade = LIGHT if self._light_background else DARK
        # with 16 colours other themes would be rounded, and text could get the colour of its background
        has_16_colors = not app.is_headless and app.console.color_system == "standard"
        wanted = ANSI if self.chosen == AUTO and has_16_colors else self.chosen
        name = {AUTO: f"textual-{shade}", ANSI: f"ansi-{shade}"}.get(wanted, wanted)
        name = f"textual-{name}" if name in (DARK, LIGHT) else name
        name = f"ansi-{shade}" if app.no_color else name
        if name == f"textual-{DARK}" and uses_256_colors(app) and app.available_themes[name].panel != GREY:
            more = {**app.available_themes[name].variables, "block-cursor-background": "#0087d7", "scrollbar": GREY}
            app.register_theme(replace(app.available_themes[name], panel=GREY, variables=more))
            app.refresh_css(animate=False)
        if name != app.theme:
            app.theme = name

    def _background_reported(self, colour: str) -> None:
        from .terminal.driver import is_light

        light = is_light(colour)
        if light is not None and self.chosen in (AUTO, ANSI):
            self._light_background = light
            self._apply()

    def use_settings(self, name: str) -> None:
        """Use the theme of the settings, unless one was chosen in this chat, and keep it for the next start."""
        if name != self.chosen and not self._chosen_in_this_chat:
            self.show(name)
            preferences.keep(theme=self.chosen)

    async def pick(self, search: Callable[[SearchList], Awaitable[str | None]]) -> str | None:
        """Let the user choose a theme from a list in which each one is tried while it is selected; None when the user cancels.
        Raises UsageError where there are no colours."""
        self._require_colours()
        before = self.chosen
        rows = [
            SearchRow(name, f"{name}{' (in use)' if name == before else ''}", _ABOUT.get(name, ""))
            for name in self.names()
        ]
        title = "Choose the colours; each theme is shown while it is selected."
        picked = await search(SearchList(title, rows, at=before, on_highlight=self.show))
        self.show(before)
        return picked

    def choose(self, name: str) -> str:
        """Use a theme and write it to the settings. Returns its name.

        Raises UsageError for an unknown name, FridayError when the settings cannot be written (the theme is then used in
        this chat only).
        """
        self._require_colours()
        if name not in self.names():
            raise UsageError(f"Unknown theme {name!r}.", hint=f"Known themes: {', '.join(self.names())}.")
        self.show(name)
        preferences.keep(theme=name)
        self._chosen_in_this_chat = True
        from friday_cli.config.edit import set_value

        set_value("theme", name)
        return name

    def _require_colours(self) -> None:
        if self._app.no_color:
            raise UsageError("NO_COLOR is set: there are no colours to choose from.")
