"""The part of a connection that uses the library `mcp`. Only `connection` imports it, in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any, cast

import httpx2
import mcp.client.session as library_session
import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from friday_cli import __version__
from friday_cli.core.protocol.errors import ToolError
from friday_cli.core.protocol.trace_context import trace_fields
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.system.connection_failure import no_connection

from . import elicitation
from .answers import joined, offered_prompt, offered_tool, part, reply, resource
from .catalog import DAY_S, MOST_TOOLS, Catalog
from .connection import ConnectionHost, Reply, ServerCall
from .entry import ServerEntry
from .limited_body import LimitedBody
from .oauth import TRUST_HINT, UNTRUSTED, ServerAuth
from .result_check import limit_checks
from .stdio import LONGEST, stdio_transport
from .tasks import Tasks
from .tokens import uses_oauth

PROBE_S = 3.0
"""Seconds of silence after `server/discover` from which on a server is taken for one that needs a handshake."""
PAGES = 200
"""Pages of one list that are read."""

library_session.DISCOVER_TIMEOUT_SECONDS = PROBE_S


def leaf(error: BaseException) -> BaseException:
    """The error in groups of one error, which the library's tasks make."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def refused(error: BaseException) -> bool:
    """Whether the other way to open a connection may work after this error."""
    return isinstance(leaf(error), MCPError)


def modes(known: Catalog | None) -> tuple[str, ...]:
    """The ways to open a connection, in the order of trying, by what is remembered of the server."""
    if known is None or not known.protocol:
        return ("auto", "legacy")
    return (LATEST_MODERN_VERSION, "auto") if known.discovered else ("legacy", "auto")


class ServerClient:
    """An open connection. `calls_of` returns the calls that a request of the server may belong to, the newest last. `denied`: the server answered
    that this user may not use it, so that another try is useless."""

    def __init__(
        self,
        entry: ServerEntry,
        host: ConnectionHost,
        calls_of: Callable[[], list[ServerCall]],
        known: Catalog | None,
    ) -> None:
        self._entry, self._host, self._calls_of, self._known = entry, host, calls_of, known
        self._client: Client | None = None
        self._ended = asyncio.Event()
        self._problem = ""
        self._status = 0
        self._process: Any = None
        self._auth: ServerAuth | None = None
        self._listing, self._asking = asyncio.Lock(), asyncio.Lock()
        headers = known is not None and any("x-mcp-header" in str(tool.schema) for tool in known.tools)
        self._headers_unlisted = headers and entry.transport == "http"

    @property
    def denied(self) -> bool:
        return self._status in (401, 403)

    @property
    def _library(self) -> Client:
        assert self._client is not None
        return self._client

    @asynccontextmanager
    async def connected(self, mode: str) -> AsyncIterator[None]:
        """Connect, and be connected in the block. Raises TimeoutError, ToolError, MCPError and what the library raises."""
        prior = None
        if self._known is not None and self._known.discovered:
            prior = types.DiscoverResult.model_validate(self._known.discovered)
        async with AsyncExitStack() as stack:
            client = Client(
                await self._transport(stack),
                mode=mode,
                prior_discover=prior,
                client_info=types.Implementation(name="friday", version=__version__),
                list_roots_callback=self._roots,
                elicitation_callback=self._elicit,
                message_handler=self._notified,
                extensions=[Tasks(self._call_of)],
                cache=None,
            )
            try:
                async with asyncio.timeout(self._entry.startup_timeout_s):
                    self._client = await stack.enter_async_context(client)
            except (MCPError, BaseExceptionGroup) as error:
                raise ToolError(self._reason(error)) if self.denied else error from None
            limit_checks(client.session)
            listening = asyncio.create_task(self._listen())
            try:
                yield
            finally:
                listening.cancel()
                await asyncio.wait([listening])

    async def _transport(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Any]:
        if self._entry.transport == "stdio":
            self._process = await self._host.start(self._entry)
            report = lambda text: self._host.report(f"MCP server {self._entry.name}: {text}")  # noqa: E731
            return stdio_transport(self._process, report, self._stream_ended)
        if uses_oauth(self._entry):
            self._auth = (self._host.sign_in or ServerAuth)(self._entry)
        http = httpx2.AsyncClient(
            headers={"User-Agent": f"friday/{__version__}", "Accept-Encoding": "identity", **self._entry.headers},
            auth=self._auth,
            timeout=httpx2.Timeout(30.0, read=None),
            event_hooks={"response": [self._answered]},
        )
        await stack.enter_async_context(http)
        return streamable_http_client(self._entry.url, http_client=http, max_sse_event_size=LONGEST)

    async def _answered(self, response: httpx2.Response) -> None:
        self._status = response.status_code if response.status_code >= 400 else 0
        if response.headers.get("content-encoding", "identity") != "identity":
            problem = "its answer is compressed, although Friday did not ask for that"
            response.stream = LimitedBody(response.stream, 0, problem)  # type: ignore[arg-type]
        elif not response.headers.get("content-type", "").startswith("text/event-stream"):
            # its events have a limit each
            response.stream = LimitedBody(response.stream)  # type: ignore[arg-type]

    def _stream_ended(self, problem: str) -> None:
        self._problem = problem
        self._ended.set()

    async def until(self, leave: asyncio.Event) -> None:
        """Wait until `leave` is set or the connection has ended."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (leave, self._ended)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    def why_ended(self) -> str:
        """Why the connection ended by itself."""
        if self._problem:
            return f"{self._problem}. The connection was closed."
        return f"it ended{_exit(self._process)}."

    # ---- requests of the server ------------------------------------------------------

    async def _roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=root) for root in self._host.roots])  # type: ignore[arg-type]

    def _call_of(self) -> ServerCall | None:
        return next(reversed(self._calls_of()), None)

    async def _elicit(self, context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask a person, one question after the other, in the name of all agents whose calls it may be."""
        call = self._call_of()
        if call is None or call.asked >= elicitation.MOST_QUESTIONS:
            return types.ElicitResult(action="decline")
        call.asked += 1
        async with self._asking:
            calls = self._calls_of()
            if call not in calls:  # it ended while it waited
                return types.ElicitResult(action="decline")
            who = elicitation.asker(self._entry.name, [one.agent for one in calls])
            with ExitStack() as paused:
                for one in calls:
                    paused.enter_context(one.paused())
                if isinstance(params, types.ElicitRequestURLParams):
                    agreed = await elicitation.ask_url(call, who, params.message, params.url)
                    return types.ElicitResult(action="accept" if agreed else "decline")
                content = await elicitation.ask_form(call, who, params.message, params.requested_schema)
        return types.ElicitResult(action="decline" if content is None else "accept", content=content)

    async def _notified(self, message: object) -> None:
        if isinstance(message, (types.ToolListChangedNotification, types.PromptListChangedNotification)):
            self._host.changed(self._entry.name)

    async def _listen(self) -> None:
        """Be told of changed lists by a server without a handshake, which tells only those who listen."""
        offers = self._library.server_capabilities
        tools, prompts = (bool(one and one.list_changed) for one in (offers.tools, offers.prompts))
        if self._library.session.discover_result is None or not (tools or prompts):
            return
        with suppress(MCPError, SubscriptionLost):  # then changes are seen with the next connection
            async with self._library.listen(tools_list_changed=tools, prompts_list_changed=prompts) as changes:
                async for _ in changes:
                    self._host.changed(self._entry.name)

    # ---- our requests ----------------------------------------------------------------

    async def call(self, tool: str, arguments: dict[str, Any]) -> Reply:
        """Call a tool."""
        call = self._call_of()
        async with self._listing:
            if self._headers_unlisted:  # the library sends the headers of tools that it has listed
                await _pages(self._library.list_tools, "tools")
                self._headers_unlisted = False

        async def shown(progress: float, total: float | None, message: str | None) -> None:
            if call is not None:
                amount = f"{progress:g}/{total:g}" if total else f"{progress:g}"
                call.progress(f"{message} ({amount})" if message else amount)

        meta = cast(types.RequestParamsMeta | None, trace_fields() or None)
        return reply(await self._library.call_tool(tool, arguments, progress_callback=shown, meta=meta))

    async def read(self, uri: str) -> Reply:
        """Read a resource."""
        return joined([resource(content) for content in (await self._library.read_resource(uri)).contents])

    async def prompt(self, name: str, arguments: dict[str, str]) -> Reply:
        """The messages of a prompt, each but the first of the user with its role."""
        found = await self._library.get_prompt(name, arguments)
        replies = []
        for message in found.messages:
            one = part(message.content)
            told = "" if message.role == "user" else f"[{message.role}] "
            replies.append(Reply(told + one.text, one.images))
        return joined(replies)

    async def resources(self) -> list[str]:
        """One line for each resource and template."""
        listed: list[Any] = await _pages(self._library.list_resources, "resources")
        listed += await _optional(lambda: _pages(self._library.list_resource_templates, "resource_templates"))
        lines = []
        for one in listed:
            address = one.uri if isinstance(one, types.Resource) else one.uri_template
            about = " - ".join(filter(None, (one.title or one.name, one.description)))
            lines.append(sanitize_line(f"{address}  {about}", 500))
        return lines

    async def catalog(self) -> Catalog:
        """Ask the server for its tools, resources and instructions."""
        client, offers = self._library, self._library.server_capabilities
        ttl = 0
        tools: list[types.Tool] = []
        if offers.tools is not None:
            first = await client.list_tools()
            ttl = first.ttl_ms
            tools = await _pages(client.list_tools, "tools", first)
        prompts: list[types.Prompt] = []
        if offers.prompts is not None:
            prompts = await _optional(lambda: _pages(client.list_prompts, "prompts"))
        used = sorted((tool for tool in tools if self._entry.has_tool(tool.name)), key=lambda tool: tool.name)
        session, info = client.session, client.server_info
        found = session.discover_result
        return Catalog(
            tools=tuple(offered_tool(tool) for tool in used[:MOST_TOOLS]),
            prompts=tuple(offered_prompt(prompt) for prompt in sorted(prompts, key=lambda prompt: prompt.name)),
            resources=offers.resources is not None,
            instructions=client.instructions or "",
            server=info.name if info else "",
            version=info.version if info else "",
            protocol=client.protocol_version,
            discovered=found.model_dump(mode="json", by_alias=True, exclude_none=True) if found else None,
            fetched=time.time(),
            ttl_s=ttl / 1000 if ttl else DAY_S,
            offered=len(used),
        )

    @property
    def ended(self) -> bool:
        """Whether the server has ended the connection."""
        return self._ended.is_set()

    async def what_failed(self, error: BaseException, *, opening: bool = False) -> str:
        """One line on the error of a request, or of `opening` the connection."""
        if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED and self._process is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 1.0)
            if self._problem:
                return f"{self._problem}."
            how = await _ended_with(self._process)
            if opening:
                return f"it ended at the start{how}."
            return f"it ended during the call{how}. What the call did is not known; it was not repeated."
        return self._reason(error)

    def _reason(self, error: BaseException) -> str:
        """Why a request failed, with what to do about a login."""
        if self.denied and self._auth and self._auth.problem:
            return self._auth.problem
        return reason(error, self._entry, self._status)


async def _pages(send: Callable[..., Awaitable[Any]], field: str, first: Any = None) -> list[Any]:
    """All items of a list."""
    page = first if first is not None else await send()
    items = list(getattr(page, field))
    for _ in range(PAGES):
        if not page.next_cursor:
            break
        page = await send(cursor=page.next_cursor)
        items += getattr(page, field)
    return items


async def _optional(send: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
    """A list that a server may not have although it says so."""
    try:
        return await send()
    except MCPError as error:
        if error.code == types.METHOD_NOT_FOUND:
            return []
        raise


async def _ended_with(process: Any) -> str:
    """How a server process ended, as words after "it ended"."""
    with suppress(TimeoutError, ToolError):
        await asyncio.wait_for(process.wait(), 1.0)
    return _exit(process)


def _exit(process: Any) -> str:
    code = process.exit_code if process is not None else None
    how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
    last = sanitize_line(process.errors.rpartition("\n")[2], 200) if process is not None else ""
    return f'{how}: "{last}"' if last else how


def reason(error: BaseException, entry: ServerEntry, status: int = 0) -> str:
    """One line on why the server could not be used."""
    error = leaf(error)
    if isinstance(error, MCPError):
        if status == 401:
            return f"it refuses the Authorization header in {entry.file or 'its entry'} (HTTP 401)."
        http = f" (HTTP {status})" if status else ""
        return f"{error.message}{http}"
    if isinstance(error, ValueError):
        return f"its answer does not fit the protocol: {sanitize_line(str(error), 300)}"
    if isinstance(error, httpx2.ConnectError):
        text = str(error) or "connection failed"
        if UNTRUSTED in text:
            return f"the certificate of {httpx2.URL(entry.url).host} is not trusted ({text}). {TRUST_HINT}."
        return f"{httpx2.URL(entry.url).host} cannot be reached: {no_connection(text)}"
    return str(error) or type(error).__name__
