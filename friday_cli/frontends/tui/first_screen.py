"""Shows the start card above a chat in which nothing was said yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chat_body import ChatBody
from .chat_services import ChatServices
from .keys import keys
from .widgets.status_bar import StatusFacts

if TYPE_CHECKING:
    from .widgets.start_card import StartCard

ROWS_BELOW = 4
"""Rows of the prompt and the status line."""


class FirstScreen:
    """The start card of a chat, until the first message. What is shown before that stands below it, as long as it fits there."""

    def __init__(self, services: ChatServices, body: ChatBody) -> None:
        """The card stands above the transcript of `body`."""
        self._services, self._body = services, body
        self._card: StartCard | None = None

    async def show(self) -> None:
        """Show the card of the session that was opened, if nothing was said in it."""
        from .widgets.start_card import StartCard  # after the first picture

        if self._card is not None:
            await self._card.remove()
            self._card = None
        if self._services.controller.session is not None and not self._begun:
            tip = keys.respelled("Shift+Tab mode · Ctrl+T agents · F1 help", self._services.keys.chosen)
            self._card = StartCard(self._services.cwd, tip)
            await self._body.mount(self._card, before=self._body.transcript)

    @property
    def _begun(self) -> bool:
        root = self._services.controller.state.root  # one without a run: only the mode was changed
        return root is not None and root.run > 0

    def follow(self, facts: StatusFacts) -> None:
        """Update the card, or remove it."""
        if self._card is None:
            return
        rows_left = self._services.app.size.height - self._card.size.height - ROWS_BELOW
        if self._begun or self._body.transcript.blocks.total > rows_left:
            self._card.remove()
            self._card = None
        else:
            self._card.follow(facts)
