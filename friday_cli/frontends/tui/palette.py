"""The command palette (Ctrl+P): the slash commands."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from .chat_screen import ChatScreen
from .commands import slash_commands
from .widgets.composer import Composer
from .widgets.message_queue import Draft


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
        return slash_commands.listed(self._chat.customs())

    @property
    def _chat(self) -> ChatScreen:
        chat = self.app.screen_stack[0]
        assert isinstance(chat, ChatScreen)
        return chat

    def _run(self, name: str, usage: str) -> None:
        composer = self._chat.composer
        if usage and not usage.startswith("["):
            composer.put(f"/{name} ")
            composer.area.focus()
        else:
            composer.post_message(Composer.Submitted(Draft(f"/{name}"), ""))
