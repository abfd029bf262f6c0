"""Facts about tools that are available without loading them: one row per tool, and the catalogue of all rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

Effect = Literal["read", "write", "run", "net", "spawn", "save", "own"]
"""What a tool may change, which gives its default rule and what may run side by side:
`read` looks at the workspace, `write` changes files, `run` starts processes, `net` leaves the machine,
`spawn` starts agents, `save` keeps something for later sessions, `own` touches only the agent's own state."""
Grant = Literal["profile", "skills", "sub_agents", "harness"]
"""How an agent gets a tool: its profile lists it, it has skills, its profile names sub-agents, or the harness adds it."""

WEB_FETCH = "web_fetch"
"""The tool whose rules name hosts: `web_fetch(domain:example.org)` holds for commands that reach the network, too."""
WEB_SEARCH = "web_search"
"""The tool that searches the web. The model's service may run it (decision 022)."""
DELEGATION_RESULT = "get_delegation_result"
"""The tool by which an agent reads the result of a sub-agent that worked in the background."""
DELEGATE_TASK = "delegate_task"
"""The first of the tools with which an agent delegates."""
TASK_RESULT = "task_result"
"""The tool by which a sub-agent returns its result."""
ASK_USER = "ask_user"
"""The tool that asks a person."""
MAP_TASKS = "map_tasks"
"""The tool that runs a task for each of many items."""
MAP_CALLER = "friday-map"
"""Who calls the agents of `friday map`: before `OF_ITEM` in the name of their calls."""
OF_ITEM = "/item/"
"""Between the id of such a call and the key of the item, in the call id of an item's agent."""
SKILL = "skill"
"""The tool by which an agent loads the instructions of a skill."""
RESULT_FIELDS = ("result", "answer", "output", "text")
"""Arguments of `task_result` that may have the result: that of the tool first, then the names in other programs."""
SERVER_PREFIX = "mcp__"
"""How the names of tools from MCP servers begin: `mcp__SERVER__TOOL`."""
PROGRAM_PREFIX = "py__"
"""How the names of tools begin that the Python program gives which opened the session: `py__NAME`."""
EXTERNAL_PREFIXES = (SERVER_PREFIX, PROGRAM_PREFIX)
"""How the names of tools begin that are in no catalogue before a session is open."""
SERVER_HELPERS = ("mcp_search", "mcp_call", "mcp_list", "mcp_read")
"""Tools to find and call those of MCP servers. They give no right: a call of them is judged as that of the server's tool."""


class ToolEffect(msgspec.Struct, frozen=True):
    """One thing that a tool does, as its row of the catalogue declares it."""

    effect: Effect
    argument: str = ""
    """The argument that names what it does it to: a path, a profile, a host, a command (`tasks.profile`: that of each task).
    "" where only the tool itself can tell (`Tool.subjects`, `Tool.also`)."""


class CallEffect(msgspec.Struct, frozen=True):
    """One thing that a call does, and to what: path labels, profile names, `domain:host`, whole commands."""

    effect: Effect
    subjects: tuple[str, ...]


Spelling = Literal["", "with a pattern", "always"]
"""Whether a deny or ask rule with a tool's name is about the tool's effect, whichever tool has it: never, if it has a pattern, or
always."""


class ToolInfo(msgspec.Struct, frozen=True):
    """One row of the catalogue of tools."""

    name: str
    effect: Effect
    group: str = ""
    """The module below `friday_cli.tools` that makes the tool."""
    grant: Grant = "profile"
    by_default: bool = False
    """Whether a profile without `allowedTools` gets it."""
    aliases: tuple[str, ...] = ()
    """Its names in other programs; an alias may name several tools."""
    prompt_hint: str = ""
    """The system prompt's line about it; equal hints are shown once."""
    verifies: bool = True
    """Whether a call of it can back a claim."""
    exact: bool = False
    """Whether an argument that it does not have is refused even where its effect would allow leaving it out."""
    effects: tuple[ToolEffect, ...] | None = None
    """What the tool does to files, agents, hosts and processes, the one that its subjects are about first. () for a tool
    that touches only what belongs to the agent; None where it is not known (tools of servers and programs): rules
    match such a tool by its own name only."""
    spelling: Spelling = ""
    """Whether a rule with its name is a rule about its first effect."""


class ToolCatalog:
    """All tools, by name and in order. Raises ValueError for a tool of
    `friday_cli.tools` that does not say what it does."""

    def __init__(self, rows: Iterable[ToolInfo]) -> None:
        self.rows = {row.name: row for row in rows}
        if silent := [row.name for row in self if row.group and row.effects is None]:
            raise ValueError(f"The catalog does not say which effects these tools have: {', '.join(silent)}.")
        self._spelled: dict[tuple[Effect, bool], tuple[str, ...]] = {}
        self._granted: dict[Grant, frozenset[str]] = {}  # asked for each tool of each agent

    def __iter__(self) -> Iterator[ToolInfo]:
        return iter(self.rows.values())

    def __getitem__(self, name: str) -> ToolInfo:
        return self.rows[name]

    @property
    def names(self) -> frozenset[str]:
        """Every tool name that a profile or a rule may use, those of servers left out."""
        return frozenset(self.rows)

    @property
    def by_default(self) -> frozenset[str]:
        """The names of the tools of a profile without `allowedTools`."""
        return frozenset(row.name for row in self if row.by_default)

    def granted_by(self, grant: Grant) -> frozenset[str]:
        """The names of the tools with that grant."""
        if grant not in self._granted:
            self._granted[grant] = frozenset(row.name for row in self if row.grant == grant)
        return self._granted[grant]

    def groups(self, grant: Grant) -> tuple[str, ...]:
        """The groups of the tools with that grant, in order."""
        return tuple(dict.fromkeys(row.group for row in self if row.grant == grant and row.group))

    def spellings(self, effect: Effect, *, pattern: bool) -> tuple[str, ...]:
        """The tools whose names in a rule, with a `pattern` or without one, are about that effect."""
        if (effect, pattern) not in self._spelled:
            kinds = ("always", "with a pattern") if pattern else ("always",)
            rows = (row for row in self if row.spelling in kinds)
            names = tuple(row.name for row in rows if row.effects and row.effects[0].effect == effect)
            self._spelled[effect, pattern] = names
        return self._spelled[effect, pattern]

    def effect(self, name: str) -> Effect | None:
        """The effect of a tool, None for an unknown one. One of a server or a program without a row may do anything:
        `run`."""
        if name in self.rows:
            return self.rows[name].effect
        return "run" if name.startswith(EXTERNAL_PREFIXES) else None

    def named(self, alias: str) -> tuple[str, ...]:
        """Our names for another program's tool, () for an unknown one. With capital letters, case does not matter."""
        exact = alias == alias.lower()
        wanted = alias if exact else alias.lower()
        return tuple(row.name for row in self if wanted in (a if exact else a.lower() for a in row.aliases))

    def hints(self, names: Iterable[str]) -> tuple[str, ...]:
        """The lines of the system prompt for an agent with these tools."""
        held = frozenset(names)
        return tuple(dict.fromkeys(row.prompt_hint for row in self if row.prompt_hint and row.name in held))
