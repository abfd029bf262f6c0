"""The tool `document_query`: exact quotes from long documents, with page or line numbers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from friday_cli.core.protocol.call_arguments import PATH_ALIASES, ToolArguments
from friday_cli.core.protocol.displays import TableDisplay, TextDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.text.untrusted import neutralize, wrap_untrusted
from friday_cli.core.tool_catalog import TOOLS

from .read import GRACE_S, Document, gaps, pdf_text, read_pdf, read_text, run_in_thread, spans

__all__ = ["document_tool", "pdf_text"]

_PAGE_CHARS = 20_000


class QueryArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {**PATH_ALIASES, "question": "query"}
    path: Annotated[str, Meta(min_length=1)]
    query: Annotated[
        str,
        Meta(max_length=500, description='Words of the passage, "exact phrases". Empty: all text of `pages` (PDF).'),
    ] = ""
    pages: Annotated[str, Meta(max_length=200, description="Of a PDF: 3 or 10-20,31.")] = ""
    max_quotes: Annotated[int, Meta(ge=1, le=20)] = 6


def document_tool(*, timeout_s: float = 60.0, max_bytes: int = 100_000_000) -> Tool:
    """The tool `document_query`. Limits: `max_bytes` of a document, and about `timeout_s` seconds."""

    async def run(ctx: ToolContext, args: QueryArguments) -> Output:
        path = ctx.workspace.resolve(args.path)
        label = ctx.workspace.label(path)
        shown = neutralize(label).replace("\n", " ")
        data = await ctx.workspace.read(path, limit=max_bytes + 1)
        if len(data) > max_bytes:
            raise ToolError(f"{shown}: larger than {max_bytes // 1_000_000} MB. Split it, or use grep for text.")

        def work(stop: threading.Event) -> Output:
            return _answer(data, path, shown, args, timeout_s, stop)

        try:
            found = await run_in_thread(work, seconds=timeout_s + GRACE_S)
        except TimeoutError:
            raise ToolError(f"{shown}: reading took longer than {timeout_s:g} s. Request fewer `pages`.") from None
        except ToolError as error:
            raise ToolError(f"{shown}: {error}") from None
        return msgspec.structs.replace(found, facts=ToolFacts(read=(label,)))

    return Tool(
        run,
        TOOLS["document_query"],
        args=QueryArguments,
        title=lambda args: f"{args.path}: {args.query or 'pages ' + args.pages}",
        description=(
            "Find passages in a PDF, Markdown or text document: exact quotes with page or lines. For long "
            "documents, every PDF, and to quote. It matches words, not meaning: try others before you conclude "
            "that something is missing. Scanned pages are only listed."
        ),
    )


def _answer(data: bytes, path: Path, label: str, args: QueryArguments, seconds: float, stop: threading.Event) -> Output:
    from .find import passages, ranked

    pdf = b"%PDF-" in data[:1024]
    if not pdf and path.suffix.lower() == ".pdf":
        raise ToolError("its content is not a PDF: it is damaged or incomplete.")
    if not pdf and (args.pages.strip() or not args.query.strip()):
        raise ToolError("`pages` is for PDFs only." if args.pages.strip() else "give a `query`, or use read_file.")
    if not args.query.strip() and not args.pages.strip():
        raise ToolError("give a `query`, or `pages` to read.")
    document = read_pdf(data, pages=args.pages, seconds=seconds, stop=stop) if pdf else read_text(data, path.name)
    size = f"PDF, {document.count} pages" if pdf else f"{document.kind}, {document.pages[0].count(chr(10)) + 1} lines"
    missing = gaps(document)
    if not document.pages:
        advice = " Scanned pages need OCR first (ocrmypdf in.pdf out.pdf)." if document.empty else ""
        return Output(f"{label} ({size}): no text to search. {missing}.{advice}", TextDisplay(missing), error=True)
    if not args.query.strip():
        return _pages(document, label, size, missing)
    best = ranked(passages(document), args.query)
    quotes = best[: args.max_quotes]
    if not quotes:
        text = f"{label} ({size}): no passage contains any of these words. Try other words."
        return Output(f"{text}\n{missing}." if missing else text, TextDisplay("no match"))
    listed = "\n\n".join(f"[{n}] {quote.place}\n{quote.text}" for n, quote in enumerate(quotes, 1))
    lines = [f"{label} ({size}): {len(quotes)} of {len(best)} matching passages:"]
    lines.append(wrap_untrusted(listed, source=label))
    if missing:
        lines.append(f"{missing}.")
    rows = tuple((quote.place, " ".join(quote.text.split())[:200]) for quote in quotes)
    return Output("\n".join(lines), TableDisplay(("place", "quote"), rows))


def _pages(document: Document, label: str, size: str, missing: str) -> Output:
    """The text of the selected pages, truncated to _PAGE_CHARS."""
    whole = "\n\n".join(f"[page {n}]\n{text}" for n, text in document.pages.items())
    lines = [f"{label} ({size}):", wrap_untrusted(whole[:_PAGE_CHARS], source=label)]
    if len(whole) > _PAGE_CHARS:
        lines.append(f"Truncated: {_PAGE_CHARS} of {len(whole)} characters. Request fewer pages.")
    if missing:
        lines.append(f"{missing}.")
    return Output("\n".join(lines), TextDisplay(f"pages {spans(document.pages)}"))


def tools() -> list[Tool]:
    """The tools of this family."""
    return [document_tool()]
