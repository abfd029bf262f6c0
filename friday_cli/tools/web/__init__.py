"""The web: `web_fetch` reads a page, `web_search` finds some."""

from .fetch import fetch_tool
from .search import search_tool

__all__ = ["fetch_tool", "search_tool"]
