"""The configuration of one MCP server: as it is written in a file, and as a session uses it."""

from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from friday_cli.config.settings import Seconds

Transport = Literal["stdio", "http"]
Expose = Literal["direct", "search", "delegated", "hidden"]
"""Whose prompts have the definitions of a server's tools: every agent that may call them (`direct`), nobody's, but they can
be searched (`search`), only those of profiles that name the server (`delegated`), nobody's (`hidden`)."""
EntryOrigin = Literal["user", "flag", "project", "profile", "plugin"]

TIMEOUT_S = 60.0
STARTUP_TIMEOUT_S = 30.0


class OAuthSettings(Struct, frozen=True, rename="camel"):
    """How to sign in to a server with OAuth, where the defaults do not fit."""

    client_id: str = ""
    """The client id that the service gave you. Empty: Friday registers itself."""
    callback_port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """The port on 127.0.0.1 to which the browser returns. 0: any free one."""
    scope: str | None = None
    """The scopes to request, separated by spaces. Not set: those that the server asks for."""


class WrittenEntry(
    Struct, frozen=True, omit_defaults=True, rename={"enabled_tools": "enabledTools", "disabled_tools": "disabledTools"}
):
    """One MCP server under `mcpServers`, as it is written. Either `command` or `url` is needed."""

    type: Literal["", "stdio", "http", "streamable-http"] = ""
    """The transport. Not set: `stdio` with `command`, `http` with `url`."""
    command: str = ""
    """The program that is the server: one program, not a shell line."""
    args: tuple[str, ...] = ()
    """Arguments of the program. `${VAR}` and `${VAR:-default}` are replaced here, in `env`, `url` and `headers`."""
    env: dict[str, str] = {}
    """Environment variables of the program. Of yours it gets only PATH, HOME, LANG, TERM and TMPDIR."""
    cwd: str = ""
    """The folder in which the program starts. Not set: the folder of the session."""
    url: str = ""
    """The address of a server that is reached by HTTP."""
    headers: dict[str, str] = {}
    """Additional HTTP headers of each request."""
    timeout: Annotated[float, Meta(gt=0, le=86_400_000)] | None = None
    """The same as `timeout_s` in milliseconds, as Claude Code writes it."""
    timeout_s: Seconds | None = None
    """Seconds after which a call fails (default 60). A progress message of the server restarts them."""
    startup_timeout_s: Seconds | None = None
    """Seconds that the server may take to start (default 30)."""
    enabled: bool = True
    """Whether the server is used."""
    enabled_tools: tuple[str, ...] | None = None
    """The tools to use, as names that can contain `*` and `?`. Not set: all."""
    disabled_tools: tuple[str, ...] = ()
    """Tools that are not used, as names that can contain `*` and `?`."""
    expose: Expose | None = None
    """Whose prompts describe the tools: `direct`: those of all agents that may call them; `search`: agents search them
    instead; `delegated`: only sub-agents whose profile names the server; `hidden`: nobody's. Not set: `direct` for few tools,
    else `search`."""
    sandbox: bool | None = None
    """Whether the program runs in the sandbox of commands. Not set: only a project's servers do."""
    writes: tuple[str, ...] = ()
    """Folders of the project, relative to it, that a project's server may write. Without them it writes nothing there."""
    readonly: bool = False
    """Whether tools that the server calls read-only run without asking. Only in your own files."""
    description: str = ""
    """What the server is for: shown to you, and to agents that search tools."""
    oauth: OAuthSettings | None = None
    """How to sign in with OAuth, where the defaults do not fit."""


class ServerEntry(Struct, frozen=True):
    """One MCP server as a session uses it: checked, and with its variables replaced, so that `env`, `headers`, `args` and
    `url` can contain secrets."""

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    """Absolute; "" for the folder of the session."""
    url: str = ""
    headers: dict[str, str] = {}
    timeout_s: float = TIMEOUT_S
    startup_timeout_s: float = STARTUP_TIMEOUT_S
    enabled: bool = True
    enabled_tools: tuple[str, ...] | None = None
    """None for all."""
    disabled_tools: tuple[str, ...] = ()
    expose: Expose | None = None
    """None for the default."""
    sandbox: bool = False
    """Whether it is confined; a project's server always is."""
    network: bool = False
    """It has the network inside the sandbox as well, as the trust question says."""
    writes: tuple[str, ...] = ()
    readonly: bool = False
    """Its read-only tools run without asking; never for a project's server."""
    description: str = ""
    oauth: OAuthSettings | None = None
    origin: EntryOrigin = "user"
    file: str = ""
    """Where it was read, for messages."""

    def __repr__(self) -> str:
        return f"ServerEntry({self.name!r}, {self.origin!r})"  # the rest can contain secrets

    @property
    def of_project(self) -> bool:
        """Whether a project brings it."""
        return self.network

    def has_tool(self, tool: str) -> bool:
        """Whether the entry lets agents use the server's tool of this name."""
        named = self.enabled_tools is None or any(fnmatchcase(tool, glob) for glob in self.enabled_tools)
        return named and not any(fnmatchcase(tool, glob) for glob in self.disabled_tools)

    def catalog_key(self) -> str:
        """A hash of what decides which server this is and how it answers: the name of its file in the catalog cache."""
        import hashlib  # takes 3 ms

        parts = (
            self.transport,
            self.command,
            self.args,
            sorted(self.env.items()),
            self.cwd,
            self.url,
            sorted(self.headers.items()),
            self.sandbox,
            self.enabled_tools,
            self.disabled_tools,
        )
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:32]
