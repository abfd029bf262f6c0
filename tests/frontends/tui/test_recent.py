"""Which blocks stay drawn: what is looked at, however long, and of the rest a few hundred lines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from textual.strip import Strip

from friday_cli.frontends.tui.widgets.blocks import CACHED_LINES, MIN_PASSES, Block, RenderCache
from friday_cli.frontends.tui.widgets.styles import TextRenderer


class Page(Block):
    """A block that counts how often it was drawn."""

    draws = 0

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        self.draws += 1
        return [Strip.blank(width)] * CACHED_LINES


def looked_at(recent: RenderCache, *pages: Page) -> list[int]:
    """How often each was drawn after one look at them."""
    recent.begin_pass()
    for page in pages:
        recent.touch(page, len(page.strips(10)))
    return [page.draws for page in pages]


def test_what_is_on_the_screen_is_drawn_once_and_what_was_left_behind_is_forgotten() -> None:
    scene: Any = SimpleNamespace(renderer=None)
    recent, old, first, second = RenderCache(), Page(scene), Page(scene), Page(scene)
    looked_at(recent, old)
    for _ in range(2 * MIN_PASSES):
        assert looked_at(recent, first, second) == [1, 1]
    assert looked_at(recent, old) == [2]
