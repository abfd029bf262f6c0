"""Builds the engine of a session bottom up: from the log to the tree of agents."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache, partial
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
from friday_cli.agents.sub_agents import SubAgentChoice, chosen_before
from friday_cli.agents.worktree_changes import WorktreeChanges
from friday_cli.core.agent.agent import Hooks, Policy, Services
from friday_cli.core.eventlog.log import Log, MemoryJournal
from friday_cli.core.eventlog.rewind_marks import left_behind
from friday_cli.core.limits import retry
from friday_cli.core.limits.forecast import PastRun
from friday_cli.core.permissions.approvals import ApprovalQueue
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.trace_context import valid_traceparent
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions import trust
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store
from friday_cli.system.git_head import branch
from friday_cli.system.paths import config_dir, data_dir, text_of
from friday_cli.tools.delegate.report import agent_summary
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.local_files import WorkspaceFiles
from friday_cli.workspace.process.command_host import CommandHost
from friday_cli.workspace.process.environment import nesting_depth

from .open_context import OpenContext, Options
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
    settings, env, around = context.settings, context.env, options.surroundings
    storage = _storage(options, context, history, owned)
    rules = _rules(options, context, history)
    workspace = _workspace(options, context, storage)
    providers = ProviderPool(settings, env, around)
    code = _code_checks(context, storage.log, workspace)
    services = _services(options, context, storage, workspace, providers, code)
    programs = cache(partial(_programs, context, workspace))
    shared = SharedResources(
        services=services,
        isolation=_isolation(options, context, services, storage.id),
        providers=providers,
        settings=settings,
        profiles=context.profiles,
        skills=SessionSkills(context.skills, services, context.profiles, workspace),
        past_runs=around.live(storage.store.past_runs) or _no_past_runs,
        code=code,
        servers=open_servers(context.servers, programs, storage.log, output_chars=settings.tools.output_chars),
    )
    tools = _tools(options, context, storage, shared)
    services.hooks = around.hooks(partial(_hooks, options, context, storage.id, tools, programs))
    notes: list[str] = []
    sub_agents = _sub_agents(options, context, history, storage.log, notes)
    factory = _factory(options, context, workspace, tools, rules, sub_agents)
    if settings.agents.delegation.batches and options.map_tool is not None:
        tools.batch.make = options.map_tool(factory, storage.id, context.cwd, env=env)
    known = [agent_summary(record) for path, record in history.records.items() if path != "a"]
    tree = SubagentTree(services, factory, known=known, left=left_behind(history.envelopes))
    tree.start(factory.build_root(tree, history.records))
    return SessionParts(
        storage=storage,
        shared=shared,
        workspace=workspace,
        sandbox=context.sandbox,
        tree=tree,
        factory=factory,
        rules=rules,
        permissions=SessionPermissions(rules, storage.log, notes, services.approvals, context.project_servers),
        notes=notes,
        sub_agents=sub_agents,
        changes=WorktreeChanges(tree, shared.isolation, services),
        caller=options.caller,
    )


def _storage(options: Options, context: OpenContext, history: EventHistory, owned: OwnedSession) -> SessionStorage:
    """Where the session is kept, with what sees each event before it is written."""
    taint = taint_of(history)
    telemetry = telemetry_of(context, owned.id, history)
    ledger = owned.store.spending.ledger(owned.id, context.settings.budget.on_cap, options.now)
    log = Log(
        options.surroundings.live(owned.store.journal(owned.id, ledger)) or MemoryJournal(history.envelopes),
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


def _services(
    options: Options,
    context: OpenContext,
    storage: SessionStorage,
    workspace: LocalWorkspace,
    providers: ProviderPool,
    code: CodeChecks | None,
) -> Services:
    env, telemetry = context.env, storage.telemetry
    return Services(
        storage.log,
        ApprovalQueue(storage.log, interactive=options.attended),
        workspace,
        _policy(options, context.settings, env),
        options.rng,
        storage.taint,
        ledger=options.surroundings.live(storage.ledger),
        code=options.surroundings.live(code),  # what servers said is in recorded results
        supervisor=providers.supervisor(providers.get(context.choice)),
        shared_rate_limit=lambda lane: options.surroundings.live(FileSharedRateLimit(lane, env)),
        traceparent=valid_traceparent(env.get("TRACEPARENT", "")),
        trace=telemetry.traceparent if telemetry else None,
    )


def _code_checks(context: OpenContext, log: Log, workspace: LocalWorkspace) -> CodeChecks | None:
    """What says of the changes of a session what they did to the code. None in a folder that is not trusted: language servers run its
    code."""
    if not (context.settings.lsp.enabled and context.trust.ok and context.trust.root == context.root):
        return None
    from .language_servers import code_checks

    return code_checks(context, log, workspace)


def _tools(options: Options, context: OpenContext, storage: SessionStorage, shared: SharedResources) -> AgentTools:
    wide = context.settings.agents.delegation.context.brain_write_scope == "shared"
    memory = storage.store.notes.for_session(text_of(context.root), storage.id, shared=wide)
    own = options.program.tools if options.program else ()
    return AgentTools(shared, memory_store=memory, own=own, surroundings=options.surroundings)


async def _no_past_runs(profile: str, model: str) -> Sequence[PastRun]:
    """What forecasts of a replay are made from: its time stands still while a file is read."""
    return ()


def _factory(
    options: Options,
    context: OpenContext,
    workspace: LocalWorkspace,
    tools: AgentTools,
    rules: Rules,
    sub_agents: SubAgentChoice,
) -> AgentFactory:
    persona = context.profiles.get(options.profile) if options.profile else None
    return AgentFactory(
        shared=tools.shared,
        tools=tools,
        prompts=AgentPrompts(tools, _environment(options, context, workspace), context.instructions),
        root=RootOptions(context.choice, persona, rules, workspace_found(context, options), options.caller),
        overflow_folder=workspace.overflow.folder,
        sub_agents=sub_agents,
        driver=Drivers(tools.shared, workspace.overflow.folder, options.surroundings).of,
    )


def _sub_agents(
    options: Options, context: OpenContext, history: EventHistory, log: Log, notes: list[str]
) -> SubAgentChoice:
    """The profiles that the main agent may delegate to. `notes` are for its model, with the next prompt."""
    persona = context.profiles.get(options.profile) if options.profile else None
    chosen = chosen_before(history.envelopes) if options.sub_agents is None else options.sub_agents
    return SubAgentChoice(context.profiles, persona, context.settings.agents.delegation, notes, chosen, log)


def _programs(context: OpenContext, workspace: LocalWorkspace) -> ProjectPrograms:
    """Which programs of the project may run."""
    from friday_cli.agents.project_programs import ProjectPrograms  # most sessions have neither hooks nor servers

    apart, unconfined = context.trust.root != context.root, context.settings.sandbox.kind == "none"
    return ProjectPrograms(context.trust, workspace, context.env, apart=apart, unconfined=unconfined)


def _hooks(
    options: Options, context: OpenContext, session: str, tools: AgentTools, programs: Callable[[], ProjectPrograms]
) -> Hooks | None:
    """The hooks of the session. Without a file or a program that has some, nothing is loaded."""
    project, env, program = context.trust, context.env, options.program
    names = trust.HOOK_FILES if context.settings.hooks.claude else trust.HOOK_FILES[:1]
    files = (config_dir(env) / "hooks.json").is_file() or (project.ok and any(name in project.files for name in names))
    if not files and (program is None or not (program.hooks or program.can_use)):
        return None
    from friday_cli.agents.hooks.setup import make_hooks

    made, problems = make_hooks(project, env, tools, session=session, programs=programs(), program=program)
    context.notices += (*problems,)
    return made


def _rules(options: Options, context: OpenContext, history: EventHistory) -> Rules:
    """The rights of the main agent, with rules that were added before it is resumed. Raises UsageError for an invalid one."""
    folders = (text_of(context.cwd), text_of(context.root))
    rules = session_rules(
        context.settings, allow=options.allow, deny=options.deny, foreign=context.project_servers, folders=folders
    )
    if (main := history.records.get("a")) is not None:
        rules += [parse_rule(added.rule, added.decision) for added in main.rules]
    mode = options.mode or context.settings.mode
    return Rules(mode=mode, rules=rules, profile=options.profile or ROOT, folders=folders)


def _workspace(options: Options, context: OpenContext, storage: SessionStorage) -> LocalWorkspace:
    settings, env = context.settings, context.env
    overflow_folder = None if storage.store.in_memory else data_dir(env) / "spill" / storage.id
    return LocalWorkspace(
        context.cwd,
        CommandHost(
            overflow_folder=overflow_folder,
            environ=env,
            keep=settings.tools.env_allow,
            shown=settings.tools.output_chars,
            sandbox=sandbox_policy(settings, context.sandbox, env),
        ),
        extra=options.add_dirs,
        make_recorder=options.surroundings.live(_recorder(context, storage)),
    )


def _recorder(context: OpenContext, storage: SessionStorage) -> Callable[[WorkspaceFiles], CheckpointRecorder]:
    """Makes what saves the earlier contents of a workspace's files."""

    def make(files: WorkspaceFiles) -> CheckpointRecorder:
        from .checkpoint_recorder import recorder_of

        return recorder_of(files, context.settings, storage.log, storage.id, context.env)

    return make


def _isolation(options: Options, context: OpenContext, services: Services, session: str) -> WorktreeIsolation:
    def made(folder: Path) -> Worktrees:
        from friday_cli.workspace.worktrees.worktrees import Worktrees

        include = context.settings.agents.delegation.worktree_include
        workspace = (context.cwd,)
        return Worktrees(folder, session=session, include=include, environ=context.env, workspace=workspace)

    def worktrees(folder: Path) -> Worktrees:
        return options.surroundings.worktrees(partial(made, folder), services.workspace)

    return WorktreeIsolation(data_dir(context.env) / "worktrees" / session, worktrees, services)


def _environment(options: Options, context: OpenContext, workspace: LocalWorkspace) -> system_prompt.Environment:
    settings = context.settings
    return system_prompt.Environment(
        str(context.cwd),
        f"{platform.system()} {platform.release()}",  # platform.platform() runs a command
        date.fromtimestamp(options.now()).isoformat(),
        branch(context.root),
        options.mode or settings.mode,
        tuple(str(folder) for folder in workspace.roots[1:]),
        answerable=options.attended,
        sandbox=context.sandbox.kind,
        network=settings.sandbox.network,
    )


def _policy(options: Options, settings: config.Settings, env: Mapping[str, str]) -> Policy:
    delegation = settings.agents.delegation
    return Policy(
        compact_at=settings.context.compact_at,
        max_depth=max(0, delegation.max_depth - nesting_depth(env)),
        max_concurrent=delegation.max_concurrent,
        max_agents=delegation.max_agents,
        offline_s=_offline_s(options, settings),
        keep_warm_s=settings.context.keep_warm,
        patient=settings.limits.on_limit == "wait",
    )


def _offline_s(options: Options, settings: config.Settings) -> float:
    """Seconds without a connection after which a request fails: the time limit of a prompt, in a chat not less than the
    default."""
    usual = retry.OFFLINE_S
    return max(usual if options.attended else 0.0, settings.limits.timeout or usual)
