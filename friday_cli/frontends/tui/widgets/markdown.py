"""Markdown as strips: `draw` for a whole text, `GrowingMarkdown` for one that is being written.

The finished blocks of a growing text are drawn once. Only its last block is parsed again.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, HorizontalRule
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from textual.strip import Strip

from friday_cli.core.text.sanitize import sanitize
from friday_cli.system.ascii_signs import is_linux_console

from ...markdown import FoldedTable, LabelledCode, MarkdownDocument, leaves_out, make_parser
from .row_search import URL, find_in_rows, pattern_for
from .styles import TextRenderer, overlay

LONGEST = 200_000
"""Longest text parsed as Markdown, in characters; a longer one is shown as it is."""
LINES, ROWS = 1_000, 400
"""Most lines, and most table rows, parsed as Markdown: more would block the screen for over 100 ms."""
LINKS = 50
"""Most links of one block."""
HIGHLIGHTED = 20_000
"""Longest code block that is coloured, in characters."""


@cache
def _parser() -> MarkdownIt:
    parser = make_parser()
    parser.core.ruler.push("line_ends", _keep_line_ends)
    return parser


def _keep_line_ends(state: StateCore) -> None:
    """Keep the line ends of the model: models write lists without markers, and do not wrap paragraphs."""
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"


class _CodeElement(LabelledCode):
    """Code on the background of the page, with a margin in place of a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.label:
            yield Text(self.label, style="dim")
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
                    yield Segment(text, style and _without_background(style))
                yield Segment.line()


def highlighted(code: str, path: str, renderer: TextRenderer) -> list[Text]:
    """The lines of a program in the colours of its language, which its path tells; without colours for an unknown one."""
    lexer = _lexer_of(path.rpartition("/")[2])
    syntax = Syntax("", lexer, theme=renderer.styles.code, background_color="default")
    if lexer == "default":
        return list(map(Text, code.split("\n")))
    text = syntax.highlight(code)
    text.spans = [
        span._replace(style=_without_background(span.style) if isinstance(span.style, Style) else span.style)
        for span in text.spans
    ]
    text.style = ""
    lines = list(text.split("\n", allow_blank=True))
    return lines[: code.count("\n") + 1]


@lru_cache(64)
def _lexer_of(name: str) -> str:
    return Syntax.guess_lexer(name)


@lru_cache(256)
def _without_background(style: Style) -> Style:
    return Style(color=style.color, bold=style.bold, italic=style.italic)


class _TableElement(FoldedTable):
    """A table without blank rows above and below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            table.show_edge = False
            yield table


class _RuleElement(HorizontalRule):
    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.table.border")


class _HeadingElement(Heading):
    LEVEL_ALIGN = {}  # noqa: RUF012 - all to the left


class _ChatDocument(MarkdownDocument):
    elements = {  # noqa: RUF012
        **MarkdownDocument.elements, "fence": _CodeElement, "code_block": _CodeElement, "heading_open": _HeadingElement,
        "table_open": _TableElement, "hr": _RuleElement,
    }  # fmt: skip


def draw(text: str, renderer: TextRenderer, width: int, grown: GrowingMarkdown | None = None) -> list[Strip]:
    """Draw a whole text, sanitized first. `grown` holds what was drawn while it was written."""
    text = sanitize(text)
    if not text.strip():
        return []
    if _is_too_large(text):
        return renderer.hard(text.strip("\n"), width, renderer.styles.text)
    if grown is not None:
        return grown.strips(text, renderer, width)
    return _draw_tokens(_parser().parse(text), text.split("\n"), renderer, width)


def _draw_tokens(tokens: list[Token], lines: list[str], renderer: TextRenderer, width: int) -> list[Strip]:
    """Blocks with one blank line between them; one that cannot be drawn completely is shown as it is. `lines` are those
    of the text from which all tokens were parsed."""
    options = renderer.console.options.update(width=max(width, 4))
    starts = _starts(tokens)
    out: list[Strip] = []
    for begin, end in pairwise([*starts, len(tokens)]):
        document = _ChatDocument(tokens[begin:end], renderer.styles.code)
        drawn = renderer.console.render_lines(document, options, pad=False)
        strips = [Strip(_without_padding(line)) for line in drawn]
        source = _source(tokens, begin, end, lines)
        if leaves_out(source, "".join(strip.text for strip in strips)):
            strips = renderer.hard(source.strip("\n"), width, renderer.styles.text)
        while strips and not strips[-1].text.strip():
            strips.pop()
        while strips and not strips[0].text.strip():
            strips.pop(0)
        out += [Strip.blank(0)] if out and strips else []
        out += _with_links(strips, source) if "://" in source else strips
    return out


def _with_links(strips: list[Strip], source: str) -> list[Strip]:
    """Strips whose web addresses are links of the terminal (OSC 8), also where an address goes on in the next row."""
    if not _shows_links():
        return strips
    rows = [strip.text for strip in strips]
    addresses = dict.fromkeys(url.rstrip(".,;:!?)") for url in URL().findall(source))
    for url in sorted(addresses, key=len)[:LINKS]:  # the longer of two that begin alike wins
        for pieces in find_in_rows(rows, pattern_for(url)):
            for row, start, end in pieces:
                strips[row] = overlay(strips[row], start, end, Style(link=url))
    return strips


@cache
def _shows_links() -> bool:
    """Whether the terminal may understand links; one that does not know them shows the text alone."""
    return not is_linux_console(os.environ) and os.environ.get("TERM", "dumb") != "dumb"


def _source(tokens: list[Token], begin: int, end: int, lines: list[str]) -> str:
    """The lines of the block of the tokens from `begin` to `end`."""
    first, after = tokens[begin].map, tokens[end].map if end < len(tokens) else None
    return "\n".join(lines[first[0] if first else 0 : after[0] if after else None])


def _without_padding(line: list[Segment]) -> list[Segment]:
    """A line without trailing blanks and control segments."""
    while line and not line[-1].text.strip() and not (line[-1].style and line[-1].style.bgcolor):
        line = line[:-1]
    return [segment for segment in line if not segment.control]


def _is_too_large(text: str) -> bool:
    """Whether parsing the text as Markdown would take too long."""
    if len(text) < ROWS * 2:
        return False
    if len(text) > LONGEST:
        return True
    lines = text.split("\n")
    return len(lines) > LINES or sum("|" in line for line in lines) > ROWS or max(map(len, lines)) > 20_000


class GrowingMarkdown:
    """A text that grows at its end. Blocks that can no longer change are drawn once."""

    def __init__(self) -> None:
        self._finished = ""
        self._strips: list[Strip] = []
        self._drawn_for: tuple[int, int] = (0, 0)

    def strips(self, text: str, renderer: TextRenderer, width: int) -> list[Strip]:
        """Draw `text`. It continues the text of the last call, or is drawn from its beginning."""
        text = sanitize(text)
        if self._drawn_for != (width, id(renderer)) or not text.startswith(self._finished):
            self._finished, self._strips, self._drawn_for = "", [], (width, id(renderer))
        tail = text[len(self._finished) :]
        tokens, lines = (_parser().parse(tail) if _has_blocks(tail) else []), tail.split("\n")
        last = _starts(tokens)[-1] if tokens else 0  # later text cannot change the blocks before it
        if last and (rows := tokens[last].map):
            cut = sum(len(line) + 1 for line in lines[: rows[0]])
            strips = self._part(tail[:cut], tokens[:last], lines[: rows[0]], renderer, width)
            self._strips += [Strip.blank(0), *strips] if strips and self._strips else strips
            self._finished, tail, tokens = text[: len(self._finished) + cut], tail[cut:], tokens[last:]
        rest = self._part(tail, tokens, lines, renderer, width)
        gap = [Strip.blank(0)] if rest and self._strips else []
        return [*self._strips, *gap, *rest]

    def _part(
        self, text: str, tokens: list[Token], lines: list[str], renderer: TextRenderer, width: int
    ) -> list[Strip]:
        """Draw some blocks; `tokens` are empty if they were not parsed. `lines`: see `_draw_tokens`."""
        if tokens and not _is_too_large(text):
            return _draw_tokens(tokens, lines, renderer, width)
        return draw(text, renderer, width)


def _has_blocks(text: str) -> bool:
    """A quick check whether there may be more than one block."""
    return len(text) <= LONGEST and ("\n\n" in text or "\n```" in text or "\n#" in text)


def _starts(tokens: list[Token]) -> list[int]:
    """The indexes of the tokens that begin blocks."""
    return [at for at, token in enumerate(tokens) if token.level == 0 and token.nesting >= 0]
