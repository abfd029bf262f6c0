"""The palette (Ctrl+P): the commands of the one table. Interface: `Palette`."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from . import commands


class Palette(Provider):
    """Gives the commands to Textual's palette."""

    async def discover(self) -> Hits:
        for command in commands.COMMANDS:
            yield DiscoveryHit(f"/{command.name}", partial(self._run, command), help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in commands.COMMANDS:
            text = f"/{command.name} {command.help}"
            if (score := matcher.match(text)) > 0:
                yield Hit(score, matcher.highlight(f"/{command.name}"), partial(self._run, command), help=command.help)

    def _run(self, command: commands.Command) -> None:
        from .prompt import Composer

        composer = self.app.query_one(Composer)
        if command.usage and not command.usage.startswith("["):
            composer.put(f"/{command.name} ")
            composer.area.focus()
        else:
            composer.post_message(Composer.Sent(f"/{command.name}", ""))
