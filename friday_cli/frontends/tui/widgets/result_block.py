"""The end of a sub-agent's run in a transcript: its result as Markdown, and what the harness knows of it.

The lines of this evidence are the findings with their marks, the warnings, and the receipt, which folds to one line.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.strip import Strip

from friday_cli.core.protocol.receipt import Finding, Receipt
from friday_cli.core.text.sanitize import sanitize, sanitize_line
from friday_cli.view import ResultItem, finding_text

from .blocks import Block, RenderContext
from .styles import TextRenderer, indented


class ResultBlock(Block):
    """A result, its findings and warnings, and the receipt; only the receipt folds."""

    def __init__(self, context: RenderContext, item: ResultItem) -> None:
        super().__init__(context)
        self._item = item
        self._receipt_at = 0
        """The line at which the receipt begins."""

    def text(self) -> str:
        item = self._item
        rows = [item.text, *map(finding_text, item.findings), *item.receipt.warnings]
        return "\n".join([row for row in rows if row] + [self._receipt_text(self.open)])

    def folded_text(self) -> str:
        return self._receipt_text(True)

    def _receipt_text(self, open_: bool) -> str:
        receipt = self._item.receipt
        return "\n".join(receipt.lines()) if open_ else receipt.short()

    def matches(self, what: str) -> bool:
        return what == "error" and bool(self._item.receipt.warnings)

    def _folds_at(self, at: int) -> bool:
        return at == 0 or at >= self._receipt_at

    def _draw(self, renderer: TextRenderer, width: int) -> list[Strip]:
        item = self._item
        out = draw_result(item.text, renderer, width)
        out += draw_findings(item.findings, renderer, width)
        out += draw_warnings(item.receipt, renderer, width)
        self._receipt_at = len(out)
        return out + draw_receipt(item.receipt, self.open, renderer, width)


def draw_result(text: str, renderer: TextRenderer, width: int) -> list[Strip]:
    """The whole text of a result, as Markdown."""
    from . import markdown  # takes 30 ms; the first screen does not need it

    return markdown.draw(text, renderer, width)


def draw_findings(findings: Sequence[Finding], renderer: TextRenderer, width: int) -> list[Strip]:
    """Each finding with its mark: whether the harness saw the evidence."""
    styles = renderer.styles
    out = []
    for finding in findings:
        mark, style = ("· ", styles.dim) if finding.seen else ("! ", styles.warn)
        text = Text(sanitize_line(finding_text(finding), 2_000))
        text.stylize(styles.ok if finding.seen else styles.warn, 0, text.plain.index("]") + 1)
        out += indented(renderer.wrap(text, width - 2), mark, "  ", style)
    return out


def draw_warnings(receipt: Receipt, renderer: TextRenderer, width: int) -> list[Strip]:
    """The warnings of a receipt, in full."""
    style = renderer.styles.warn
    texts = (Text(sanitize_line(warning, 2_000), style=style) for warning in receipt.warnings)
    return [strip for text in texts for strip in indented(renderer.wrap(text, width - 2), "! ", "  ", style)]


def draw_receipt(receipt: Receipt, open_: bool, renderer: TextRenderer, width: int) -> list[Strip]:
    """A receipt as one line, or unfolded with one line for each fact. The warnings are drawn by `draw_warnings`."""
    style = renderer.styles.dim
    head = renderer.line(Text(f"{'▾' if open_ else '▸'} {sanitize_line(receipt.short(), 1_000)}", style=style), width)
    rows = receipt.facts() if open_ else []
    lines = [strip for row in rows for strip in renderer.wrap(Text(sanitize(row), style=style), width - 2)]
    return [head, *indented(lines, "  ", "  ", style)]
