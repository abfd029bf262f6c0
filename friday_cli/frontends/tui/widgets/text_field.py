"""A text field of one line that handles keys in the order in which they were typed. The prompt, which loads more, is `text_input`."""

from __future__ import annotations

from textual import events
from textual.widget import Widget
from textual.widgets import Input

from ..state import keymap


async def run_binding(widget: Widget, event: events.Key) -> bool:
    """Run what a key is bound to in `widget` at once. The app would run it after letters that were typed later, or not at
    all if the window has lost the focus since. False if the key has no binding there."""
    for binding in () if event.is_printable else keymap.held(widget).get(event.key, ()):
        event.stop()
        event.prevent_default()
        await widget.run_action(binding.action)
        return True
    return False


class TextField(Input):
    """A text field of one line that handles keys in the order in which they were typed."""

    async def _on_key(self, event: events.Key) -> None:
        if not await run_binding(self, event):
            await super()._on_key(event)
