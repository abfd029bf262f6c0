"""The tools of the agents of a session: those that profiles select from, and those for delegation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from friday_cli.config import Settings
from friday_cli.config.settings import DelegationSettings
from friday_cli.core.agent.agent import Services
from friday_cli.core.limits.forecast import PastRun, forecast
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.agent_path import depth_of
from friday_cli.core.protocol.errors import FridayError, StoreError, ToolError
from friday_cli.core.protocol.forecast import Forecast
from friday_cli.core.protocol.messages import Usage
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import ASK_USER, DELEGATE_TASK, MAP_TASKS, SKILL, WEB_SEARCH, ToolCatalog
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents.node import AgentSummary, SpawnEstimate, SubagentTask
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions.profiles import Profile, Profiles
from friday_cli.store.memory import StoredMemory
from friday_cli.tools import delegate, documents, worktree

from .isolation import WorktreeIsolation
from .provider_pool import ProviderPool
from .servers import with_servers
from .service_search import ServiceSearch
from .skills import SessionSkills
from .spawn_limits import SpawnLimiter
from .sub_agent_list import sub_agent_list
from .worktree_changes import WorktreeChanges

if TYPE_CHECKING:
    from friday_cli.mcp.pool import ServerPool

SUMMARIZER = "summarizer"
"""The profile that shortens long results."""
PastRuns = Callable[[str, str], Awaitable[Sequence[PastRun]]]
"""Returns the earlier delegations that a forecast for a profile on a model is made from."""


class AgentTools:
    """Makes tools. `memory_store` is what the memory tools read and write, `servers` are the MCP servers of the session, `own`
    tools of the program that opened it."""

    def __init__(
        self,
        services: Services,
        isolation: WorktreeIsolation,
        providers: ProviderPool,
        *,
        settings: Settings,
        profiles: Profiles,
        memory_store: StoredMemory,
        past_runs: PastRuns,
        skills: SessionSkills,
        servers: ServerPool | None = None,
        own: Sequence[Tool] = (),
    ) -> None:
        self._own = own
        self._services = services
        self._isolation = isolation
        self._providers = providers
        self._settings = settings
        self._profiles = profiles
        self._memory = memory_store
        self._skills = skills
        self.servers = servers
        self.map_tool: Callable[[SubagentTree], Tool] | None = None
        """Makes the tool for batches of the main agent."""
        delegation = settings.agents.delegation
        self.highest_cost = partial(highest_cost, delegation, profiles, providers)
        self.forecast = partial(forecast_of, profiles, providers, past_runs)
        self._limiter = SpawnLimiter(services, delegation, self.highest_cost)

    def selectable(self, catalog: ToolCatalog) -> dict[str, Tool]:
        """Every tool that a profile can select. The module of a group makes its tools with the arguments given here."""
        limits = self._settings.tools
        given: dict[str, dict[str, Any]] = {
            "shell": {
                "timeout_s": limits.bash_timeout,
                "longest_s": limits.bash_max_timeout,
                "confined": bool(self._services.workspace.sandbox_access("")),
            },
            "web": {
                "private": limits.web_allow_private,
                "pdf": documents.pdf_text,
                "search": self._providers.search_tool,
            },
            "memory": {"memory": self._memory},
            ASK_USER: {"attended": self._services.approvals.interactive},
        }
        made: list[Tool] = []
        for group in catalog.groups("profile"):
            made += import_module(f"friday_cli.tools.{group}").tools(**given.get(group, {}))
        return {tool.name: tool for tool in (*made, *self._own)} | (self.servers.tools() if self.servers else {})

    def of_root(
        self,
        tree: SubagentTree,
        provider: Provider,
        profile: Profile | None,
        rules: Rules,
        *,
        targets: Sequence[Profile],
    ) -> dict[str, Tool]:
        """The tools that the main agent may call."""
        tools = self.with_service_search(tree, self.selectable(rules.tools), provider, rules)
        if profile:
            tools = {name: tools[name] for name in profile.select(tools)}
        tools = self.with_delegation(tree, with_servers(self.servers, tools, profile), targets, provider.window)
        if self.map_tool is not None and targets:
            tools[MAP_TASKS] = self.map_tool(tree)
        return tools

    def with_service_search(
        self, tree: SubagentTree, tools: Mapping[str, Tool], provider: Provider, rules: Rules
    ) -> dict[str, Tool]:
        """`tools` of an agent with `provider` and a parent with `rules`. Where no search service is configured they have
        `web_search` exactly if the model's service can search."""
        if self._providers.search_tool is not None:
            return dict(tools)
        others = {name: tool for name, tool in tools.items() if name != WEB_SEARCH}
        if self._providers.searching(provider) is None or not rules.may(WEB_SEARCH):
            return others
        return {**others, WEB_SEARCH: ServiceSearch(tree, self._services, self._providers).tool()}

    def with_skills(
        self, tree: SubagentTree, tools: dict[str, Tool], rules: Rules, window: int, profile: Profile | None
    ) -> dict[str, Tool]:
        """`tools` with the tool for the skills that an agent with `rules` and `profile` may load; without it if there are none.
        `window`: tokens of the model's context."""
        if profile is not None and not profile.select((SKILL,)):
            return tools
        return self._skills.with_tool(tree, tools, rules, window, self._limiter)

    def targets(self, path: str, profile: Profile | None, max_depth: int) -> tuple[Profile, ...]:
        """The profiles that an agent may delegate to; none at `max_depth`."""
        if not self._settings.agents.delegation.enabled or depth_of(path) >= max_depth:
            return ()
        return self._profiles.children(profile)

    def with_delegation(
        self, tree: SubagentTree, tools: Mapping[str, Tool], targets: Sequence[Profile], window: int
    ) -> dict[str, Tool]:
        """`tools` with the tools for delegation to `targets`; without those if there are no targets. `window`: tokens of the
        model's context; a search is included if the prompt cannot list all targets in its share."""
        delegation = self._settings.agents.delegation
        changes = WorktreeChanges(tree, self._isolation, self._services)
        host = SessionDelegation(tree, self._isolation, changes, self._limiter, delegation, forecast=self.forecast)
        settings = delegate.DelegateSettings(
            searchable=tuple(targets) if sub_agent_list(targets, window).hidden else (),
            isolated=frozenset(profile.name for profile in targets if profile.isolation),
            max_batch=delegation.max_batch,
        )
        made = delegate.delegate_tools(tree, host, settings)
        if self._isolation.possible:
            made += worktree.worktree_tools(changes)
        own = {tool.name: tool for tool in made}
        others = {name: tool for name, tool in tools.items() if name not in own}
        return {**others, **own} if targets else others


def highest_cost(
    delegation: DelegationSettings, profiles: Profiles, providers: ProviderPool, estimate: SpawnEstimate
) -> float | None:
    """US dollars that a sub-agent may cost at most: its whole budget, with four tokens read for each token written. None
    if the price is unknown."""
    profile = profiles.found.get(estimate.profile)
    granted = (profile and profile.max_token_budget) or delegation.token_budget.default
    tokens = min(delegation.token_budget.max, granted, estimate.max_tokens or granted)
    return _provider_of(profiles, providers, estimate).cost(Usage(input=tokens * 4 // 5, output=tokens // 5))


async def forecast_of(
    profiles: Profiles, providers: ProviderPool, past_runs: PastRuns, estimate: SpawnEstimate, size: int
) -> Forecast:
    """What a sub-agent with a task of `size` characters usually uses."""
    provider = _provider_of(profiles, providers, estimate)
    model = f"{provider.name}/{provider.model}"
    past: Sequence[PastRun] = ()
    with suppress(StoreError):  # a forecast that cannot be made stops no work
        past = await past_runs(estimate.profile, model)
    return forecast(estimate.profile, model, past, size)


def _provider_of(profiles: Profiles, providers: ProviderPool, estimate: SpawnEstimate) -> Provider:
    profile = profiles.found.get(estimate.profile)
    if profile is not None:
        with suppress(FridayError):  # an unusable model is reported when the agent is started
            return providers.for_child(estimate.above, profile)[0]
    return estimate.above


class SessionDelegation:
    """Implements `DelegationHost` for an agent of `tree`: limits on new agents, workspaces, summaries of long results."""

    def __init__(
        self,
        tree: SubagentTree,
        isolation: WorktreeIsolation,
        changes: WorktreeChanges,
        limiter: SpawnLimiter,
        settings: DelegationSettings,
        *,
        forecast: Callable[[SpawnEstimate, int], Awaitable[Forecast]],
    ) -> None:
        self._tree = tree
        self._forecast = forecast
        self._turn = asyncio.Lock()
        """Calls of one reply start their agents in its order."""
        self._isolation = isolation
        self._limiter = limiter
        self._settings = settings
        self.worktree_report = changes.report
        self.pending_note = changes.pending_note

    async def with_forecasts(self, path: str, specs: Sequence[SubagentTask]) -> list[SubagentTask]:
        above = self._tree.node(path).agent.conversation.provider
        async with self._turn:
            return [
                replace(
                    spec,
                    forecast=await self._forecast(SpawnEstimate(above, spec.profile, spec.max_tokens), len(spec.task)),
                )
                for spec in specs
            ]

    def allow_spawn(self, path: str, call_id: str, specs: Sequence[SubagentTask]) -> AbstractAsyncContextManager[None]:
        return self._limiter.allow(self._tree, path, call_id, specs)

    async def create_workspace(self, path: str) -> Workspace:
        return await self._isolation.create(self._tree.node(path).agent)

    async def cancel_workspace(self, workspace: Workspace) -> None:
        await self._isolation.cancel(workspace)

    async def summarize(self, path: str, known: AgentSummary) -> str | None:
        """A summary by a sub-agent; None if the settings want the beginning and end of the result, or it failed."""
        if self._settings.long_results != "summary":
            return None
        task = (
            "Summarize this result of a sub-agent for the agent that gave it the task. Keep all figures, paths and sources.\n"
            f"The task was:\n{known.task}\n\nThe result:\n{known.end.text if known.end else ''}"
        )
        if self._tree.node(path).agent.rules.ruled(RuleInput(DELEGATE_TASK, "spawn", (SUMMARIZER,))) is not None:
            return None
        try:
            node = self._tree.spawn(path, SubagentTask(SUMMARIZER, task, self_contained=True))
        except ToolError:
            return None
        await self._tree.wait(path, [node])
        return node.outcome.text if node.outcome.status == "completed" else None
