"""Web searches that a service ran by itself, in the one form that both wires give them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from friday_cli.core.protocol.provider import ServerSearch

from .text import plain

PAGES, QUERY, TITLE, URL = 50, 400, 200, 2_000
"""What is kept of a search: pages, and characters of its query, of a title and of an address."""


def search_of(call_id: str, query: object, pages: Iterable[tuple[object, object]], *, error: str = "") -> ServerSearch:
    """A search from what a service tells of it: anything but web addresses with a title is left out, each page once."""
    kept: dict[str, str] = {}
    for title, url in pages:
        if isinstance(url, str) and len(url) <= URL and re.fullmatch(r"https?://[!-~]+", url) and len(kept) < PAGES:
            kept.setdefault(url, plain(title, TITLE) if isinstance(title, str) else "")
    words = plain(query, QUERY) if isinstance(query, str) else ""
    return ServerSearch(call_id, words, tuple((title, url) for url, title in kept.items()), plain(error, TITLE))
