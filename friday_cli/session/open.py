"""Opens a session: reads settings, trust and profiles, then builds the engine from the log up to the tree of agents."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli import __version__, config
from friday_cli.agents import system_prompt
from friday_cli.agents.agent_factory import ROOT, AgentFactory, RootOptions
from friday_cli.agents.agent_rules import session_rules
from friday_cli.agents.agent_tools import AgentTools
from friday_cli.agents.isolation import WorktreeIsolation
from friday_cli.agents.project_programs import ProjectPrograms
from friday_cli.agents.provider_pool import ProviderPool
from friday_cli.agents.servers import open_servers
from friday_cli.agents.skills import SessionSkills
from friday_cli.agents.sub_agents import SubAgentChoice, chosen_before
from friday_cli.agents.tool_schemas import KeptSchemas
from friday_cli.agents.worktree_changes import WorktreeChanges
from friday_cli.core.agent.agent import Policy, Services
from friday_cli.core.eventlog.log import Journal, Log
from friday_cli.core.eventlog.rewind_marks import left_behind
from friday_cli.core.limits import retry
from friday_cli.core.permissions.approvals import ApprovalQueue
from friday_cli.core.permissions.rules import Rules
from friday_cli.core.protocol.errors import Unwritable
from friday_cli.core.protocol.events import SCHEMA, Envelope, Notice, SessionStarted
from friday_cli.core.protocol.format import is_caller, is_demo
from friday_cli.core.protocol.trace_context import valid_traceparent
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions import trust
from friday_cli.store.locks import Ownership
from friday_cli.store.store import Store, new_id
from friday_cli.system.paths import config_dir, data_dir, store_path, text_of
from friday_cli.tools.delegate.report import agent_summary
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.local_files import WorkspaceFiles
from friday_cli.workspace.process.environment import nesting_depth

from . import cleanup
from .open_context import OpenContext, Options, read_context
from .parts import SessionParts
from .permissions import SessionPermissions
from .resume import EventHistory, resume_root
from .sandbox import sandbox_policy
from .shared_rate_limit import FileSharedRateLimit
from .watching import taint_of, telemetry_of, watcher
from .workspace_found import workspace_found

if TYPE_CHECKING:
    from friday_cli.agents.program import Program
    from friday_cli.core.eventlog.replay import AgentRecord
    from friday_cli.workspace.checkpoints.recorder import CheckpointRecorder
    from friday_cli.workspace.worktrees.worktrees import Worktrees


async def open_session(options: Options, env: Mapping[str, str] | None = None) -> SessionParts:
    """Open a new session, or resume one; it keeps the environment `env` (default: that of this process) as it is now. Raises
    FridayError (UsageError, NotConfigured, FileError, StoreError) with a message for a person."""
    env = dict(os.environ if env is None else env)  # what starts commands and saves files is made from it later
    store = Store(store_path(env))
    history = EventHistory(store, options.resume)
    try:
        if options.resume:
            await store.reconcile()
            await history.read()
            options = _options_as_before(options, history.records.get("a"))
        context = await read_context(options, env)
        session = options.resume or new_id()
        store, ownership, *unsaved = await _own_session(store, session, new=not options.resume)
        ownership.keep_alive()
        try:
            await history.read()  # another process may have added events before this one owned the session
            parts = _build(options, context, history, store=store, ownership=ownership, session=session)
            begun = [Notice(text, "error") for text in unsaved]
            await _begin(parts, context, history, begun, new=not options.resume)
            return parts
        except BaseException:
            ownership.release()
            raise
    except BaseException:
        await store.close()
        raise


def _log(journal: Journal, history: EventHistory, options: Options, watch: Callable[[Envelope], None]) -> Log:
    return Log(journal, last=history.last, earlier=history.envelopes, now=options.now, watch=watch)


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


async def _begin(
    parts: SessionParts, context: OpenContext, history: EventHistory, begun: Sequence[Notice], *, new: bool
) -> None:
    """Write the first events of the session, with the notices `begun`, or restore its agents. Everything that can fail for a
    person's reasons was done before, so that a failed opening leaves no session behind."""
    store, log = parts.store, parts.log
    if new:
        with suppress(Unwritable):  # the log reports it at its first event, and continues in memory
            await store.create_session(context.cwd, name=parts.id)
    if "a" in history.records:
        from friday_cli.workspace.checkpoints.blobs import baseline_of

        from .file_recovery import recover_files  # a new session needs none of it

        base, died_at = baseline_of(parts.id, context.env), parts.ownership.died_at
        context.notices += (*await recover_files(log, parts.workspace, history.envelopes, base, died_at=died_at),)
        await resume_root(parts.tree.root, parts.rules, history.records, log=log, notes=parts.notes)
        parts.skills.restore(parts.tree.root)
        await parts.isolation.restore(history.records)
    elif not history.last:
        await log.emit("a", SessionStarted(SCHEMA, parts.id, text_of(context.cwd), __version__))
    parts.tree.root.start_events.insert(0, workspace_found(context))
    await parts.sub_agents.keep(history.envelopes)
    if parts.servers is not None:
        parts.servers.begin()
    if context.notices or begun:
        await log.emit("a", *(Notice(text, "warning") for text in context.notices), *begun)
    if parts.services.hooks is not None:
        from friday_cli.agents.hooks.setup import announce

        parts.notes += await announce(parts.services.hooks, parts.tree, history.envelopes)
    if not store.in_memory:  # locks of a store in memory protect no other session
        settings = context.settings
        cleanup.daily(settings.retention, context.env, megabytes=settings.checkpoints.megabytes)
        parts.isolation.start_cleanup(store.own, context.env)


async def _own_session(
    store: Store, session: str, *, new: bool
) -> tuple[Store, Ownership] | tuple[Store, Ownership, str]:
    """The store and the right to write to a session. For a `new` session that cannot be saved: a store in memory, and a
    notice for the person. Raises UsageError if another process has the session, StoreError."""
    try:
        await store.open()
        return store, await store.own(session)
    except Unwritable as error:
        if not new:
            raise
        await store.close()
        store = Store(store.path, in_memory=True)
        return store, await store.own(session), f"This session is not saved: {error}"


def _options_as_before(options: Options, record: AgentRecord | None) -> Options:
    """`options` with the profile and the model of the resumed session, unless they name others."""
    if record is None:
        return options
    profile, model = options.profile, options.model
    if profile is None and record.profile != ROOT:
        profile = record.profile
    last = record.model
    if model is None and not last.startswith("scripted/") and not is_caller(last):  # a scenario's name is not its file
        model = "demo" if is_demo(last) else last or None
    return msgspec.structs.replace(options, profile=profile, model=model)


def _build(
    options: Options,
    context: OpenContext,
    history: EventHistory,
    *,
    store: Store,
    ownership: Ownership,
    session: str,
) -> SessionParts:
    """Build the engine bottom up. Raises FridayError for a model, profile or rule that cannot be used."""
    settings, env = context.settings, context.env
    taint = taint_of(history)
    telemetry = telemetry_of(context, session, history)
    ledger = store.spending.ledger(session, settings.budget.on_cap, options.now)
    log = _log(store.journal(session, ledger), history, options, watcher(taint, telemetry))
    rules = _rules(options, context)
    persona = context.profiles.get(options.profile) if options.profile else None
    notes: list[str] = []
    overflow_folder = None if store.in_memory else data_dir(env) / "spill" / session
    workspace = _workspace(options, context, overflow_folder, _recorder(context, log, session))
    providers = ProviderPool(settings, env)
    approvals = ApprovalQueue(log, interactive=options.attended)
    permissions = SessionPermissions(rules, log, notes, approvals, context.project_servers)
    supervisor = providers.supervisor(providers.get(context.choice))
    delegation = settings.agents.delegation
    services = Services(
        log, approvals, workspace, _policy(options, settings, env), options.rng, taint, ledger=ledger,
        supervisor=supervisor, shared_rate_limit=lambda lane: FileSharedRateLimit(lane, env),
        traceparent=valid_traceparent(env.get("TRACEPARENT", "")), trace=telemetry.traceparent if telemetry else None,
    )  # fmt: skip
    isolation, shared = _isolation(context, services, session), delegation.context.brain_write_scope == "shared"
    programs = _programs(context, workspace)
    servers = open_servers(context.servers, programs, log, output_chars=settings.tools.output_chars)
    skills = SessionSkills(context.skills, services, context.profiles, workspace)
    tools = AgentTools(
        services, isolation, providers, settings=settings, profiles=context.profiles,
        memory_store=store.notes.for_session(text_of(context.root), session, shared=shared), servers=servers,
        past_runs=store.past_runs, skills=skills, own=options.program.tools if options.program else (),
    )  # fmt: skip
    _set_hooks(options.program, context, services, session, tools=tools, programs=programs)
    chosen = chosen_before(history.envelopes) if options.sub_agents is None else options.sub_agents
    sub_agents = SubAgentChoice(context.profiles, persona, delegation, notes, chosen, log)
    factory = AgentFactory(
        services=services, isolation=isolation, providers=providers, tools=tools,
        root=RootOptions(context.choice, persona, rules, options.caller), settings=settings, profiles=context.profiles,
        environment=_environment(options, context, workspace), instructions=context.instructions,
        overflow_folder=workspace.overflow.folder, sub_agents=sub_agents, schemas=KeptSchemas(env), skills=skills,
    )  # fmt: skip
    if delegation.batches and options.map_tool is not None:
        tools.batch.make = options.map_tool(factory, session, context.cwd, past_runs=store.past_runs, env=env)
    known = [agent_summary(record) for path, record in history.records.items() if path != "a"]
    tree = SubagentTree(services, factory, known=known, left=left_behind(history.envelopes))
    tree.start(factory.build_root(tree))
    return SessionParts(
        id=session, store=store, ownership=ownership, log=log, services=services, tree=tree, rules=rules,
        permissions=permissions, notes=notes, since=history.last, profiles=context.profiles.names(),
        sub_agents=sub_agents, isolation=isolation,
        changes=WorktreeChanges(tree, isolation, services), workspace=workspace, sandbox=context.sandbox,
        servers=servers, telemetry=telemetry, skills=skills, caller=options.caller, factory=factory, ledger=ledger,
    )  # fmt: skip


def _programs(context: OpenContext, workspace: LocalWorkspace) -> ProjectPrograms:
    """Which programs of the project may run."""
    apart, unconfined = context.trust.root != context.root, context.settings.sandbox.kind == "none"
    return ProjectPrograms(context.trust, workspace, context.env, apart=apart, unconfined=unconfined)


def _set_hooks(
    program: Program | None, context: OpenContext, services: Services, session: str, *, tools: AgentTools,
    programs: ProjectPrograms,
) -> None:  # fmt: skip
    """Give `services` the hooks of the session. Without a file or a `program` that has some, nothing is loaded."""
    project, env = context.trust, context.env
    names = trust.HOOK_FILES if context.settings.hooks.claude else trust.HOOK_FILES[:1]
    files = (config_dir(env) / "hooks.json").is_file() or (project.ok and any(name in project.files for name in names))
    if files or (program is not None and (program.hooks or program.can_use)):
        from friday_cli.agents.hooks.setup import make_hooks

        given = make_hooks(
            project, context.settings, env, services, session=session, tools=tools, programs=programs, program=program,
        )  # fmt: skip
        services.hooks, problems = given
        context.notices += (*problems,)


def _rules(options: Options, context: OpenContext) -> Rules:
    """The rules of the session. Raises UsageError for an invalid one."""
    return session_rules(
        context.settings,
        allow=options.allow,
        deny=options.deny,
        mode=options.mode or context.settings.mode,
        profile=options.profile or ROOT,
        foreign=context.project_servers,
        folders=(text_of(context.cwd), text_of(context.root)),
    )


def _workspace(
    options: Options,
    context: OpenContext,
    overflow_folder: Path | None,
    make_recorder: Callable[[WorkspaceFiles], CheckpointRecorder],
) -> LocalWorkspace:
    settings, env = context.settings, context.env
    return LocalWorkspace(
        context.cwd,
        extra=options.add_dirs,
        overflow_folder=overflow_folder,
        environ=env,
        keep=settings.tools.env_allow,
        shown=settings.tools.output_chars,
        sandbox=sandbox_policy(settings, context.sandbox, env),
        make_recorder=make_recorder,
    )


def _recorder(context: OpenContext, log: Log, session: str) -> Callable[[WorkspaceFiles], CheckpointRecorder]:
    """Makes what saves the earlier contents of a workspace's files."""

    def make(files: WorkspaceFiles) -> CheckpointRecorder:
        from .checkpoint_recorder import recorder_of

        return recorder_of(files, context.settings, log, session, context.env)

    return make


def _isolation(context: OpenContext, services: Services, session: str) -> WorktreeIsolation:
    def worktrees(folder: Path) -> Worktrees:
        from friday_cli.workspace.worktrees.worktrees import Worktrees

        include = context.settings.agents.delegation.worktree_include
        workspace = (context.cwd,)
        return Worktrees(folder, session=session, include=include, environ=context.env, workspace=workspace)

    return WorktreeIsolation(data_dir(context.env) / "worktrees" / session, worktrees, services)


def _environment(options: Options, context: OpenContext, workspace: LocalWorkspace) -> system_prompt.Environment:
    settings = context.settings
    return system_prompt.Environment(
        str(context.cwd),
        f"{platform.system()} {platform.release()}",  # platform.platform() runs a command
        date.fromtimestamp(options.now()).isoformat(),
        system_prompt.branch(context.root),
        options.mode or settings.mode,
        tuple(str(folder) for folder in workspace.roots[1:]),
        answerable=options.attended,
        sandbox=context.sandbox.kind,
        network=settings.sandbox.network,
    )
