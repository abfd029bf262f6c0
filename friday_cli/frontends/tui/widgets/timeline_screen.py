"""When each agent worked and what it waited for, as a screen that zooms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Static

from friday_cli.view import SessionView
from friday_cli.view.timeline import Cell, Timeline, TimeScale, render_timeline

from .styles import Styles

ZOOM = 2.0
SHORTEST_S = 0.05
"""Seconds of the shortest part that can be shown."""


class TimelineScreen(ModalScreen[None]):
    """The screen that shows when each agent worked and what it waited for. `load` reads the view and the timeline of the session again."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close", priority=True, id="timeline.close"),
        Binding(
            "plus,equals_sign,up", "zoom(True)", "A shorter part of the time", priority=True, id="timeline.zoom_in"
        ),
        Binding("minus,down", "zoom(False)", "A longer part", priority=True, id="timeline.zoom_out"),
        Binding("left,h", "pan(-1)", "Earlier", priority=True, id="timeline.earlier"),
        Binding("right,l", "pan(1)", "Later", priority=True, id="timeline.later"),
        Binding("0,home", "whole", "The whole session", priority=True, id="timeline.whole"),
        Binding("pagedown,space", "scroll(1)", "Agents below", priority=True, id="timeline.page_down"),
        Binding("pageup", "scroll(-1)", "Agents above", priority=True, id="timeline.page_up"),
        Binding("r", "reload", "Read it again", priority=True, id="timeline.reload"),
    ]

    def __init__(self, load: Callable[[], Awaitable[tuple[SessionView, Timeline]]], styles: Styles) -> None:
        super().__init__()
        self._load, self._styles = load, styles
        self._state, self._timeline = SessionView(), Timeline([], 0.0, 0.0)
        self._loaded = False
        self._part: tuple[float, float] | None = None
        """(start, end) of the shown part in seconds of the axis; None for all."""

    def compose(self) -> ComposeResult:
        yield Static(id="timeline-head")
        with VerticalScroll(id="timeline-body", can_focus=False):
            yield Static(id="timeline-rows")
        keys = "↑↓ zoom · ←→ move · 0 all · r read again · Esc"
        yield Static(Text(keys, style=self._styles.dim), id="timeline-keys")

    def on_mount(self) -> None:
        self.action_reload()

    def on_resize(self, event: Resize) -> None:
        self._draw()

    @work(exclusive=True)
    async def action_reload(self) -> None:
        self._state, self._timeline = await self._load()
        self._loaded = True
        self._draw()

    def action_zoom(self, closer: bool) -> None:
        start, end = self._part or (0.0, self._length)
        middle, size = (start + end) / 2, (end - start) * (1 / ZOOM if closer else ZOOM)
        self._show(middle - size / 2, max(size, SHORTEST_S))

    def action_pan(self, by: int) -> None:
        start, end = self._part or (0.0, self._length)
        self._show(start + by * (end - start) / 4, end - start)

    def action_whole(self) -> None:
        self._show(0.0, self._length)

    def action_scroll(self, by: int) -> None:
        body = self.query_one("#timeline-body", VerticalScroll)
        (body.scroll_page_down if by > 0 else body.scroll_page_up)(animate=False)

    @property
    def _length(self) -> float:
        return TimeScale(self._timeline).length

    def _show(self, start: float, size: float) -> None:
        whole = self._length
        start = min(max(0.0, start), max(0.0, whole - size))
        self._part = (start, start + size) if size < whole else None
        self._draw()

    def _draw(self) -> None:
        width = self.query_one("#timeline-body").scrollable_content_region.width
        if width <= 0 or not self._loaded:
            return
        rows = render_timeline(self._state, self._timeline, width, window=self._part)
        lines = [Text.assemble(*((text, self._style(kind)) for text, kind in row), no_wrap=True) for row in rows]
        self.query_one("#timeline-rows", Static).update(Text("\n").join(lines))
        shown = "all of it" if self._part is None else f"{self._part[1] - self._part[0]:.1f} of {self._length:.1f} s"
        self.query_one("#timeline-head", Static).update(Text(f"Timeline: {shown}"))

    def _style(self, kind: Cell) -> Style:
        styles = self._styles
        named: dict[Cell, Style] = {
            "model": styles.accent,
            "tool": styles.ok,
            "child": styles.dim,
            "queued": styles.dim,
            "person": styles.warn,
            "budget": styles.warn,
            "rate": styles.error,
        }
        return named.get(kind, styles.text)
