"""Opens a session: reads settings, trust and profiles, lets `build` make the engine, then writes the first events."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from friday_cli import __version__
from friday_cli.agents.agent_factory import ROOT
from friday_cli.core.protocol.errors import Unwritable
from friday_cli.core.protocol.events import SCHEMA, Notice, SessionStarted
from friday_cli.core.protocol.format import EXTERNAL, is_caller, is_demo
from friday_cli.store.store import Store, new_id
from friday_cli.system.paths import store_path, text_of

from . import cleanup
from .build import OwnedSession, build
from .open_context import OpenContext, Options, read_context, with_only_sub_agent
from .parts import SessionParts
from .resume import EventHistory, log_resumed

if TYPE_CHECKING:
    from friday_cli.core.eventlog.replay import AgentRecord


async def open_session(options: Options, env: Mapping[str, str] | None = None) -> SessionParts:
    """Open a new session, or resume one; it keeps the environment `env` (default: that of this process) as it is now. Raises
    FridayError (UsageError, NotConfigured, FileError, StoreError) with a message for a person."""
    env = dict(os.environ if env is None else env)  # what starts commands and saves files is made from it later
    store = Store(store_path(env), in_memory=not options.surroundings.saved)
    history = EventHistory(store, options.resume, options.surroundings.history)
    try:
        if options.resume:
            await store.reconcile()
            await history.read()
            options = _options_as_before(options, history.records.get("a"), history.records.get("a.1"))
        context = await read_context(options, env)
        options, context = with_only_sub_agent(options, context)
        session = options.resume or new_id()
        owned = await _own_session(store, session, new=not options.resume)
        store = owned.store
        owned.ownership.keep_alive()
        try:
            await history.read()  # another process may have added events before this one owned the session
            parts = build(options, context, history, owned)
            await _begin(parts, context, history, owned.unsaved, new=not options.resume)
            return parts
        except BaseException:
            owned.ownership.release()
            raise
    except BaseException:
        await store.close()
        raise


def _options_as_before(options: Options, record: AgentRecord | None, first: AgentRecord | None) -> Options:
    """`options` with the profile and the model of the resumed session, unless they name others. `first`: its first sub-agent."""
    if record is None:
        return options
    outside = record.model.startswith(f"{EXTERNAL}/")  # it was resumed before without a model of Friday's own
    if first is not None and first.model.startswith(f"{EXTERNAL}/") and (outside or is_caller(record.model)):
        options = msgspec.structs.replace(options, below=first.profile)
    profile, model = options.profile, options.model
    keeps_rights = profile is None and record.profile != ROOT
    if keeps_rights:
        profile = record.profile
    last = record.model
    if model is None and not last.startswith("scripted/") and not (outside or is_caller(last)):
        # a scenario's name is not its file
        model = "demo" if is_demo(last) else last or None
    return msgspec.structs.replace(options, profile=profile, keeps_rights=keeps_rights, model=model)


async def _own_session(store: Store, session: str, *, new: bool) -> OwnedSession:
    """The right to write to a session; to one in memory if a `new` one cannot be saved. Raises UsageError if another process
    has the session, StoreError."""
    try:
        await store.open()
        return OwnedSession(session, store, await store.own(session))
    except Unwritable as error:
        if not new:
            raise
        await store.close()
        store = Store(store.path, in_memory=True)
        return OwnedSession(session, store, await store.own(session), f"This session is not saved: {error}")


async def _begin(parts: SessionParts, context: OpenContext, history: EventHistory, unsaved: str, *, new: bool) -> None:
    """Write the first events of the session, with why it is `unsaved`, or restore its agents. Everything that can fail for a
    person's reasons was done before, so that a failed opening leaves no session behind."""
    storage, shared = parts.storage, parts.shared
    store, log = storage.store, storage.log
    notices = [*context.notices, *parts.problems]
    if new:
        with suppress(Unwritable):  # the log reports it at its first event, and continues in memory
            await store.create_session(context.cwd, name=storage.id)
    if "a" in history.records:
        from friday_cli.workspace.checkpoints.blobs import baseline_of

        from .file_recovery import recover_files  # a new session needs none of it

        base, died_at = baseline_of(storage.id, context.env), storage.ownership.died_at
        if not store.in_memory:
            notices += await recover_files(log, parts.workspace, history.envelopes, base, died_at=died_at)
        mode = parts.rules.effective_mode
        parts.notes.add(*await log_resumed(parts.tree.root, mode, history.records, log))
        await shared.isolation.restore(history.records)
    elif not history.last:
        await log.emit("a", SessionStarted(SCHEMA, storage.id, text_of(context.cwd), __version__))
    await parts.sub_agents.keep(history.envelopes)
    if shared.servers is not None:
        shared.servers.begin()
    begun = [Notice(unsaved, "error")] if unsaved else []
    if notices or begun:
        await log.emit("a", *(Notice(text, "warning") for text in notices), *begun)
    if shared.services.hooks is not None:
        from friday_cli.agents.hooks.setup import announce

        parts.notes.add(*await announce(shared.services.hooks, parts.tree, history.envelopes))
    if not store.in_memory:  # locks of a store in memory protect no other session
        settings = context.settings
        cleanup.daily(settings.retention, context.env, megabytes=settings.checkpoints.megabytes)
        shared.isolation.start_cleanup(store.own, context.env)
