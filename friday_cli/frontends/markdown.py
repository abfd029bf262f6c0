"""Markdown on a terminal, for all frontends: no letter of a text is left out.

Raw HTML is text, a reference definition (`[1]: URL`) stays where it is, links and images show their addresses and titles.
What a drawing would still leave out, such as text nested too deeply for the width, is found by `leaves_out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, TableElement
from rich.table import Table
from rich.text import Text

IMAGE = "🌆 "
"""Before the description of an image."""


class _Parser(MarkdownIt):
    def normalizeLink(self, url: str) -> str:
        """The address as it was written: the letters of an encoded one could not be read."""
        return url


@cache
def parser() -> MarkdownIt:
    """A parser that keeps all letters of a text in its tokens; callers must not change it."""
    return make_parser()


def make_parser() -> MarkdownIt:
    """As `parser`, a new one to which rules can be added."""
    made = _Parser("commonmark", {"html": False}).enable("strikethrough").enable("table").disable("reference")
    made.core.ruler.push("addresses", _spell_addresses)
    return made


def _spell_addresses(state: StateCore) -> None:
    for token in state.tokens:
        if token.children:
            token.children = list(_with_addresses(token.children))


def _with_addresses(tokens: Iterable[Token]) -> Iterator[Token]:
    """Tokens in which images are links, and the titles of links are part of their addresses."""
    for token in tokens:
        title = f' "{token.attrs["title"]}"' if token.attrs.get("title") else ""
        if token.type == "image":
            yield Token("link_open", "a", 1, attrs={"href": f"{token.attrs['src']}{title}"})
            yield Token("text", "", 0, content=IMAGE)
            yield from _with_addresses(token.children or ())
            yield Token("link_close", "a", -1)
            continue
        if token.type == "link_open" and title:
            token.attrs["href"] = f"{token.attrs['href']}{title}"
        yield token


class LabelledCode(CodeBlock):
    """A code block below its info string, such as the name of its language."""

    label = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> LabelledCode:
        made = super().create(markdown, token)
        assert isinstance(made, LabelledCode)
        made.label = token.info.strip()
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.label:
            yield Text(self.label, style="dim")
        yield from super().__rich_console__(console, options)


class FoldedTable(TableElement):
    """A table that wraps what is too long for a column: truncated, its end could not be read."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            for column in table.columns:
                column.overflow = "fold"
            yield table


class MarkdownDocument(Markdown):
    """Parsed Markdown for a `rich` console. `code_theme` is a theme of Pygments."""

    elements = {  # noqa: RUF012
        **Markdown.elements,
        "fence": LabelledCode,
        "code_block": LabelledCode,
        "table_open": FoldedTable,
    }

    def __init__(self, tokens: list[Token], code_theme: str = "monokai") -> None:
        # only what drawing reads: the base class would make a parser for every document
        self.parsed, self.style, self.hyperlinks, self.justify = tokens, "none", False, None
        self.code_theme = self.inline_code_theme = code_theme
        self.inline_code_lexer = None


def leaves_out(source: str, drawn: str) -> bool:
    """Whether letters of `source` are missing in the text that was `drawn`. The names of
    entities that were replaced do not count."""
    shown = _letters(drawn)
    if not _letters(source) - shown:
        return False
    from html import unescape  # takes 5 ms

    return "&" not in source or bool(_letters(unescape(source)) - shown)


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalpha, text))
