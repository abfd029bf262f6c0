"""Markdown as strips. Settled blocks of a text that grows are drawn once; only its tail is read again.

Interface: `draw(text, pen, width)` for a whole text, `Growing` for one that is being written.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, HorizontalRule, Markdown, TableElement
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from textual.strip import Strip

from friday_cli.core.text.sanitize import sanitize

from .styles import TextRenderer

LONGEST = 200_000
"""Characters that are read as Markdown; a longer text is shown as it is."""
LINES, ROWS = 1_000, 400
"""Lines, and of these rows of tables, that are read as Markdown: more would hold the screen up for over 100 ms."""
HIGHLIGHTED = 20_000
"""Characters of a code block that are coloured."""


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").enable("table")
    parser.core.ruler.push("line_ends", _keep_lines)
    return parser


def _keep_lines(state: StateCore) -> None:
    """A line that the model ended is ended: models write lists without marks, and wrap no paragraphs."""
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


class _CodeElement(CodeBlock):
    """Code on the paper of the page, with a margin in place of a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        lexer = self.lexer_name if len(code) <= HIGHLIGHTED else "text"
        syntax = Syntax(code, lexer, theme=self.theme, word_wrap=True, background_color="default")
        width = max(options.max_width - 2, 1)
        for line in syntax.highlight(code).split("\n"):
            line.expand_tabs(4)
            fits = line.cell_len <= width
            for piece in [line] if fits else line.wrap(console, width, justify="left", overflow="fold"):
                yield Segment("  ")
                for text, style, _ in piece.render(console):
                    yield Segment(text, style and _ink(style))
                yield Segment.line()


@lru_cache(256)
def _ink(style: Style) -> Style:
    """A style without its paper."""
    return Style(color=style.color, bold=style.bold, italic=style.italic)


class _TableElement(TableElement):
    """Without the blank rows above and below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            table.show_edge = False
            for column in table.columns:
                column.overflow = "fold"  # a long path goes on in the next line; cut, its end could not be read
            yield table


class _RuleElement(HorizontalRule):
    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.table.border")


class _HeadingElement(Heading):
    LEVEL_ALIGN = {}  # noqa: RUF012 - all to the left


class _MarkdownDocument(Markdown):
    elements = {  # noqa: RUF012
        **Markdown.elements, "fence": _CodeElement, "code_block": _CodeElement, "heading_open": _HeadingElement, "table_open": _TableElement, "hr": _RuleElement,
    }  # fmt: skip

    def __init__(self, tokens: list[Token], code_theme: str) -> None:
        # all that drawing reads: the class's own beginning makes a parser, for every page
        self.parsed, self.style, self.hyperlinks, self.justify = tokens, "none", False, None
        self.code_theme = self.inline_code_theme = code_theme
        self.inline_code_lexer = None


def draw(text: str, pen: TextRenderer, width: int, grown: GrowingMarkdown | None = None) -> list[Strip]:
    """A whole text; it is made plain first. `grown` has its beginning, drawn while it was written."""
    text = sanitize(text)
    if not text.strip():
        return []
    if _has_monster(text):
        return pen.hard(text.strip("\n"), width, pen.look.text)
    if grown is not None:
        return grown.strips(text, pen, width)
    return _drawn(_parser().parse(text), pen, width)


def _drawn(tokens: list[Token], pen: TextRenderer, width: int) -> list[Strip]:
    """Blocks with a blank line between each two, however they came here: together, or one after the other."""
    options = pen.console.options.update(width=max(width, 4))
    starts = _starts(tokens)
    out: list[Strip] = []
    for begin, end in pairwise([*starts, len(tokens)]):
        lines = pen.console.render_lines(_MarkdownDocument(tokens[begin:end], pen.look.code), options, pad=False)
        strips = [Strip(_tidy(line)) for line in lines]
        while strips and not strips[-1].text.strip():
            strips.pop()
        while strips and not strips[0].text.strip():
            strips.pop(0)
        out += [Strip.blank(0)] if out and strips else []
        out += strips
    return out


def _tidy(line: list[Segment]) -> list[Segment]:
    """A line without the blanks that only fill it."""
    while line and not line[-1].text.strip() and not (line[-1].style and line[-1].style.bgcolor):
        line = line[:-1]
    return [segment for segment in line if not segment.control]


def _has_monster(text: str) -> bool:
    """Whether reading it as Markdown would take too long."""
    if len(text) < ROWS * 2:
        return False
    if len(text) > LONGEST:
        return True
    lines = text.split("\n")
    return len(lines) > LINES or sum("|" in line for line in lines) > ROWS or max(map(len, lines)) > 20_000


class GrowingMarkdown:
    """A text that grows at its end. `strips` gives all of it; what cannot change any more is drawn once."""

    def __init__(self) -> None:
        self._done = ""
        self._strips: list[Strip] = []
        self._shape: tuple[int, int] = (0, 0)

    def strips(self, text: str, pen: TextRenderer, width: int) -> list[Strip]:
        """The strips of `text`, which continues what was given before (or begins anew)."""
        text = sanitize(text)
        if self._shape != (width, id(pen)) or not text.startswith(self._done):
            self._done, self._strips, self._shape = "", [], (width, id(pen))
        tail = text[len(self._done) :]
        tokens = _parser().parse(tail) if _has_blocks(tail) else []
        last = _starts(tokens)[-1] if tokens else 0  # nothing that follows can change the blocks before it
        if last and tokens[last].map:
            cut = _offset(tail, tokens[last].map)
            self._add(self._part(tail[:cut], tokens[:last], pen, width))
            self._done, tail, tokens = text[: len(self._done) + cut], tail[cut:], tokens[last:]
        rest = self._part(tail, tokens, pen, width)
        gap = [Strip.blank(0)] if rest and self._strips else []
        return [*self._strips, *gap, *rest]

    def _part(self, text: str, tokens: list[Token], pen: TextRenderer, width: int) -> list[Strip]:
        """Some blocks; `tokens` are theirs where they have been read."""
        return _drawn(tokens, pen, width) if tokens and not _has_monster(text) else draw(text, pen, width)

    def _add(self, strips: list[Strip]) -> None:
        if strips and self._strips:
            self._strips.append(Strip.blank(0))
        self._strips += strips


def _has_blocks(text: str) -> bool:
    """Whether there may be more than one block, as far as can be told at a glance."""
    return len(text) <= LONGEST and ("\n\n" in text or "\n```" in text or "\n#" in text)


def _starts(tokens: list[Token]) -> list[int]:
    """Where blocks begin, in tokens."""
    return [at for at, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]


def _offset(text: str, lines: list[int] | None) -> int:
    """How many characters stand before the lines of a block."""
    at = 0
    for _ in range(lines[0] if lines else 0):
        at = text.index("\n", at) + 1
    return at
