"""Makes the agents of a session from profiles, with their rights, tools, budgets and prompts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from friday_cli.config import Settings
from friday_cli.core.agent.agent import Agent, Conversation, Inbox, Services
from friday_cli.core.agent.supervision import strictest
from friday_cli.core.eventlog.replay import AgentRecord, replay
from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.slots import RunSlot
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import FridayError, ToolError, UsageError
from friday_cli.core.protocol.events import Notice, Prefix, ToolSpec
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.messages import Message, Usage
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import ASK_USER, SERVER_HELPERS, SKILL, TASK_RESULT, WEB_SEARCH
from friday_cli.core.protocol.workspace import Workspace
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.core.subagents.resume import budget_left, restore
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions.instructions import Instructions
from friday_cli.extensions.profiles import TOKENS_USEFUL, TURNS, TURNS_HARD, Profile, Profiles
from friday_cli.llm.models import ModelChoice
from friday_cli.tools import task_result
from friday_cli.tools.delegate.report import report_from_log

from . import small_window, system_prompt
from .agent_rules import profile_rights
from .agent_tools import AgentTools
from .caller import Caller, budget_below, drive, model_below
from .isolation import WorktreeIsolation
from .provider_pool import ProviderPool
from .servers import described, with_server_notes, with_servers
from .service_search import UNAVAILABLE
from .skills import SessionSkills
from .small_window import listed_tools
from .sub_agents import SubAgentChoice
from .tool_schemas import KeptSchemas
from .worktree_changes import WorktreeChanges

N = TypeVar("N", int, float)

ROOT = "friday"
"""The profile name of the main agent if no profile is chosen for it."""
ROOT_TURNS = 200
"""Turns of the main agent for one prompt if no limit is set."""


class RootOptions(msgspec.Struct, frozen=True):
    """How the main agent is made: its model, its profile (None: `ROOT`), its rules, and the program that makes its calls
    (None: its model does)."""

    choice: ModelChoice
    profile: Profile | None
    rules: Rules
    caller: Caller | None = None


class AgentFactory(msgspec.Struct, eq=False, kw_only=True):
    """Implements `AgentHost` for a session. `environment` and `instructions` go into the prompts of the agents. A context
    that is too long for a prompt is written into the folder that `overflow_folder` returns. `noted`: the tools of which the
    person was told that they are not available here."""

    services: Services
    isolation: WorktreeIsolation
    providers: ProviderPool
    tools: AgentTools
    root: RootOptions
    settings: Settings
    profiles: Profiles
    environment: system_prompt.Environment
    instructions: Instructions
    overflow_folder: Callable[[], Path]
    sub_agents: SubAgentChoice
    schemas: KeptSchemas
    skills: SessionSkills
    noted: set[str] = msgspec.field(default_factory=set)

    def build_root(self, tree: SubagentTree) -> Agent:
        """The main agent. Raises FridayError for a model or profile that cannot be used."""
        limits, persona, rules = self.settings.limits, self.root.profile, self.root.rules
        provider = self.providers.get(self.root.choice)
        caller = self.root.caller
        budget = Budget("a") if caller and caller.alone else Budget("a", tokens=limits.max_tokens, cost=limits.max_cost)
        _check_price(provider, budget)
        targets = self.tools.targets("a", persona, self.services.policy.max_depth)
        tools = self.tools.of_root(tree, provider, persona, rules, targets=targets)
        if persona:
            rules = _profile_rules(rules, persona, tools)
        tools = self.tools.with_skills(tree, tools, rules, provider.window, persona)
        if persona:
            rules.allowed = _root_allowed(tools)
        system = system_prompt.root_prompt(
            self.environment, listed_tools(tools, provider.window), children=targets, window=provider.window,
            instructions=self.instructions, persona=persona, known_tools=rules.tools,
            searches=not _search_missing(persona, tools, rules),
        )  # fmt: skip
        agent = self._agent(
            tree, "a", persona.name if persona else ROOT, provider=provider, system=system, tools=tools, rules=rules,
            budget=budget, workspace=self.services.workspace,
        )  # fmt: skip
        agent.max_turns = limits.max_turns or (persona and persona.max_iterations) or ROOT_TURNS
        agent.time_s = limits.timeout or (persona and persona.timeout) or 0.0
        agent.conversation.effort = self.root.choice.effort
        agent.conversation.temperature = persona.temperature if persona else None
        agent.supervision = self.settings.agents.delegation.supervision
        self._note_missing_tools(agent, persona)
        _note_small_window(agent, self.root.choice)
        if self.settings.fallback_model:
            agent.conversation.fallback, _ = self.providers.named(self.settings.fallback_model, "fallback_model")
            _check_price(agent.conversation.fallback, budget)
        if targets and self.settings.subagent_model and not is_demo(provider.name):
            self.providers.named(self.settings.subagent_model, "subagent_model")  # an unusable one is reported now
        if caller:
            drive(agent, caller)
        return agent

    async def before_run(self, tree: SubagentTree, agent: Agent) -> None:
        """Give the main agent the tools of MCP servers that have changed."""
        conversation = agent.conversation
        servers, persona = self.tools.servers, self.root.profile
        if servers is None or agent.path != "a" or not await servers.prepare_run():
            return
        model = model_below(conversation.provider)
        targets = self.tools.targets("a", persona, self.services.policy.max_depth)
        tools = self.tools.of_root(tree, model, persona, self.root.rules, targets=targets)
        conversation.tools = self.tools.with_skills(tree, tools, agent.rules, model.window, persona)
        agent.rules.allowed = _root_allowed(conversation.tools) if persona else None
        before = conversation.specs, conversation.system
        conversation.specs = self._specs(conversation.tools, persona, model.window)
        conversation.system = with_server_notes(conversation.system, servers, conversation.tools, persona)
        if agent.run > 1 and (conversation.specs, conversation.system) != before:
            agent.start_events.append(Prefix(agent.model, conversation.system, conversation.specs))

    def _specs(self, tools: Mapping[str, Tool], profile: Profile | None, window: int) -> tuple[ToolSpec, ...]:
        return self.schemas.specs(described(self.tools.servers, listed_tools(tools, window), profile))

    def build(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Message]:
        """A sub-agent for `spec` and its first message. Raises ToolError, with a message for the parent's model."""
        from .first_message import first_message, fork  # most sessions start no sub-agent

        agent, profile = self._new_child(tree, parent, spec, path)
        if spec.fork:
            environment = self.isolation.environment_for(agent.workspace, self.environment)
            first = fork(agent, parent, profile, spec, environment)
        else:
            chars = self.settings.agents.delegation.context_chars
            first = first_message(spec, path, chars, self.overflow_folder)
        return agent, self.skills.with_preface(first, agent, profile, spec.preface)

    def _new_child(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Profile]:
        """A sub-agent for `spec` without history, and its profile. Raises ToolError."""
        delegation = self.settings.agents.delegation
        try:
            profile = self._target(parent, spec)
            provider, effort = self.providers.for_child(
                parent.conversation.provider, profile, parent.conversation.effort
            )
            most = delegation.token_budget.max
            tokens = min(most, profile.max_token_budget or delegation.token_budget.default, spec.max_tokens or most)
            check = _checker(spec.schema)
            above = spec.budget or budget_below(parent, self.root.caller)
            budget = above.child(path, tokens=tokens, cost=_least(profile.max_cost, spec.max_cost))
            _check_price(provider, budget)
        except FridayError as error:
            raise ToolError(str(error)) from None
        agent = self._child(tree, parent, spec, path, profile=profile, provider=provider, budget=budget, check=check)
        agent.conversation.effort, agent.conversation.temperature = effort, profile.temperature
        if note := self.providers.substitution_note(parent.conversation.provider, profile, provider):
            agent.start_events.append(Notice(note, "warning"))
        return agent, profile

    def _target(self, parent: Agent, spec: SubagentTask) -> Profile:
        """The profile of a new child. Raises UsageError if its parent may not delegate to it."""
        profile = self.profiles.get(spec.profile)
        sender = self.root.profile if parent.path == "a" else self.profiles.get(parent.profile)
        if profile not in self.profiles.children(sender):
            raise UsageError(f"The profile {parent.profile} may not delegate to {profile.name!r}.")
        by_model = parent.path == "a" and spec.call_id  # a person may still write to any agent
        if by_model and profile.name not in (chosen := self.sub_agents.chosen):
            names = ", ".join(chosen) or "none"
            raise UsageError(
                f"The user allows no sub-agent {profile.name!r} in this session.", hint=f"Allowed: {names}."
            )
        return profile

    def _child(
        self,
        tree: SubagentTree,
        parent: Agent,
        spec: SubagentTask,
        path: str,
        *,
        profile: Profile,
        provider: Provider,
        budget: Budget,
        check: Callable[[str], str] | None,
    ) -> Agent:
        inherited = {name: t for name, t in parent.conversation.tools.items() if name != TASK_RESULT}
        inherited = self.tools.with_service_search(tree, inherited, provider, parent.rules)
        max_depth = min(parent.max_depth, spec.max_depth or parent.max_depth)
        targets = self.tools.targets(path, profile, max_depth)
        tools = {name: inherited[name] for name in profile.select(inherited)}
        tools = with_servers(self.tools.servers, tools, profile)
        tools = self.tools.with_delegation(tree, tools, targets, provider.window)
        tools[TASK_RESULT] = task_result.result_tool(check)
        rules = _profile_rules(parent.rules, profile, tools)
        if SKILL in tools:
            tools = self.tools.with_skills(tree, tools, rules, provider.window, profile)
        workspace = spec.workspace or parent.workspace
        environment = self.isolation.environment_for(workspace, self.environment)
        system = system_prompt.child_prompt(
            profile, environment, listed_tools(tools, provider.window), children=targets, window=provider.window,
            instructions=self.instructions, known_tools=rules.tools, searches=not _search_missing(profile, tools, rules),
        )  # fmt: skip
        agent = self._agent(
            tree, path, profile.name, provider=provider, system=system, tools=tools, rules=rules, budget=budget,
            workspace=workspace, parent=parent,
        )  # fmt: skip
        self.isolation.assign(agent)
        agent.max_depth = max_depth
        agent.accept = check or agent.accept
        agent.supervision = strictest(parent.supervision, profile.supervision or None)
        agent.max_turns = min(TURNS_HARD, profile.max_iterations or TURNS, spec.max_turns or TURNS_HARD)
        delegation = self.settings.agents.delegation
        agent.time_s = _least(profile.timeout or delegation.default_timeout, spec.timeout_s) or 0.0
        agent.result_chars = min(delegation.result_chars, profile.result_chars or delegation.result_chars)
        agent.conversation.fallback = parent.conversation.fallback
        _note_few_tokens(agent)
        self._note_missing_tools(agent, profile)
        return agent

    async def restore(self, tree: SubagentTree, parent: Agent, path: str, spec: SubagentTask) -> Agent:
        """An ended agent as the log has it: its history, rights, depth, model and remaining budget. `spec.max_tokens`
        replaces its remaining tokens, out of the budget above it. Raises ToolError, LimitReached."""
        events = (e for e in await self.services.log.history() if is_under(e.agent, path))
        records = replay(events, report_from_log)
        record = records[path]
        try:
            self.profiles.get(record.profile)
        except UsageError as error:
            raise ToolError(f"{path} cannot be resumed without its profile. {error}") from None
        most = self.settings.agents.delegation.token_budget.max
        tokens, cost = budget_left(records, path, more=spec.max_tokens, most=most)
        workspace = await self.isolation.workspace_for_resume(parent, path)
        again = msgspec.structs.replace(
            spec, profile=record.profile, max_tokens=tokens, max_cost=_least(cost, spec.max_cost), fork=False,
            max_depth=_least(record.newest_start.max_depth, spec.max_depth), workspace=workspace,
        )  # fmt: skip
        try:
            agent, _ = self._new_child(tree, parent, again, path)
        except BaseException:
            if workspace is not None:
                await self.isolation.cancel(workspace)
            raise
        self._restore_model_and_tools(agent, record)
        restore(agent, records)
        self.skills.restore(agent)
        return agent

    async def run_ended(self, tree: SubagentTree, path: str) -> None:
        """Look for changes in the agent's worktree."""
        await self.isolation.run_ended(tree, path)

    def _restore_model_and_tools(self, agent: Agent, record: AgentRecord) -> None:
        """Give `agent` its earlier model, and no tool that it did not have, even if profiles and settings changed since."""
        conversation = agent.conversation
        profile, before = self.profiles.get(record.profile), record.newest_start.tools
        left = {name: t for name, t in conversation.tools.items() if name in before}
        conversation.tools = with_servers(self.tools.servers, left, profile)
        agent.rules.allowed = frozenset((*conversation.tools, *SERVER_HELPERS))
        conversation.specs = self._specs(conversation.tools, profile, conversation.provider.window)
        model = record.prefix.model if record.prefix else agent.model
        if model == agent.model or is_demo(conversation.provider.name):
            return
        try:
            conversation.provider, _ = self.providers.named(model, f"the model of {agent.path}")
        except FridayError as error:
            text = f"{agent.path} resumes with {agent.model} instead of {model}: {error}"
            agent.start_events.append(Notice(text, "warning"))

    def _note_missing_tools(self, agent: Agent, profile: Profile | None) -> None:
        """Tell the person, once in a session for each tool, that an agent cannot use it here though its profile lists it."""
        searches = not _search_missing(profile, agent.conversation.tools, agent.rules)
        missing = {} if searches else {WEB_SEARCH: f"{UNAVAILABLE}. `friday doctor` says more."}
        if _lists(profile, ASK_USER) and not self.services.approvals.interactive:
            missing[ASK_USER] = "in this run there is no person who could answer."
        for tool, why in missing.items() if not is_demo(agent.model) else ():
            if tool not in self.noted:
                self.noted.add(tool)
                agent.start_events.append(Notice(f"{agent.path} ({agent.profile}) cannot use {tool}: {why}", "warning"))

    def _agent(
        self, tree: SubagentTree, path: str, profile: str, *, provider: Provider, system: str, tools: dict[str, Tool],
        rules: Rules, budget: Budget, workspace: Workspace, parent: Agent | None = None,
    ) -> Agent:  # fmt: skip
        changes = WorktreeChanges(tree, self.isolation, self.services)
        used = self.profiles.get(profile) if parent else self.root.profile
        conversation = Conversation(
            provider, with_server_notes(system, self.tools.servers, tools, used),
            self._specs(tools, used, provider.window), tools, profile,
        )  # fmt: skip
        return Agent(
            path=path, profile=profile, conversation=conversation, rules=rules, budget=budget,
            slot=RunSlot(path, log=self.services.log, slots=tree.slots if parent else None),
            inbox=Inbox(path, self.services.log), max_turns=ROOT_TURNS, time_s=0.0,
            max_depth=self.services.policy.max_depth, workspace=workspace,
            parent=parent,
            subagent_notes=lambda: "\n".join([*tree.notes(path), *changes.notes(path)]),
        )  # fmt: skip


def _profile_rules(parent: Rules, profile: Profile, tools: Iterable[str]) -> Rules:
    """The rules of an agent with `profile` and `tools`. It keeps the right to search the web where it cannot: the models of
    its sub-agents may be able to."""
    return profile_rights(parent, profile, (*tools, *SERVER_HELPERS, *profile.select((WEB_SEARCH,))))


def _note_few_tokens(agent: Agent) -> None:
    """Tell the person about a sub-agent with too few tokens for a result."""
    granted = agent.budget.tokens.limit
    if granted is not None and granted < TOKENS_USEFUL:
        tokens = f"{granted:,.0f} token{'s' * (granted != 1)}"
        few = f"With fewer than {TOKENS_USEFUL:,} a sub-agent seldom returns a result."
        agent.start_events.append(Notice(f"{agent.path} ({agent.profile}) has {tokens}. {few}", "warning"))


def _note_small_window(agent: Agent, choice: ModelChoice) -> None:
    """Tell the person about a main model with a small context window, if its local server did not report that."""
    told = any("context window" in note for note in choice.notes)
    provider = agent.conversation.provider
    if (text := small_window.warning(provider)) and not told and not is_demo(provider.name):
        agent.start_events.append(Notice(text, "warning"))


def _root_allowed(tools: Iterable[str]) -> frozenset[str]:
    """What a main agent with a profile may call, and what only its sub-agents have: `task_result` and helpers."""
    return frozenset((*tools, TASK_RESULT, *SERVER_HELPERS))


def _lists(profile: Profile | None, tool: str) -> bool:
    """Whether `profile` names `tool`."""
    return profile is not None and isinstance(profile.allowed_tools, tuple) and bool(profile.select((tool,)))


def _search_missing(profile: Profile | None, tools: Collection[str], rules: Rules) -> bool:
    """Whether `profile` lists the web search, which the `rules` of its agent allow, but it is not among its `tools`."""
    return _lists(profile, WEB_SEARCH) and WEB_SEARCH not in tools and rules.may(WEB_SEARCH)


def _checker(schema: dict[str, Any] | None) -> Callable[[str], str] | None:
    """Says what is wrong with a result that must fit `schema`. Raises UsageError for an invalid schema."""
    if schema is None:
        return None
    from .output_schema import checker  # most tasks have none

    return checker(schema)


def _least(*limits: N | None) -> N | None:
    given = [limit for limit in limits if limit is not None]
    return min(given) if given else None


def _check_price(provider: Provider, budget: Budget) -> None:
    """Raises UsageError if `budget` limits the cost and the model's price is unknown: the limit could not be kept."""
    if budget.left("cost") != float("inf") and provider.cost(Usage(input=1, output=1)) is None:
        raise UsageError(
            f"The price of {provider.name}/{provider.model} is unknown, so a cost limit cannot be kept.",
            hint="Limit tokens instead, run `friday models --prices`, or set prices under [providers] in the config.",
        )
