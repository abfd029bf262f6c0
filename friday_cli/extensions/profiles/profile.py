"""The data of a profile: prompt, allowed tools and limits.

Annotations are not texts here (`from __future__ import annotations`): msgspec would compile each of them at every start, which reads
profiles from the cache."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import msgspec

from friday_cli.config.settings import ConfiguredMode
from friday_cli.core.protocol.limits import Limits
from friday_cli.core.protocol.provider import AskedTier, Effort
from friday_cli.core.protocol.tool_info import SERVER_PREFIX, SKILL
from friday_cli.core.tool_catalog import MEMORY_LOAD, MEMORY_SAVE, TOOLS

Origin = Literal["user", "project", "claude", "shipped"]
Memory = Literal["none", "read", "tagged"]
MEMORIES: tuple[Memory, ...] = get_args(Memory)
CONFIGURED_MODES: tuple[ConfiguredMode, ...] = get_args(ConfiguredMode)
Supervision = Literal["unsupervised", "supervised", "supervised-human"]
SUPERVISION: tuple[Supervision, ...] = get_args(Supervision)

TURNS, TURNS_HARD = 20, 100
"""Default and maximum number of turns of a child."""
TOKENS_HARD = 200_000
"""Maximum token budget of a profile, if the settings set no other."""
TEMPERATURE_MAX = 2.0
"""The highest temperature that any service takes."""
RESULT_CHARS_LEAST = 500
"""The fewest characters of a result that a parent can be shown at once, also in the settings."""
TOKENS_USEFUL = 10_000
"""A child with fewer tokens rarely reaches a result."""


Wire = Literal["anthropic", "openai", "gemini", "none"]
"""The API in which a program speaks to its model; none: Friday cannot count its requests."""


class ExternalAgent(msgspec.Struct, frozen=True):
    """The program that does the work of an agent. `name`: one that Friday knows, "" for one that the user describes by its `argv`
    (it speaks the Agent Client Protocol on its standard input and output), more variables for it, and its wire."""

    name: str
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    wire: Wire = "none"


class Profile(msgspec.Struct, frozen=True):
    """A kind of sub-agent. A limit that is None, and an empty `model`, `effort` or `mode`, is that of the settings or of its parent."""

    name: str
    description: str
    prompt: str
    max_token_budget: int | None = None
    allowed_tools: tuple[str, ...] | Literal["*"] | None = None
    """None: not set (`TOOLS.by_default`); (): none; "*": all tools of the parent."""
    disallowed_tools: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    """Rules such as `bash(git *)`; a tool in them is limited to these calls."""
    deny: tuple[str, ...] = ()
    """Rules for calls that are refused."""
    max_iterations: int | None = None
    timeout: float | None = None
    """Active seconds of a run."""
    max_cost: float | None = None
    """US dollars."""
    model: str = ""
    effort: Effort | Literal[""] = ""
    service_tier: AskedTier = ""
    """How the service of its model serves its requests."""
    sub_agents: tuple[str, ...] | Literal["*"] = ()
    """Profiles that it may delegate to; "*": all."""
    memory: Memory = "read"
    mode: ConfiguredMode | Literal[""] = ""
    supervision: Supervision | Literal[""] = ""
    """Can only be stricter than that of the parent."""
    isolation: Literal["", "worktree"] = ""
    """"worktree" for a separate git worktree."""
    project_context: bool = False
    """Whether its prompt includes AGENTS.md."""
    temperature: float | None = None
    """For sampling, from 0 to 2; None: the model's default."""
    result_chars: int | None = None
    """Characters of its result that its parent reads at once, if the settings allow as many."""
    path: str = ""
    origin: Origin = "user"
    mcp_servers: tuple[str, ...] = ()
    """MCP servers whose tools it may use, if its parent may."""
    mcp_inline: dict[str, dict[str, Any]] = {}
    """Those of its MCP servers that it defines itself, as written."""
    imported: bool = False
    """Whether it was written for another tool."""
    skills: tuple[str, ...] | None = None
    """Patterns for the names of the skills that it may see and load; None: those of its parent."""
    preload_skills: tuple[str, ...] = ()
    """Skills that are in its first message."""
    notices: tuple[str, ...] = ()
    external: ExternalAgent | None = None
    """The program that does its work; None: a model does."""
    models: tuple[str, ...] = ()
    """Its ladder: the models that work one after the other until `check` passes; () for none."""
    check: str = ""
    """The command that decides whether the work of a model of the ladder counts."""
    ladder: Literal["", "fresh"] = ""
    """`fresh`: each model of the ladder begins with the files as they were."""

    @property
    def program(self) -> str:
        """What people call the program that does its work, "" if a model does."""
        return "" if self.external is None else self.external.name or self.name

    @property
    def limits(self) -> Limits:
        """The limits that it sets itself."""
        return Limits(self.max_token_budget, self.max_cost, self.max_iterations, self.timeout)

    def select(self, parent: Iterable[str]) -> tuple[str, ...]:
        """The tools of an agent with this profile, from those of its parent and in their order. Delegation tools are
        included if `sub_agents` is not empty; the caller checks the depth and adds `task_result`."""
        return tuple(name for name in parent if self._has(name))

    def names_server_tool(self, name: str) -> bool:
        """Whether it names this tool of an MCP server, or the server and none of its tools."""
        server = f"{SERVER_PREFIX}{name.removeprefix(SERVER_PREFIX).partition('__')[0]}"
        listed = self.allowed_tools if isinstance(self.allowed_tools, tuple) else ()
        of_server = [glob for glob in listed if glob == server or glob.startswith(f"{server}__")]
        if of_server or server.removeprefix(SERVER_PREFIX) not in self.mcp_servers:
            return any(_matches(name, glob) for glob in listed)
        return True

    def _has(self, name: str) -> bool:
        if name.startswith(SERVER_PREFIX):
            refused = any(_matches(name, glob) for glob in self.disallowed_tools)
            return not refused and (self.allowed_tools == "*" or self.names_server_tool(name))
        if name in self.disallowed_tools:
            return False
        if name in TOOLS.granted_by("sub_agents"):
            return bool(self.sub_agents)
        if name == SKILL and (self.skills is not None or self.allowed_tools is None):
            return self.skills != ()
        if name == MEMORY_SAVE and self.memory != "tagged":
            return False
        if name == MEMORY_LOAD and self.memory == "none":
            return False
        if self.allowed_tools == "*":
            return True
        return name in (TOOLS.by_default if self.allowed_tools is None else self.allowed_tools)


def _matches(name: str, glob: str) -> bool:
    """Whether the name of a server's tool is matched by an entry of a profile: a tool, a pattern, or a whole server."""
    return glob.startswith(SERVER_PREFIX) and (fnmatchcase(name, glob) or name.startswith(f"{glob}__"))
