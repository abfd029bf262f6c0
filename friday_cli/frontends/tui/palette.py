"""The command palette (Ctrl+P): the slash commands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from .commands import slash_commands

if TYPE_CHECKING:
    from .app import FridayApp


class Palette(Provider):
    """Offers the commands in Textual's palette."""

    async def discover(self) -> Hits:
        for name, usage, help in self._listed():
            yield DiscoveryHit(f"/{name}", partial(self._run, name, usage), help=escape(help))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, usage, help in self._listed():
            if (score := matcher.match(f"/{name} {help}")) > 0:
                yield Hit(score, matcher.highlight(f"/{name}"), partial(self._run, name, usage), help=escape(help))

    def _listed(self) -> list[tuple[str, str, str]]:
        return slash_commands.listed(self._app.input.customs)

    @property
    def _app(self) -> FridayApp:
        from .app import FridayApp

        assert isinstance(self.app, FridayApp)
        return self.app

    def _run(self, name: str, usage: str) -> None:
        from .widgets.message_queue import Draft

        composer = self._app.chat.composer
        if usage and not usage.startswith("["):
            composer.put(f"/{name} ")
            composer.area.focus()
        else:
            self._app.input.submit(Draft(f"/{name}"))
