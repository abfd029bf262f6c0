"""Who works in a session: makes the root and every child from a profile, with its rights, tools, budget and prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from friday_cli.config import Settings
from friday_cli.core.agent.agent import Agent, Inbox, Services
from friday_cli.core.agent.supervision import strictest
from friday_cli.core.eventlog.replay import AgentRecord, replay
from friday_cli.core.limits.budget import Budget
from friday_cli.core.limits.slots import RunSlot
from friday_cli.core.permissions.rule import RuleInput
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.agent_path import depth_of, is_under
from friday_cli.core.protocol.errors import FridayError, ToolError, UsageError
from friday_cli.core.protocol.events import Notice
from friday_cli.core.protocol.messages import Message, Usage, closed, user
from friday_cli.core.protocol.provider import Effort, Provider
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import WEB_SEARCH, ToolCatalog
from friday_cli.core.subagents.node import AgentSummary, SpawnEstimate, SubagentTask
from friday_cli.core.subagents.resume import budget_left, restore
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions.instructions import Instructions
from friday_cli.extensions.profiles import TOKENS_USEFUL, TURNS, TURNS_HARD, Profile, Profiles
from friday_cli.llm import models
from friday_cli.tool_catalog import ASK_USER, TASK_RESULT
from friday_cli.tools import delegate, documents, memory, task_result, web, worktree

from . import output_schema, system_prompt
from .agent_rules import profile_rights
from .isolation import WorktreeIsolation
from .spawn_limits import SpawnLimiter

ROOT = "friday"
"""The profile name of the root without a persona."""
ROOT_TURNS = 200
"""Turns of the root for one prompt where no limit is set."""


class AgentFactory:
    """Builds agents; `offered` are the profiles that the root may delegate to. `here` and `instructions` go into their
    prompts, `recall` is what the memory tools reach; what is too long for a prompt is put into the folder that `spill`
    gives."""

    def __init__(
        self,
        world: Services,
        *,
        settings: Settings,
        profiles: Profiles,
        here: system_prompt.Environment,
        instructions: Instructions,
        recall: memory.Memory,
        session: str,
        spill: Callable[[], Path],
        env: Mapping[str, str],
        apart: WorktreeIsolation,
    ) -> None:
        self.world = world
        self.apart = apart
        self.settings = settings
        self.profiles = profiles
        self.tree: SubagentTree | None = None
        self.offered: tuple[str, ...] = ()
        self._persona: Profile | None = None
        self._here = here
        self._instructions = instructions
        self._recall = recall
        self._session = session
        self._spill = spill
        self._env = env
        self._muster = SpawnLimiter(world, settings.agents.delegation, self._price)
        self._search_tool = web.search_tool(env)
        self._providers: dict[tuple[str, bool], Provider] = {}
        self._choices: dict[Provider, models.ModelChoice] = {}

    # ---- models ------------------------------------------------------------------

    def provider(self, choice: models.ModelChoice, *, web_search: bool = False) -> Provider:
        """The provider of a model, made once; with `web_search` another one, whose service searches the web by itself."""
        key = choice.name, web_search
        if key not in self._providers:
            made = models.create_provider(choice, self.settings, env=self._env, web_search=web_search)
            self._providers[key] = made
            self._choices[made] = choice
        return self._providers[key]

    def _searching(self, agent: Agent, profile: Profile | None) -> Provider:
        """The agent's provider, with the web search of its service where no tool of ours searches and the agent may."""
        choice = self._choices.get(agent.provider)
        if choice is None:  # not made here
            return agent.provider
        may = self._search_tool is None and (profile is None or WEB_SEARCH in profile.select((WEB_SEARCH,)))
        may = may and models.can_search(choice, self.settings, env=self._env)
        return self.provider(
            choice, web_search=may and agent.rules.decide(RuleInput(WEB_SEARCH, "net")).decision == "allow"
        )

    def _named(self, name: str, source: str, effort: Effort | None = None) -> tuple[Provider, Effort | None]:
        choice = models.resolve(name, self.settings, env=self._env, effort=effort, source=source)
        return self.provider(choice), choice.effort

    def _child_provider(
        self, above: Provider, profile: Profile, inherited: Effort | None = None
    ) -> tuple[Provider, Effort | None]:
        """The model of a child whose parent's is `above`, and its effort."""
        name = profile.model or self.settings.subagent_model
        effort = profile.effort or None
        if not name or above.name == "demo":  # a demo spends nothing, whatever the settings name
            return above, effort or inherited
        source = f"profile {profile.name}" if profile.model else "subagent_model"
        return self._named(name, source, effort)

    # ---- agents ------------------------------------------------------------------

    def root(self, choice: models.ModelChoice, *, profile: str | None, rules: Rules) -> Agent:
        """The agent a person talks to. Raises FridayError for a model or profile that cannot be used."""
        limits = self.settings.limits
        provider = self.provider(choice)
        persona = self._persona = self.profiles.get(profile) if profile else None
        budget = Budget("a", tokens=limits.max_tokens, cost=limits.max_cost)
        _check_price(provider, budget)
        tools = {t.name: t for t in self._all_tools(rules.tools)}
        if persona:
            rules = self._rights(rules, persona, tools)
            tools = {name: tools[name] for name in persona.select(tools)}
        offered = self._delegation_targets(persona, "a")
        self.offered = tuple(profile.name for profile in offered)
        tools = self._with_delegation(tools, offered)
        if persona:
            rules.allowed = frozenset((*tools, TASK_RESULT))  # its sub-agents have that one, whatever it has itself
        system = system_prompt.root_prompt(
            self._here, tools, children=offered, instructions=self._instructions, persona=persona, known_tools=rules.tools
        )  # fmt: skip
        agent = self._agent("a", persona.name if persona else ROOT, provider, system, tools, rules, budget)
        agent.max_turns = limits.max_turns or (persona and persona.max_iterations) or ROOT_TURNS
        agent.time_s = limits.timeout or (persona and persona.timeout) or 0.0
        agent.effort = choice.effort
        delegation = self.settings.agents.delegation
        agent.supervision = delegation.supervision
        if delegation.supervisor_model and provider.name != "demo":
            self.world.supervisor, _ = self._named(delegation.supervisor_model, "supervisor_model")
        agent.provider = self._searching(agent, persona)
        if self.settings.fallback_model:
            agent.fallback, _ = self._named(self.settings.fallback_model, "fallback_model")
            _check_price(agent.fallback, budget)
        if offered and self.settings.subagent_model and provider.name != "demo":
            self._named(self.settings.subagent_model, "subagent_model")  # told now, and not in the middle of the work
        return agent

    def create_child(self, parent: Agent, spec: SubagentTask, path: str) -> tuple[Agent, Message]:
        """A sub-agent for `spec` and its first message. Raises ToolError in words the parent's model can use."""
        delegation = self.settings.agents.delegation
        try:
            profile = self.profiles.get(spec.profile)
            sender = self._persona if parent.path == "a" else self.profiles.get(parent.profile)
            if profile not in self.profiles.children(sender):
                raise UsageError(f"A {parent.profile} may not delegate to {profile.name!r}.")
            provider, effort = self._child_provider(parent.provider, profile, parent.effort)
            most = delegation.token_budget.max
            tokens = min(most, profile.max_token_budget or delegation.token_budget.default, spec.max_tokens or most)
            complaint = _form(spec)
            budget = parent.budget.child(path, tokens=tokens, cost=_least(profile.max_cost, spec.max_cost))
        except FridayError as error:
            raise ToolError(str(error)) from None
        try:
            _check_price(provider, budget)
        except FridayError as error:
            budget.close_reserve()
            raise ToolError(str(error)) from None
        inherited = {name: t for name, t in parent.tools.items() if name != TASK_RESULT}
        tools = {name: inherited[name] for name in profile.select(inherited)}
        offered = self._delegation_targets(profile, path)
        tools = self._with_delegation(tools, offered)
        tools[TASK_RESULT] = task_result.result_tool(complaint)
        rules = self._rights(parent.rules, profile, tools)
        workspace = spec.workspace or parent.workspace
        here = self.apart.environment_for(workspace, self._here)
        system = system_prompt.child_prompt(
            profile, here, tools, children=offered, instructions=self._instructions, known_tools=rules.tools
        )
        agent = self._agent(path, profile.name, provider, system, tools, rules, budget, parent)
        agent.workspace = workspace
        self.apart.assign(agent)
        agent.accept = complaint or agent.accept
        agent.supervision = strictest(parent.supervision, profile.supervision or None)
        wanted = spec.max_turns or TURNS_HARD
        agent.max_turns = min(TURNS_HARD, profile.max_iterations or TURNS, wanted)
        agent.time_s = _least(profile.timeout or delegation.default_timeout, spec.timeout_s) or 0.0
        agent.effort = effort
        agent.provider = self._searching(agent, profile)
        agent.fallback = parent.fallback
        granted = budget.tokens.limit
        if granted is not None and granted < TOKENS_USEFUL:
            words = f"{path} ({profile.name}) has {granted:,.0f} token{'s' * (granted != 1)}; with fewer than {TOKENS_USEFUL:,} a sub-agent"
            agent.start_events.append(Notice(f"{words} seldom gets to a result.", "warning"))
        if spec.fork:
            return agent, self._forked(agent, parent, profile, spec)
        return agent, self._first_message(spec, path)

    async def restore(self, parent: Agent, path: str, spec: SubagentTask) -> Agent:
        """An ended agent as the log knows it: its history, rights, depth, model and what is left of its budget.

        A person or its parent may give it more tokens (`spec.max_tokens`), out of what is left above it.
        """
        records = replay(e for e in await self.world.log.history() if is_under(e.agent, path))
        record = records[path]
        try:
            self.profiles.get(record.profile)
        except UsageError as error:
            raise ToolError(f"{path} cannot go on without its profile. {error}") from None
        most = self.settings.agents.delegation.token_budget.max
        tokens, cost = budget_left(records, path, more=spec.max_tokens, most=most)
        place = await self.apart.workspace_for_resume(parent, path)
        again = msgspec.structs.replace(
            spec, profile=record.profile, max_tokens=tokens, max_cost=_least(cost, spec.max_cost), fork=False,
            workspace=place,
        )  # fmt: skip
        try:
            agent, _ = self.create_child(parent, again, path)
        except BaseException:
            if place is not None:
                await self.apart.cancel(place)
            raise
        self._restore_model_and_tools(agent, record)
        restore(agent, records)
        return agent

    def _restore_model_and_tools(self, agent: Agent, record: AgentRecord) -> None:
        """Its model, and no tool that it had not, whatever profiles and settings say by now."""
        agent.tools = {name: t for name, t in agent.tools.items() if name in record.granted.tools}
        agent.rules.allowed = frozenset(agent.tools)
        agent.specs = tuple(t.spec for t in agent.tools.values())
        model = record.prefix.model if record.prefix else agent.model
        if model == agent.model or agent.provider.name == "demo":
            return
        try:
            agent.provider, _ = self._named(model, f"the model of {agent.path}")
            agent.provider = self._searching(agent, self.profiles.get(record.profile))
        except FridayError as error:
            agent.start_events.append(
                Notice(f"{agent.path} goes on with {agent.model}, not with {model}: {error}", "warning")
            )

    def _forked(self, agent: Agent, parent: Agent, profile: Profile, spec: SubagentTask) -> Message:
        """Make `agent` go on from its parent's conversation, byte for byte the same prefix; its limits act at dispatch."""
        agent.provider, agent.effort, agent.cache_key = parent.provider, parent.effort, parent.cache_key
        agent.provider = self._searching(agent, profile)  # what it may not search cannot be refused at dispatch
        agent.system, agent.specs = parent.system, parent.specs
        agent.history = closed(parent.history, why="Goes on in the main agent; you are a fork of it.")
        agent.context, agent.sent, agent.cold = parent.context, parent.sent, parent.cold
        listed = {spec.name for spec in parent.specs}
        agent.tools = {name: t for name, t in agent.tools.items() if name in listed}
        here = self.apart.environment_for(agent.workspace, self._here)
        task = spec.task
        if here.copy_of:
            task = f"[Your folder is now {here.folder}. {system_prompt.COPY.format(folder=here.copy_of)}]\n\n{task}"
        return user(system_prompt.fork_message(profile, agent.path, task, agent.tools), source="parent")

    def _first_message(self, spec: SubagentTask, path: str) -> Message:
        limit, rest = self.settings.agents.delegation.context_chars, ""
        if len(spec.context) > limit:
            with suppress(OSError):  # where nothing can be written, the message says that the end was left out
                file = self._spill() / f"context-{path}.txt"
                file.write_text(spec.context, encoding="utf-8")
                rest = str(file)
        return user(system_prompt.task_message(spec.task, spec.context, limit=limit, rest=rest), source="parent")

    def _agent(
        self,
        path: str,
        profile: str,
        provider: Provider,
        system: str,
        tools: dict[str, Tool],
        rules: Rules,
        budget: Budget,
        parent: Agent | None = None,
    ) -> Agent:
        assert self.tree is not None
        presence = RunSlot(path, log=self.world.log, slots=self.tree.slots if parent else None)
        return Agent(
            path, profile, provider, system, tuple(t.spec for t in tools.values()), tools, rules, budget, presence,
            Inbox(path, self.world.log), max_turns=ROOT_TURNS, time_s=0.0, workspace=self.world.workspace,
            cache_key=f"{self._session}:{path}", parent=parent,
        )  # fmt: skip

    # ---- rights and tools ----------------------------------------------------------

    def _rights(self, parent: Rules, profile: Profile, tools: Mapping[str, Tool]) -> Rules:
        return profile_rights(parent, profile, (*tools, *profile.select((WEB_SEARCH,))))

    def _all_tools(self, catalog: ToolCatalog) -> list[Tool]:
        """Every tool that a profile can list. A group's module makes its tools: `tools`, with what is named here."""
        limits = self.settings.tools
        given: dict[str, dict[str, Any]] = {
            "shell": {
                "timeout_s": limits.bash_timeout, "longest_s": limits.bash_max_timeout,
                "confined": bool(self.world.workspace.reach("")),
            },
            "web": {"private": limits.web_allow_private, "pdf": documents.pdf_text, "search": self._search_tool},
            "memory": {"memory": self._recall, "session": self._session},
            ASK_USER: {"attended": self.world.approvals.interactive},
        }  # fmt: skip
        made: list[Tool] = []
        for group in catalog.groups("profile"):
            made += import_module(f"friday_cli.tools.{group}").tools(**given.get(group, {}))
        return made

    def _delegation_targets(self, profile: Profile | None, path: str) -> tuple[Profile, ...]:
        """Whom an agent may delegate to; nobody at the depth limit."""
        delegation = self.settings.agents.delegation
        if not delegation.enabled or depth_of(path) >= delegation.max_depth:
            return ()
        return self.profiles.children(profile)

    def _with_delegation(self, tools: dict[str, Tool], offered: Sequence[Profile]) -> dict[str, Tool]:
        delegation = self.settings.agents.delegation
        assert self.tree is not None
        settings = delegate.DelegateSettings(
            system_prompt.catalog(offered), partial(self._muster.allow, self.tree), self.apart.create, self._summarize, delegation.max_batch,
            delegation.result_chars, isolated=frozenset(p.name for p in offered if p.isolation),
            cancel_workspace=self.apart.cancel, worktree=self.apart.report, pending=self.apart.pending_note,
        )  # fmt: skip
        made = [*delegate.delegate_tools(self.tree, settings), *worktree.worktree_tools(self.apart.settings)]
        own = {t.name: t for t in made}
        kept = {name: t for name, t in tools.items() if name not in own}
        return {**kept, **own} if offered else kept

    def _price(self, one: SpawnEstimate) -> float | None:
        """US dollars that a sub-agent may cost at most: its whole budget, four parts read to one part written."""
        delegation = self.settings.agents.delegation
        profile = self.profiles.found.get(one.profile)
        own = (profile and profile.max_token_budget) or delegation.token_budget.default
        tokens = min(delegation.token_budget.max, own, one.max_tokens or own)
        provider = one.above
        if profile is not None:
            with suppress(FridayError):  # what is wrong with its model is said when it is started
                provider, _ = self._child_provider(one.above, profile)
        return provider.cost(Usage(input=tokens * 4 // 5, output=tokens // 5))

    async def _summarize(self, path: str, known: AgentSummary) -> str | None:
        """A long result in short, by the summarizer; None where the settings want head and tail, or it failed."""
        if self.settings.agents.delegation.long_results != "summary":
            return None
        assert self.tree is not None
        task = (
            f"Summarise this result of a sub-agent for the agent that asked for it. Keep every figure, path and source. "
            f"Its task was:\n{known.task}\n\nIts result:\n{known.end.text if known.end else ''}"
        )
        try:
            node = self.tree.spawn(path, SubagentTask("summarizer", task, self_contained=True))
        except ToolError:
            return None
        await self.tree.wait(path, [node])
        return node.outcome.text if node.outcome.status == "completed" else None


def _form(spec: SubagentTask) -> Callable[[str], str] | None:
    """The check of a result's form. Raises ToolError for a schema that is none."""
    if spec.schema is None:
        return None
    try:
        return output_schema.checker(spec.schema)
    except UsageError as error:
        raise ToolError(str(error)) from None


def _least(*limits: float | None) -> float | None:
    given = [limit for limit in limits if limit is not None]
    return min(given) if given else None


def _check_price(provider: Provider, budget: Budget) -> None:
    """A cost limit cannot be kept for a model whose price nobody knows: refused rather than ignored."""
    if budget.left("cost") != float("inf") and provider.cost(Usage(input=1, output=1)) is None:
        raise UsageError(
            f"No price is known for {provider.name}/{provider.model}, so a cost limit cannot be kept.",
            hint="Limit tokens, or set prices under [providers] in the config.",
        )
