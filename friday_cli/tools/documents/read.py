"""Documents as text by page: PDFs in bounded time, each page once per process."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import io
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import msgspec

from friday_cli.core.protocol.errors import ToolError

if TYPE_CHECKING:
    from pypdf import PdfReader

T = TypeVar("T")

_KEPT_FILES = 8
GRACE_S = 5.0
"""Seconds beyond its limit that a reading gets to finish the page it is at."""


class Document(msgspec.Struct, frozen=True):
    """What could be read. For a PDF `pages` has the text by page number (from 1), and the others name pages without
    any text, pages that are broken, and pages there was no time for; for a text file all of it is page 0."""

    kind: str
    count: int
    pages: dict[int, str]
    empty: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()


class _PdfPages:
    """The page texts of one PDF read so far."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.texts: dict[int, str] = {}
        self.broken: set[int] = set()


_known: OrderedDict[str, _PdfPages] = OrderedDict()
_known_lock = threading.Lock()


def _pdf_of(data: bytes) -> _PdfPages:
    digest = hashlib.sha256(data).hexdigest()
    with _known_lock:
        pdf = _known.setdefault(digest, _PdfPages())
        _known.move_to_end(digest)
        while len(_known) > _KEPT_FILES:
            _known.popitem(last=False)
    return pdf


def read_pdf(data: bytes, *, pages: str = "", seconds: float, stop: threading.Event) -> Document:
    """The text of a PDF's pages, from memory where it was read before; blocks for at most about `seconds`.

    Raises ToolError when the file is damaged or encrypted, or `pages` is not in it.
    """
    end = monotonic() + seconds
    pdf = _pdf_of(data)
    if not pdf.lock.acquire(timeout=seconds):
        raise ToolError("the document is still being read by another call; ask again.")
    try:
        reader = None
        if not pdf.count:
            reader = _opened(data)
            pdf.count = _counted(reader)
        wanted = page_numbers(pages, pdf.count)
        for number in wanted:
            if number in pdf.texts or number in pdf.broken:
                continue
            if stop.is_set() or monotonic() > end:
                break
            reader = reader or _opened(data)
            try:
                pdf.texts[number] = reader.pages[number - 1].extract_text().strip("\n")
            except Exception:  # whatever a broken page makes the parser raise: the others can still be read
                pdf.broken.add(number)
    finally:
        pdf.lock.release()
    read = {n: pdf.texts[n] for n in wanted if n in pdf.texts}
    return Document(
        "PDF",
        pdf.count,
        {n: text for n, text in read.items() if text.strip()},
        tuple(n for n, text in read.items() if not text.strip()),
        tuple(n for n in wanted if n in pdf.broken),
        tuple(n for n in wanted if n not in read and n not in pdf.broken),
    )


def _opened(data: bytes) -> PdfReader:
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its warnings would land in the middle of a screen
    from pypdf import PdfReader

    reader = _guarded(lambda: PdfReader(io.BytesIO(data)))
    if reader.is_encrypted:
        try:
            readable = bool(reader.decrypt(""))
        except Exception:  # an unknown cipher, or one that needs a package that is not there
            readable = False
        if not readable:
            raise ToolError("the PDF is encrypted. Save a copy without a password (qpdf --decrypt in.pdf out.pdf).")
    return reader


def _counted(reader: PdfReader) -> int:
    count = _guarded(lambda: len(reader.pages))
    if not count:
        raise ToolError("the PDF has no pages; it may be damaged.")
    return count


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as error:  # damaged files make the parser raise anything
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise ToolError(f"the PDF cannot be read; it is damaged or no PDF: {said}.") from None


def page_numbers(text: str, count: int) -> list[int]:
    """The pages that `3`, `10-20,31` or `290-` name, in order; all `count` when empty. Raises ToolError."""
    if not text.strip():
        return list(range(1, count + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})\s*(?:([-–])\s*(\d{1,6})?)?\s*", part)
        if match is None:
            raise ToolError(f"pages: {text!r} is not a list of pages; write 3 or 10-20,31.")
        first = int(match[1])
        last = int(match[3]) if match[3] else count if match[2] else first
        if not 1 <= first <= last or first > count:
            raise ToolError(f"pages: {part.strip()!r} is not in the document, which has pages 1-{count}.")
        found.update(range(first, min(last, count) + 1))
    return sorted(found)


def read_text(data: bytes, name: str) -> Document:
    """A text file as a document. Raises ToolError for binary data."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:8192]:
        raise ToolError("not a PDF and not text; convert it to PDF or text first.")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("cp1252", "replace")
    markdown = name.lower().endswith((".md", ".markdown", ".mdx"))
    return Document("Markdown" if markdown else "text", 1, {0: text.replace("\r\n", "\n")})


async def aside(work: Callable[[threading.Event], T], *, seconds: float) -> T:
    """Run `work` in a thread that the program need not wait for; its event is set when nobody waits any more.

    Raises TimeoutError after `seconds`.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    stop = threading.Event()

    def deliver(settle: Callable[[], None]) -> None:
        if not future.done():
            settle()

    def body() -> None:
        try:
            settle = partial(future.set_result, work(stop))
        except Exception as error:  # whatever it is, it is raised where the result is waited for
            settle = partial(future.set_exception, error)
        try:
            loop.call_soon_threadsafe(deliver, settle)
        except RuntimeError:
            pass  # the loop is gone, and with it whoever asked

    threading.Thread(target=body, name="friday-document", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            return await future
    finally:
        stop.set()


async def pdf_text(data: bytes, *, timeout_s: float = 30.0) -> str:
    """The text of a whole PDF with a mark before each page. Raises ToolError where there is none to read."""
    try:
        document = await aside(lambda stop: read_pdf(data, seconds=timeout_s, stop=stop), seconds=timeout_s + GRACE_S)
    except TimeoutError:
        raise ToolError(f"the PDF could not be read within {timeout_s:g} s.") from None
    if not document.pages:
        raise ToolError(f"no text in the PDF ({gaps(document)}).")
    pages = "\n\n".join(f"--- page {n} of {document.count} ---\n{text}" for n, text in document.pages.items())
    missing = gaps(document)
    return f"{pages}\n\n({missing})" if missing else pages


def gaps(document: Document) -> str:
    """What was not searched, in words; "" when all of it was."""
    found = []
    if document.empty:
        found.append(f"Pages without text (scanned or pictures only, not searched): {spans(document.empty)}")
    if document.broken:
        found.append(f"Damaged pages (not searched): {spans(document.broken)}")
    if document.unread:
        found.append(f"No time was left for pages {spans(document.unread)}; the same call again goes on from there")
    return ". ".join(found)


def spans(numbers: Iterable[int]) -> str:
    """Numbers as ranges: `4, 9-12`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
