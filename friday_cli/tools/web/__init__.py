"""The web: `web_fetch` reads a page, `web_search` finds some."""

from __future__ import annotations

from friday_cli.core.protocol.tool import Tool

from .fetch import PdfReader, fetch_tool
from .search import search_tool

__all__ = ["fetch_tool", "search_tool", "tools"]


def tools(*, private: bool = False, pdf: PdfReader | None = None, search: Tool | None = None) -> list[Tool]:
    """The tools of this group; `private` and `pdf` are as in `fetch_tool`, `search` comes from `search_tool`."""
    return [fetch_tool(private=private, pdf=pdf), *([search] if search else [])]
