"""The palette (Ctrl+P): the commands of the one table. Interface: `Palette`."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from .commands import slash_commands


class Palette(Provider):
    """Gives the commands to Textual's palette."""

    async def discover(self) -> Hits:
        for name, usage, help in self._listed():
            yield DiscoveryHit(f"/{name}", partial(self._run, name, usage), help=escape(help))

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, usage, help in self._listed():
            if (score := matcher.match(f"/{name} {help}")) > 0:
                yield Hit(score, matcher.highlight(f"/{name}"), partial(self._run, name, usage), help=escape(help))

    def _listed(self) -> list[tuple[str, str, str]]:
        from .input import InputController

        assert isinstance(self.app, InputController)
        return slash_commands.listed(self.app.customs)

    def _run(self, name: str, usage: str) -> None:
        from .widgets.composer import Composer
        from .widgets.message_queue import Draft

        composer = self.app.query_one(Composer)
        if usage and not usage.startswith("["):
            composer.put(f"/{name} ")
            composer.area.focus()
        else:
            composer.post_message(Composer.Submitted(Draft(f"/{name}"), ""))
