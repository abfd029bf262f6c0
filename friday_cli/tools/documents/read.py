"""Extracts the text of documents by page. PDFs are read with a time limit, and cached per process."""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import io
import logging
import re
import threading
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import msgspec

from friday_cli.core.protocol.errors import ToolError

if TYPE_CHECKING:
    from pypdf import PdfReader

T = TypeVar("T")

_CACHED_FILES = 8
GRACE_S = 5.0
"""Extra seconds to finish the current page after the time limit."""


class Document(msgspec.Struct, frozen=True):
    """The text of a document. `pages`: text by page number, from 1; a text file is page 0. `empty`, `broken`, `unread`:
    page numbers without text, with errors, and not read in time."""

    kind: str
    count: int
    pages: dict[int, str]
    empty: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()


class _PdfPages:
    """The texts of the pages of one PDF that were read so far."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.texts: dict[int, str] = {}
        self.broken: set[int] = set()


_cache = lru_cache(maxsize=_CACHED_FILES)(lambda digest: _PdfPages())
_cache_lock = threading.Lock()


def read_pdf(data: bytes, *, pages: str = "", seconds: float, stop: threading.Event) -> Document:
    """The text of the pages of a PDF, from the cache if possible; blocks for about `seconds` at most. `stop`: set to
    end early. Raises ToolError if the file is damaged or encrypted, or has no such `pages`."""
    end = monotonic() + seconds
    with _cache_lock:
        pdf = _cache(hashlib.sha256(data).hexdigest())
    if not pdf.lock.acquire(timeout=seconds):
        raise ToolError("another call is still reading the document. Try again.")
    try:
        reader = None
        if not pdf.count:
            reader = opened = _open_pdf(data)
            pdf.count = _parse(lambda: len(opened.pages))
            if not pdf.count:
                raise ToolError("the PDF has no pages; it may be damaged.")
        wanted = page_numbers(pages, pdf.count)
        for number in wanted:
            if number in pdf.texts or number in pdf.broken:
                continue
            if stop.is_set() or monotonic() > end:
                break
            reader = reader or _open_pdf(data)
            try:
                pdf.texts[number] = reader.pages[number - 1].extract_text().strip("\n")
            except Exception:  # the parser raises anything on a broken page; the other pages are still readable
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


def _open_pdf(data: bytes) -> PdfReader:
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its warnings would disturb the terminal
    from pypdf import PdfReader

    reader = _parse(lambda: PdfReader(io.BytesIO(data)))
    if reader.is_encrypted:
        try:
            readable = bool(reader.decrypt(""))
        except Exception:  # an unknown cipher, or one that needs another package
            readable = False
        if not readable:
            raise ToolError("the PDF is encrypted. Save a copy without a password (qpdf --decrypt in.pdf out.pdf).")
    return reader


def _parse(work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as error:  # the parser raises anything on damaged files
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise ToolError(f"the PDF cannot be read; it is damaged or not a PDF: {detail}.") from None


def page_numbers(text: str, count: int) -> list[int]:
    """Parse `3`, `10-20,31` or `290-` into sorted page numbers; all `count` pages if empty. Raises ToolError."""
    if not text.strip():
        return list(range(1, count + 1))
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})\s*(?:([-–])\s*(\d{1,6})?)?\s*", part)
        if match is None:
            raise ToolError(f"pages: {text!r} is not a list of pages. Example: 3 or 10-20,31.")
        first = int(match[1])
        last = int(match[3]) if match[3] else count if match[2] else first
        if not 1 <= first <= last or first > count:
            raise ToolError(f"pages: {part.strip()!r} is not in the document, which has pages 1-{count}.")
        found.update(range(first, min(last, count) + 1))
    return sorted(found)


def read_text(data: bytes, name: str) -> Document:
    """Read a text file as a document. Raises ToolError for binary data."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data[:8192]:
        raise ToolError("neither PDF nor text. Convert it to PDF or text first.")
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("cp1252", "replace")
    markdown = name.lower().endswith((".md", ".markdown", ".mdx"))
    return Document("Markdown" if markdown else "text", 1, {0: text.replace("\r\n", "\n")})


async def run_in_thread(work: Callable[[threading.Event], T], *, seconds: float) -> T:
    """Run `work(stop)` in a daemon thread, so that it cannot delay the exit of the process. `stop` is set when the
    caller no longer waits. Raises TimeoutError after `seconds`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    stop = threading.Event()

    def deliver(settle: Callable[[], None]) -> None:
        if not future.done():
            settle()

    def body() -> None:
        try:
            settle = partial(future.set_result, work(stop))
        except Exception as error:  # re-raised in the caller
            settle = partial(future.set_exception, error)
        try:
            loop.call_soon_threadsafe(deliver, settle)
        except RuntimeError:
            pass  # the loop is closed

    threading.Thread(target=body, name="friday-document", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            return await future
    finally:
        stop.set()


async def pdf_text(data: bytes, *, timeout_s: float = 30.0) -> str:
    """The text of a whole PDF with a marker before each page. Raises ToolError if it has no readable text."""
    try:
        document = await run_in_thread(
            lambda stop: read_pdf(data, seconds=timeout_s, stop=stop), seconds=timeout_s + GRACE_S
        )
    except TimeoutError:
        raise ToolError(f"reading the PDF took longer than {timeout_s:g} s.") from None
    if not document.pages:
        raise ToolError(f"no text in the PDF ({gaps(document)}).")
    pages = "\n\n".join(f"--- page {n} of {document.count} ---\n{text}" for n, text in document.pages.items())
    missing = gaps(document)
    return f"{pages}\n\n({missing})" if missing else pages


def gaps(document: Document) -> str:
    """A sentence about the pages that were not searched, or ""."""
    found = (
        (document.empty, "Pages without text (scanned, not searched): {}"),
        (document.broken, "Damaged pages (not searched): {}"),
        (document.unread, "Not read in time: pages {}. Repeat the call to continue"),
    )
    return ". ".join(text.format(spans(pages)) for pages, text in found if pages)


def spans(numbers: Iterable[int]) -> str:
    """Format numbers as ranges: `4, 9-12`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
