"""Makes the agents of a session from profiles, with their rights, tools, budgets and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from friday_cli.core.agent.agent import Agent
from friday_cli.core.agent.supervision import strictest
from friday_cli.core.limits.budget import Budget
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import FridayError, ToolError, UsageError
from friday_cli.core.protocol.events import Notice, Prefix, ToolSpec
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.limits import lowest
from friday_cli.core.protocol.messages import Message
from friday_cli.core.protocol.provider import Effort, Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import SERVER_HELPERS, TASK_RESULT, WEB_SEARCH
from friday_cli.core.subagents.driver import Driver
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.core.subagents.resume import budget_left, restore
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.tool_catalog import EXTERNAL
from friday_cli.extensions.instructions import Instructions
from friday_cli.extensions.profiles import TURNS_HARD, Profile
from friday_cli.llm.models import ModelChoice
from friday_cli.tools.delegate.report import report_from_log

from . import system_prompt
from .agent_rules import profile_rights
from .agent_tools import AgentTools
from .blueprint import AgentBlueprint, make_agent
from .caller import Caller, budget_below, model_below
from .child_limits import child_limits
from .drivers import Drivers
from .provider_pool import require_price
from .servers import described, with_servers, without_server_notes
from .shared_resources import SharedResources
from .small_window import listed_tools
from .start_notices import few_tokens_notices, missing_tool_notices, search_missing, small_window_notices
from .sub_agents import SubAgentChoice
from .tool_schemas import KeptSchemas
from .tool_sources import NewAgent
from .worktree_changes import WorktreeChanges

if TYPE_CHECKING:
    from friday_cli.core.eventlog.replay import AgentRecord

ROOT = "friday"
"""The profile name of the main agent if no profile is chosen for it."""
ROOT_TURNS = 200
"""Turns of the main agent for one prompt if no limit is set."""


class RootOptions(msgspec.Struct, frozen=True):
    """The options of the main agent: its model, its profile (None: `ROOT`), its rules, and the program that makes its calls
    (None: its model does)."""

    choice: ModelChoice
    profile: Profile | None
    rules: Rules
    caller: Caller | None = None


class AgentFactory(msgspec.Struct, eq=False, kw_only=True):
    """Implements `AgentHost` for a session. `environment` and `instructions` go into the prompts of the agents. A context
    that is too long for a prompt is written into the folder that `overflow_folder` returns. `noted`: the tools of which the
    person was told that they are not available here."""

    shared: SharedResources
    tools: AgentTools
    root: RootOptions
    environment: system_prompt.Environment
    instructions: Instructions
    overflow_folder: Callable[[], Path]
    sub_agents: SubAgentChoice
    schemas: KeptSchemas
    drivers: Drivers
    noted: set[str] = msgspec.field(default_factory=set)

    def build_root(self, tree: SubagentTree) -> Agent:
        """The main agent. Raises FridayError for a model or profile that cannot be used."""
        limits, persona, rules = self.shared.settings.limits, self.root.profile, self.root.rules
        provider = self.shared.providers.get(self.root.choice)
        caller = self.root.caller
        budget = Budget("a") if caller and caller.alone else Budget("a", tokens=limits.max_tokens, cost=limits.max_cost)
        require_price(provider, budget)
        fallback: Provider | None = None
        targets = self.tools.targets("a", persona, self.shared.services.policy.max_depth)
        new = NewAgent(tree, "a", persona, provider, rules, targets)
        tools = self.tools.tools_for(new)
        if persona:
            rules = _profile_rules(rules, persona, tools)
        tools = self.tools.skills.tools_for(new, tools, rules)
        if persona:
            rules.allowed = _root_allowed(tools)
        system = system_prompt.root_prompt(
            self.environment,
            listed_tools(tools, provider.window),
            children=targets,
            window=provider.window,
            instructions=self.instructions,
            persona=persona,
            known_tools=rules.tools,
            searches=not search_missing(persona, tools, rules),
        )
        if self.shared.settings.fallback_model:
            fallback, _ = self.shared.providers.named(self.shared.settings.fallback_model, "fallback_model")
            require_price(fallback, budget)
        blueprint = AgentBlueprint(
            new=new,
            profile=persona.name if persona else ROOT,
            system=self.tools.with_instructions(system, new, tools),
            specs=self.specs(tools, persona, provider.window),
            tools=tools,
            rules=rules,
            budget=budget,
            workspace=self.shared.services.workspace,
            caller=caller,
            max_depth=self.shared.services.policy.max_depth,
            max_turns=limits.max_turns or (persona and persona.max_iterations) or ROOT_TURNS,
            time_s=limits.timeout or (persona and persona.timeout) or 0.0,
            effort=self.root.choice.effort,
            temperature=persona.temperature if persona else None,
            fallback=fallback,
            supervision=self.shared.settings.agents.delegation.supervision,
            start_events=(
                *missing_tool_notices(
                    new, rules, tools, answerable=self.shared.services.approvals.interactive, told=self.noted
                ),
                *small_window_notices(provider, self.root.choice),
            ),
        )
        if targets and self.shared.settings.subagent_model and not is_demo(provider.name):
            self.shared.providers.named(
                self.shared.settings.subagent_model, "subagent_model"
            )  # an unusable one is reported now
        return self._make(blueprint)

    def driver(self, agent: Agent) -> Driver:
        """What does the work of an agent in its next run."""
        return self.drivers.of(agent)

    async def before_run(self, tree: SubagentTree, agent: Agent) -> None:
        """Give the main agent the tools of MCP servers that have changed."""
        conversation = agent.conversation
        servers, persona = self.shared.servers, self.root.profile
        if servers is None or agent.path != "a" or not await servers.prepare_run():
            return
        model = model_below(conversation.provider)
        targets = self.tools.targets("a", persona, self.shared.services.policy.max_depth)
        new = NewAgent(tree, "a", persona, model, self.root.rules, targets)
        conversation.tools = self.tools.skills.tools_for(new, self.tools.tools_for(new), agent.rules)
        agent.rules.allowed = _root_allowed(conversation.tools) if persona else None
        before = conversation.specs, conversation.system
        conversation.specs = self.specs(conversation.tools, persona, model.window)
        conversation.system = self.tools.with_instructions(
            without_server_notes(conversation.system), new, conversation.tools
        )
        if agent.run > 1 and (conversation.specs, conversation.system) != before:
            agent.start_events.append(Prefix(agent.model, conversation.system, conversation.specs))

    def specs(self, tools: Mapping[str, Tool], profile: Profile | None, window: int) -> tuple[ToolSpec, ...]:
        """What the prompt of an agent with `tools` describes of them."""
        return self.schemas.specs(described(self.shared.servers, listed_tools(tools, window), profile))

    def build(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Message]:
        """A sub-agent for `spec` and its first message. Raises ToolError, with a message for the parent's model."""
        from .first_message import first_message, fork  # most sessions start no sub-agent

        agent, profile = self._new_child(tree, parent, spec, path)
        if spec.fork:
            environment = self.shared.isolation.environment_for(agent.workspace, self.environment)
            first = fork(agent, parent, profile, spec, environment)
        else:
            chars = self.shared.settings.agents.delegation.context_chars
            first = first_message(spec, path, chars, self.overflow_folder)
        return agent, self.shared.skills.with_preface(first, agent, profile, spec.preface)

    def _new_child(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Profile]:
        """A sub-agent for `spec` without history, and its profile. Raises ToolError."""
        try:
            profile = _target(self, parent, spec)
            above = parent.conversation
            provider, effort = self.shared.providers.for_child(above.provider, profile, above.effort)
            check = _checker(spec.schema)
            above_budget = spec.budget or budget_below(parent, self.root.caller)
            limits = child_limits(profile, self.shared.settings.agents.delegation, spec.limits)
            budget = above_budget.child(path, tokens=limits.tokens, cost=limits.cost)
            require_price(provider, budget)
        except FridayError as error:
            raise ToolError(str(error)) from None
        inherited = {name: tool for name, tool in above.tools.items() if name != TASK_RESULT}
        max_depth = min(parent.max_depth, spec.max_depth or parent.max_depth)
        targets = self.tools.targets(path, profile, max_depth)
        new = NewAgent(tree, path, profile, provider, parent.rules, targets, inherited=inherited, check=check)
        return self._make(self._child(new, parent, spec, budget, effort, max_depth)), profile

    def _child(
        self,
        new: NewAgent,
        parent: Agent,
        spec: SubagentTask,
        budget: Budget,
        effort: Effort | None,
        max_depth: int,
    ) -> AgentBlueprint:
        """What a sub-agent is made of."""
        profile, provider, path = new.profile, new.provider, new.path
        assert profile is not None, "a sub-agent has one"
        delegation = self.shared.settings.agents.delegation
        limits = child_limits(profile, delegation, spec.limits)
        tools = self.tools.tools_for(new)
        rules = _profile_rules(parent.rules, profile, tools)
        tools = self.tools.skills.tools_for(new, tools, rules)
        workspace = spec.workspace or parent.workspace
        system = system_prompt.child_prompt(
            profile,
            self.shared.isolation.environment_for(workspace, self.environment),
            listed_tools(tools, provider.window),
            children=new.targets,
            window=provider.window,
            instructions=self.instructions,
            known_tools=rules.tools,
            searches=not search_missing(profile, tools, rules),
        )
        note = self.shared.providers.substitution_note(parent.conversation.provider, profile, provider)
        return AgentBlueprint(
            new=new,
            profile=profile.name,
            system="" if profile.external else self.tools.with_instructions(system, new, tools),
            specs=() if profile.external else self.specs(tools, profile, provider.window),
            tools=tools,
            rules=rules,
            budget=budget,
            workspace=workspace,
            parent=parent,
            max_depth=max_depth,
            max_turns=limits.turns or TURNS_HARD,
            time_s=limits.time_s or 0.0,
            result_chars=min(delegation.result_chars, profile.result_chars or delegation.result_chars),
            effort=effort,
            temperature=profile.temperature,
            fallback=parent.conversation.fallback,
            supervision=strictest(parent.supervision, profile.supervision or None),
            start_events=(
                *self.shared.isolation.assign(workspace, path),
                *few_tokens_notices(budget, path, profile.name),
                *missing_tool_notices(
                    new, rules, tools, answerable=self.shared.services.approvals.interactive, told=self.noted
                ),
                *([Notice(note, "warning")] if note else ()),
            ),
        )

    async def restore(self, tree: SubagentTree, parent: Agent, path: str, spec: SubagentTask) -> Agent:
        """An ended agent as the log has it: its history, rights, depth, model and remaining budget. `spec.limits.tokens`
        replaces its remaining tokens, out of the budget above it. Raises ToolError, LimitReached."""
        from friday_cli.core.eventlog.replay import replay  # most sessions resume no sub-agent

        events = (e for e in await self.shared.services.log.history() if is_under(e.agent, path))
        records = replay(events, report_from_log)
        record = records[path]
        try:
            self.shared.profiles.get(record.profile)
        except UsageError as error:
            raise ToolError(f"{path} cannot be resumed without its profile. {error}") from None
        most = self.shared.settings.agents.delegation.token_budget.max
        tokens, cost = budget_left(records, path, more=spec.limits.tokens, most=most)
        workspace = await self.shared.isolation.workspace_for_resume(parent, path)
        again = msgspec.structs.replace(
            spec,
            profile=record.profile,
            limits=msgspec.structs.replace(spec.limits, tokens=tokens, cost=lowest(cost, spec.limits.cost)),
            fork=False,
            max_depth=lowest(record.newest_start.max_depth, spec.max_depth),
            workspace=workspace,
        )
        try:
            agent, _ = self._new_child(tree, parent, again, path)
        except BaseException:
            if workspace is not None:
                await self.shared.isolation.cancel(workspace)
            raise
        _restore_model_and_tools(self, agent, record)
        restore(agent, records)
        self.shared.skills.restore(agent)
        return agent

    async def run_ended(self, tree: SubagentTree, path: str) -> None:
        """Look for changes in the agent's worktree."""
        await self.shared.isolation.run_ended(tree, path)

    def _make(self, blueprint: AgentBlueprint) -> Agent:
        changes = WorktreeChanges(blueprint.new.tree, self.shared.isolation, self.shared.services)
        return make_agent(blueprint, self.shared.services.log, changes.notes)


def _restore_model_and_tools(factory: AgentFactory, agent: Agent, record: AgentRecord) -> None:
    """Give `agent` its earlier model, and no tool that it did not have, even if profiles and settings changed since."""
    conversation = agent.conversation
    profile, before = factory.shared.profiles.get(record.profile), record.newest_start.tools
    left = {name: t for name, t in conversation.tools.items() if name in before}
    conversation.tools = with_servers(factory.shared.servers, left, profile)
    agent.rules.allowed = frozenset((*conversation.tools, *SERVER_HELPERS))
    conversation.specs = factory.specs(conversation.tools, profile, conversation.provider.window)
    model = record.prefix.model if record.prefix else agent.model
    if model == agent.model or is_demo(conversation.provider.name):
        return
    try:
        conversation.provider, _ = factory.shared.providers.named(model, f"the model of {agent.path}")
    except FridayError as error:
        text = f"{agent.path} resumes with {agent.model} instead of {model}: {error}"
        agent.start_events.append(Notice(text, "warning"))


def _target(factory: AgentFactory, parent: Agent, spec: SubagentTask) -> Profile:
    """The profile of a new child. Raises UsageError if its parent may not delegate to it."""
    profile = factory.shared.profiles.get(spec.profile)
    if spec.fork and profile.external is not None:
        raise UsageError(
            f"{profile.name} runs another program, which cannot continue this conversation. Leave out `fork`."
        )
    sender = factory.root.profile if parent.path == "a" else factory.shared.profiles.get(parent.profile)
    if profile not in factory.shared.profiles.children(sender):
        raise UsageError(f"The profile {parent.profile} may not delegate to {profile.name!r}.")
    by_model = parent.path == "a" and spec.call_id  # a person may still write to any agent
    if by_model and profile.name not in (chosen := factory.sub_agents.chosen):
        names = ", ".join(chosen) or "none"
        raise UsageError(
            f"The user does not allow the sub-agent {profile.name!r} in this session.", hint=f"Allowed: {names}."
        )
    return profile


def _profile_rules(parent: Rules, profile: Profile, tools: Iterable[str]) -> Rules:
    """The rules of an agent with `profile` and `tools`. It keeps the right to search the web where it cannot: the models of
    its sub-agents may be able to."""
    more = (EXTERNAL,) if profile.external else ()
    return profile_rights(parent, profile, (*tools, *SERVER_HELPERS, *more, *profile.select((WEB_SEARCH,))))


def _root_allowed(tools: Iterable[str]) -> frozenset[str]:
    """What a main agent with a profile may call, and what only its sub-agents have: `task_result` and helpers."""
    return frozenset((*tools, TASK_RESULT, *SERVER_HELPERS))


def _checker(schema: dict[str, Any] | None) -> Callable[[str], str] | None:
    """Says what is wrong with a result that must fit `schema`. Raises UsageError for an invalid schema."""
    if schema is None:
        return None
    from .output_schema import checker  # most tasks have none

    return checker(schema)
