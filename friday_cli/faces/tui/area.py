"""A text area whose own keys act in the order in which they were typed. Interface: `Area`, `before`."""

from __future__ import annotations

from textual import events
from textual.widgets import TextArea

from . import keymap


class Area(TextArea):
    """Its own keys are those whose names begin with `prompt.`."""

    async def _on_key(self, event: events.Key) -> None:
        """Own keys act here, in the order in which they were typed: elsewhere they would overtake letters before them, and
        mean nothing when the window has lost the focus since."""
        for binding in () if event.is_printable else keymap.held(self).get(event.key, ()):
            if binding.id and binding.id.startswith("prompt."):
                event.stop()
                event.prevent_default()
                await self.run_action(binding.action)
                return
        await super()._on_key(event)

    @property
    def before(self) -> str:
        """The text before the cursor."""
        return str(self.get_text_range((0, 0), self.cursor_location))
