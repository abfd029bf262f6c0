"""Makes the agents of a session from profiles, with their rights, tools, budgets and prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from friday_cli.core.agent.agent import Agent, Conversation
from friday_cli.core.agent.supervision import strictest
from friday_cli.core.limits.budget import Budget
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.agent_path import is_under
from friday_cli.core.protocol.errors import FridayError, ToolError, UsageError
from friday_cli.core.protocol.events import Notice, WorkspaceFound
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.limits import least, lowest
from friday_cli.core.protocol.messages import Message
from friday_cli.core.protocol.provider import Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import SERVER_HELPERS, TASK_RESULT
from friday_cli.core.subagents.driver import Driver
from friday_cli.core.subagents.node import SubagentTask
from friday_cli.core.subagents.resume import (
    EarlierRuns,
    budget_left,
    earlier_runs,
    prefix_of,
)
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.tool_catalog import EXTERNAL
from friday_cli.extensions.profiles import TURNS_HARD, Profile
from friday_cli.llm.models import ModelChoice
from friday_cli.tools.delegate.report import report_from_log

from .agent_prompts import AgentPrompts
from .agent_rules import earlier_rights, own_rules, rights_of, start_as_before
from .agent_tools import AgentTools
from .blueprint import AgentBlueprint, NewAgent, make_agent, profile_of
from .caller import Caller, CallerProvider, budget_below, model_below, with_images
from .child_limits import child_limits
from .provider_pool import require_price
from .shared_resources import SharedResources
from .start_notices import few_tokens_notices, small_window_notices
from .sub_agents import SubAgentChoice
from .tool_sources import without_server_notes
from .worktree_changes import WorktreeChanges

if TYPE_CHECKING:
    from friday_cli.core.eventlog.replay import AgentRecord

ROOT = "friday"
"""The profile name of the main agent if no profile is chosen for it."""
ROOT_TURNS = 200
"""Turns of the main agent for one prompt if no limit is set."""


class RootOptions(msgspec.Struct, frozen=True):
    """The options of the main agent: its model, its profile (None: `ROOT`), its rules, what the log says of its folder, and the program
    that makes its calls (None: its model does). `keeps_rights`: resumed, it gets no more than its profile let it do."""

    choice: ModelChoice
    profile: Profile | None
    rules: Rules
    found: WorkspaceFound
    caller: Caller | None = None
    keeps_rights: bool = False


class AgentFactory(msgspec.Struct, eq=False, kw_only=True):
    """Implements `AgentHost` for a session."""

    shared: SharedResources
    tools: AgentTools
    prompts: AgentPrompts
    root: RootOptions
    overflow_folder: Callable[[], Path]
    """Where a context is written that is too long for a prompt."""
    sub_agents: SubAgentChoice
    driver: Callable[[Agent], Driver]
    """Makes what does the work of an agent in its next run."""

    def build_root(self, tree: SubagentTree, records: Mapping[str, AgentRecord]) -> Agent:
        """The main agent; a resumed one as the `records` of the log have it. Raises FridayError for a model or profile that cannot be used."""
        limits, profile, caller = self.shared.settings.limits, self.root.profile, self.root.caller
        provider = self.shared.providers.of_root(self.root.choice, profile)
        budget = Budget("a") if caller and caller.alone else Budget("a", tokens=limits.max_tokens, cost=limits.max_cost)
        require_price(provider, budget)
        new = self._new_root(tree, provider)
        had = records["a"].rights if self.root.keeps_rights else []
        if profile is not None:
            above = earlier_rights(new.rules_above, had, rights_of(profile), profile.name)
            new = msgspec.structs.replace(new, rules_above=above)
        rules, tools = self._root_tools(new)
        start_as_before(rules, had, self.shared.profiles.found)
        conversation = self._root_conversation(new, rules, tools, budget)
        earlier = EarlierRuns()
        if "a" in records:
            from .resumed_agent import resumed_root  # a new session has none

            conversation, earlier = resumed_root(conversation, records["a"]), earlier_runs(records, "a")
            used = earlier.usage + earlier.below
            budget.charge(used.billed, used.cost_usd)
            self.shared.skills.allow_loaded(rules, conversation.history)
        blueprint = AgentBlueprint(
            new=new,
            profile=conversation.cache_key,
            conversation=conversation,
            earlier=earlier,
            rules=rules,
            budget=budget,
            workspace=self.shared.services.workspace,
            max_depth=self.shared.services.policy.max_depth,
            max_turns=limits.max_turns or (profile and profile.max_iterations) or ROOT_TURNS,
            time_s=limits.timeout or (profile and profile.timeout) or 0.0,
            supervision=self.shared.settings.agents.delegation.supervision,
            profile_rights=None if profile is None else rights_of(profile),
            start_events=(
                self.root.found,
                *self.tools.missing(new, rules, tools),
                *small_window_notices(provider, self.root.choice),
            ),
        )
        if new.targets and self.shared.settings.subagent_model and not is_demo(provider.name):
            self.shared.providers.named(
                self.shared.settings.subagent_model, "subagent_model"
            )  # an unusable one is reported now
        return self._make(blueprint)

    def _new_root(self, tree: SubagentTree, provider: Provider) -> NewAgent:
        targets = self.tools.targets("a", self.root.profile, self.shared.services.policy.max_depth)
        return NewAgent(tree, "a", self.root.profile, provider, self.root.rules, targets)

    def _root_tools(self, new: NewAgent, rules: Rules | None = None) -> tuple[Rules, dict[str, Tool]]:
        """The rights of the main agent, new ones or its `rules`, and what it may call. With a profile it may call these, and what
        only its sub-agents have: `task_result` and helpers."""
        tools = self.tools.tools_for(new)
        if rules is None:
            rules = new.rules_above if new.profile is None else own_rules(new.rules_above, new.profile, tools)
        tools = self.tools.skills.tools_for(new, tools, rules)
        if new.profile is not None:
            rules.allow_only((*tools, TASK_RESULT, *SERVER_HELPERS))
        return rules, tools

    def _root_conversation(self, new: NewAgent, rules: Rules, tools: dict[str, Tool], budget: Budget) -> Conversation:
        profile, caller, spare = new.profile, self.root.caller, self.shared.settings.fallback_model
        fallback = self.shared.providers.named(spare, "fallback_model")[0] if spare else None
        if fallback is not None:
            require_price(fallback, budget)
        sends_nothing = caller is not None and caller.alone
        return Conversation(
            CallerProvider(caller, new.provider) if caller else new.provider,
            "" if sends_nothing else self.prompts.of_root(new, rules, tools),
            self.tools.specs(tools, profile, new.provider.window),
            tools,
            cache_key=profile.name if profile else ROOT,
            effort=self.root.choice.effort,
            temperature=profile.temperature if profile else None,
            fallback=None if sends_nothing else fallback,
        )

    async def before_run(self, tree: SubagentTree, agent: Agent) -> None:
        """Give the main agent the tools of MCP servers that have changed."""
        conversation, servers = agent.conversation, self.shared.servers
        if servers is None or agent.path != "a" or not await servers.prepare_run():
            return
        new = self._new_root(tree, model_below(conversation.provider))
        _, tools = self._root_tools(new, agent.rules)
        system = self.tools.with_instructions(without_server_notes(conversation.system), new, tools)
        if (
            conversation.offer(system, self.tools.specs(tools, new.profile, new.provider.window), tools)
            and agent.run > 1
        ):
            agent.log_at_start(prefix_of(conversation))

    def build(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Message]:
        """A sub-agent for `spec` and its first message. Raises ToolError, with a message for the parent's model."""
        from .first_message import first_message, forked, message_to_fork  # most sessions start no sub-agent

        blueprint = self._child_blueprint(tree, parent, spec, path)
        profile, conversation = profile_of(blueprint.new), blueprint.conversation
        if spec.fork:
            conversation = forked(conversation, parent.conversation)
            environment = self.shared.isolation.environment_for(blueprint.workspace, self.prompts.environment)
            first = message_to_fork(conversation, profile, path, spec, environment)
        else:
            chars = self.shared.settings.agents.delegation.context_chars
            first = with_images(first_message(spec, path, chars, self.overflow_folder), parent, self.root.caller)
        loaded = self.shared.skills.preload(path, profile, blueprint.rules, spec.skill)
        blueprint = msgspec.structs.replace(
            blueprint,
            conversation=conversation,
            earlier=EarlierRuns(receipt_builder=loaded.receipt_builder),
            start_events=(*blueprint.start_events, *loaded.events),
        )
        return self._make(blueprint), loaded.before(first)

    def _child_blueprint(self, tree: SubagentTree, parent: Agent, spec: SubagentTask, path: str) -> AgentBlueprint:
        """What a sub-agent for `spec` is made of, without history. Raises ToolError."""
        delegation, above = self.shared.settings.agents.delegation, parent.conversation
        try:
            profile = self.sub_agents.profile_to_start(parent, spec)
            provider, effort = self.shared.providers.for_child(above.provider, profile, above.effort)
            check = _checker(spec.schema)
            limits = child_limits(profile, delegation, least(spec.limits, *(had.limits for had in spec.earlier_rights)))
            payer = spec.budget or budget_below(parent, self.root.caller)
            budget = payer.child(path, tokens=limits.tokens, cost=limits.cost)
            require_price(provider, budget)
        except FridayError as error:
            raise ToolError(str(error)) from None
        inherited = {name: tool for name, tool in above.tools.items() if name != TASK_RESULT}
        max_depth = min(parent.max_depth, spec.max_depth or parent.max_depth)
        targets = self.tools.targets(path, profile, max_depth)
        rights = rights_of(profile, child_limits(profile, delegation))
        above_rules = earlier_rights(parent.rules, spec.earlier_rights, rights, profile.name)
        new = NewAgent(tree, path, profile, provider, above_rules, targets, inherited=inherited, check=check)
        tools = self.tools.tools_for(new)
        rules = own_rules(above_rules, profile, tools)
        tools = self.tools.skills.tools_for(new, tools, rules)
        workspace = spec.workspace or parent.workspace
        conversation = Conversation(
            provider,
            "" if profile.external else self.prompts.of_child(new, rules, tools, workspace),
            () if profile.external else self.tools.specs(tools, profile, provider.window),
            tools,
            cache_key=profile.name,
            effort=effort,
            temperature=profile.temperature,
            fallback=above.fallback,
        )
        note = self.shared.providers.substitution_note(above.provider, profile, provider)
        return AgentBlueprint(
            new=new,
            profile=profile.name,
            conversation=conversation,
            rules=rules,
            budget=budget,
            workspace=workspace,
            parent=parent,
            max_depth=max_depth,
            max_turns=limits.turns or TURNS_HARD,
            time_s=limits.time_s or 0.0,
            result_chars=min(delegation.result_chars, profile.result_chars or delegation.result_chars),
            supervision=strictest(
                parent.supervision, *(one.supervision or None for one in (rights, *spec.earlier_rights))
            ),
            profile_rights=rights,
            start_events=(
                *self.shared.isolation.assign(workspace, path),
                *few_tokens_notices(budget, path, profile.name),
                *self.tools.missing(new, rules, tools),
                *([Notice(note, "warning")] if note else ()),
            ),
        )

    async def restore(self, tree: SubagentTree, parent: Agent, path: str, spec: SubagentTask) -> Agent:
        """An ended agent as the log has it: its history, rights, depth, model and remaining budget. `spec.limits.tokens`
        replaces its remaining tokens, out of the budget above it. Raises ToolError, LimitReached."""
        from friday_cli.core.eventlog.replay import replay  # most sessions resume no sub-agent

        from .resumed_agent import as_before

        events = (e for e in await self.shared.services.log.history() if is_under(e.agent, path))
        records = replay(events, report_from_log)
        record = records[path]
        try:
            profile = self.shared.profiles.get(record.profile)
        except UsageError as error:
            raise ToolError(f"{path} cannot be resumed without its profile. {error}") from None
        if record.model.startswith(f"{EXTERNAL}/") != (profile.external is not None):
            works = f"runs {profile.program}" if profile.external else "uses a model"
            raise ToolError(f"{path} cannot be resumed: its profile {profile.name} {works} now.")
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
            earlier_rights=record.rights,
        )
        try:
            blueprint = self._child_blueprint(tree, parent, again, path)
        except BaseException:
            if workspace is not None:
                await self.shared.isolation.cancel(workspace)
            raise
        return self._make(as_before(blueprint, record, earlier_runs(records, path), self.shared, self.tools))

    async def run_ended(self, tree: SubagentTree, path: str) -> None:
        """Look for changes in the agent's worktree."""
        await self.shared.isolation.run_ended(tree, path)

    def _make(self, blueprint: AgentBlueprint) -> Agent:
        changes = WorktreeChanges(blueprint.new.tree, self.shared.isolation, self.shared.services)
        return make_agent(blueprint, self.shared.services.log, changes.notes)


def _checker(schema: dict[str, Any] | None) -> Callable[[str], str] | None:
    """Says what is wrong with a result that must fit `schema`. Raises UsageError for an invalid schema."""
    if schema is None:
        return None
    from .output_schema import shared_checker  # most tasks have none

    return shared_checker(schema)
