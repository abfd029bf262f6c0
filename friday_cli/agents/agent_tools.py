"""The tools of the agents of a session: those that profiles select from, and those for delegation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.events import Notice, ToolSpec
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import ASK_USER
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.tool_catalog import CODE, TOOLS
from friday_cli.extensions.profiles import Profile
from friday_cli.store.memory import StoredMemory
from friday_cli.tools import documents

from .blueprint import NewAgent
from .shared_resources import SharedResources
from .small_window import listed_tools
from .spawn_limits import SpawnLimiter
from .start_notices import missing_tool_notices
from .surroundings import LIVE, Surroundings
from .tool_schemas import KeptSchemas
from .tool_sources import (
    BatchSource,
    DelegationSource,
    ModelSearchSource,
    ProfileSelection,
    ResultSource,
    ServerHelpers,
    SkillSource,
    ToolSource,
)


class AgentTools:
    """Makes tools. `memory_store` is what the memory tools read and write, `own` are the
    tools of the program that opened it. `batch_tool` makes the tool for batches; None where there are none."""

    def __init__(
        self,
        shared: SharedResources,
        *,
        memory_store: StoredMemory,
        own: Sequence[Tool] = (),
        surroundings: Surroundings = LIVE,
        batch_tool: Callable[[SubagentTree], Tool] | None = None,
    ) -> None:
        self.shared = shared
        self._own, self._surroundings = own, surroundings
        self._memory = memory_store
        self.servers = shared.servers
        self.server_helpers = ServerHelpers(shared.servers)
        self._schemas = KeptSchemas(shared.providers.env)
        self._missed = set[str]()
        """The tools of which the person was told that they are not available here."""
        services, delegation = shared.services, shared.settings.agents.delegation
        limiter = SpawnLimiter(services, delegation, shared.estimates.highest_cost)
        self.skills = SkillSource(shared.skills, limiter)
        """The tool for skills: given last, since it lists those that the rights of the agent allow."""
        self._sources: tuple[ToolSource, ...] = (
            ModelSearchSource(services, shared.providers),
            ProfileSelection(),
            self.server_helpers,
            DelegationSource(services, shared.isolation, delegation, limiter, shared.estimates.forecast),
            BatchSource(batch_tool),
            ResultSource(),
        )
        """In the order in which they give tools. The selection lets in what stands before it."""

    def selectable(self) -> dict[str, Tool]:
        """Every tool that a profile can select. The module of a group makes its tools with the arguments given here."""
        limits = self.shared.settings.tools
        given: dict[str, dict[str, Any]] = {
            "shell": {
                "timeout_s": limits.bash_timeout,
                "longest_s": limits.bash_max_timeout,
                "confined": bool(self.shared.services.workspace.sandbox_access("")),
            },
            "web": {
                "private": limits.web_allow_private,
                "pdf": documents.pdf_text,
                "search": self.shared.providers.search_tool,
            },
            "memory": {"memory": self._memory},
            ASK_USER: {"attended": self.shared.services.approvals.interactive},
        }
        made: list[Tool] = []
        if (code := self.shared.code) is not None and code.has_tool:
            given[CODE] = {"servers": lambda: code.servers}
        for group in TOOLS.groups("profile"):
            if group == CODE and CODE not in given:
                continue
            made += import_module(f"friday_cli.tools.{group}").tools(**given.get(group, {}))
        return {tool.name: tool for tool in (*made, *self._own)} | (self.servers.tools() if self.servers else {})

    def targets(self, path: str, profile: Profile | None, max_depth: int) -> tuple[Profile, ...]:
        """The profiles that an agent may delegate to; none at `max_depth`."""
        if not self.shared.settings.agents.delegation.enabled or depth_of(path) >= max_depth:
            return ()
        return self.shared.profiles.children(profile)

    def tools_for(self, agent: NewAgent) -> dict[str, Tool]:
        """The tools that `agent` may call, as far as they do not depend on its own rights."""
        tools = self.selectable() if agent.inherited is None else dict(agent.inherited)
        for source in self._sources:
            tools = source.tools_for(agent, tools)
        return self._surroundings.tools(tools)

    def specs(self, tools: Mapping[str, Tool], profile: Profile | None, window: int) -> tuple[ToolSpec, ...]:
        """What the prompt of an agent with `tools` describes of them."""
        return self._schemas.specs(self.server_helpers.described(listed_tools(tools, window), profile))

    def missing(self, agent: NewAgent, rules: Rules, tools: Mapping[str, Tool]) -> list[Notice]:
        """What the person is told of tools that the profile of an agent lists and that it cannot use here."""
        answerable = self.shared.services.approvals.interactive
        return missing_tool_notices(agent, rules, tools, answerable=answerable, told=self._missed)

    def with_instructions(self, system: str, agent: NewAgent, tools: Mapping[str, Tool]) -> str:
        """A prompt that ends with what the sources say of `tools`. An empty one stays empty: another program makes the calls of
        this agent."""
        texts = (source.instructions_for(agent, tools) for source in self._sources)
        return "\n\n".join(filter(None, (system, *texts))) if system else system
