"""The styles of the theme, and the renderer that turns text into strips.

Untrusted text must have passed `core.text.sanitize` before it comes here. It is never read as markup. Widths are in cells.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.color import Color as RichColor
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.app import App
from textual.color import Color, ColorParseError
from textual.strip import Strip

from friday_cli.core.protocol.format import pluralize

LONGEST_LINE = 20_000
"""Longest line drawn, in characters; the rest is elided."""


@dataclass(frozen=True)
class Styles:
    """Styles by meaning. `code` is the name of the Pygments style of code blocks."""

    text: Style
    dim: Style
    user: Style
    accent: Style
    ok: Style
    warn: Style
    error: Style
    added: Style
    removed: Style
    added_word: Style
    removed_word: Style
    cursor: Style
    found: Style
    selected: Style
    code: str

    @classmethod
    def of(cls, app: App[Any]) -> Styles:
        """The styles of the app's theme."""
        theme = app.current_theme
        values = app.theme_variables

        def colored(name: str, *, bold: bool = False, dim: bool = False) -> Style:
            try:
                color = Color.parse(values[name]).rich_color
            except (KeyError, ColorParseError):
                color = None
            return Style(color=color, bold=bold or None, dim=dim or None)

        background = Color.parse(values["background"]) if not theme.ansi else None
        has_256_colors = uses_256_colors(app)

        def tint(name: str, share: float) -> Style:
            if background is None:
                return Style()
            color = background.blend(Color.parse(values[name]), share)
            return Style(bgcolor=nearest_color(color) if has_256_colors else color.rich_color)

        code = ("ansi_dark" if theme.dark else "ansi_light") if theme.ansi else "monokai" if theme.dark else "default"
        muted = (
            Style(dim=True)
            if background is None
            else Style(color=background.blend(Color.parse(values["foreground"]), 0.6).rich_color)
        )
        plus, minus = colored("text-success"), colored("text-error")
        return cls(
            Style(),
            muted,
            tint("primary", 0.25) + Style(bold=background is None or None),
            colored("text-primary", bold=True),
            colored("text-success"),
            colored("text-warning"),
            colored("text-error"),
            plus + tint("success", 0.12),
            minus + tint("error", 0.12),
            plus + tint("success", 0.4) + Style(bold=True),
            minus + tint("error", 0.4) + Style(bold=True),
            Style(reverse=True),
            Style(color="black", bgcolor="yellow", underline=background is None or None),
            Style(reverse=True)
            if background is None
            else Style(bgcolor=background.blend(Color.parse(values["primary"]), 0.5).rich_color),
            code,
        )


def uses_256_colors(app: App[Any]) -> bool:
    """Whether the terminal has 256 colours, among which rich would round a dark tint to a bright blue or to black."""
    return not app.is_headless and app.console.color_system == "256"


@cache
def nearest_color(color: Color) -> RichColor:
    """The most similar one of the 256 colours."""
    steps = (0, 95, 135, 175, 215, 255)
    known = [(r, g, b) for r in steps for g in steps for b in steps] + [(n, n, n) for n in range(8, 239, 10)]
    far = [sum((a - b) ** 2 for a, b in zip(color.rgb, other, strict=True)) for other in known]
    return RichColor.from_ansi(16 + far.index(min(far)))


class TextRenderer:
    """Turns text into strips of a width."""

    def __init__(self, styles: Styles) -> None:
        self.styles = styles
        accent = Style(color=styles.accent.color)
        theme = Theme(
            {
                "markdown.code": Style(color=styles.warn.color),
                "markdown.item.bullet": accent,
                "markdown.item.number": accent,
                "markdown.list": accent,
                "markdown.block_quote": styles.dim,
                "markdown.link": accent,
                "markdown.link_url": styles.dim,
                "markdown.table.border": styles.dim,
                "markdown.table.header": Style(bold=True),
                **{
                    f"markdown.h{n}": Style(bold=True, color=styles.accent.color, underline=n == 1) for n in range(1, 7)
                },
            }
        )
        self.console = Console(
            file=io.StringIO(),
            color_system="truecolor",
            force_terminal=True,
            legacy_windows=False,
            width=200,
            theme=theme,
            markup=False,
            highlight=False,
            emoji=False,
            no_color=False,
        )

    def wrap(self, text: Text, width: int) -> list[Strip]:
        """`text` wrapped between words."""
        lines = text.wrap(self.console, max(width, 1), tab_size=4, no_wrap=False, overflow="fold")
        return [self._strip(line) for line in lines]

    def line(self, text: Text, width: int) -> Strip:
        """`text` as one line, truncated with an ellipsis."""
        text = text.copy()
        text.truncate(max(width, 1), overflow="ellipsis")
        return self._strip(text)

    def _strip(self, text: Text) -> Strip:
        if not text.spans:  # without spans rich ignores the style of the text itself
            return Strip([Segment(text.plain, self.console.get_style(text.style))])
        return Strip([s for s in text.render(self.console) if s.text != "\n"])

    def hard(self, text: str, width: int, style: Style, *, most: int | None = None) -> list[Strip]:
        """Preformatted text, wrapped at the width, at most about `most` lines of it. A last line counts what is left out."""
        out: list[Strip] = []
        lines = text.split("\n")
        for number, raw in enumerate(lines):
            if most is not None and len(out) >= most:
                more = f"… {pluralize(len(lines) - number, 'more line')}"[:width]
                return [*out[:most], Strip([Segment(more, style)])]
            pieces = split_cells(raw[:LONGEST_LINE].expandtabs(4), width)
            left = len(raw) - LONGEST_LINE
            if left > 0:
                pieces.append(f"… {pluralize(left, 'more character')}"[:width])
            out += [Strip([Segment(piece, style)]) for piece in pieces]
        return out


def split_cells(line: str, width: int) -> list[str]:
    """Split a line into pieces of at most `width` cells, never within a character."""
    width = max(width, 2)
    if line.isascii():
        return [line[at : at + width] for at in range(0, len(line), width)] or [""]
    if cell_len(line) <= width:
        return [line]
    return chop_cells(line, width)


def indented(strips: Iterable[Strip], first: str, rest: str, style: Style) -> list[Strip]:
    """`strips` with a margin: `first` before the first, `rest` before the others."""
    out, margin = [], first
    for strip in strips:
        out.append(Strip([Segment(margin, style), *strip]))
        margin = rest
    return out


def filled(strips: Iterable[Strip], width: int, style: Style) -> list[Strip]:
    """`strips` padded to `width` cells, with `style` laid under them."""
    return [strip.adjust_cell_length(width).apply_style(style) for strip in strips]


def overlay(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """`strip` with a style laid over the characters from `start` up to `end`."""
    out: list[Segment] = []
    at = 0
    for text, own, _ in strip:
        a, b = max(start - at, 0), min(end - at, len(text))
        if a >= b:
            out.append(Segment(text, own))
        else:
            for piece, inside in ((text[:a], False), (text[a:b], True), (text[b:], False)):
                if piece:
                    out.append(Segment(piece, (own + style if own else style) if inside else own))
        at += len(text)
    return Strip(out)
