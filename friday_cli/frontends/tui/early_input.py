"""Keys and clicks that come before there is anything to choose: they wait for the first card, or for the open session."""

from __future__ import annotations

from collections.abc import Callable

from textual import events


class EarlyInput:
    """What the user pressed before the first card or the open session. `typed` is the text in the prompt: what is typed there, and
    an Enter that sends it, does not wait. `asked` is the question that is shown: what was pressed
    for another one, or for none, answers nothing."""

    def __init__(self, typed: Callable[[], str], asked: Callable[[], str]) -> None:
        self._typed, self._asked = typed, asked
        self._held: list[tuple[events.InputEvent, str]] | None = []
        """None: nothing waits any more."""
        self.everything = False
        """Whether all that is typed waits, too."""

    def holds(self, event: events.Event) -> bool:
        """Whether the event waits; then nobody else may handle it now."""
        if self._held is None or not isinstance(event, events.InputEvent) or event.is_forwarded:
            return False
        if isinstance(event, events.Key):
            waits = self.everything or bool(self._held)
            waits = waits and event.key not in ("escape", "ctrl+c", "ctrl+d", "ctrl+q")
            waits = waits or (event.key in ("enter", "up", "down") and not self._typed())
        else:
            waits = self.everything or isinstance(event, (events.MouseDown, events.MouseUp))
        if waits:
            self._held.append((event, self._asked()))
        return waits

    def release(self, post: Callable[[events.InputEvent], object]) -> None:
        """Let everything that waits be handled, in its order."""
        held, self._held = self._held or [], None
        for event, asked in held:
            if asked == self._asked():
                post(event)
