"""Builds the engine of a session bottom up: from the log to the tree of agents."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli import config
from friday_cli.agents import system_prompt
from friday_cli.agents.agent_factory import ROOT, AgentFactory, RootOptions
from friday_cli.agents.agent_prompts import AgentPrompts
from friday_cli.agents.agent_rules import session_rules
from friday_cli.agents.agent_tools import AgentTools
from friday_cli.agents.drivers import Drivers
from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.agents.provider_pool import ProviderPool
from friday_cli.agents.servers import open_servers
from friday_cli.agents.shared_resources import SharedResources
from friday_cli.agents.skills import SessionSkills
from friday_cli.agents.spawn_estimates import SpawnEstimates, no_past_runs
from friday_cli.agents.sub_agents import SubAgentChoice, chosen_before
from friday_cli.agents.surroundings import Surroundings
from friday_cli.agents.worktree_changes import WorktreeChanges
from friday_cli.core.agent.agent import Hooks, Services
from friday_cli.core.eventlog.log import Log, MemoryJournal
from friday_cli.core.eventlog.notices import PromptNotes
from friday_cli.core.eventlog.rewind_marks import left_behind
from friday_cli.core.limits.rate_limit import RateLimiter
from friday_cli.core.permissions.approvals import ApprovalQueue
from friday_cli.core.permissions.decision import Mode
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.tool import Tool
from friday_cli.core.protocol.tool_info import ASK_USER
from friday_cli.core.protocol.trace_context import valid_traceparent
from friday_cli.core.subagents.node import KnownAgents
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.core.tool_catalog import TOOLS
from friday_cli.extensions import trust
from friday_cli.extensions.profiles import Profile
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store
from friday_cli.system.git_head import branch
from friday_cli.system.paths import data_dir, text_of
from friday_cli.tools.delegate.report import agent_summary
from friday_cli.workspace.checkpoints.write_hook import FirstChange
from friday_cli.workspace.local import ChangeObservers, LocalWorkspace
from friday_cli.workspace.local_files import WorkspaceFiles
from friday_cli.workspace.process.command_host import CommandHost

from .open_context import OpenContext, Options, policy_of
from .parts import SessionParts, SessionStorage
from .permissions import SessionPermissions
from .resume import EventHistory
from .sandbox import sandbox_policy
from .shared_rate_limit import FileSharedRateLimit
from .watching import taint_of, telemetry_of, watcher
from .workspace_found import workspace_found

if TYPE_CHECKING:
    from friday_cli.agents.code_checks import CodeChecks
    from friday_cli.agents.project_programs import ProjectPrograms
    from friday_cli.workspace.checkpoints.recorder import CheckpointRecorder
    from friday_cli.workspace.worktrees.worktrees import Worktrees


class OwnedSession(msgspec.Struct, frozen=True):
    """A session that this process may write to."""

    id: str
    store: Store
    ownership: Ownership
    unsaved: str = ""
    """Why it is kept in memory only, for the person."""


def build(options: Options, context: OpenContext, history: EventHistory, owned: OwnedSession) -> SessionParts:
    """Build the engine bottom up. Raises FridayError for a model, profile or rule that cannot be used."""
    return _Builder(options, context, history, owned).built()


class _Builder:
    """Makes the parts of a session, each of them once, from those that it needs."""

    def __init__(self, options: Options, context: OpenContext, history: EventHistory, owned: OwnedSession) -> None:
        self._options, self._context, self._history, self._owned = options, context, history, owned
        self._settings, self._env, self._around = context.settings, context.env, options.surroundings
        self._notes = PromptNotes()
        self._problems: list[str] = []
        self._log, self._id = self.storage.log, owned.id
        self._first_change = FirstChange(partial(trust.agents_changed_files, context.trust.root, context.env))
        self._known = KnownAgents(agent_summary(one) for path, one in history.records.items() if path != "a")
        self._mode = options.mode or context.settings.mode

    def built(self) -> SessionParts:
        """All of them. What the person wrote is checked before anything is made of it."""
        context, rules, services = self._context, self.rules, self.services
        tree = self.tree
        return SessionParts(
            storage=self.storage,
            shared=self.shared,
            workspace=self.workspace,
            sandbox=context.sandbox,
            tree=tree,
            factory=self.factory,
            rules=rules,
            permissions=self.permissions,
            notes=self._notes,
            problems=self._problems,
            sub_agents=self.sub_agents,
            changes=WorktreeChanges(tree, self.shared.isolation, services),
            caller=self._options.caller,
        )

    # ---- what the engine stands on --------------------------------------------------

    @cached_property
    def storage(self) -> SessionStorage:
        """Where the session is kept, with what sees each event before it is written."""
        owned, options, history = self._owned, self._options, self._history
        taint = taint_of(history)
        telemetry, wrong = telemetry_of(self._env, owned.id, history)
        self._problems += wrong
        ledger = owned.store.spending.ledger(owned.id, self._settings.budget.on_cap, options.now)
        log = Log(
            self._around.live(owned.store.journal(owned.id, ledger)) or MemoryJournal(history.envelopes),
            last=history.last,
            earlier=history.envelopes,
            now=options.now,
            watch=watcher(taint, telemetry),
        )
        return SessionStorage(
            id=owned.id,
            store=owned.store,
            ownership=owned.ownership,
            log=log,
            ledger=ledger,
            since=history.last,
            taint=taint,
            telemetry=telemetry,
        )

    @cached_property
    def rules(self) -> Rules:
        """The rights of the main agent, with rules that were added before it is resumed. Raises UsageError for an invalid one."""
        options, context = self._options, self._context
        folders = (text_of(context.cwd), text_of(context.root))
        rules = session_rules(
            self._settings, allow=options.allow, deny=options.deny, foreign=context.project_servers, folders=folders
        )
        if (main := self._history.records.get("a")) is not None:
            rules += [parse_rule(added.rule, added.decision) for added in main.rules]
        return Rules(mode=self._mode, rules=rules, profile=options.profile or ROOT, folders=folders)

    @cached_property
    def workspace(self) -> LocalWorkspace:
        """The folder of the session on this machine."""
        host = _host(self._context, None if self._owned.store.in_memory else self._id)
        recorder = self._around.live(partial(_recorder, self._settings, self._log, self._id, self._env))
        watch = self.code.watch if self.code else None
        changes = ChangeObservers(recorder, watch, self._first_change)
        return LocalWorkspace(self._context.cwd, host, extra=self._options.add_dirs, changes=changes)

    @cached_property
    def programs(self) -> ProjectPrograms:
        """Which programs of the project may run."""
        from friday_cli.agents.project_programs import ProjectPrograms  # most sessions have neither hooks nor servers

        context = self._context
        apart, unconfined = context.trust.root != context.root, self._settings.sandbox.kind == "none"
        return ProjectPrograms(
            context.trust,
            self.workspace,
            self._env,
            unconfined=unconfined,
            apart=apart,
            first_change=self._first_change,
        )

    # ---- what all agents share ------------------------------------------------------

    @cached_property
    def providers(self) -> ProviderPool:
        """The models."""
        return ProviderPool(self._settings, self._env, self._around)

    @cached_property
    def code(self) -> CodeChecks | None:
        """What says of the changes of a session what they did to the code. None in a folder that is not trusted: language servers
        run its code."""
        context = self._context
        if not (self._settings.lsp.enabled and context.trust.ok and context.trust.root == context.root):
            return None
        from .language_servers import code_checks

        return code_checks(context, self._log)

    @cached_property
    def approvals(self) -> ApprovalQueue:
        """The questions to the person."""
        return ApprovalQueue(
            self._log,
            interactive=self._options.attended,
            on_rule_granted=self.permissions.grant,
            on_mode_chosen=self.permissions.set_mode,
        )

    @cached_property
    def permissions(self) -> SessionPermissions:
        """The mode and the rules as the person changes them."""
        return SessionPermissions(self.rules, self._log, self._notes, self._context.project_servers)

    @cached_property
    def estimates(self) -> SpawnEstimates:
        """What sub-agents may cost. The time of a replay stands still while a file is read, so it knows no earlier runs."""
        past_runs = self._around.live(self._owned.store.past_runs) or no_past_runs
        return SpawnEstimates(self._settings.agents.delegation, self._context.profiles, self.providers, past_runs)

    def _hooks(self, after_calls: Hooks | None) -> Hooks | None:
        """The hooks of the session. Without a file or a program that has some, nothing is loaded. `after_calls` answers in place of
        those that run after calls."""
        program, claude = self._options.program, self._settings.hooks.claude
        if not self._context.has_hook_files and (program is None or not (program.hooks or program.can_use)):
            return None
        from friday_cli.agents.hooks.setup import HookedSession, make_hooks

        session = HookedSession(self._id, self._log, self.approvals, self.estimates, self._known.get)
        made, problems = make_hooks(self.programs, program, session, claude=claude, after_calls=after_calls)
        self._problems += problems
        return made

    @cached_property
    def services(self) -> Services:
        """What agents do their work with."""
        options, env, telemetry, live = self._options, self._env, self.storage.telemetry, self._around.live
        return Services(
            self._log,
            self.approvals,
            self.workspace,
            policy_of(options, self._settings, env),
            options.rng,
            self.storage.taint,
            ledger=live(self.storage.ledger),
            code=live(self.code),  # what servers said is in recorded results
            hooks=self._around.hooks(self._hooks),
            supervisor=self.providers.supervisor(self.providers.get(self._context.choice)),
            make_rate_limiter=options.make_rate_limiter
            or (lambda lane: RateLimiter(options.rng, live(FileSharedRateLimit(lane, env)))),
            traceparent=valid_traceparent(env.get("TRACEPARENT", "")),
            trace=telemetry.traceparent if telemetry else None,
        )

    @cached_property
    def shared(self) -> SharedResources:
        """What agents and their tools are made from."""
        context, services, chars = self._context, self.services, self._settings.tools.output_chars
        servers = None
        if any(entry.enabled for entry in context.servers):
            servers = open_servers(context.servers, self.programs, self._log, output_chars=chars)
        return SharedResources(
            services=services,
            isolation=_isolation(context, services, self._around, self._id),
            providers=self.providers,
            settings=self._settings,
            profiles=context.profiles,
            skills=SessionSkills(context.skills, services, context.profiles, self.workspace),
            estimates=self.estimates,
            code=self.code,
            servers=servers,
        )

    # ---- the agents -----------------------------------------------------------------

    @cached_property
    def tree(self) -> SubagentTree:
        """The tree of agents with the main agent."""
        history, services, factory = self._history, self.services, self.factory
        root, left = partial(factory.build_root, records=history.records), left_behind(history.envelopes)
        wakes = self._options.caller is None or self._options.caller.alone
        return SubagentTree(services, factory, root, known=self._known, left=left, wakes=wakes)

    @cached_property
    def tools(self) -> AgentTools:
        """What makes their tools."""
        options, delegation = self._options, self._settings.agents.delegation
        memory = self._owned.store.notes.for_session(
            text_of(self._context.root), self._id, shared=delegation.context.brain_write_scope == "shared"
        )
        return AgentTools(
            self.shared,
            memory_store=memory,
            own=options.program.tools if options.program else (),
            surroundings=self._around,
            batch_tool=self._batch_tool if delegation.batches and options.map_tool is not None else None,
        )

    def _batch_tool(self, tree: SubagentTree) -> Tool:
        make = self._options.map_tool
        assert make is not None
        return make(tree, self.factory, self._id, self._context.cwd, env=self._env)

    @cached_property
    def sub_agents(self) -> SubAgentChoice:
        """The profiles that the main agent may delegate to."""
        given, history, delegation = self._options.sub_agents, self._history, self._settings.agents.delegation
        chosen = chosen_before(history.envelopes) if given is None else given
        return SubAgentChoice(self._context.profiles, self._persona, delegation, self._notes, chosen, self._log)

    @cached_property
    def _persona(self) -> Profile | None:
        profile = self._context.profiles.get(self._options.profile) if self._options.profile else None
        if profile is None or not self._options.keeps_rights:
            return profile
        return _without_new_tools(profile, self._history.records["a"].newest_start.tools)

    @cached_property
    def factory(self) -> AgentFactory:
        """What builds them."""
        options, context, tools, spill = self._options, self._context, self.tools, self.workspace.overflow.folder
        environment = _environment(context, self.workspace, self._mode, options)
        found = workspace_found(context, options)
        return AgentFactory(
            shared=self.shared,
            tools=tools,
            prompts=AgentPrompts(tools, environment, context.instructions),
            root=RootOptions(context.choice, self._persona, self.rules, found, options.caller, options.keeps_rights),
            overflow_folder=spill,
            sub_agents=self.sub_agents,
            driver=Drivers(self.shared, spill, self._around).of,
        )


def _without_new_tools(profile: Profile, had: Sequence[str]) -> Profile:
    """A profile without those of Friday's tools that are not among `had`. It may ask a person also if nobody was there before."""
    new = TOOLS.names.difference(had, (ASK_USER,))
    return msgspec.structs.replace(profile, disallowed_tools=(*profile.disallowed_tools, *new))


def _host(context: OpenContext, session: str | None) -> CommandHost:
    """How commands start. `session` has a folder for long output."""
    tools, env = context.settings.tools, context.env
    return CommandHost(
        overflow_folder=data_dir(env) / "spill" / session if session else None,
        environ=env,
        keep=tools.env_allow,
        shown=tools.output_chars,
        sandbox=sandbox_policy(context.settings, context.sandbox, env),
    )


def _recorder(
    settings: config.Settings, log: Log, session: str, env: Mapping[str, str], files: WorkspaceFiles
) -> CheckpointRecorder:
    """What saves the earlier contents of a workspace's files."""
    from .checkpoint_recorder import recorder_of

    return recorder_of(files, settings, log, session, env)


def _isolation(context: OpenContext, services: Services, around: Surroundings, session: str) -> WorktreeIsolation:
    """What gives agents worktrees of their own."""
    include, env = context.settings.agents.delegation.worktree_include, context.env

    def made(folder: Path) -> Worktrees:
        from friday_cli.workspace.worktrees.worktrees import Worktrees

        return Worktrees(folder, session=session, include=include, environ=env, workspace=(context.cwd,))

    def worktrees(folder: Path) -> Worktrees:
        return around.worktrees(partial(made, folder), services.workspace)

    return WorktreeIsolation(data_dir(env) / "worktrees" / session, worktrees, services)


def _environment(
    context: OpenContext, workspace: LocalWorkspace, mode: Mode, options: Options
) -> system_prompt.Environment:
    settings = context.settings
    return system_prompt.Environment(
        str(context.cwd),
        f"{platform.system()} {platform.release()}",  # platform.platform() runs a command
        date.fromtimestamp(options.now()).isoformat(),
        branch(context.root),
        mode,
        tuple(str(folder) for folder in workspace.roots[1:]),
        answerable=options.attended,
        sandbox=context.sandbox.kind,
        network=settings.sandbox.network,
    )
