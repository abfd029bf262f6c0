"""Opening a session: settings, trust, profiles, store, workspace and agents put together, once, in this order."""

from __future__ import annotations

import asyncio
import os
import platform
import random
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from friday_cli import __version__, config
from friday_cli.core.agent.agent import Agent, Policy, Services
from friday_cli.core.eventlog.log import Log
from friday_cli.core.eventlog.notices import NOTE
from friday_cli.core.eventlog.replay import AgentRecord, replay
from friday_cli.core.eventlog.rewind_marks import left_behind
from friday_cli.core.permissions.approvals import ApprovalQueue
from friday_cli.core.permissions.rule import parse_rule
from friday_cli.core.permissions.rules import Mode, Rules
from friday_cli.core.permissions.taint import TaintTracker
from friday_cli.core.protocol.errors import Unwritable, UsageError
from friday_cli.core.protocol.events import SCHEMA, Envelope, InboxMessage, Notice, Prefix, SessionStarted
from friday_cli.core.protocol.format import is_demo
from friday_cli.core.protocol.messages import without_thinking
from friday_cli.core.protocol.provider import Effort
from friday_cli.core.subagents.node import AgentSummary
from friday_cli.core.subagents.tree import SubagentTree
from friday_cli.extensions import instructions, profiles, trust, trust_review
from friday_cli.llm import models
from friday_cli.paths import cache_dir, config_dir, data_dir, state_dir, store_path, text_of
from friday_cli.store import Ownership, Store, new_id
from friday_cli.tool_catalog import DELEGATE_TASK
from friday_cli.workspace.checkpoints import MEGABYTE, CheckpointRecorder, Snapshot, SnapshotLimits, blobs_of
from friday_cli.workspace.local import LocalWorkspace
from friday_cli.workspace.sandbox.detect import SandboxChoice, detect_sandbox
from friday_cli.workspace.sandbox.policy import SandboxPolicy

from . import cleanup, system_prompt
from .agent_factory import ROOT, AgentFactory
from .agent_rules import session_rules
from .isolation import WorktreeIsolation
from .shared_rate_limit import FileSharedRateLimit

if TYPE_CHECKING:
    from friday_cli.workspace.worktrees import Worktrees


class Options(msgspec.Struct, frozen=True):
    """What a face was asked for; None or empty leaves it to the settings.

    `attended` tells whether somebody can answer questions. `resume` is the whole id of a session. `trusted` counts the
    folder as trusted for this session. `flags` are settings of the command line by dotted name.
    """

    cwd: Path
    add_dirs: tuple[Path, ...] = ()
    model: str | None = None
    effort: Effort | None = None
    profile: str | None = None
    mode: Mode | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    attended: bool = False
    trusted: bool = False
    resume: str | None = None
    config_file: Path | None = None
    flags: dict[str, object] = {}


class SessionParts(msgspec.Struct, eq=False):
    """The parts of an open session. `sandbox` is what confines its commands. `notes` are for the model with the next
    prompt; events up to number `since` are from before this opening. `profiles` are the names there are, `offered`
    those that the root may delegate to."""

    id: str
    store: Store
    ownership: Ownership
    log: Log
    world: Services
    tree: SubagentTree
    root: Agent
    rules: Rules
    since: int
    profiles: tuple[str, ...]
    offered: tuple[str, ...]
    apart: WorktreeIsolation
    keeper: CheckpointRecorder
    sandbox: SandboxChoice
    notes: list[str] = []


class _OpenContext(msgspec.Struct, eq=False):
    """What is known before anything is written."""

    cwd: Path
    env: Mapping[str, str]
    standing: trust.Trust
    settings: config.Settings
    profiles: profiles.Profiles
    instructions: instructions.Instructions
    choice: models.ModelChoice
    sandbox: SandboxChoice
    notices: tuple[str, ...]


class _EventHistory:
    """The events of a session that goes on, each read once; none of a new one."""

    def __init__(self, store: Store, session: str | None) -> None:
        self._store, self._session = store, session
        self.envelopes: list[Envelope] = []
        self._records: dict[str, AgentRecord] = {}

    @property
    def last(self) -> int:
        """The number of the newest event, 0 without any."""
        return self.envelopes[-1].seq or 0 if self.envelopes else 0

    async def read(self) -> dict[str, AgentRecord]:
        """The agents as they stand now. Raises StoreError, UsageError."""
        if self._session and (more := await self._store.events(self._session, after=self.last)):
            self.envelopes += more
            self._records = replay(self.envelopes)
        return self._records


async def open_session(options: Options, env: Mapping[str, str] | None = None) -> SessionParts:
    """Open a new session, or an old one with everything it knew.

    Raises FridayError (UsageError, NotConfigured, FileError, StoreError) with a line for a person.
    """
    env = os.environ if env is None else env
    store = Store(store_path(env))
    past = _EventHistory(store, options.resume)
    try:
        if options.resume:
            await store.reconcile()
            options = _as_before(options, (await past.read()).get("a"))
        ground = await _look(options, env)
        session_id = options.resume or new_id()
        store, ownership, *unkept = await _owned(store, session_id, new=not options.resume)
        ground.notices += (*unkept,)
        try:
            records = await past.read()  # the process that had the session until now may have added to it
            log = Log(store.journal(session_id), last=past.last)
            crew = _crew(options, ground, store, session_id, log)
            for envelope in past.envelopes:
                crew.world.taint.apply(envelope)
            known = [_known(record) for path, record in records.items() if path != "a"]
            tree = crew.tree = crew.apart.tree = SubagentTree(
                crew.world, build=crew.create_child, revive=crew.restore, known=known
            )
            tree.on_end, tree.left = crew.apart.update_state, left_behind(past.envelopes)
            crew.world.remember = crew.apart.compaction_note(crew.world.remember)
            mode = options.mode or ground.settings.mode
            rules = session_rules(
                ground.settings, allow=options.allow, deny=options.deny, mode=mode, profile=options.profile or ROOT
            )
            root = crew.root(ground.choice, profile=options.profile, rules=rules)
            names = ground.profiles.names()
            keeper = _keeper(ground, crew.apart.main, log, session_id)
            opened = SessionParts(
                session_id, store, ownership, log, crew.world, tree, root, rules, past.last, names, crew.offered, crew.apart,
                keeper, ground.sandbox,
            )  # fmt: skip
            if not options.resume:  # all that could fail has been done: a failed opening leaves no session behind
                await store.create_session(ground.cwd, name=session_id)
            if "a" in records:
                await _resume(opened, records)
                await crew.apart.restore(records)
            elif not past.last:
                await log.emit("a", SessionStarted(SCHEMA, session_id, text_of(ground.cwd), __version__))
            if ground.notices:
                await log.emit("a", *(Notice(text, "warning") for text in ground.notices))
            if not store.in_memory:  # what it cannot write to it cannot tidy up, and its locks bind nobody
                kept = ground.settings.checkpoints.megabytes
                cleanup.daily(ground.settings.retention, ground.env, megabytes=kept)
                crew.apart.sweep(store.own, ground.env)
            return opened
        except BaseException:
            ownership.release()
            raise
    except BaseException:
        await store.close()
        raise


async def _owned(store: Store, session: str, *, new: bool) -> tuple[Store, Ownership] | tuple[Store, Ownership, str]:
    """The store with the right to write to a session; for a `new` one that cannot be kept a store in memory, and why.

    Raises UsageError when another process has the session, StoreError.
    """
    try:
        await store.open()
        return store, await store.own(session)
    except Unwritable as error:
        if not new:
            raise
        await store.close()
        store = Store(store.path, in_memory=True)
        return store, await store.own(session), f"Nothing of this session is kept, it goes on in memory: {error}"


def _as_before(options: Options, record: AgentRecord | None) -> Options:
    """The options of a session that goes on: its profile and model, where no others are named."""
    if record is None:
        return options
    profile, model = options.profile, options.model
    if profile is None and record.profile != ROOT:
        profile = record.profile
    last = record.model
    if model is None and not last.startswith("scripted/"):  # a scenario's name is not its file
        model = "demo" if is_demo(last) else last or None
    return msgspec.structs.replace(options, profile=profile, model=model)


async def _look(options: Options, env: Mapping[str, str]) -> _OpenContext:
    """Read everything that decides what the session will be; nothing is written, so a failure leaves nothing behind."""
    cwd = Path(os.path.realpath(options.cwd))  # noqa: ASYNC240 - before the session's loop has anything to do
    if not cwd.is_dir():  # noqa: ASYNC240
        raise UsageError(f"{options.cwd} is not a folder.")
    standing = trust.is_trusted(cwd, env=env)
    if options.trusted:
        standing = msgspec.structs.replace(standing, state="trusted")
    loaded = config.load(
        project=standing.root if standing.ok else None, flags=options.flags, environ=env, file=options.config_file
    )
    settings = loaded.settings
    choice = models.resolve(options.model, settings, env=env, effort=options.effort)
    choice = await models.with_server_limits(choice, settings, env=env)
    delegation = settings.agents.delegation
    cap = delegation.token_budget.max
    found = profiles.load(delegation.profiles.directory, standing, token_cap=cap, env=env)
    notes = instructions.read(cwd, root=standing.root, config=config_dir(env), trusted=standing.ok)
    notices = (
        *choice.notes, *loaded.notices, *notes.notices, *found.announcements, *map(str, found.problems),
        *_about(standing),
    )  # fmt: skip
    sandbox = await asyncio.to_thread(detect_sandbox, settings.sandbox.kind, env, cache=cache_dir(env))
    if sandbox.kind == "none" and (options.mode or settings.mode) == "auto":
        notices += (f"sandbox: none ({sandbox.why}). Commands are not confined, so mode auto asks about them.",)
    return _OpenContext(cwd, env, standing, settings, found, notes, choice, sandbox, notices)


def _outbound(command: str) -> Sequence[tuple[str, str]]:
    from friday_cli.command_safety import outbound  # with its parser only where a command was run

    return outbound(command)


def _crew(options: Options, ground: _OpenContext, store: Store, session_id: str, log: Log) -> AgentFactory:
    settings, cwd = ground.settings, ground.cwd
    workspace = LocalWorkspace(
        cwd,
        extra=options.add_dirs,
        spill=None if store.in_memory else data_dir(ground.env) / "spill" / session_id,
        environ=ground.env,
        keep=settings.tools.env_allow,
        shown=settings.tools.output_chars,
        sandbox=SandboxPolicy(
            ground.sandbox,
            environ=ground.env,
            write=settings.sandbox.write,
            read_deny=settings.sandbox.read_deny,
            network=settings.sandbox.network,
            own=[place(ground.env) for place in (config_dir, data_dir, state_dir, cache_dir)],
        ),
    )
    delegation = settings.agents.delegation
    policy = Policy(
        compact_at=settings.context.compact_at,
        max_depth=delegation.max_depth,
        max_concurrent=delegation.max_concurrent,
        max_agents=delegation.max_agents,
    )
    world = Services(
        log,
        ApprovalQueue(log, interactive=options.attended),
        workspace,
        policy,
        random.Random(),
        TaintTracker(_outbound),
    )
    world.shared_rate_limit = lambda lane: FileSharedRateLimit(lane, ground.env)
    here = system_prompt.environment(
        cwd,
        ground.standing.root,
        platform=f"{platform.system()} {platform.release()}",  # platform.platform() runs a command
        date=date.today().isoformat(),
        mode=options.mode or settings.mode,
        folders=[str(p) for p in workspace.roots[1:]],
        answerable=options.attended,
        sandbox=ground.sandbox.kind,
        network=settings.sandbox.network,
    )
    shared = delegation.context.brain_write_scope == "shared"

    def worktrees(folder: Path) -> Worktrees:
        from friday_cli.workspace.worktrees import Worktrees

        return Worktrees(folder, session=session_id, include=delegation.worktree_include, environ=ground.env)

    return AgentFactory(
        world,
        apart=WorktreeIsolation(data_dir(ground.env) / "worktrees" / session_id, worktrees, world),
        settings=settings,
        profiles=ground.profiles,
        here=here,
        instructions=ground.instructions,
        recall=store.memory(text_of(ground.standing.root), session_id, shared=shared),
        session=session_id,
        spill=workspace.spill.folder,
        env=ground.env,
    )


def _keeper(ground: _OpenContext, workspace: LocalWorkspace, log: Log, session_id: str) -> CheckpointRecorder:
    """What keeps the earlier contents of files from now on."""
    limits, blobs = ground.settings.checkpoints, blobs_of(session_id, ground.settings, ground.env)
    most = limits.file_megabytes * MEGABYTE
    base = None
    if limits.commands:
        look = SnapshotLimits(file=most, all=limits.folder_megabytes * MEGABYTE)
        base = Snapshot(workspace.roots, blobs.folder.parent, look)
    keeper = workspace.write_hook.recorder = CheckpointRecorder(blobs, base, log, label=workspace.label, most=most)
    return keeper


async def _resume(opened: SessionParts, records: Mapping[str, AgentRecord]) -> None:
    """Give the root what the log knows of it. The prefix stays as it was, unless another model goes on."""
    root, rules, record = opened.root, opened.rules, records["a"]
    root.history, root.usage, root.run = record.history, record.usage, record.run
    root.receipt_builder.reset(record.receipt)
    root.context = record.context
    for path, other in records.items():
        if path != "a":
            root.below += other.usage
    for message in record.inbox:
        root.inbox.restore(message)
    for other in records.values():
        if other.path != "a":
            for message in other.unreported + _left_unread(other):
                await root.inbox.put(message)
    root.budget.charge(root.tree_usage.billed, root.tree_usage.cost_usd)
    rules.rules += [parse_rule(added.rule, added.decision) for added in record.rules]
    if record.prefix and record.prefix.model == root.model:
        root.system, root.specs = record.prefix.system, record.prefix.tools
        names = {spec.name for spec in root.specs}
        root.tools = {name: t for name, t in root.tools.items() if name in names}
        opened.notes.append(f"{NOTE} The session goes on. Today is {date.today().isoformat()}; mode: {rules.mode}.")
    else:
        root.history = [without_thinking(m) for m in root.history]
        root.context = 0
        await opened.log.emit("a", Prefix(root.model, root.system, root.specs))
    if lost := [r for r in records.values() if r.path != "a" and _lost(r, after=record.begun)]:
        listed = "\n".join(f"- {r.path} ({r.profile}): {' '.join(r.task.split())[:200]}" for r in lost)
        opened.notes.append(
            f"{NOTE} The process died while these sub-agents were at work. What they had is kept; {DELEGATE_TASK} with "
            f"resume continues one, where it is still needed:\n{listed}"
        )


def _left_unread(record: AgentRecord) -> list[InboxMessage]:
    """News in the inbox of an agent that ended: its process died before they were passed on."""
    ended = record.end is not None and record.end.stop_reason not in ("parent", "process")
    return [message for message in record.inbox if ended and message.source == "harness"]


def _lost(record: AgentRecord, *, after: int) -> bool:
    """Whether an agent died with its process, and nothing was put to the root after that."""
    return record.end is not None and record.end.stop_reason == "process" and record.seq > after


def _known(record: AgentRecord) -> AgentSummary:
    return AgentSummary(
        record.path,
        record.profile,
        record.task,
        record.status,
        record.end,
        usage=record.tree_usage if record.end else record.usage,
        duration_s=record.active_s,
        receipt=record.receipt,
        model=record.model,
    )


def _about(standing: trust.Trust) -> list[str]:
    """What a person should know of an untrusted folder that has something to trust."""
    unused = trust_review.unused(standing)
    if not unused:
        return []
    names = ", ".join(unused[:5]) + (" ..." if len(unused) > 5 else "")
    return [f"{standing.reason} Not used: {names}. `friday trust` would allow them."]
