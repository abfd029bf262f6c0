"""Converts the body of a page to text: decodes it, and converts HTML to Markdown."""

from __future__ import annotations

import codecs
import html
import re
import time
from html.parser import HTMLParser
from urllib.parse import urljoin

_PARSE_S = 3.0
"""Seconds after which the plain HTML parser stops."""
_SLOW_CODECS = frozenset(("punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined"))


def decoded(body: bytes, content_type: str) -> str:
    """Decode a body by its byte order mark, else the charset of the header, of the page, UTF-8, Windows-1252."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            return body.decode(name, "replace")
    named = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", content_type, re.I)
    declared = re.search(rb"<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", body[:4096], re.I)
    for name in (named[1] if named else "", declared[1].decode("ascii") if declared else ""):
        try:
            if name and codecs.lookup(name).name not in _SLOW_CODECS:
                return body.decode(name, "replace")
        except (LookupError, ValueError):
            continue  # not a text encoding
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        truncated = error.reason == "unexpected end of data"  # the size limit cut a character
        return body.decode("utf-8" if truncated else "cp1252", "replace")


def markdown(page: str, *, url: str) -> str:
    """HTML as Markdown, with absolute links and without scripts, hidden text and `data:` URIs."""
    page = re.sub(r"(?i)\0|<!doctype[^<>]{0,1000}>?", "", page)  # many doctypes make the converter very slow
    converted = ""
    try:
        from html_to_markdown import ConversionOptions, convert

        options = ConversionOptions(base_url=url, extract_metadata=False, inline_data_media="alt_text_only")
        converted = (convert(page, options).content or "").strip()
    except (ImportError, ValueError, RuntimeError):
        pass  # no wheel for this system, or a page that it refuses: use the plain parser
    return converted or _HTMLTextParser(url).read(page)


def html_text(page: str, *, url: str) -> str:
    """An HTML page for a model: title and Markdown."""
    body = markdown(page, url=url)
    title = re.search(r"<title[^>]{0,200}>([^<]{1,300})", page[:200_000], re.I)
    name = " ".join(html.unescape(title[1]).split()) if title else ""
    return f"Title: {name}\n\n{body}" if name and not body.startswith(f"# {name}") else body


class _HTMLTextParser(HTMLParser):
    """Extracts text, headings, lists and links from HTML; used if the converter is missing or fails."""

    _BREAKS = re.compile("p|div|br|tr|table|section|article|header|footer|[uod]l|d[td]|blockquote|pre|hr|form")

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._url, self._hidden = url, ""
        self._out: list[str] = []
        self._links: list[str] = []
        self._deadline = time.monotonic() + _PARSE_S

    def read(self, page: str) -> str:
        try:
            self.feed(page[:2_000_000])
            self.close()
        except (TimeoutError, AssertionError):
            pass  # keep what was parsed so far
        lines = (re.sub(r"[ \t\xa0]+", " ", line).strip() for line in "".join(self._out).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def updatepos(self, i: int, j: int) -> int:  # the parser calls this for each piece
        if time.monotonic() > self._deadline:
            raise TimeoutError
        return super().updatepos(i, j)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style", "template", "title", "svg", "noscript") and not self._hidden:
            self._hidden = tag
        elif re.fullmatch("h[1-6]", tag):
            self._out.append("\n\n" + "#" * int(tag[1]) + " ")
        elif tag == "li":
            self._out.append("\n- ")
        elif tag in ("td", "th"):
            self._out.append(" | ")
        elif self._BREAKS.fullmatch(tag):
            self._out.append("\n")
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._hidden:
            self._hidden = ""
        elif tag == "a" and self._links:
            try:
                target = urljoin(self._url, self._links.pop())
            except ValueError:
                return
            if target.startswith(("http://", "https://")) and target != self._url:
                self._out.append(f" ({target})")
        elif self._BREAKS.fullmatch(tag) or re.fullmatch("h[1-6]", tag):
            self._out.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._out.append(data)
