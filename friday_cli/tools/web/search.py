"""The tool `web_search`, with SearXNG, Brave or Tavily: the first one configured in the environment. Without one the session
lets the model's service search."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from friday_cli.core.protocol.call_arguments import ToolArguments
from friday_cli.core.protocol.displays import TableDisplay
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.receipt import ToolFacts
from friday_cli.core.protocol.tool import Output, Tool, ToolContext
from friday_cli.core.protocol.tool_info import WEB_SEARCH
from friday_cli.core.text.untrusted import visible, wrap_untrusted
from friday_cli.core.tool_catalog import TOOLS

from .fetch import read_capped

if TYPE_CHECKING:
    import httpx2

_MAX_BYTES = 3_000_000
_MAX_SNIPPET = 500
VARIABLES = ("SEARXNG_URL", "BRAVE_API_KEY", "TAVILY_API_KEY")
"""The environment variables that configure a search service, in order of precedence."""


class WebSearchArguments(ToolArguments, frozen=True):
    aliases: ClassVar = {
        "q": "query", "search_query": "query", "search_term": "query", "num_results": "count", "max_results": "count",
        "limit": "count",
    }  # fmt: skip
    query: Annotated[str, Meta(min_length=1, max_length=400, description="A few specific words.")]
    count: Annotated[int, Meta(ge=1, le=20, description="Most results.")] = 8


class SearchHit(msgspec.Struct, frozen=True):
    """One result as plain text."""

    title: str
    url: str
    snippet: str


class SearchService(msgspec.Struct, frozen=True):
    """A search service. `ask(query, count)`: the parameters to send; `rows`: the path of keys to the list of results;
    `snippet`: the key of the text of a result; `variable`: the environment variable to name in errors."""

    name: str
    variable: str
    url: str
    rows: tuple[str, ...]
    snippet: str
    ask: Callable[[str, int], dict[str, Any]]
    post: bool = False
    headers: dict[str, str] = {}
    refused: str = "the key was rejected"


def engine(env: Mapping[str, str]) -> SearchService | None:
    """The service configured in `env`: SEARXNG_URL, else BRAVE_API_KEY, else TAVILY_API_KEY; None without any."""
    if url := env.get("SEARXNG_URL", "").strip():
        return SearchService(
            "SearXNG",
            "SEARXNG_URL",
            url.rstrip("/") + "/search",
            ("results",),
            "content",
            lambda query, count: {"q": query, "format": "json"},
            refused="JSON output is disabled: add `json` to `search.formats` in its settings.yml",
        )
    if key := env.get("BRAVE_API_KEY", "").strip():
        return SearchService(
            "Brave",
            "BRAVE_API_KEY",
            "https://api.search.brave.com/res/v1/web/search",
            ("web", "results"),
            "description",
            lambda query, count: {"q": query, "count": str(count)},
            headers={"X-Subscription-Token": key},
        )
    if key := env.get("TAVILY_API_KEY", "").strip():
        return SearchService(
            "Tavily",
            "TAVILY_API_KEY",
            "https://api.tavily.com/search",
            ("results",),
            "content",
            lambda query, count: {"query": query, "max_results": count},
            post=True,
            headers={"Authorization": f"Bearer {key}"},
        )
    return None


async def query_service(
    service: SearchService,
    args: WebSearchArguments,
    *,
    timeout_s: float,
    transport: httpx2.AsyncBaseTransport | None = None,
) -> list[SearchHit]:
    """Query `service`. Raises ToolError; its message contains neither the key nor text of the response."""
    import httpx2

    parameters = service.ask(args.query, args.count)
    payload: dict[str, Any] = {"json": parameters} if service.post else {"params": parameters}
    failed = f"web_search: {service.name} failed"
    try:
        async with (
            asyncio.timeout(timeout_s),
            httpx2.AsyncClient(
                transport=transport, timeout=timeout_s, headers={"Accept": "application/json"}
            ) as client,
            client.stream(
                "POST" if service.post else "GET", service.url, headers=service.headers, **payload
            ) as response,
        ):
            if response.status_code != 200:
                raise ToolError(f"{failed}: {_status_reason(service, response.status_code)}.")
            body, cut = await read_capped(response, _MAX_BYTES)
    except (TimeoutError, httpx2.TimeoutException):
        raise ToolError(f"{failed}: no response within {timeout_s:g} s. Try again later.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, ValueError) as error:  # their texts may contain the key
        why = f"{type(error).__name__}; check {service.variable} and the network"
        raise ToolError(f"{failed}: {why}.") from None
    try:
        found: Any = msgspec.json.decode(body)
        for name in service.rows:
            found = found.get(name) or {}
    except (msgspec.DecodeError, AttributeError):
        why = "the response is too large" if cut else "the response is not the expected JSON"
        raise ToolError(f"{failed}: {why}. Check {service.variable}.") from None
    return _hits(found, service.snippet)[: args.count]


def _status_reason(service: SearchService, status: int) -> str:
    if status in (401, 403):
        return f"{service.refused} (HTTP {status}; {service.variable})"
    if status == 429:
        return "rate limit or quota reached (HTTP 429); wait, or continue without searching"
    return f"HTTP {status}"


def _hits(rows: object, snippet: str) -> list[SearchHit]:
    hits = []
    for row in rows if isinstance(rows, list) else ():
        url = row.get("url") if isinstance(row, dict) else None
        if isinstance(url, str) and re.match(r"https?://\S+$", url):
            hits.append(
                SearchHit(_plain(row.get("title"))[:200], visible(url)[:2_000], _plain(row.get(snippet))[:_MAX_SNIPPET])
            )
    return hits


def _plain(value: object) -> str:
    """The text of a field that may contain HTML."""
    import html  # slow to import

    text = re.sub(r"</?(?:strong|b|em|i|mark|span)\b[^<>]{0,100}>", "", value) if isinstance(value, str) else ""
    return visible(" ".join(html.unescape(text).split()))


def search_tool(
    env: Mapping[str, str], *, timeout_s: float = 20.0, transport: httpx2.AsyncBaseTransport | None = None
) -> Tool | None:
    """The tool `web_search`; None if `env` configures no search service. `transport`: replaces the network in tests."""
    service = engine(env)
    if service is None:
        return None

    async def run(ctx: ToolContext, args: WebSearchArguments) -> Output:
        hits = await query_service(service, args, timeout_s=timeout_s, transport=transport)
        if not hits:
            return Output(
                f"No results for {args.query!r}. Try fewer or other words.", TableDisplay(("title", "url"), ())
            )
        listed = "\n\n".join(f"{n}. {hit.title or hit.url}\n{hit.url}\n{hit.snippet}" for n, hit in enumerate(hits, 1))
        text = f"{len(hits)} results for {args.query!r}:\n{wrap_untrusted(listed, source=f'{service.name} search')}"
        facts = ToolFacts(found=tuple(dict.fromkeys(hit.url for hit in hits)))
        return Output(text, TableDisplay(("title", "url"), tuple((hit.title, hit.url) for hit in hits)), facts)

    return search_tool_with(run)


def search_tool_with(run: Callable[[ToolContext, WebSearchArguments], Awaitable[Output]]) -> Tool:
    """The tool `web_search` whose calls are done by `run`."""
    return Tool(
        run,
        TOOLS[WEB_SEARCH],
        args=WebSearchArguments,
        title=lambda args: args.query,
        description=(
            "Search the web: title, URL and snippet of each result. For what is not in the workspace and may "
            "be newer than your knowledge. Read a page with web_fetch before you rely on it, and cite URLs. "
            "Never put secrets in a query."
        ),
    )
