"""The MCP servers of one session: what is known of them, and one connection to each for the whole tree of agents.

A server whose catalog is in the cache is not connected before it is called. The others are connected in the background.
What agents see of a server does not change during a run: a list that turns out different holds from the person's next
message on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from friday_cli.core.protocol.errors import UsageError
from friday_cli.core.protocol.messages import CHARS_PER_TOKEN
from friday_cli.core.protocol.server_calls import LIST, READ, server_of
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import SERVER_PREFIX
from friday_cli.core.text.sanitize import sanitize_line
from friday_cli.core.text.suggest import closest_match

from .catalog import Catalog, CatalogCache, OfferedPrompt
from .connection import ConnectionHost, Reply, ServerConnection, ServerError
from .entry import Expose, ServerEntry
from .names import no_server, tool_names
from .tools import ToolSearch, resource_tools, server_tool

SETTLE_S = 3.0
"""Seconds that the first request waits for servers whose tools are not known yet."""
MOST_INSTRUCTIONS = 2_000
"""Characters of the instructions of one server in a prompt."""
MOST_NAMED = 5
"""Names of changed tools in a notice."""
CHANGE_S, LONGEST_CHANGE_S = 0.3, 5.0
"""Seconds after a server said that its lists changed before they are read: several such messages come at once. It is twice as
long each further time until the person writes."""


DIRECT_TOOLS, DIRECT_TOKENS = 10, 2_000
"""Tools of one server, and tokens of their definitions, up to which an agent sees them without being asked for."""


class ServerRow(msgspec.Struct, frozen=True):
    """A server as text for a person. `tools` counts those that agents may have, of `offered`."""

    name: str
    state: str
    version: str
    tools: int
    offered: int
    exposed: str
    where: str
    last_error: str


class _Server:
    """One server. `catalog` is what agents see, `newer` what they will see from the next message on."""

    def __init__(self, entry: ServerEntry, host: ConnectionHost, catalog: Catalog | None) -> None:
        self.entry = entry
        self.catalog = catalog
        self.newer: Catalog | None = None
        self.connection = ServerConnection(entry, host, catalog)
        self.reading: asyncio.Task[None] | None = None
        self.changes = 0

    def next_change_s(self) -> float:
        """Seconds to wait before changed lists are read."""
        self.changes += 1
        return min(CHANGE_S * 2.0 ** min(self.changes - 1, 10), LONGEST_CHANGE_S)

    @property
    def prompts(self) -> tuple[OfferedPrompt, ...]:
        """Its prompts as they are now: no prompt of an agent contains them."""
        latest = self.newer or self.catalog
        return latest.prompts if latest is not None else ()

    @property
    def about(self) -> str:
        """Its description: the person's words, else the server's."""
        return self.entry.description or (self.catalog.instructions if self.catalog is not None else "")


class ServerPool:
    """The servers of a session. `report` shows a person one line. `output_chars`: characters of a result that a model gets."""

    def __init__(
        self,
        entries: Iterable[ServerEntry],
        host: ConnectionHost,
        cache: CatalogCache,
        *,
        output_chars: int,
    ) -> None:
        self._cache, self._output_chars = cache, output_chars
        self._report = host.report
        host = msgspec.structs.replace(host, changed=lambda name: self._read(self._servers[name], changed=True))
        used = [entry for entry in entries if entry.enabled]
        self._servers: dict[str, _Server] = {entry.name: _Server(entry, host, cache.read(entry)) for entry in used}
        self._tools: dict[str, Tool] | None = None
        self._begun = self._message = False

    # ---- what agents see -------------------------------------------------------------

    def tools(self) -> dict[str, Tool]:
        """The tools of all servers by name, sorted, hidden ones left out. The same objects until a list is taken over."""
        if self._tools is None:
            made: dict[str, Tool] = {}
            for server in self._servers.values():
                if server.catalog is not None and server.entry.expose != "hidden":
                    made |= self._tools_of(server, server.catalog)
            self._tools = dict(sorted(made.items()))
        return self._tools

    def _tools_of(self, server: _Server, catalog: Catalog) -> dict[str, Tool]:
        offered = {tool.name: tool for tool in catalog.tools if server.entry.has_tool(tool.name)}
        names = tool_names(server.entry.name, offered)
        made = {
            name: server_tool(server.connection, name, offered[own], self._output_chars) for name, own in names.items()
        }
        if catalog.resources:
            made |= {tool.name: tool for tool in resource_tools(server.connection, self._output_chars)}
        return made

    def described(self, held: Mapping[str, Tool], *, named: Callable[[str], bool]) -> frozenset[str]:
        """The names of the tools in `held` whose definitions an agent sees. `named`: whether its profile names a tool."""
        return frozenset(name for name, how in self._exposed(held, named) if how == "direct")

    def helpers(self, held: Mapping[str, Tool], *, named: Callable[[str], bool]) -> list[Tool]:
        """The tools with which an agent finds and calls those in `held` that it does not see."""
        found = {name: held[name] for name, how in self._exposed(held, named) if how == "search"}
        readable = [server_of(name) for name in held if name == f"{SERVER_PREFIX}{server_of(name)}__{READ}"]
        about = {name: server.about for name, server in self._servers.items()}
        return ToolSearch(found, readable, about).tools()

    def instructions(self, held: Mapping[str, Tool], *, named: Callable[[str], bool]) -> dict[str, str]:
        """What the servers whose definitions an agent sees say of their use, by their names. Others are described in the search."""
        seen = {server_of(name) for name in self.described(held, named=named)}
        known = ((name, self._servers[name].catalog) for name in sorted(seen))
        texts = {
            name: catalog.instructions.strip()[:MOST_INSTRUCTIONS] for name, catalog in known if catalog is not None
        }
        return {name: text for name, text in texts.items() if text}

    def _exposed(self, held: Mapping[str, Tool], named: Callable[[str], bool]) -> list[tuple[str, Expose]]:
        """How an agent gets to know each of its tools, those for resources left out: the helpers have them."""
        by_server: dict[str, dict[str, Tool]] = {}
        for name, tool in held.items():
            server = server_of(name)
            if name not in (f"{SERVER_PREFIX}{server}__{LIST}", f"{SERVER_PREFIX}{server}__{READ}"):
                by_server.setdefault(server, {})[name] = tool
        found: list[tuple[str, Expose]] = []
        for server, mine in by_server.items():
            how = exposure(self._servers[server].entry, mine.values())
            delegated = how == "delegated"
            found += [(tool, "direct" if delegated and named(tool) else how) for tool in mine]
        return found

    # ---- when the lists are read -------------------------------------------------------

    def begin(self) -> None:
        """Connect to the servers that are not known, or not any longer, in the background."""
        for server in self._unknown():
            self._read(server)

    def _unknown(self) -> list[_Server]:
        return [s for s in self._servers.values() if s.catalog is None or not s.catalog.fresh()]

    def person_wrote(self) -> None:
        """Take over changed lists before the next run of the main agent."""
        self._message = True
        for server in self._servers.values():
            server.changes = 0

    async def prepare_run(self) -> bool:
        """Called before each run of the main agent: whether what agents see has changed. The first call waits for
        servers that are not known yet."""
        if not self._begun:
            self._begun = True
            await self._first()
        elif not self._message:
            return False
        self._message = False
        return self._take_over()

    async def _first(self) -> None:
        unknown = [s for s in self._servers.values() if s.catalog is None and s.entry.expose != "hidden"]
        if reading := [s.reading for s in unknown if s.reading is not None]:
            await asyncio.wait(reading, timeout=SETTLE_S)
        if late := [s.entry.name for s in unknown if s.reading is not None and not s.reading.done()]:
            names = ", ".join(late)
            self._report(
                f"MCP: {names} did not answer within {SETTLE_S:g} s. This run continues without them; tools that arrive later are used from your next message on."
            )

    def _take_over(self) -> bool:
        changed = [server for server in self._servers.values() if server.newer is not None]
        for server in changed:
            server.catalog, server.newer = server.newer, None
            self._tools = None
        return bool(changed)

    def _read(self, server: _Server, *, changed: bool = False) -> None:
        if server.reading is None or server.reading.done():
            delay_s = server.next_change_s() if changed else 0.0
            server.reading = asyncio.create_task(
                self._read_lists(server, delay_s), name=f"mcp lists {server.entry.name}"
            )

    async def _read_lists(self, server: _Server, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            found = await server.connection.catalog()
        except ServerError as error:
            if server.catalog is None:
                self._report(str(error))
            return
        await asyncio.to_thread(self._cache.write, server.entry, found)
        seen = server.newer or server.catalog
        if found.offered > len(found.tools) and (seen is None or seen.offered != found.offered):
            most = len(found.tools)
            self._report(
                f"MCP server {server.entry.name}: it offers {found.offered:,} tools; the first {most:,} by name are used. "
                "Choose others by enabledTools."
            )
        if server.catalog is not None and server.catalog.offers_same(found):
            server.catalog, server.newer = found, None  # its prompts may be others
        elif seen is None or not seen.offers_same(found):
            told = server.newer is not None
            server.newer = found
            if server.catalog is not None and not told:  # one line a message, however often it changes
                self._report(
                    f"MCP server {server.entry.name}: {_difference(server.catalog, found)} This applies from your next message on."
                )

    async def idle(self) -> None:
        """Wait until no list is being read."""
        while running := [s.reading for s in self._servers.values() if s.reading is not None and not s.reading.done()]:
            await asyncio.wait(running)

    # ---- for a person -------------------------------------------------------------------

    def rows(self) -> list[ServerRow]:
        """All servers by name."""
        return [self._row(server) for server in self._servers.values()]

    def _row(self, server: _Server) -> ServerRow:
        from .describe import server_line  # only people need it

        entry, catalog, link = server.entry, server.catalog or server.newer, server.connection
        known = "tools known, not connected" if catalog else "not connected"
        state = {"open": "connected", "opening": "connecting"}.get(link.state, "failed" if link.last_error else known)
        how = exposure(entry, self._tools_of(server, catalog).values()) if catalog else entry.expose or ""
        version = f"{catalog.server} {catalog.version}".strip() if catalog else ""
        count, offered = (len(catalog.tools), catalog.offered) if catalog else (0, 0)
        return ServerRow(
            name=entry.name,
            state=state,
            version=version,
            tools=count,
            offered=offered,
            exposed=how,
            where=server_line(entry),
            last_error=link.last_error,
        )

    async def reconnect(self, name: str) -> None:
        """Connect again and read the lists. Raises UsageError for an unknown server, ServerError."""
        server = self._get(name)
        await server.connection.reconnect()
        await self.idle()
        self._read(server)
        await self.idle()

    def prompts(self) -> list[tuple[str, str, str]]:
        """(command, arguments, description) of every prompt: `mcp__SERVER__PROMPT`."""
        found = []
        for server in self._servers.values():
            for prompt in server.prompts:
                usage = " ".join(name if needed else f"[{name}]" for name, needed in prompt.arguments.items())
                found.append((f"{SERVER_PREFIX}{server.entry.name}__{prompt.name}", usage, prompt.description))
        return found

    async def prompt(self, command: str, words: Sequence[str]) -> Reply:
        """The text of a prompt with these arguments: in order, the last takes all words that are left. Raises UsageError,
        ServerError."""
        server = self._get(server_of(command))
        name = command.removeprefix(f"{SERVER_PREFIX}{server.entry.name}__")
        known = {prompt.name: prompt for prompt in server.prompts}
        if name not in known:
            near = closest_match(name, known)
            hint = f"Did you mean /{SERVER_PREFIX}{server.entry.name}__{near}?" if near else "/mcp lists them."
            raise UsageError(f"The MCP server {server.entry.name} has no prompt {name!r}.", hint=hint)
        names = list(known[name].arguments)
        given = dict(
            zip(
                names,
                [*words[: max(0, len(names) - 1)], " ".join(words[len(names) - 1 :])] if names else (),
                strict=False,
            )
        )
        given = {key: value for key, value in given.items() if value}
        if missing := [key for key, needed in known[name].arguments.items() if needed and key not in given]:
            usage = " ".join(key if needed else f"[{key}]" for key, needed in known[name].arguments.items())
            raise UsageError(f"/{command}: {', '.join(missing)} is missing.", hint=f"Usage: /{command} {usage}")
        return await server.connection.prompt(name, given)

    async def read(self, name: str, uri: str) -> Reply:
        """The content of a resource. Raises UsageError, ServerError."""
        return await self._get(name).connection.read(uri)

    def has(self, name: str) -> bool:
        """Whether there is a server of this name."""
        return name in self._servers

    def _get(self, name: str) -> _Server:
        if name not in self._servers:
            raise no_server(name, self._servers)
        return self._servers[name]

    async def close(self) -> None:
        """Close all connections and end all servers."""
        reading = [server.reading for server in self._servers.values() if server.reading is not None]
        for task in reading:
            task.cancel()
        if reading:
            await asyncio.wait(reading)
        await asyncio.gather(*(server.connection.close() for server in self._servers.values()))


def _difference(before: Catalog, after: Catalog) -> str:
    """The tools that came, went or changed, in one sentence."""
    old, new = {tool.name: tool for tool in before.tools}, {tool.name: tool for tool in after.tools}
    added, gone = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    other = [name for name in old if name in new and old[name] != new[name]]
    if not added and not gone and not other:
        return "its description of itself changed."
    more = f" and {len(other) - MOST_NAMED} more" if len(other) > MOST_NAMED else ""
    names = ", ".join(sanitize_line(name, 64) for name in other[:MOST_NAMED])
    described = (
        f" The descriptions of these tools changed, and your rules for them still apply: {names}{more}."
        if other
        else ""
    )
    return f"its tools changed ({added} new, {gone} gone).{described}"


def exposure(entry: ServerEntry, tools: Iterable[Tool]) -> Expose:
    """Whether an agent that may call these tools of a server sees their definitions or searches for them. The right to call them
    is another matter: it goes down the tree of agents like that to any tool."""
    if entry.expose is not None:
        return entry.expose
    tools = tuple(tools)
    if len(tools) > DIRECT_TOOLS:
        return "search"
    size = sum(len(msgspec.json.encode(tool.spec)) for tool in tools)
    return "direct" if size <= DIRECT_TOKENS * CHARS_PER_TOKEN else "search"
