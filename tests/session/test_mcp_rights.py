"""Rights to tools of MCP servers over random trees, profiles and server lists: an agent has a tool only if its parent and its
profile both have it, and no prompt describes what is hidden or delegated to others."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest

from friday_cli.agents.agent_rules import profile_rights
from friday_cli.agents.tool_sources import ServerHelpers
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.server_calls import server_of
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import SERVER_HELPERS
from friday_cli.extensions.profiles import Profile
from friday_cli.mcp.catalog import Catalog, CatalogCache, OfferedTool
from friday_cli.mcp.connection import ConnectionHost, ServerStream
from friday_cli.mcp.entry import ServerEntry
from friday_cli.mcp.pool import ServerPool

SERVERS, TOOL_NAMES = ("alpha", "beta", "gamma"), ("get_one", "get_two", "put")
EXPOSE = (None, "direct", "search", "delegated", "hidden")
TREES = 150


class Memory(CatalogCache):
    """Catalogs that need no file."""

    def read(self, entry: ServerEntry) -> Catalog | None:
        many = [f"more{i}" for i in range(12)] if entry.name == "gamma" else []
        return Catalog(tools=tuple(OfferedTool(name) for name in (*TOOL_NAMES, *many)), fetched=9e9)


def pool(rng: random.Random) -> tuple[ServerPool, dict[str, str | None]]:
    """A session's servers, and how each is exposed."""
    chosen = {name: rng.choice(EXPOSE) for name in rng.sample(SERVERS, rng.randint(1, 3))}
    entries = [ServerEntry(name, "stdio", command="x", expose=how) for name, how in sorted(chosen.items())]
    start: Callable[[ServerEntry], Awaitable[ServerStream]] = lambda entry: pytest.fail("started")  # noqa: E731
    return ServerPool(entries, ConnectionHost(start), Memory({"HOME": "/nowhere"}), output_chars=1000), dict(chosen)


def profile(rng: random.Random, name: str) -> Profile:
    """A profile that names some servers and tools in one of the ways that files can."""
    globs = [f"mcp__{rng.choice(SERVERS)}{end}" for end in ("", "__get_*", "__put", "__*")]
    allowed: Any = rng.choice((None, "*", tuple(rng.sample(globs, rng.randint(0, 3))), ("read_file",)))
    refused = tuple(rng.sample(globs, rng.choice((0, 0, 1))))
    servers = tuple(rng.sample(SERVERS, rng.randint(0, 2)))
    return Profile(name, "", "", allowed_tools=allowed, disallowed_tools=refused, mcp_servers=servers)


def grants(one: Profile, tool: str) -> bool:
    """What the profile's file says about a tool, in words of its own."""

    def fits(glob: str) -> bool:
        return fnmatchcase(tool, glob) or (glob.count("__") == 1 and tool.startswith(glob + "__"))

    if any(fits(glob) for glob in one.disallowed_tools):
        return False
    if one.allowed_tools == "*":
        return True
    listed = [glob for glob in one.allowed_tools or () if glob.startswith("mcp__")]
    mine = [glob for glob in listed if glob.split("__")[1] == server_of(tool)]
    return any(map(fits, mine)) if mine else server_of(tool) in one.mcp_servers


def check_tree(seed: int) -> None:
    """One random tree of four generations. Raises AssertionError with what is wrong."""
    rng = random.Random(seed)
    servers, how = pool(rng)
    held: dict[str, Tool] = ServerHelpers(servers).with_helpers(servers.tools(), None)
    rules, line = Rules(mode="yolo"), []
    everything = {f"mcp__{server}__{tool}" for server in how for tool in TOOL_NAMES}
    check_prompt(servers, held, None, how)
    for depth in range(3):
        one = profile(rng, f"p{depth}")
        line.append(one)
        inherited = {name: tool for name, tool in held.items() if name not in SERVER_HELPERS}
        held = ServerHelpers(servers).with_helpers({name: inherited[name] for name in one.select(inherited)}, one)
        rules = profile_rights(rules, one, (*held, *SERVER_HELPERS))
        check_prompt(servers, held, one, how)
        for tool in everything:
            right = how[server_of(tool)] != "hidden" and all(grants(above, tool) for above in line)
            runs = tool in held and rules.decide(RuleInput(tool, "run")).decision == "allow"
            assert runs == right, (seed, depth, tool, line)
            assert rules.decide(RuleInput(tool, "run")).decision == ("allow" if right else "deny"), (seed, depth, tool)


def check_trees(seeds: range) -> None:
    for seed in seeds:
        check_tree(seed)


def check_prompt(servers: ServerPool, held: dict[str, Tool], one: Profile | None, how: dict[str, str | None]) -> None:
    """No prompt describes a tool that the agent must not see, and each that it may call can be found."""
    seen = {tool.name for tool in ServerHelpers(servers).described(held, one)}
    findable = bool(seen & {"mcp_search"})
    for name in held:
        expose = how.get(server_of(name))
        if not name.startswith("mcp__"):
            continue
        assert expose != "hidden"
        if expose == "delegated":
            assert (name in seen) == (one is not None and one.names_server_tool(name)), (name, one)
        elif expose in ("direct", "search"):
            assert (name in seen) == (expose == "direct")
        assert name in seen or findable or expose == "delegated"


@pytest.mark.parametrize("seeds", [range(start, start + TREES) for start in (0, TREES)])
def test_a_tool_runs_only_where_parent_and_profile_both_have_it(seeds: range) -> None:
    check_trees(seeds)


def _inherits_all(self: Profile, names: Any) -> tuple[str, ...]:
    return tuple(names)


@pytest.mark.parametrize(
    ("owner", "name", "mutant"),
    [
        (Profile, "select", _inherits_all),
        (Profile, "names_server_tool", lambda self, name: server_of(name) in self.mcp_servers),
        (ServerPool, "described", lambda self, held, named: frozenset(held)),
    ],
)
def test_mutants_are_found(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, mutant: Any) -> None:
    """Inheriting everything, an own list that is ignored, and definitions for everybody."""
    monkeypatch.setattr(owner, name, mutant)
    with pytest.raises(AssertionError):
        check_trees(range(TREES))
