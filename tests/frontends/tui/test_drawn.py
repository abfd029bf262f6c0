"""How texts, arguments and tables are drawn, without a screen: nothing loses its style, and nothing is cut that matters."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.frontends.tui.widgets.blocks import CACHED_LINES, MIN_PASSES, Block, RenderCache
from friday_cli.frontends.tui.widgets.markdown import draw
from friday_cli.frontends.tui.widgets.styles import LONGEST_LINE, Styles, TextRenderer
from friday_cli.frontends.tui.widgets.tool_blocks import MOST, arguments, body, draw_request
from friday_cli.view import ToolRun

RED = Style(color="red")
RENDERER = TextRenderer(Styles(*[Style()] * 3, Style(color="cyan", bold=True), *[Style()] * 10, "monokai"))


def test_a_text_of_one_style_keeps_it() -> None:
    for strip in (RENDERER.line(Text("words", style=RED), 40), *RENDERER.wrap(Text("some words", style=RED), 6)):
        assert [segment.style for segment in strip] == [RED]


@pytest.mark.parametrize("value", ["x" * 50, "x" * 54, "漢" * 26, "漢" * 40, "two\nlines"])
def test_no_argument_is_cut_and_none_is_bold_for_its_name(value: str) -> None:
    strips = arguments({"url": value}, RENDERER, 54)
    assert "".join(strip.text.strip() for strip in strips).removeprefix("url:").strip() == value.replace("\n", "")
    assert all(cell_len(strip.text) <= 54 for strip in strips)
    assert not any(s.style and s.style.bold for strip in strips for s in strip if "url" not in s.text)


def test_columns_of_wide_letters_stand_below_each_other() -> None:
    run = ToolRun("c", "tool", {}, display=TableDisplay(("name", "size"), (("漢字", "1"), ("a", "2"))))
    rows = [strip.text for strip in body(run, RENDERER, 40)]
    assert [cell_len(row[: row.index(end)]) for row, end in zip(rows, ("size", "1", "2"), strict=True)] == [6] * 3


def test_a_page_has_one_blank_line_between_its_parts_and_code_has_the_paper_of_the_page() -> None:
    strips = draw("- a\n\n| b | c |\n|---|---|\n| d | e |\n\n---\n\n```python\nprint(1)\n```\n\n> f\n", RENDERER, 40)
    rows = [strip.text.strip() for strip in strips]
    assert not any(not a and not b for a, b in pairwise(rows))
    assert "─" * 40 in rows
    assert not any(segment.style and segment.style.bgcolor for strip in strips for segment in strip)


def test_what_is_left_out_is_said() -> None:
    long = arguments({"content": "a" * (LONGEST_LINE + 7), "rest": "b\n" * (MOST + 9)}, RENDERER, 60)
    assert [strip.text.strip() for strip in long if "more" in strip.text] == ["… 7 more characters", "… 9 more lines"]
    new = "".join(f"line {n}\n" for n in range(MOST + 9))
    assert [strip.text.strip() for strip in draw_request({"content": new}, RENDERER, 60)][-1] == "… 9 more lines"
    assert "more characters" in draw_request({"content": "c" * 60_000}, RENDERER, 60)[-1].text


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
