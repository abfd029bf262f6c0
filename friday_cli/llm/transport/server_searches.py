"""Web searches that a service ran on its own servers, in one form for all APIs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from friday_cli.core.protocol.provider import ServerSearch

from .text import one_line

PAGES, QUERY, TITLE, URL = 50, 400, 200, 2_000
"""Limits of a recorded search: number of pages, and characters of the query, a title and a URL."""


def server_search(
    call_id: str, query: object, pages: Iterable[tuple[object, object]], *, error: str = ""
) -> ServerSearch:
    """The record of a search. `pages` are (title, URL) pairs; invalid URLs and duplicates are left out."""
    kept: dict[str, str] = {}
    for title, url in pages:
        if isinstance(url, str) and len(url) <= URL and re.fullmatch(r"https?://[!-~]+", url) and len(kept) < PAGES:
            kept.setdefault(url, one_line(title, TITLE) if isinstance(title, str) else "")
    text = one_line(query, QUERY) if isinstance(query, str) else ""
    return ServerSearch(call_id, text, tuple((title, url) for url, title in kept.items()), one_line(error, TITLE))
