"""The tools `web_fetch` (reads a page) and `web_search` (finds pages)."""

from __future__ import annotations

from friday_cli.core.protocol.tool import Tool

from .fetch import PdfReader, fetch_tool
from .search import search_tool, search_tool_with

__all__ = ["fetch_tool", "search_tool", "search_tool_with", "tools"]


def tools(*, private: bool = False, pdf: PdfReader | None = None, search: Tool | None = None) -> list[Tool]:
    """The tools of this family. `private`, `pdf`: see `fetch_tool`; `search`: the result of `search_tool`."""
    return [fetch_tool(private=private, pdf=pdf), *([search] if search else [])]
