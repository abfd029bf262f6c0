"""The items of a reply of the Responses API while it is streamed, and what is read from them."""

from __future__ import annotations

from typing import Any

from friday_cli.core.protocol.provider import ServerSearch

from ..transport.text import StreamedText, dict_in, dicts_in, text_in
from .openai_parts import StreamedToolCall
from .service_provider import server_search


class OutputItem:
    """An output item while it is streamed. `final` is the JSON of the finished item; `call` is used by calls only."""

    def __init__(self, kind: str, position: int, call: StreamedToolCall) -> None:
        self.kind, self.position = kind, position
        self.final: dict[str, Any] | None = None
        self.texts: dict[tuple[str, int], StreamedText] = {}
        self.call = call

    def text(self, *kinds: str, between: str = "") -> str:
        """The texts of these kinds, joined in order; from the finished item if there is one."""
        if self.final is not None:
            pieces = [p for key in ("summary", "content") for p in dicts_in(self.final.get(key))]
            found = [text_in(p.get("text")) or text_in(p.get("refusal")) for p in pieces if p.get("type") in kinds]
            if any(found):
                return between.join(found)
        return between.join(p.text for (kind, _), p in sorted(self.texts.items(), key=lambda t: t[0]) if kind in kinds)


def searches_in(items: list[OutputItem]) -> tuple[ServerSearch, ...]:
    """The web searches among the items. Pages that the text cites are added to the last search."""
    searches: list[tuple[str, object, list[tuple[object, object]]]] = []
    cited: list[tuple[object, object]] = []
    for item in items:
        data = item.final or {}
        action = dict_in(data.get("action"))
        if item.kind == "web_search_call" and action.get("type") == "search":
            pages = [(row.get("title"), row.get("url")) for row in dicts_in(action.get("sources"))]
            searches.append((text_in(data.get("id")) or f"ws_{item.position}", action.get("query"), pages))
        elif item.kind == "message":
            notes = [note for piece in dicts_in(data.get("content")) for note in dicts_in(piece.get("annotations"))]
            cited += [(n.get("title"), n.get("url")) for n in notes if n.get("type") == "url_citation"]
    if searches:
        searches[-1][2].extend(cited)
    return tuple(server_search(call_id, query, pages) for call_id, query, pages in searches)


def stored_fields(item: OutputItem, *keys: str) -> dict[str, Any]:
    final = item.final or {}
    fields = {key: final[key] for key in keys if final.get(key) is not None}
    if "id" not in fields:
        fields.pop("status", None)
    return fields
