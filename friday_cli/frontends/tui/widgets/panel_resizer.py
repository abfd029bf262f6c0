"""The width of the side panel: chosen by key or by dragging its border, and limited by the room that the chat needs."""

from __future__ import annotations

from textual import events
from textual.widget import Widget

MIN_PANEL, MIN_CHAT = 28, 40
"""Cells that the panel has at least, and that it leaves to the chat."""
NARROW = 80
"""Cells of a screen below which the panel always fills the screen."""


class PanelResizer:
    """See the module. `chosen` is the width that the user chose, in cells; 0 for none."""

    def __init__(self, panel: Widget) -> None:
        self._panel = panel
        self.chosen = 0
        self._fitted: int | None = None
        self._dragging = False

    @property
    def _fills_screen(self) -> bool:
        return self._panel.has_class("full") or self._panel.app.size.width < NARROW

    @property
    def _limit(self) -> int:
        return max(self._panel.app.size.width - MIN_CHAT, MIN_PANEL)

    def resize(self, width: int) -> int:
        """Choose a width in cells. Returns the width within the limits; a panel that fills the screen keeps its own."""
        if not self._fills_screen:
            self.chosen = min(max(width, MIN_PANEL), self._limit)
            self.fit()
        return self.chosen

    def fit(self) -> None:
        """Apply the chosen width, as far as the screen has room for it."""
        width = min(self.chosen, self._limit) if self.chosen and not self._fills_screen else None
        if width != self._fitted:  # setting even the same width makes a new layout of the screen
            self._panel.styles.width = self._fitted = width

    def start_drag(self, event: events.MouseDown) -> None:
        """Begin to drag if the left border was pressed."""
        if event.screen_x == self._panel.region.x and event.button == 1 and not self._fills_screen:
            self._dragging = True
            self._panel.capture_mouse()

    def drag(self, event: events.MouseMove) -> None:
        if self._dragging:
            self.resize(self._panel.region.right - event.screen_x)

    def end_drag(self) -> bool:
        """End to drag. False if nothing was dragged."""
        dragged, self._dragging = self._dragging, False
        if dragged:
            self._panel.release_mouse()
        return dragged
